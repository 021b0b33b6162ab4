"""Where Darshan 3.5 is known to be blind, or to see something else: ours is right."""

import os

import pytest

from profilelib import compiled, profile, zeros  # noqa: F401

MIB = 1 << 20


@pytest.fixture
def blind(profile, tmp_path):
    """blind(case) -> (profile, the file it worked on)."""
    def run(case, *more, path=None, flags=("-O1",)):
        file = path or zeros(tmp_path / "a.bin", MIB)
        p = profile([compiled("blind.c", *flags), case, file, *more])
        assert (p.rc, p.out) == (0, b"ok\n"), p.err
        return p, file
    return run


def test_modern_stat(blind):
    """glibc 2.33 made stat() a function of its own: a stat storm was invisible."""
    p, file = blind("stat")
    assert p.counts(file, ("stats", "opens")) == {"stats": 200, "opens": 1}


def test_mmap(blind):
    """Arrow, safetensors and LMDB read by mapping."""
    p, file = blind("mmap")
    assert p.counts(file, ("mmaps", "mmap_bytes", "reads")) == {
        "mmaps": 1, "mmap_bytes": MIB, "reads": 0}


def test_copy_file_range_and_sendfile(blind, tmp_path):
    """Copies in the kernel moved nothing."""
    p, file = blind("copy", tmp_path / "sent", tmp_path / "copied")
    assert p.count(file, "read_bytes") == 2 * MIB
    assert p.count(tmp_path / "sent", "write_bytes") == MIB
    assert p.count(tmp_path / "copied", "write_bytes") == MIB


def test_openat2(blind):
    """A file opened by a raw system call had no record at all."""
    p, file = blind("openat2")
    assert p.counts(file, ("reads", "read_bytes")) == {"reads": 100, "read_bytes": 409600}


def test_fortified_calls(blind):
    """Distributions build with FORTIFY: read() becomes __read_chk(), and nothing was read."""
    p, file = blind("fortify", flags=("-O2", "-D_FORTIFY_SOURCE=2"))
    assert p.counts(file, ("reads", "read_bytes"), "posix") == {"reads": 200, "read_bytes": 819200}
    assert p.counts(file, ("reads", "read_bytes"), "stdio") == {"reads": 100, "read_bytes": 409600}


def test_descriptors_inherited_over_fork(blind):
    """A forked worker that reads its parent's open file read nothing."""
    p, file = blind("inherit")
    assert p.counts(file, ("opens", "reads", "read_bytes")) == {
        "opens": 1, "reads": 100, "read_bytes": 409600}
    reader = [r["process"] for r in p.of(file) if r["counters"]["reads"]]
    assert len(reader) == 1 and p.processes[reader[0]]["born"] == "fork"


@pytest.mark.parametrize("flags", [("-O1",), ("-O2", "-D_FORTIFY_SOURCE=2")],
                         ids=["plain", "fortified"])
def test_fread_unlocked(blind, flags):
    p, file = blind("unlocked", flags=flags)
    assert p.counts(file, ("opens", "reads", "read_bytes", "closes"), "stdio") == {
        "opens": 1, "reads": 100, "read_bytes": 409600, "closes": 1}


def test_directory_walk(blind, tmp_path):
    """The scan of an image folder."""
    for i in range(20):
        zeros(tmp_path / "tree" / f"{i}.jpg", 10)
    p, tree = blind("walk", path=tmp_path / "tree")
    assert p.count(tree, "dir_reads") == 1 + 23  # ".", "..", 20 files, the end
    assert p.total(tree, "stats") == 20


def test_more_than_1024_files(blind, tmp_path):
    """At 1,024 records the log was marked incomplete, and its reader showed none."""
    (tmp_path / "many").mkdir()
    for i in range(3000):
        (tmp_path / "many" / f"{i:04d}.bin").write_bytes(b"0123456789")
    p, folder = blind("files", path=tmp_path / "many")
    assert p.total(folder, "opens") == 3000 and p.total(folder, "read_bytes") == 30000
    assert len(p.below(folder)) == 3000
    assert sum(x["dropped_calls"] for x in p.processes) == 0


def test_more_files_than_are_kept_one_by_one(blind, tmp_path, profile):
    """Past the limit files are folded into groups: the sums stay right, and the number close."""
    for i in range(3000):
        zeros(tmp_path / "many" / f"{i:04d}.bin", 10)
    p = profile([compiled("blind.c", "-O1"), "files", tmp_path / "many"],
                env={"STOKER_PROFILE_FILES": "500"})
    assert p.rc == 0, p.err
    assert p.total(tmp_path / "many", "opens") == 3000
    assert p.total(tmp_path / "many", "read_bytes") == 30000
    assert len(p.below(tmp_path / "many")) < 1000
    assert p.report["job"]["files"] == pytest.approx(3000, rel=0.35)


def test_two_descriptors_on_one_file(blind):
    """One offset a file made of two readers in order a mess; the last offset was wrong."""
    p, file = blind("two")
    assert p.counts(file, ("opens", "reads", "first_reads", "consec_reads", "seq_reads")) == {
        "opens": 2, "reads": 2000, "first_reads": 2, "consec_reads": 1998, "seq_reads": 1998}
    assert p.count(file, "max_offset") == (32 << 20) + 1000 * 4096
    assert [r["distinct_bytes"] for r in p.of(file)] == [2 * 1000 * 4096]


def test_the_read_at_the_end_of_a_file(blind):
    """Half of a whole-file loader's reads looked small and unaligned."""
    p, file = blind("eof")
    assert p.counts(file, ("reads", "eof_reads", "read_bytes")) == {
        "reads": 1, "eof_reads": 1, "read_bytes": MIB}
    assert p.read_size(file) == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
