"""Files that strangers made to reach beyond themselves: other files, all memory, time without end, the
terminal. What was promised for each: no crash, memory within bounds, nothing opened but what the user
named, and a status that says so. (Damage and bombs by chance are in tests/fault.)
"""

import gzip
import io
import os
import re
import shutil
import struct
import subprocess
import tarfile
import zipfile

import pytest

from conftest import PATIENCE_S, ROOT, STOKER, Result, check_sane, run_stoker
from faultlib import BAD, MIB, bad, needs_strace, traced_env, usual_memory  # noqa: F401 (two are fixtures)
from slurmlib import FakeSlurm

DONE_OR_BAD = (0, *BAD)


def opened(*args, log):
    """(Result, paths that stoker or a child of it tried to open), for one run."""
    argv = ["strace", "-f", "-qq", "-o", log, "-e", "trace=open,openat,openat2", STOKER, *args]
    done = subprocess.run(list(map(str, argv)), capture_output=True, env=traced_env(), timeout=PATIENCE_S,
                          stdin=subprocess.DEVNULL)
    result = Result(argv, done.returncode, done.stdout, done.stderr)
    check_sane(result)
    return result, set(re.findall(r'open\w*\([^"]*"([^"]*)"', log.read_text()))


# ---- HDF5: a file that is other files -----------------------------------------------------------

@pytest.fixture
def outside(tmp_path):
    """{kind: path}: files of the user's that a stranger's HDF5 file names."""
    h5py = pytest.importorskip("h5py")
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "secret").write_text("top-secret " * 100)
    with h5py.File(folder / "other.h5", "w") as f:
        f["x"] = list(range(100))
    os.mkfifo(folder / "pipe.h5")
    return {name: folder / name for name in ("secret", "other.h5", "pipe.h5")}


def external_storage(h5py, f, target):
    f.create_dataset("v", (10, 10), dtype="u1", external=[(str(target), 0, 100)])


def external_link(h5py, f, target):
    f["v"] = h5py.ExternalLink(str(target), "/x")
    f["group"] = h5py.ExternalLink(str(target), "/")
    f["soft"] = h5py.SoftLink("/group/x")


def view(h5py, f, target):
    layout = h5py.VirtualLayout((100,), "i8", maxshape=(None,))
    source = h5py.VirtualSource(str(target), "x", (100,), maxshape=(None,))
    layout[0:h5py.h5s.UNLIMITED] = source[0:h5py.h5s.UNLIMITED]
    f.create_virtual_dataset("v", layout)


WAYS_OUT = [(external_storage, "secret"), (external_storage, "pipe.h5"), (external_link, "other.h5"),
            (external_link, "pipe.h5"), (view, "other.h5"), (view, "pipe.h5")]


@needs_strace
@pytest.mark.parametrize("how, kind", WAYS_OUT, ids=lambda x: getattr(x, "__name__", x))
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "beside"])
def test_hdf5_that_names_other_files(tmp_path, outside, how, kind, alone):
    """Packing a stranger's file would carry a private one along, or wait for ever on a pipe."""
    import h5py
    path = tmp_path / "gift.h5"
    with h5py.File(path, "w", libver="latest") as f:
        how(h5py, f, outside[kind])
        if not alone:
            f["y"] = list(range(10))
    result, tried = opened("pack", path, tmp_path / "out", "--format", "jsonl", log=tmp_path / "strace")
    assert not [p for p in tried if "private" in p], result
    assert result.rc in ((1, 3, 4) if alone else (0, 3)), result
    assert "left out" in result.out + result.err or alone, result
    assert "top-secret" not in "".join(p.read_text() for p in tmp_path.glob("out/*.jsonl"))


@needs_strace
def test_hdf5_reads_what_was_opened(tmp_path):
    """A link swapped in between check and use would have the library read another file: it never opens
    the path again."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as f:
        f["x"] = list(range(10))
    result, tried = opened("inspect", path, log=tmp_path / "strace")
    assert result.rc == 0, result
    assert any(p.startswith("/proc/self/fd/") for p in tried)


HUGE = {
    "chunked": {"shape": (1 << 60,), "dtype": "u1", "chunks": (1 << 20,)},
    "contiguous": {"shape": (1 << 60,), "dtype": "u1"},
    "square": {"shape": (1 << 31, 1 << 31), "dtype": "f8", "chunks": (1024, 1024)},
    "empty-rows": {"shape": (1 << 60, 0), "dtype": "u1"},
    "long-row": {"shape": (2, 1 << 50), "dtype": "u1", "chunks": (1, 1 << 20)},
}


@pytest.mark.parametrize("name", HUGE)
def test_hdf5_of_absurd_shape(bad, tmp_path, name):
    """A few KiB that say 2^60 rows would fill the memory or the disk with an index."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "huge.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("x", **HUGE[name])
    bad("verify", path, names="huge.h5")


def test_hdf5_groups_without_end(bad, tmp_path):
    """A name looked up from the root at every level takes the square of the depth: minutes for a file of
    some megabytes."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "deep.h5"
    with h5py.File(path, "w") as f:
        group = f
        for _ in range(400):
            group = group.create_group("g")
        group["x"] = [1, 2, 3]
    assert "nested more than" in bad("verify", path, names="deep.h5")


def test_hdf5_that_leads_in_circles(bad, tmp_path):
    """A group that holds itself would be walked for ever."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "circle.h5"
    with h5py.File(path, "w") as f:
        f["x"] = [1, 2, 3]
        f.create_group("a")["up"] = f["/"]
        f["a/soft"] = h5py.SoftLink("/a/soft2")
        f["a/soft2"] = h5py.SoftLink("/a/soft")
    bad("verify", path, rc=(0, 3))


# ---- LMDB ---------------------------------------------------------------------------------------

# Both meta pages: where and as what the number stands, and what a stranger may write there.
META = {"last-page": (136, "<Q", (1 << 63) - 1), "map-size": (32, "<Q", 1 << 60), "entries": (120, "<Q", 1 << 63),
        "depth": (94, "<H", 0xFFFF), "root": (128, "<Q", 1 << 50), "root-is-meta": (128, "<Q", 0),
        "page-size": (40, "<I", 1 << 31), "no-page-size": (40, "<I", 0), "flags": (92, "<H", 0xFFFF),
        "address": (24, "<Q", 0x7FFF00000000), "transaction": (144, "<Q", (1 << 64) - 1)}


@pytest.fixture(scope="module")
def lmdb_bytes(tmp_path_factory):
    lmdb = pytest.importorskip("lmdb")
    path = tmp_path_factory.mktemp("lmdb") / "a.mdb"
    env = lmdb.open(str(path), subdir=False)
    with env.begin(write=True) as txn:
        for i in range(300):
            txn.put(b"%05d" % i, b"v" * 200)
    env.close()
    return path.read_bytes()


@pytest.mark.parametrize("name", META)
def test_lmdb_absurd_meta(bad, tmp_path, lmdb_bytes, name):
    """One number of a meta page would crash the reader, map terabytes or never end."""
    offset, form, value = META[name]
    blob = bytearray(lmdb_bytes)
    for page in (0, 4096):
        struct.pack_into(form, blob, page + offset, value)
    path = tmp_path / "meta.mdb"
    path.write_bytes(blob)
    text = bad("verify", path, "--format", "lmdb", rc=DONE_OR_BAD)
    assert name != "entries" or "more than it has bytes" in text


def test_lmdb_pages_named_again_and_again(bad, tmp_path, lmdb_bytes):
    """A branch of the tree whose entries all lead to one page lists that page's entries without end."""
    blob = bytearray(lmdb_bytes)
    newest = max((0, 4096), key=lambda p: struct.unpack_from("<Q", blob, p + 144))
    root = struct.unpack_from("<Q", blob, newest + 128)[0] * 4096
    lower = struct.unpack_from("<H", blob, root + 12)[0]
    nodes = struct.unpack_from(f"<{(lower - 16) // 2}H", blob, root + 16)
    assert struct.unpack_from("<H", blob, root + 10)[0] & 1 and len(nodes) > 3, "not a branch page"
    for node in nodes:
        blob[root + node:root + node + 6] = blob[root + nodes[0]:root + nodes[0] + 6]
    for entries, words in ((1 << 40, "more than it has bytes"), (300, "")):
        struct.pack_into("<Q", blob, newest + 120, entries)
        path = tmp_path / "again.mdb"
        path.write_bytes(blob)
        assert words in bad("verify", path, "--format", "lmdb", rc=DONE_OR_BAD)


# ---- squashfs -----------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """A small image whose tables are not compressed, to be changed in place."""
    if not shutil.which("mksquashfs"):
        pytest.skip("no squashfs-tools")
    folder = tmp_path_factory.mktemp("squashfs")
    tree = folder / "tree"
    tree.mkdir()
    (tree / "good.txt").write_text("good")
    (tree / "aa").write_text("evil")
    (tree / "out").symlink_to("../../../../../../etc/passwd")
    (tree / "absolute").symlink_to("/etc/passwd")
    os.mkfifo(tree / "pipe")
    subprocess.run(["mksquashfs", tree, folder / "i.sqsh", "-quiet", "-no-progress", "-noI", "-noD", "-noF",
                    "-noX"], check=True, stdout=subprocess.DEVNULL)
    return (folder / "i.sqsh").read_bytes()


def test_squashfs_links_and_pipes_are_left_out(stoker, tmp_path, image):
    """Unpacking an image would read, or make, a link that leads out of it."""
    path = tmp_path / "links.sqsh"
    path.write_bytes(image)
    result = stoker("pack", path, tmp_path / "out", "--format", "folder", "--on-error", "skip", rc=(0, 3))
    assert "left out" in result.out + result.err
    made = [p for p in (tmp_path / "out").rglob("*")]
    assert made and not [p for p in made if p.is_symlink() or not (p.is_file() or p.is_dir())]
    assert not [p for p in made if p.is_file() and "root:" in p.read_text(errors="replace")]


@pytest.mark.parametrize("name", ["..", "a/", "/a", "a\0", ".\0"])
def test_squashfs_names_that_leave(bad, tmp_path, image, name):
    """A name in an image would put a file outside of the folder it is unpacked into."""
    blob = bytearray(image)
    at = blob.rfind(b"aa")
    blob[at:at + 2] = name.encode()
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    path = deep / "names.sqsh"
    path.write_bytes(blob)
    assert "not a name for a file" in bad("verify", path, names="names.sqsh")
    bad("pack", path, deep / "out", "--format", "folder", "--on-error", "skip", rc=DONE_OR_BAD)
    outside = [p for p in tmp_path.rglob("*") if p.is_file() and deep / "out" not in p.parents
               and p != path and ".stkidx" not in p.name and "xdg" not in str(p)]
    assert not outside


SUPERBLOCK = {"inodes": (4, "<I", 0xFFFFFFFF), "fragments": (16, "<I", 0xFFFFFFFF), "ids": (26, "<H", 0xFFFF),
              "root": (32, "<Q", (1 << 48) - 1), "used": (40, "<Q", 1 << 60), "block": (12, "<I", 1 << 31),
              "block-log": (22, "<H", 31), "inode-table": (64, "<Q", 1 << 60), "directory-table": (72, "<Q", 0),
              "fragment-table": (80, "<Q", 96)}


@pytest.mark.parametrize("name", SUPERBLOCK)
def test_squashfs_absurd_superblock(bad, tmp_path, image, name):
    """One number of the superblock would take all memory."""
    blob = bytearray(image)
    struct.pack_into(SUPERBLOCK[name][1], blob, SUPERBLOCK[name][0], SUPERBLOCK[name][2])
    path = tmp_path / "super.sqsh"
    path.write_bytes(blob)
    bad("verify", path, "--format", "squashfs", names="super.sqsh")


# ---- arrays and archives that say more than they hold -------------------------------------------

def npy(shape, descr="<f8", data=b""):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + data


SHAPES = ["(9223372036854775807, 0)", "(0, 9223372036854775807)", "(9223372036854775807,) * 2 + (0,)",
          "(18446744073709551615, 0)", "(99999999999999999999999, 0)", "(9223372036854775808,)",
          "(4294967296, 4294967296, 2)", "(1099511627776,)"]


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_that_cannot_be(bad, tmp_path, shape):
    """Rows of no bytes cost a file nothing, and 2^63 of them would take for ever; other shapes wrap
    around."""
    (tmp_path / "a.npy").write_bytes(npy(shape))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as z:
        z.writestr("x.npy", npy(shape))
    bad("verify", tmp_path / "a.npy", names="a.npy")
    bad("verify", tmp_path / "a.npz", names="a.npz")


@pytest.mark.parametrize("shape", ["(1, 4294967000)", "(4000, 1000000)"])
def test_npz_of_4_kib_that_says_4_gib(bad, tmp_path, shape):
    """A row of a member that claims to inflate to gigabytes would be given the memory for it."""
    blob = io.BytesIO()
    with zipfile.ZipFile(blob, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("x.npy", npy(shape, "|u1", bytes(4 * MIB)))
    forged = bytearray(blob.getvalue())
    at = forged.rfind(b"PK\x01\x02")
    struct.pack_into("<I", forged, at + 24, 0xFFFFFF00)
    struct.pack_into("<I", forged, 22, 0xFFFFFF00)
    path = tmp_path / "claims.npz"
    path.write_bytes(forged)
    assert path.stat().st_size < 8192
    bad("verify", path, names="claims.npz")
    bad("pack", path, tmp_path / "out", "--format", "tfrecord", names="claims.npz")


def test_npz_members_that_overlap(bad, tmp_path):
    """Two thousand entries of a directory for one member of 64 MiB would be 128 GiB."""
    blob = io.BytesIO()
    with zipfile.ZipFile(blob, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("x.npy", npy("(64, 1048576)", "|u1", bytes(64 * MIB)))
    whole = blob.getvalue()
    at, end = whole.rfind(b"PK\x01\x02"), whole.rfind(b"PK\x05\x06")
    entry, count = whole[at:end], 2000
    for rename in (True, False):
        names = [b"x%04d.npy" % i if rename else b"x.npy" for i in range(count)]
        entries = b"".join(entry[:28] + struct.pack("<H", len(n)) + entry[30:46] + n + entry[51:] for n in names)
        path = tmp_path / f"overlap{rename}.npz"
        path.write_bytes(whole[:at] + entries + b"PK\x05\x06" +
                         struct.pack("<HHHHIIH", 0, 0, count, count, len(entries), at, 0))
        bad("verify", path, names=path.name)


def test_npz_in_npz(bad, tmp_path):
    """An archive in an archive is bytes, not another archive to open."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as z:
        z.writestr("x.npy", npy("(3,)", "<f8", bytes(24)))
    path = tmp_path / "outer.npz"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("inner.npz", inner.getvalue())
    bad("verify", path, names="outer.npz")


# MiB, over the margin that `bad` allows: what held all of it in memory would be seen. A line of JSON may
# have 256 MiB, which are held.
BOMB, JSON_BOMB = 160, 300
BOMBS = {"line.jsonl": (b'{"a":"', b"a"), "string.json": (b'[{"a":"', b"a"), "nested.json": (b'[{"a":', b"["),
         "commas.csv": (b"", b","), "zeros.tar": (b"", b"\0")}


@pytest.mark.parametrize("name", BOMBS)
def test_gzip_bombs(bad, tmp_path, name):
    """Some hundred KiB of gzip that never come to the end of a line, a string or a row would take all
    memory."""
    head, fill = BOMBS[name]
    path = tmp_path / f"{name}.gz"
    with gzip.open(path, "wb", compresslevel=1) as z:
        z.write(head)
        for _ in range(JSON_BOMB if name.endswith(".jsonl") else BOMB):
            z.write(fill * MIB)
    assert path.stat().st_size < 2 * MIB
    bad("verify", path, rc=DONE_OR_BAD if name == "zeros.tar" else BAD, names=path.name)


def test_tar_gz_bombs(bad, tmp_path):
    """A member of a terabyte, or a name of 50 MB, in some KiB of gzip."""
    long = tarfile.TarInfo("a.bin")
    long.size = 1 << 40
    named = tarfile.TarInfo("a" * 50_000_000)
    for name, info, how in (("long", long, tarfile.GNU_FORMAT), ("name", named, tarfile.GNU_FORMAT),
                            ("pax", named, tarfile.PAX_FORMAT)):
        path = tmp_path / f"{name}.tar.gz"
        with gzip.open(path, "wb", compresslevel=1) as z:
            z.write(info.tobuf(format=how))
            for _ in range(BOMB if name == "long" else 1):
                z.write(bytes(MIB))
        bad("verify", path, names=path.name, rc=BAD if name == "long" else DONE_OR_BAD)


# ---- Darshan's and Slurm's text -----------------------------------------------------------------

POSIX = (ROOT / "tests/data/darshan/posix_stdio.txt").read_text()
EVIL = "\x1b]0;owned\x07\x1b[2J\r'$(touch /tmp/stoker-pwned)`id`"


def with_values(value):
    return re.sub(r"^(\w+\t-?\d+\t\d+\t\w+\t)\S+", lambda m: m.group(1) + value, POSIX, flags=re.M)


def with_head(key, value):
    return re.sub(rf"^# {key}: .*", lambda m: f"# {key}: {value}", POSIX, flags=re.M)


LOGS = {f"value {v[:12]!r}": with_values(v) for v in ("18446744073709551615", "-9223372036854775808", "1e400",
                                                      "nan", EVIL)}
LOGS |= {f"{key} {v}": with_head(key, v) for key in ("nprocs", "start_time", "run time")
         for v in ("2000000000", "18446744073709551615", "-1")}
LOGS |= {f"rank {r}": re.sub(r"^(\w+\t)-?\d+\t", lambda m: f"{m.group(1)}{r}\t", POSIX, flags=re.M)
         for r in ("2147483647", "-2147483648", "99999999999999999999")}
LOGS |= {"exe": with_head("exe", EVIL), "name": re.sub(r"/[^\t\n]*train\.bin", lambda m: "/x/" + EVIL, POSIX),
         "long name": re.sub(r"/[^\t\n]*train\.bin", lambda m: "/x/" + "a" * 2_000_000, POSIX, count=3),
         "long line": POSIX + "POSIX\t0\t" + "1" * 20_000_000, "NUL": POSIX.replace("POSIX", "PO\0SIX"),
         "cut": POSIX[:-30], "mount": POSIX.replace("# mount entry:\t/", "# mount entry:\t" + "/a" * 50_000)}


def check_terminal(text):
    """Nothing in it moves the cursor, names the window or rings."""
    strange = [c for c in text if ord(c) < 32 and c not in "\n\t" or 127 <= ord(c) < 160]
    assert not strange, repr(text[:2000])


def test_hostile_darshan_text(bad, tmp_path):
    """A number that is none, or a name with an escape, would crash the report or take over the terminal."""
    path = tmp_path / "log.txt"
    for what, text in LOGS.items():
        path.write_text(text)
        # Each rank that a log claims takes some bytes, up to a limit.
        check_terminal(bad("report", path, rc=(0, *BAD), memory=256 * MIB))
        if what in ("exe", "name"):
            check_terminal(bad("advise", path, rc=(0, *BAD)))
            assert run_stoker("report", path, "--json", "-").json()["result"]
    assert not os.path.exists("/tmp/stoker-pwned")


NUMBERS = ("99999999999999999999999999G", "-1", EVIL)


def hostile_answers(slurm):
    """Each of the clients' answers with all its numbers, then all its words, replaced."""
    for client in ("sacct", "squeue", "scontrol", "sstat"):
        whole = (slurm.folder / f"{client}.txt").read_text()
        head, _, rows = whole.partition("\n")
        for value in NUMBERS:
            # Job numbers stay, or the row would not be the job's.
            yield client, head + "\n" + re.sub(r"(?<=[|=@])\d[\w.:]*(?=[|\s@])", lambda m: value, rows)
        yield client, head + "\n" + re.sub(r"(?<=[|=@])[a-z][\w./]*", lambda m: EVIL.replace("\r", ""), rows)
        slurm.answers(client, whole)


def test_hostile_slurm_text(tmp_path):
    """A job's name, node or reason is its owner's to choose: it would reach the terminal or a shell of
    whoever looks at the job."""
    slurm = FakeSlurm(tmp_path)
    sacct = (slurm.folder / "sacct.txt").read_text()
    ids = re.findall(r"^(\d+)\|", sacct, flags=re.M)[:2]
    assert ids
    for client, text in hostile_answers(slurm):
        slurm.answers(client, text)
        result = run_stoker("job", *ids, rc=None, env=slurm.env())
        assert result.rc in (0, 1, 2, 3, 4), result
        check_terminal(result.out + result.err)
    assert not os.path.exists("/tmp/stoker-pwned")
