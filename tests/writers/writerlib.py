"""What the tests of foreign writers share: finding a writer, and comparing what stoker reads of its
file, value by value, with what was written or with what another reader says.

`make check-writers` installs the writers into a folder outside the tree ($STOKER_WRITERS). A writer
that is not there is skipped with the reason.
"""

import io
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))
from pythonlib import stoker  # noqa: E402,F401

WRITERS = pathlib.Path(os.environ.get("STOKER_WRITERS", "/nonexistent"))


# ---- writers -------------------------------------------------------------------------------------

def program(name):
    """A program of $STOKER_WRITERS/bin or of the PATH."""
    path = f"{WRITERS / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    found = shutil.which(name, path=path)
    if not found:
        pytest.skip(f"{name} is not installed")
    return found


def feed(argv, text=b"", cwd=None):
    """Runs a writer; returns what it wrote to its standard output."""
    data = text if isinstance(text, bytes) else json.dumps(text).encode()
    done = subprocess.run(list(map(str, argv)), input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, cwd=cwd, timeout=300)
    assert done.returncode == 0, f"{argv}: {done.stderr.decode(errors='replace')[-3000:]}"
    return done.stdout


# ---- comparing -----------------------------------------------------------------------------------

def same(got, want):
    """Whether two values are equal to the last bit that matters: 1 is not 1.0, nan is nan, -0.0 is
    not 0.0; an array equals the list of its elements."""
    if isinstance(got, np.ndarray) or isinstance(want, np.ndarray):
        a, b = np.asarray(got), np.asarray(want)
        if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
            return False
        return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if isinstance(got, dict) and isinstance(want, dict):
        return got.keys() == want.keys() and all(same(got[k], want[k]) for k in want)
    if isinstance(got, (list, tuple)) and isinstance(want, (list, tuple)):
        return len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, float) and isinstance(got, float):
        return (math.isnan(got) and math.isnan(want)) or \
            (got == want and math.copysign(1, got) == math.copysign(1, want))
    return type(got) is type(want) and got == want


def samples(path, **options):
    """Every sample as a dict; the key only where it is asked for by name."""
    with stoker.Dataset(path, **options) as ds:
        return list(ds)


def compare(path, want, keys=False, **options):
    """Compares every sample with a dict of what it must be; nothing may be left out."""
    with stoker.Dataset(path, **options) as ds:
        assert not ds.left_out, ds.left_out
        assert len(ds) == len(want), f"{len(ds)} samples, {len(want)} written"
        for i, (got, row) in enumerate(zip(ds, want)):
            if not keys:
                got = {k: v for k, v in got.items() if k != "key" or "key" in row}
            assert got.keys() == row.keys(), f"sample {i}: {got.keys()} {row.keys()}"
            for name in row:
                assert same(got[name], row[name]), \
                    f"sample {i}, {name}: {got[name]!r} read, {row[name]!r} written"


def left_out_names(ds):
    return {name for entry in ds.left_out for name in entry["names"]}


def as_text(value):
    return value.decode() if isinstance(value, bytes) else value


def hdf5_cell(value):
    """A row as h5py gives it, in stoker's terms."""
    if isinstance(value, (bytes, str)):
        return as_text(value)
    value = np.asarray(value)
    if value.dtype.kind == "c":
        return np.stack([value.real, value.imag], axis=-1)
    if value.dtype.kind in "OSU":
        return None
    return value.item() if value.ndim == 0 and value.dtype.kind in "biuf" else value


def is_netcdf_axis(node):
    """netCDF's way to keep the length of an axis without values: there is nothing in it."""
    return bytes(node.attrs.get("NAME", b"")).startswith(b"This is a netCDF dimension but not")


def compare_hdf5(path, want_rows=None, **options):
    """Every dataset that h5py sees is either a field, row by row, or is said to be left out. Returns
    the names of the fields."""
    h5py = pytest.importorskip("h5py")
    read = set()
    with stoker.Dataset(path, **options) as ds, h5py.File(path) as f:
        got, out = list(ds), left_out_names(ds)
        if want_rows is not None:
            assert len(got) == want_rows, (ds.taken, ds.left_out)
        fields = set().union(*got) - {"key"} if got else set()

        def visit(name, node):
            if not isinstance(node, h5py.Dataset) or is_netcdf_axis(node):
                return
            parts = [f"{name}/{m}" for m in node.dtype.names] if node.dtype.names else []
            if node.dtype.kind == "V" and parts and not set(parts) & fields:
                assert {name, *parts} & out, f"{name} is neither read nor left out: {ds.left_out}"
                return
            if name not in fields and not parts:
                if name == "key" and got and "key" in got[0]:
                    return
                assert name in out, f"{name} is neither read nor left out: {ds.left_out}"
                return
            for column in parts or [name]:
                rows = node[node.dtype.names[parts.index(column)]] if parts else node[()]
                if column not in fields:
                    assert column in out, f"{column} is neither read nor left out"
                    continue
                assert len(rows) == len(got)
                for i, row in enumerate(rows):
                    want = hdf5_cell(row)
                    value = got[i][column]
                    value = as_text(value) if isinstance(want, str) else value
                    assert same(value, want), f"{column}[{i}]: {value!r}, h5py {want!r}"
                read.add(column)

        f.visititems(visit)
        assert fields == read, f"fields that h5py has not: {fields - read}"
    return read


def npz_arrays(path):
    with np.load(path) as z:
        return {name: z[name] for name in z.files}


def compare_npz(path):
    """Every array of numpy.load, row by row."""
    arrays = npz_arrays(path)
    n = {len(a) for a in arrays.values()}
    assert len(n) == 1
    compare(path, [{k: a[i].item() if a.ndim == 1 else a[i] for k, a in arrays.items()}
                   for i in range(n.pop())])


def npy_bytes(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


# ---- values that go wrong elsewhere --------------------------------------------------------------

TEXTS = ["plain", "", "a,b", 'say "x"', "line\nbreak", "crlf\r\nend", " space ", "tab\tin",
         "\u00e9\u4e2d\U0001f600", "'single'", "back\\slash", "semi;colon", "#hash", "true", "nan ",
         "</script>\u2028\u2029", "e\u0301"]
FLOATS = [0.1, -0.0, 1e300, 5e-324, 1 / 3, 1e21, 123456789.123456789, -1.5, 2.0 ** 60, 1e-7, 1e16]
INTS = [0, -1, 2 ** 31, -(2 ** 31) - 1, 2 ** 53 + 1, 2 ** 63 - 1, -(2 ** 63), 7]
NAMES = ["plain.bin", "dir/with space.bin", "d\u00e9j\u00e0/\u4e2d.bin", "long/" + "n" * 90 + ".bin",
         "deep/" + "/".join(["d" * 60] * 4) + "/f.bin", "very/" + "x" * 240 + ".bin"]


def table(n=40):
    """Columns of values that are easily read wrong."""
    return {
        "id": [INTS[i % len(INTS)] for i in range(n)],
        "x": [FLOATS[i % len(FLOATS)] for i in range(n)],
        "t": [TEXTS[i % len(TEXTS)] for i in range(n)],
        "n": list(range(n)),
    }


def rows_of(columns):
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def files(n=6, seed=5):
    """{name: bytes} with names that need every extension of tar."""
    rng = np.random.default_rng(seed)
    sizes = [0, 1, 511, 512, 513, 70000]
    return {name: rng.bytes(sizes[i % len(sizes)]) for i, name in enumerate(NAMES[:n])}


def compare_files(path, want, **options):
    """Files of a tar or an image: each is one sample, its path the key."""
    with stoker.Dataset(path, **options) as ds:
        got = {}
        for s in ds:
            assert len(s) == 2 or set(s) <= {"key", "data", "bin", "label"}, s.keys()
            data = s["data"] if "data" in s else s["bin"]
            key = s["key"] if s["key"] in want or "bin" not in s else s["key"] + ".bin"
            got[key] = bytes(data)
        assert got.keys() == want.keys()
        assert got == want
