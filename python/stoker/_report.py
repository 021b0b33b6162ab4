"""Results of commands in a notebook: stoker.report() shows the page, stoker.read() gives the tables."""

import html
import itertools
import json
import os

from stoker import _stoker
from stoker._errors import UsageError


def _paths(paths):
    if not paths:
        raise UsageError("report and read need the path of a result")
    return tuple(os.fsencode(os.fspath(p)) for p in paths)


def _trust(trust):
    return None if trust is None else os.fsencode(trust if isinstance(trust, str) else ",".join(trust))


def _mode(paths):
    """Of a file that tells what is in these: everybody may read it only if everybody may read each of them."""
    needed = [(0o005 if os.path.isdir(p) else 0o004, os.stat(p).st_mode) for p in paths]
    return 0o666 if all(mode & need == need for need, mode in needed) else 0o600


class Report:
    """The page about some results. A notebook shows it; .save(path) writes it to a file."""

    def __init__(self, page, height, mode=0o600):
        self._page = page
        self.height = height
        self._mode = mode

    @property
    def html(self):
        """The whole page, as text."""
        return self._page.decode()

    def save(self, path):
        """Writes the page to a file, which any browser opens. It is as private as the results."""
        partial = f"{os.fspath(path)}.partial.{os.getpid()}"
        try:
            with open(partial, "xb", opener=lambda name, flags: os.open(name, flags, self._mode)) as f:
                f.write(self._page)
                f.flush()
                os.fsync(f.fileno())
            os.replace(partial, path)
        except BaseException:
            if os.path.exists(partial):
                os.unlink(partial)
            raise

    def _repr_html_(self):
        # Its own document: the notebook's scripts and styles do not reach it, nor it them.
        return (f'<iframe title="stoker report" srcdoc="{html.escape(self.html)}" sandbox="allow-scripts allow-downloads" '
                f'style="width: 100%; height: {int(self.height)}px; border: 0"></iframe>')

    def __repr__(self):
        return f"<stoker.Report of {len(self._page):,} bytes: .save(path), or shown by a notebook>"


class Table(dict):
    """A table: {column: array}. Numbers are NumPy arrays, NaN where unknown; texts are lists of str."""

    def __init__(self, title, columns):
        super().__init__(columns)
        self.title = title

    @property
    def frame(self):
        """The table as a pandas DataFrame. A heat map has a row per rank and a column per moment."""
        import pandas
        return pandas.DataFrame(dict(self))

    def __repr__(self):
        rows = len(next(iter(self.values()), ()))
        return f"<stoker.Table {self.title!r}: {rows:,} rows of {', '.join(self)}>"


class Heat(Table):
    """A heat map: the names of its rows, the places of its columns, and an array with a row for each of the names."""

    @property
    def frame(self):
        import pandas
        rows, columns, cells = self.values()
        return pandas.DataFrame(cells, index=pandas.Index(rows, name=list(self)[0]), columns=pandas.Index(columns, name=list(self)[1]))


class Result(dict):
    """The tables of a result, by name, and what was said of it: .kind, .name, .title, .verdict, .number, .findings."""

    def __init__(self, data):
        super().__init__(_tables(data))
        self.kind, self.name, self.title = data["kind"], data["name"], data["title"]
        self.verdict = data["verdict"]
        self.number = data.get("number", {}).get("value")
        self.findings = data.get("findings", [])
        self.facts = {f["name"]: f["value"] for f in data.get("facts", [])}

    def __repr__(self):
        return f"<stoker.Result {self.kind} {self.name!r}: {', '.join(self)}>"


def _array(values):
    import numpy
    whole = bool(values) and all(isinstance(v, int) and abs(v) < 2**63 for v in values)
    return numpy.array([float("nan") if v is None else v for v in values], dtype=int if whole else float)


def _column(values, unit):
    return list(values) if unit in ("text", "prose") else _array(values)


def _from_rows(block):
    columns = list(zip(*block["rows"])) or [()] * len(block["columns"])
    return {c["name"]: _column(values, c["unit"]) for c, values in zip(block["columns"], columns)}


def _from_plot(block):
    """One row per point: a plot's series may have their own x. low and high: the interval or band, if there is one."""
    x = block["x"]
    unknown = itertools.repeat(None)
    rows = [(panel["name"], s["name"], *point) for panel in block["panels"] for s in panel["series"]
            for point in zip(s.get("x", x.get("v", ())), s["v"], s.get("lo", unknown), s.get("hi", unknown))]
    panel, series, at, value, low, high = zip(*rows) if rows else [()] * 6
    text = x.get("scale") == "category" and not x.get("unit")
    return {"panel": list(panel), "series": list(series), x["name"] or "x": _column(at, "text" if text else ""), "value": _array(value),
            "low": _array(low), "high": _array(high)}


def _from_heat(block):
    import numpy
    return {block["y"]["name"]: list(block["y"]["v"]), block["x"]["name"]: _array(block["x"]["v"]),
            block["name"]: numpy.array(block["v"], dtype=float)}


_BLOCKS = {"table": (Table, _from_rows), "plot": (Table, _from_plot), "heat": (Heat, _from_heat)}


def _tables(data):
    made = ((b, *_BLOCKS[b["is"]]) for b in data["blocks"])
    return {b["id"]: kind(b["title"], columns(b)) for b, kind, columns in made}


def report(*paths, trust=None, height=900):
    """The page of `stoker report -o` about results (profiles, studies, files of --json), for a notebook.

        stoker.report("train.profile")                  # as the last line of a cell: shows itself
        stoker.report("a.profile", "b.profile").save("page.html")

    trust: names of users whose profiles may be read, or "all". height: of the frame, in pixels."""
    return Report(_stoker.page(_paths(paths), _trust(trust), True), height, _mode(paths))


def read(path, trust=None):
    """The tables and plots of a result as NumPy arrays: what the page shows, with six digits.

        r = stoker.read("train.profile")
        r.verdict, r["files"]["io_s"], r["time"].frame  # a pandas DataFrame"""
    results = json.loads(_stoker.page(_paths([path]), _trust(trust), False))["results"]
    return Result(results[0])
