"""Copies on the node, from Python: used without being told, filled when asked, gone at any time."""

import os
import shutil
import warnings

import pytest

import pythonlib
from pythonlib import stoker

RECORDS = [os.urandom(200_000 + i) for i in range(50)]


@pytest.fixture
def data(tmp_path):
    (tmp_path / "set").mkdir()
    for k in range(2):
        pythonlib.write_records(tmp_path / f"set/{k}.tfrecord", RECORDS[25 * k:25 * k + 25])
    return tmp_path / "set"


def read(data, while_at=None, **options):
    """{sample: bytes} of an epoch, and the counters; while_at: called after the first batches."""
    loader = stoker.Loader(data, batch=5, payload="raw", **options)
    got = {}
    for i, batch in enumerate(loader):
        if i == 2 and while_at:
            while_at()
        (column,) = batch.keys()
        got.update((number, bytes(value)) for number, value in zip(batch.ids.tolist(), batch[column]))
    return got, loader.stats()


def test_filled_and_used(tmp_path, data, monkeypatch):
    """A training script gets the speed of the local disk without a change."""
    tier = tmp_path / "tier"
    want = dict(enumerate(RECORDS))
    got, first = read(data, tier=str(tier), tier_fill=True)
    assert got == want and first["tier_filled_bytes"] == sum(p.stat().st_size for p in data.iterdir())
    monkeypatch.setenv("STOKER_TIER", str(tier))
    got, second = read(data)
    assert got == want and second["source_bytes"] == 0 and str(tier) in second["tier"]
    got, off = read(data, tier="off")
    assert got == want and off["source_bytes"] > 0 and off["tier"] == ""


def test_copy_that_vanishes_while_loading(tmp_path, data):
    """Another job's clean-up removes the tier: the epoch goes on, with the bytes of the source."""
    tier = tmp_path / "tier"
    for engine in ("threads", "direct", "mmap"):
        read(data, tier=str(tier), tier_fill=True)
        got, stats = read(data, lambda: shutil.rmtree(tier), tier=str(tier), io=engine, memory="4M", read="64K")
        assert got == dict(enumerate(RECORDS)) and str(tier) in stats["tier"]


def test_folder_that_is_not_used(tmp_path, data):
    """The script's author learns why it is slow."""
    read(data, tier=str(tmp_path / "tier"), tier_fill=True)
    (tmp_path / "tier").chmod(0o755)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        got, _ = read(data, tier=str(tmp_path / "tier"))
    assert got == dict(enumerate(RECORDS)) and any("chmod 700" in str(w.message) for w in seen)
    with pytest.raises(stoker.Error, match="chmod 700"):
        read(data, tier=str(tmp_path / "tier"), tier_fill=True)
