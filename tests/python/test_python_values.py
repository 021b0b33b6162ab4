"""Values through the text formats: what pack writes, stoker reads back with equal values, or pack
refuses it before it writes."""

import json
import math

import numpy
import pytest

from conftest import run_stoker
from pythonlib import stoker

INF, NAN = math.inf, math.nan
COLUMNS = {
    "small": [1, 2, -3], "wide": [9007199254740993, -2 ** 63, 2 ** 63 - 1], "float": [0.1, -0.0, 5e-324],
    "large float": [1e300, 123456789012345680000.0, 2.0 ** 70], "nan": [NAN, 1.5, 2.5], "inf": [INF, -INF, 0.5],
    "bool": [True, False, True], "text": ["a", "d\u00e4 \u4e2d\n\"q\",;\t|", " 007 "], "empty": ["", "x", ""],
    "words": ["null", "nan", "true"], "numbers as text": ["1", "2.5", "9007199254740993"],
    "dates": ["2024-01-02", "2024-01-02T03:04:05Z", "1"], "mixed": [1, 2.5, 3],
    "wide and float": [9007199254740993, 0.5, 1], "past 64 bits": [2 ** 64 - 1, 2 ** 70, 1],
    "array": [[1, 2], [3, 2 ** 62 + 1], [5, 6]], "float array": [[0.5, NAN], [1.5, INF], [2.5, 1e17]],
    "one": [[1.5], [2.5], [3.5]], "json": [{"a": [1, None]}, [[1], [2, 3]], "t"],
    "digits": [[1, 2.5, 9007199254740993], [1], [2]],
}


def equal(a, b):
    if isinstance(a, numpy.ndarray) or isinstance(a, numpy.generic):
        a = a.tolist()
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return a == b and isinstance(a, str) == isinstance(b, str) and \
        math.copysign(1, a if isinstance(a, float) else 1) == math.copysign(1, b if isinstance(b, float) else 1)


def through(src, tmp_path, form):
    """The samples after one hop and after two, or None if it is refused before it is written."""
    found = []
    for hop in ("one", "two"):
        dst = tmp_path / f"{form}-{hop}"
        done = run_stoker("pack", src, dst, "--format", form, rc=None)
        if done.rc:
            assert done.rc == 4 and done.err.strip() and not dst.exists(), done.err
            assert not found, f"{form} is written, but not packed again: {done.err}"
            return None
        found.append([dict(s) for s in stoker.Dataset(dst)])
        src = dst
    return found


REFUSED = {  # what a format has no place for: an empty cell is one value, and JSON has no NaN
    "csv": {"empty": True, "array": True, "one": True, "float array": True, "wide and float": False},
    "jsonl": {"nan": False, "inf": False, "float array": False},
}


@pytest.mark.parametrize("gaps", [False, True])
def test_text_formats_keep_values(tmp_path, gaps):
    """A value or an empty cell that the reader takes for something else is lost without a word."""
    for name, values in COLUMNS.items():
        values = [*values[:1], None, *values[1:]] if gaps else values
        (tmp_path / name).mkdir()
        src = tmp_path / name / "src.jsonl"
        src.write_text("".join(json.dumps({"key": str(i), "x": v}) + "\n" for i, v in enumerate(values)))
        for form in ("csv", "jsonl"):
            found = through(src, tmp_path / name, form)
            for samples in found or []:
                got = [s["x"] for s in samples]
                assert equal(got, values), (form, name, gaps, got)
            assert found or gaps >= REFUSED[form].get(name, 2), (form, name, gaps)


def test_packed_numbers_of_netcdf(tmp_path):
    """One file a month, each with its own scale_factor: the dataset and the loader give the values."""
    h5py = pytest.importorskip("h5py")
    stored = numpy.arange(-12, 12, dtype="i2").reshape(8, 3)
    (tmp_path / "d").mkdir()
    want = []
    for i, scale in enumerate((0.01, 2.0)):
        with h5py.File(tmp_path / f"d/{i}.nc", "w") as f:
            f["t"] = stored
            f["t"].attrs.update(scale_factor=scale, add_offset=float(i), _FillValue=numpy.int16(-5))
        want.append(numpy.where(stored == -5, NAN, stored * scale + i))
    want = numpy.concatenate(want)
    stoker_packed = tmp_path / "o"
    run_stoker("pack", tmp_path / "d", stoker_packed)
    for path in (tmp_path / "d", stoker_packed):
        ds = stoker.Dataset(path)
        found = numpy.stack([s["t"] for s in ds])
        batches = numpy.concatenate([b["t"] for b in stoker.Loader(ds, batch=5, shuffle=False)])
        for a in (found, batches):
            assert a.dtype == numpy.float64 and numpy.array_equal(a, want, equal_nan=True)
