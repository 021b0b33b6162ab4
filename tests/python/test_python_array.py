"""stoker.Array: memory for NumPy, DLPack and plain Python."""

import sys

import pytest

from pythonlib import python, stoker

import numpy as np


@pytest.fixture
def array(tmp_path, monkeypatch):
    """array(a): a stoker.Array with the values of a, as a program without NumPy gets it."""
    def make(a):
        np.save(tmp_path / "a.npy", a)
        stoker._stoker.set_hooks(array=lambda given: given)
        try:
            loader = stoker.Loader(tmp_path / "a.npy", batch=len(a), shuffle=False)
            return next(iter(loader))["data"]
        finally:
            stoker._stoker.set_hooks(array=np.asarray)
    return make


VALUES = np.arange(24, dtype=np.float32).reshape(4, 3, 2)


def test_plain_python(array):
    """Without NumPy an array still has a shape, elements and bytes."""
    a = array(VALUES)
    assert isinstance(a, stoker.Array) and repr(a) == "<stoker.Array (4, 3, 2) float32>"
    assert (a.shape, a.dtype, a.ndim, a.nbytes, len(a)) == ((4, 3, 2), "float32", 3, 96, 4)
    assert a.tolist() == VALUES.tolist() and a.tobytes() == VALUES.tobytes()
    assert a[1].tolist() == VALUES[1].tolist() and a[-1][2][1] == 23.0
    assert [row.shape for row in a] == [(3, 2)] * 4
    with pytest.raises(IndexError):
        a[4]
    with pytest.raises(TypeError):
        a["x"]
    with pytest.raises(TypeError):
        stoker.Array()


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8",
                                   "?"])
def test_numpy_sees_the_same(array, dtype):
    """NumPy takes the memory as it is, through either of its interfaces."""
    values = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    a = array(values)

    class OnlyInterface:
        __array_interface__ = a.__array_interface__
    for b in (np.asarray(a), np.asarray(OnlyInterface())):
        assert b.dtype == values.dtype and np.array_equal(b, values)
        assert b.ctypes.data == a.__array_interface__["data"][0]
    np.asarray(a)[0, 0] = 1
    assert a[0][0] == 1


def test_dlpack(array):
    """PyTorch and NumPy take it through DLPack, without a copy, and keep it alive."""
    torch = pytest.importorskip("torch")
    a = array(VALUES)
    before = sys.getrefcount(a)
    t = torch.from_dlpack(a)
    assert t.data_ptr() == a.__array_interface__["data"][0] and t.tolist() == VALUES.tolist()
    assert sys.getrefcount(a) == before + 1
    del t
    assert sys.getrefcount(a) == before
    assert np.array_equal(np.from_dlpack(a), VALUES)
    assert a.__dlpack_device__() == (1, 0)


def test_dlpack_capsules(array):
    """Capsules that were not taken do not keep the memory; new consumers get the new kind."""
    a = array(VALUES)
    before = sys.getrefcount(a)
    capsules = [a.__dlpack__(), a.__dlpack__(max_version=(1, 0)), a.__dlpack__(stream=None),
                a.__dlpack__(max_version=(0, 8), dl_device=(1, 0), copy=False)]
    assert ["versioned" in repr(c) for c in capsules] == [False, True, False, False]
    assert sys.getrefcount(a) == before + 4
    capsules.append(a.__dlpack__(copy=True))
    assert sys.getrefcount(a) == before + 4  # a copy is another array
    del capsules
    assert sys.getrefcount(a) == before
    with pytest.raises(BufferError):
        a.__dlpack__(dl_device=(2, 0))


def test_readonly(tmp_path):
    """Memory that others may share is not given out for writing."""
    (tmp_path / "a.csv").write_text("text\nhello\nworld\n")
    np.save(tmp_path / "a.npy", np.arange(4))
    ids = next(iter(stoker.Loader(tmp_path / "a.npy", batch=4))).ids
    assert not ids.flags.writeable
    raw = ids.base[0]
    assert isinstance(raw, stoker.Array) and raw.readonly
    with pytest.raises(BufferError, match="copy"):
        raw.__dlpack__()
    assert "versioned" in repr(raw.__dlpack__(max_version=(1, 1)))
    assert not raw.copy().readonly and raw.copy().tolist() == ids.tolist()


def test_empty_arrays(tmp_path):
    """Shapes with a zero in them are no special case."""
    np.savez(tmp_path / "a.npz", a=np.zeros((3, 0, 2), np.int16), n=np.arange(3))
    ds = stoker.Dataset(tmp_path / "a.npz")
    assert ds[1]["a"].shape == (0, 2) and ds[1]["a"].dtype == np.int16


def test_without_numpy(tmp_path):
    """The package works where NumPy is not installed."""
    np.savez(tmp_path / "a.npz", x=VALUES, label=np.arange(4))
    out = python("""
import sys
sys.modules["numpy"] = None
import stoker
batch = next(iter(stoker.Loader(sys.argv[1], batch=4, shuffle=False, last="pad")))
print(batch["x"].shape, batch["label"].tolist(), batch.ids.tolist(), batch.repeats)
print(stoker.Dataset(sys.argv[1])[2]["x"].tolist())
""", tmp_path / "a.npz")
    assert out.splitlines() == ["(4, 3, 2) [0, 1, 2, 3] [0, 1, 2, 3] [False, False, False, False]",
                                str(VALUES[2].tolist())]
