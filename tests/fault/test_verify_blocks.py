"""verify reads records in blocks on several threads: where a record lies across blocks, or is larger
than one, must not matter. A user would lose trust in `verify`: damage missed, or blamed on the wrong place."""

import random
import shutil
import struct

import pytest

BLOCK = 256 << 10  # what verify reads at a time

LAYOUTS = {
    "small": lambda rng: rng.randint(0, 9000),                     # many to a block
    "edges": lambda rng: rng.choice([0, 1, BLOCK // 16 - 28, 4096 - 28, 20000]),
    "large_later": lambda rng: rng.choice([50, 3000, 5000, 300000]),  # small first, then across blocks
    "large": lambda rng: rng.randint(100000, 700000),              # larger than a block
}


def make_shard(tmp_path, stoker, name, fmt):
    rng = random.Random(name)
    src = tmp_path / "src"
    src.mkdir()
    total = i = 0
    while total < 3 << 20:
        size = LAYOUTS[name](rng) if i >= 80 or name != "large_later" else 700
        (src / f"{i:06d}").write_bytes(rng.randbytes(size))
        total += size + 16
        i += 1
    stoker("pack", src, tmp_path / "out", "--format", fmt, "--payload", "raw", "--shards", 1,
           "--label-from", "none")
    shard, = (tmp_path / "out").glob("*.tfrecord" if fmt == "tfrecord" else "*.rec")
    alone = tmp_path / f"alone{shard.suffix}"
    shutil.copy(shard, alone)
    return alone, i


def record_offsets(blob):
    at = 0
    while at < len(blob):
        length, = struct.unpack_from("<Q", blob, at)
        yield at, length
        at += length + 16


@pytest.mark.parametrize("fmt", ["tfrecord", "recordio"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_whole_whatever_the_blocks(tmp_path, stoker, name, fmt):
    shard, count = make_shard(tmp_path, stoker, name, fmt)
    for jobs in (1, 2, 8):
        result = stoker("verify", shard, "--payload", "raw", "--jobs", jobs, "--json", "-").json()
        assert result["result"]["samples"] == count and result["result"]["whole"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_damage_is_found_where_it_is(tmp_path, stoker, name):
    shard, _ = make_shard(tmp_path, stoker, name, "tfrecord")
    blob = bytearray(shard.read_bytes())
    places = [(at, n) for at, n in record_offsets(blob) if n]
    crossing = [(at, n) for at, n in places if at // BLOCK != (at + n + 15) // BLOCK]
    hurt = sorted({places[0], places[-1], places[len(places) // 2], crossing[0], crossing[-1]})
    for at, n in hurt:
        blob[at + 12 + n // 2] ^= 0x10
    shard.write_bytes(blob)
    for jobs in (1, 2, 8):
        result = stoker("verify", shard, "--payload", "raw", "--jobs", jobs, rc=1)
        for at, _ in hurt:
            assert f"{shard.name}:{at}: corrupt record" in result.out
        assert f"{len(hurt)} problems" in result.out
