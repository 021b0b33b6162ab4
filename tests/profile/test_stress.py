"""Threads, forks, signals and jumps at once: the program is not harmed, and every read that can be
counted is. A race in the preload library would lose data of, or crash, the jobs it is there for."""

import pytest

from profilelib import compiled, profile, zeros  # noqa: F401

PAGE, PAGES = 4096, 10


@pytest.mark.parametrize("options", [(), ("--trace",)], ids=["counters", "trace"])
def test_everything_at_once(profile, tmp_path, options):  # noqa: F811
    folder = tmp_path.resolve() / "data"
    for name in "ab":
        zeros(folder / f"{name}.bin", PAGE * PAGES)
    p = profile([compiled("programs/stress.c", "-O2"), folder, 150], *options)
    assert p.rc == 0, p.err
    reads, handled = map(int, p.out.split())
    a = folder / "a.bin"
    dropped = sum(x["dropped_calls"] for x in p.processes)
    # Only what a handler did while the library itself was at work may be missing, and is said to be.
    assert dropped <= handled
    assert p.counts(a, ("opens", "dups", "closes", "reads", "read_bytes", "errors")) == {
        "opens": reads // PAGES, "dups": reads // PAGES, "closes": reads // PAGES * 2,
        "reads": reads, "read_bytes": reads * PAGE, "errors": 0}
    # read() takes pages 0 to 4 of its own position, pread() every second page: seven pages in all.
    assert (p.count(a, "min_offset"), p.count(a, "max_offset")) == (0, 9 * PAGE)
    assert {r["distinct_bytes"] for r in p.of(a)} == {7 * PAGE}
    assert p.count(folder / "b.bin", "reads") >= handled - dropped
    assert sum(x["dropped_trace"] for x in p.processes) == 0
    assert {x["ended"] for x in p.processes} == {"exit"}


def test_handlers_that_fork(profile, tmp_path):  # noqa: F811
    """A child forked in the middle of the library's own work goes on there, and has its own log."""
    folder = tmp_path.resolve() / "data"
    for name in "ab":
        zeros(folder / f"{name}.bin", PAGE * PAGES)
    p = profile([compiled("programs/stress.c", "-O2"), folder, 60, "handler"])
    assert p.rc == 0, p.err
    assert p.out.split() == [b"60", b"0"]
    assert p.count(folder / "b.bin", "reads") == 60 * PAGES
