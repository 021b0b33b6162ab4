"""Darshan logs are profiles: what darshan-parser printed of known programs (tests/data/darshan), read
by `stoker report`. Sites have years of these logs; a number that is wrong in ours is advice gone wrong.
"""

import pytest

from conftest import ROOT, run_stoker

DATA = ROOT / "tests/data/darshan"
MAGIC = b"3.41\0\0\0\0" + (6567223).to_bytes(8, "little") + bytes(16)


def read(path, env=None):
    return run_stoker("report", path, "--json", "-", env=env).json()["result"]


def file_of(result, end):
    found = [f for f in result["files"] if f["name"].endswith(end)]
    assert len(found) == 1, (end, [f["name"] for f in result["files"]])
    return found[0]


@pytest.fixture
def parser(tmp_path):
    """A darshan-parser that prints the text whose name the log has."""
    path = tmp_path / "parser"
    path.write_text(f'#!/bin/sh\n[ "$1" = --show-incomplete ] || exit 2\n'
                    f'exec cat "{DATA}/$(basename "$2" .darshan).txt"\n')
    path.chmod(0o755)
    return {"STOKER_DARSHAN_PARSER": str(path)}


def test_counters_of_a_known_program():
    """Wrong counts of a simple reader would make every finding worthless."""
    result = read(DATA / "posix_stdio.txt")
    train = file_of(result, "train.bin")["counters"]
    want = {"opens": 2, "reads": 306, "eof_reads": 1, "read_bytes": 256 * 65536 + 50 * 4096,
            "writes": 8, "write_bytes": 8 << 20, "fsyncs": 1, "seeks": 2, "consec_reads": 254,
            "seq_writes": 7, "consec_writes": 7}
    assert {k: train[k] for k in want} == want
    assert file_of(result, "train.bin")["read_size"] == [0, 0, 50, 256, 0, 0, 0, 0, 0, 0]
    assert file_of(result, "train.bin")["distinct_bytes"] == 8 << 20
    assert not file_of(result, "train.bin")["distinct_exact"]
    stats = file_of(result, "stats.csv")["counters"]
    assert (stats["reads"], stats["writes"]) == (1001, 1000)
    assert any("estimated" in note for note in result["notes"])


def test_ranks_and_shared_files():
    """Every rank reads the same part: seen from the sum that Darshan keeps of shared files."""
    result = read(DATA / "mpi.txt")
    assert len(result["ranks"]) == 4
    train = file_of(result, "train.bin")
    assert train["counters"]["reads"] == 4 * 64 and train["counters"]["read_bytes"] == 16 << 20
    assert train["ranks"] == 4 and train["distinct_bytes"] == 4 << 20
    assert train["rank_distinct_bytes"] == 16 << 20
    for rank in range(4):
        part = file_of(result, f"part{rank}.bin")
        assert part["ranks"] == 1 and part["counters"]["write_bytes"] == 4096 * (rank + 1)
        assert part["counters"]["read_bytes"] == 4096 * (rank + 1)
        assert part["counters"]["eof_reads"] == 1
    assert file_of(result, "ckpt.bin")["counters"]["write_bytes"] == 4 * 65536


def test_hdf5_module():
    """HDF5's bytes are POSIX's bytes: counted once."""
    result = read(DATA / "hdf5.txt")
    by_api = {r["api"]: r["counters"] for r in result["records"] if r["path"].endswith("images.h5")}
    assert set(by_api) == {"posix", "hdf5"}
    assert by_api["hdf5"]["reads"] == 128 and by_api["hdf5"]["read_bytes"] == 2 * 64 * 4096
    assert by_api["hdf5"]["writes"] == 1 and by_api["hdf5"]["write_bytes"] == 64 * 4096
    below = [r["counters"]["read_bytes"] for r in result["records"] if r["api"] in ("posix", "stdio")]
    assert result["job"]["counters"]["read_bytes"] == sum(below)


def test_order_of_streams_is_not_known(tmp_path):
    """A job that reads through C streams alone must not seem to open files for every read."""
    text = tmp_path / "stdio.txt"
    lines = (DATA / "posix_stdio.txt").read_text().splitlines(keepends=True)
    text.write_text("".join(line for line in lines if not line.startswith("POSIX\t")))
    out = str(run_stoker("report", text, "--numbers").out)
    assert "order     unknown" in out and "every read is the first" not in out


def test_through_the_parser(parser, tmp_path):
    """A log itself goes through darshan-parser, whatever its name holds."""
    text = read(DATA / "posix_stdio.txt")
    log = tmp_path / "posix_stdio.darshan"
    log.write_bytes(MAGIC)
    assert read(log, parser)["job"]["counters"] == text["job"]["counters"]
    folder = tmp_path / "a; touch x"
    folder.mkdir()
    for name in ("posix_stdio", "hdf5"):
        (folder / f"{name}.darshan").write_bytes(MAGIC)
    assert len(read(folder, parser)["processes"]) == 2


def test_without_the_parser(tmp_path):
    """The user learns what is missing and where it comes from."""
    log = tmp_path / "a.darshan"
    log.write_bytes(MAGIC)
    done = run_stoker("report", log, rc=(2, 4), env={"STOKER_DARSHAN_PARSER": str(tmp_path / "none")})
    assert "darshan-util" in str(done.err) and "STOKER_DARSHAN_PARSER" in str(done.err)
