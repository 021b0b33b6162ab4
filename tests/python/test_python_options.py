"""Options of datasets and loaders are stated once: C, commands, Python and the documentation
agree."""

import inspect
import pathlib
import pickle
import re

import pytest

from pythonlib import stoker

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROWS = {row[0]: row for row in stoker._stoker.loader_options}
DATASET_ROWS = {row[0]: row for row in stoker._stoker.dataset_options}
PYTHON = stoker._options.PYTHON
# The command has an option of its own for these, or none: it goes through its epochs itself, finds
# its rank out, and keeps states in files.
PROGRAMS_ONLY = {"epochs", "rank", "world", "keys", "state"}
OPTION_NAME = {"tier_fill": "fill-tier", "read": "read-size", "rebuild": "rebuild-index"}


def command_options(text):
    """{name: what the help says of it, on one line}"""
    found = re.findall(r"^ +(?:-\w, )?--([\w-]+)(.*\n(?: {20,}.*\n)*)", text, re.MULTILINE)
    return {name: " ".join(said.split()) for name, said in found}


@pytest.mark.parametrize("what, known", [("loader", ROWS), ("open", DATASET_ROWS)])
def test_struct_and_table(what, known):
    """Every field of the C struct has its row; what a program does (memory for arrays, showing
    progress) is no option."""
    header = (ROOT / "include/stoker.h").read_text()
    body = re.search(rf"struct stk_{what}_options \{{.*?\n(.*?)\n\}};", header, re.DOTALL).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    fields = {name for line in body.split(";") if "(" not in line
              for name in re.findall(r"(\w+)\s*(?:,|$)", line.strip())} - {"user"}
    table = (ROOT / "src" / {"loader": "load/options.h", "open": "dataset/open_options.h"}[what]).read_text()
    rows = re.findall(rf'STK_{what.upper()}_OPTION\(at,\s*(?:"[\w-]+"|of\(.*?\)),\s*(\w+),',
                      table.replace("\\\n", " "))
    assert len(rows) == len(set(rows)) == len(known) > 10
    assert set(rows) == fields


def test_command(stoker):
    """`stoker load` has every option, with the same words, choices and default."""
    options = command_options(stoker("load", "--help").out)
    for name, default, choices, help in ROWS.values():
        option = OPTION_NAME.get(name, name.replace("_", "-"))
        if name in PROGRAMS_ONLY:
            continue
        said = options[option]
        assert help in said
        if choices:
            assert f"; one of {', '.join(choices)} (default {default})" in said
        elif default is not None and not isinstance(default, bool):
            assert f"(default {default})" in said


def test_commands_that_open_datasets(stoker):
    """Every command that reads datasets has the options of a dataset, with the same words."""
    for command, lacks in (("inspect", set()), ("load", {"rebuild", "write_index", "jobs"}),
                           ("verify", {"group", "index", "rebuild", "write_index", "jobs"})):
        options = command_options(stoker(command, "--help").out)
        for name, _, _, help in DATASET_ROWS.values():
            if name not in {"pass_over"} | lacks:
                assert help in options[OPTION_NAME.get(name, name.replace("_", "-"))]
    options = command_options(stoker("pack", "--help").out)
    for option, name in (("from-datasets", "datasets"), ("split", "split"), ("types", "types")):
        assert DATASET_ROWS[name][3] in options[option]


def test_dataset_signature():
    """help() and editors see the options of a dataset; the documentation names them all."""
    parameters = inspect.signature(stoker.Dataset).parameters
    page = (ROOT / "docs/python.md").read_text()
    line = page[page.index("## Dataset"):page.index("opens any file")]
    assert list(parameters) == ["path", *DATASET_ROWS]
    for name, default, _, help in DATASET_ROWS.values():
        assert parameters[name].default == default
        assert re.search(rf"^    {name} +{re.escape(help.split(' ')[0])}", stoker.Dataset.__doc__,
                         re.MULTILINE)
        assert f"{name}=" in line


def test_dataset_values(tmp_path):
    """Every choice and default is taken; a dict, True and False are text to the library, and what
    was asked of one opening is not asked of the next."""
    (tmp_path / "a.csv").write_text("x,label\n1,2\n3,4\n")
    for name, default, choices, _ in DATASET_ROWS.values():
        for value in [default, None, *({"header": choices}.get(name, []))]:
            assert len(stoker.Dataset(tmp_path / "a.csv", **{name: value})) in (2, 3)
    ds = stoker.Dataset(tmp_path / "a.csv", header=False, types={"c0": "text"}, rebuild=True,
                        index=tmp_path / "i.stkidx")
    assert len(ds) == len(pickle.loads(pickle.dumps(ds))) == 3
    assert ds._options == {"header": "no", "types": "c0=text", "index": tmp_path / "i.stkidx"}
    assert len(stoker.Dataset(tmp_path / "a.csv", header="no")) == 3
    for wrong, said in (({"jobs": -1}, "jobs=-1: it is 0 to 4096"), ({"header": "maybe"}, "header")):
        with pytest.raises(stoker.UsageError, match=said):
            stoker.Dataset(tmp_path / "a.csv", **wrong)
    with pytest.raises(TypeError, match="Dataset has no option 'fromat'; did you mean 'format'"):
        stoker.Dataset(tmp_path / "a.csv", fromat="csv")


def test_signature():
    """help(), editors and type checkers see the options, not **options."""
    parameters = inspect.signature(stoker.Loader).parameters
    assert list(parameters)[:2] == ["data", "batch"]
    assert set(parameters) - {"data", "dataset_options"} == set(ROWS) | set(PYTHON)
    for name, default, choices, help in [*ROWS.values(), *PYTHON.values()]:
        if name != "last":  # by the order
            assert parameters[name].default == default
        assert re.search(rf"^    {name} +{re.escape(help.split(' ')[0])}", stoker.Loader.__doc__,
                         re.MULTILINE)


def test_documentation():
    """docs/python.md has a line on every option."""
    page = (ROOT / "docs/python.md").read_text()
    table = page[page.index("## Loader"):page.index("Other names")]
    for name in (*ROWS, *PYTHON):
        assert f"`{name}`" in table


def test_choices_are_taken(tmp_path):
    """Every choice offered, and every default, is one the library takes."""
    (tmp_path / "a.csv").write_text("x,label\n1,2\n3,4\n")
    for name, default, choices, _ in ROWS.values():
        for value in [default, None, *choices]:
            if name not in ("rank", "world"):
                loader = stoker.Loader(tmp_path / "a.csv", **{"batch": 2, "last": "pad", name: value})
                assert len(next(iter(loader))["x"]) > 0


@pytest.mark.parametrize("wrong, right", [("batchs", "batch"), ("shufle", "shuffle"),
                                          ("on_eror", "on_error"), ("fromat", "format")])
def test_nearest_name(tmp_path, wrong, right):
    """A mistyped option names the one that was meant; options of the dataset are among them."""
    with pytest.raises(TypeError, match=f"no option '{wrong}'; did you mean '{right}'"):
        stoker.Loader(tmp_path, **{wrong: 1})
    with pytest.raises(TypeError, match="no option 'zzzzzz'$"):
        stoker.Loader(tmp_path, zzzzzz=1)


def test_errors_of_values(tmp_path):
    """What cannot be is refused before anything is opened, with what could be."""
    for options, said in [({"threads": 5000}, "threads=5000: it is 0 to 4096"),
                          ({"batch": 1 << 21}, "it is 1 to 1048576"),
                          ({"epochs": -1}, "epochs=-1"), ({"world": 0, "rank": 0}, "world=0")]:
        with pytest.raises(stoker.UsageError, match=said):
            stoker.Loader(tmp_path / "none", **options)
    for options in ({"decode": 3}, {"fields": [3]}, {"batch": "7"}, {"seed": 1.5}, {"io": b"mmap"}):
        with pytest.raises(TypeError, match="is needed|as an integer"):
            stoker.Loader(tmp_path / "none", **options)
    with pytest.raises(ValueError, match="null"):
        stoker.Loader(tmp_path / "none", decode="raw\0")
