"""Files that change while they are used, and lie: an index, a log, a temporary file or data that somebody
rewrites or cuts under us is an error that names it. Never a signal, never memory that is not the file's."""

import mmap
import os
import pathlib
import shutil
import struct
import subprocess
import threading

import pytest

from conftest import LONG, PATIENCE_S, STOKER, Result, check_sane, run_stoker
from faultlib import held_at, ladder, let_go, needs_root, needs_strace, small_disk, traced_env
from indexlib import Index
from profilelib import profile  # noqa: F401
from tfrecordlib import frame

STOPPED = (0, 1, 3, 4)  # any end of its own


def make_rows(path, n=30000):
    path.write_text("".join(f'{{"n": {i}}}\n' for i in range(n)))
    return path


def finish(proc):
    """What became of held_at()'s program; fails when it died."""
    out, err = proc.communicate(timeout=PATIENCE_S)
    result = Result(proc.args, proc.returncode, out, err)
    check_sane(result)
    return result


def calls(call, path, *args):
    """Numbers of those uses of a call, in the main thread, that are of a file whose name has `path` in it."""
    log = subprocess.run(["strace", "-qq", "-y", "-s", "0", "-e", f"trace={call}", STOKER, *map(str, args)],
                         env=traced_env(), capture_output=True, text=True, timeout=PATIENCE_S)
    lines = [line for line in log.stderr.splitlines() if line.startswith(call + "(")]
    return [i + 1 for i, line in enumerate(lines) if path in line]


# ---- an index that is rewritten or cut ---------------------------------------------------------

def forgeries(path):
    """{what is wrong: bytes}: indexes that pass their checksums. The whole range of numbers that are used
    as lengths, offsets and counts."""
    huge, out = (1 << 63) + 5, {}

    def forge(name, change):
        index = Index(path)
        change(index)
        index.seal()
        out[name] = bytes(index.data)

    for value in (huge, 1 << 40):
        forge(f"samples {value}", lambda x: x.set_header(48, value))
        forge(f"segment of {value}", lambda x: x.put("segments", 0, 8, "Q", value))
        forge(f"segment and header {value}",
              lambda x: (x.put("segments", 0, 8, "Q", value), x.set_header(48, value)))
        forge(f"extents {value}", lambda x: x.put("segments", 0, 24, "Q", value))
    for at, form in ((0, "Q"), (16, "Q"), (32, "Q"), (40, "I"), (44, "H"), (46, "H")):
        forge(f"segment at {at}", lambda x: x.put("segments", 0, at, form, 0xfffe))
    for table, at, form in (("extents", 0, "QQ"), ("parts", 0, "QQ"), ("rows", 0, "Q"), ("keyoff", 0, "Q"),
                            ("columns", 0, "5Q"), ("chains", 0, "I"), ("points", 8, "Q"), ("crcs", 0, "Q"),
                            ("files", 0, "QI"), ("dirs", 0, "QI"), ("fields", 0, "II")):
        if Index(path).table(table)[1] > 1:
            most = {"Q": huge, "I": 0xfffffff0}
            values = [most[c] for c in form.replace("5Q", "QQQQQ")]
            forge(f"{table} out of range", lambda x: x.put(table, 1, at, form, *values))
    if Index(path).table("parts")[1]:
        forge("a field that does not exist", lambda x: x.put("parts", 0, 4, "H", 0xfff0))
    if Index(path).table("columns")[1]:
        forge("a field that does not exist", lambda x: x.put("columns", 0, 40, "I", 0xfffffff0))
        forge("a column of more pieces", lambda x: x.put("columns", 0, 44, "I", 0xfffffff0))
    return out


def make_set(kind, folder):
    """A dataset whose index has segments of that kind, and the index."""
    if kind == "whole":
        data = make_rows(folder / "d.jsonl", 50)
    elif kind == "columns":
        data = folder / "d.npy"
        head = b"{'descr': '<i4', 'fortran_order': False, 'shape': (50, 3), }"
        head += b" " * (117 - len(head)) + b"\n"
        data.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(600))
    else:
        for i in range(20):
            (folder / f"d/{i}").parent.mkdir(exist_ok=True)
            (folder / f"d/{i}.jpg").write_bytes(b"\xff\xd8\xff" + bytes(i))
            (folder / f"d/{i}.cls").write_text(str(i))
        subprocess.run(["tar", "-C", folder / "d", "-cf", folder / "d.tar", "--sort=name", "."], check=True)
        data = folder / "d.tar"
    run_stoker("inspect", data, "-q")
    index = pathlib.Path(f"{data}.stkidx")
    return data, index


@pytest.mark.parametrize("kind", ["whole", "parts", "columns"])
def test_an_index_that_passes_its_checksums_and_lies(tmp_path, kind):
    """Numbers would be believed because a checksum, which anybody can compute, is right: `load` used a
    field's number as an index of its own table."""
    data, index = make_set(kind, tmp_path)
    for name, blob in forgeries(index).items():
        index.write_bytes(blob)
        result = run_stoker("load", data, "--decode", "raw", "--io", "threads", rc=STOPPED)
        assert result.rc == 0 or f"{data}" in result.err, (name, result)


def test_a_sparse_index_gets_no_memory(tmp_path):
    """A file of a stranger that takes no space on disk would take all of ours."""
    data = make_rows(tmp_path / "d.jsonl", 10)
    run_stoker("inspect", data, "-q")
    index = Index(f"{data}.stkidx")
    with open(f"{data}.stkidx", "wb") as f:
        size = 1 << 42
        struct.pack_into("<Q", index.data, 16, size)
        index.seal()
        f.write(index.data)
        f.truncate(size)
    assert run_stoker("inspect", data, "--json", "-").json()["result"]["samples"] == 10


@needs_strace
def test_an_index_cut_or_rewritten_at_every_moment(tmp_path):
    """Between any two reads of it. What was read before holds; what comes after is an error, or, while it
    is opened, a reason to build it anew."""
    data = make_rows(tmp_path / "d.jsonl")
    index = tmp_path / "d.jsonl.stkidx"
    run_stoker("inspect", data, "-q")
    whole = index.read_bytes()
    command = ["inspect", data, "--sample", 29999, "--no-write-index"]
    moments = calls("pread64", "d.jsonl.stkidx", *command)
    assert len(moments) >= 4
    for n in ladder(moments, 12):
        for change in ("empty", "cut", "other"):
            index.write_bytes(whole)
            proc = held_at(("pread64", n), *command, log=tmp_path / "log")
            if change == "other":
                with open(index, "r+b") as f:
                    f.write(b"\xff" * len(whole))
            else:
                os.truncate(index, 0 if change == "empty" else len(whole) // 2)
            let_go(proc)
            result = finish(proc)
            assert result.rc in (0, 4), result
            assert b"29999" in result.out_bytes if result.rc == 0 else "d.jsonl.stkidx" in result.err, result


def test_an_index_rewritten_ten_thousand_times_while_it_loads(tmp_path):
    """Counts that change after they were checked: a crash, or another's bytes."""
    data = make_rows(tmp_path / "d.jsonl")
    index = tmp_path / "d.jsonl.stkidx"
    run_stoker("inspect", data, "-q")
    whole = index.read_bytes()
    lies = [whole, *forgeries(index).values(), whole[:len(whole) // 2] + bytes(len(whole) // 2)]
    written, over = [0], threading.Event()

    def rewrite():
        while not over.is_set():
            with open(index, "r+b", buffering=0) as f:  # the one that is there now
                for lie in lies:
                    f.seek(0)
                    f.write(lie)
                    written[0] += 1

    attacker = threading.Thread(target=rewrite)
    attacker.start()
    try:
        while written[0] < 10000 and attacker.is_alive():
            run_stoker("load", data, "--shuffle", "global", "-q", rc=STOPPED)
    finally:
        over.set()
        attacker.join()
    assert written[0] >= 10000


# ---- data --------------------------------------------------------------------------------------

def packed_integers(n, values):
    """(record, where its n bytes of integers are)"""
    def field(number, data):
        length, out = len(data), b""
        while length > 127:
            out, length = out + bytes([length & 127 | 128]), length >> 7
        return bytes([number << 3 | 2]) + out + bytes([length]) + data
    record = field(1, field(1, field(1, b"x") + field(2, field(3, field(1, values)))))
    return record, len(record) - n


@needs_root
def test_records_rewritten_while_they_are_taken_apart(tmp_path):
    """A list of integers is counted, then read. Whoever owns the data could make it longer in between: a
    heap overflow with bytes of that user's choice. So what others can change is not mapped."""
    n, data = 1 << 19, tmp_path / "d.tfrecord"
    many, few = b"\x01" * n, b"\x81\x01" * (n // 2)
    record, at = packed_integers(n, many)
    data.write_bytes(frame(record) * 8)
    run_stoker("inspect", data, "-q")
    os.chown(data, 12345, -1)
    command = ["load", data, "--io", "mmap", "--no-check", "--on-error", "skip", "--json", "-"]
    assert "others can change" in run_stoker(*command).json()["result"]["engine_detail"]
    over, size = threading.Event(), len(record) + 16

    def flip():
        with open(data, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
            while not over.is_set():
                for values in (few, many):
                    for i in range(8):
                        m[i * size + 12 + at:i * size + 12 + at + n] = values

    attacker = threading.Thread(target=flip)
    attacker.start()
    try:
        for _ in range(40 if LONG else 4):
            run_stoker(*command, "--epochs", 5, "-b", 2, rc=STOPPED)
    finally:
        over.set()
        attacker.join()


def test_files_others_can_write_are_not_mapped(tmp_path):
    """The same of a file of ours that our group may write; and of one that is ours alone the opposite."""
    data = tmp_path / "d.tfrecord"
    data.write_bytes(b"".join(frame(packed_integers(i + 1, bytes(i + 1))[0]) for i in range(10)))
    for mode, engine in ((0o644, "mmap"), (0o664, "threads"), (0o646, "threads"), (0o600, "mmap")):
        data.chmod(mode)
        assert run_stoker("load", data, "--io", "mmap", "--json", "-").json()["result"]["engine"] == engine


# ---- temporary files ---------------------------------------------------------------------------

@needs_strace
def test_temporary_files_cut_while_an_index_is_made(tmp_path):
    """A disk that fails, or a purge of /tmp, would kill the program where the tables are read back."""
    data = make_rows(tmp_path / "d.jsonl", 60000)
    command = ["inspect", data, "--jobs", 1, "--no-write-index", "--rebuild-index"]
    mapped = calls("mmap", "(deleted)", *command)
    assert mapped
    proc = held_at(("mmap", mapped[-1]), *command, log=tmp_path / "log")
    children = pathlib.Path(f"/proc/{proc.pid}/task/{proc.pid}/children").read_text().split()
    cut = 0
    for fd in pathlib.Path(f"/proc/{children[0]}/fd").iterdir():
        if "(deleted)" in os.readlink(fd):
            os.truncate(fd, 0)
            cut += 1
    let_go(proc)
    result = finish(proc)
    assert cut and result.rc == 4 and "temporary file became shorter" in result.err, result


@needs_root
def test_no_room_for_the_checksums_of_a_pack(tmp_path):
    """They were gathered in a mapping of a file with holes: a full disk killed pack."""
    data = tmp_path / "d.npy"
    head = b"{'descr': '|u1', 'fortran_order': False, 'shape': (100000, 1), }"
    head += b" " * (117 - len(head)) + b"\n"
    data.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(100000))
    with small_disk(tmp_path / "tmp", "128k"):
        result = run_stoker("pack", data, tmp_path / "out", "--format", "npy", rc=4,
                            env={"TMPDIR": tmp_path / "tmp"})
        assert "No space left on device" in result.err and f"{tmp_path}/tmp" in result.err, result
    run_stoker("pack", data, tmp_path / "out", "--format", "npy", "--resume")
    run_stoker("verify", tmp_path / "out")


@needs_strace
def test_an_index_cut_while_pack_seals_it(tmp_path):
    """The same of the index that the checksums are put into: in a folder that a group may write, somebody
    else can cut it."""
    run_stoker("inspect", make_rows(tmp_path / "d.jsonl", 40), "-q")
    command = ["pack", tmp_path / "d.jsonl", tmp_path / "out", "--format", "jsonl", "--jobs", 1, "-q"]
    moments = calls("pread64", "out.partial/index.stkidx", *command)
    assert moments
    for n in ladder(moments, 12):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        proc = held_at(("pread64", n), *command, log=tmp_path / "log")
        for index in tmp_path.glob("out.partial/index.stkidx*"):
            os.truncate(index, 100)
        let_go(proc)
        result = finish(proc)
        assert result.rc == 0 or "index.stkidx" in result.err, result
        if result.rc == 0:
            assert run_stoker("inspect", tmp_path / "out", "--json", "-").json()["result"]["samples"] == 40


# ---- logs --------------------------------------------------------------------------------------

@needs_strace
@pytest.mark.parametrize("change", ["cut", "other"])
def test_a_log_that_changes_while_it_is_read(profile, tmp_path, change):  # noqa: F811
    """Between any two reads of it. What was whole is reported, and that something was not is said."""
    run = profile(["cat", "/proc/self/status"])
    log = next(run.dir.glob("*.stklog"))
    whole = bytearray(log.read_bytes())
    blocks = 300  # more than are read at once
    struct.pack_into("<I", whole, 24, blocks)
    whole += bytes(blocks * 65536 - len(whole))
    for n in range(1, len(whole) // 65536):
        if not any(whole[n * 65536:n * 65536 + 8]):
            struct.pack_into("<II", whole, n * 65536, 2, 0)  # a block of records, empty yet
    log.write_bytes(whole)
    moments = calls("pread64", log.name, "report", run.dir)
    assert len(moments) >= 4
    for n in ladder(moments, 12):
        log.write_bytes(whole)
        proc = held_at(("pread64", n), "report", run.dir, "--json", "-", log=tmp_path / "log")
        if change == "cut":
            os.truncate(log, 70000)
        else:
            with open(log, "r+b") as f:
                f.write(b"\xff" * len(whole))
        let_go(proc)
        assert finish(proc).rc in (0, 4)
