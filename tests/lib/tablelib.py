"""Helpers of the tests for CSV, JSON, NPY and NPZ: reading any dataset back as Python values, and
damaging files in every way that fits on a page."""

import base64
import json
import random


def plain(value):
    """What JSON Lines holds, as Python values: {"$base64": ...} as bytes."""
    if isinstance(value, dict) and list(value) == ["$base64"]:
        return base64.b64decode(value["$base64"])
    return value


def read_samples(stoker, src, tmp_path, *args):
    """Every sample of src as a dict, read by stoker and passed on as JSON Lines."""
    dst = tmp_path / f"read-back-{len(list(tmp_path.glob('read-back-*')))}"
    stoker("pack", src, dst, "--format", "jsonl", *args)
    lines = [line for f in sorted(dst.glob("*.jsonl")) for line in f.read_text("utf-8").split("\n")]
    return [{k: plain(v) for k, v in json.loads(line).items()} for line in lines if line]


def packed(stoker, src, dst, fmt, *args):
    """Packs and returns the shards in order."""
    stoker("pack", src, dst, "--format", fmt, *args)
    return sorted(p for p in dst.glob(f"*.{fmt}") if p.name != "manifest.json")


def verify(stoker, path, fmt, rc=(0, 1, 3, 4)):
    """(exit status, problems) of `stoker verify`."""
    result = stoker("verify", path, "--format", fmt, "--json", "-", "--quiet", rc=rc)
    record = json.loads(result.out)
    return result.rc, record.get("result", {}).get("problems", [])


def cut_everywhere(whole, folder, suffix, step=1):
    """One file for every length shorter than the whole, named after its length."""
    folder.mkdir()
    for n in range(0, len(whole), step):
        (folder / f"{n:06d}{suffix}").write_bytes(whole[:n])
    return range(0, len(whole), step)


def flipped(whole, count, seed=1):
    """`count` copies, each with a few bytes changed."""
    rng = random.Random(seed)
    for _ in range(count):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(damaged))
            damaged[at] = rng.choice((0, 0xFF, rng.randrange(256), damaged[at] ^ 1))
        yield bytes(damaged)
