"""Each file of code that stoker prints: rendered by stoker itself, run as it is, its data compared with that of the plain
program, and what writes killed as it changes a file. A file without a row fails."""

import ctypes
import functools
import io
import json
import mmap
import os
import pathlib
import pickle
import sqlite3
import stat
import subprocess
import sys
import tarfile
import types
import zipfile

import pytest

np = pytest.importorskip("numpy", reason="python3-numpy is not installed")
torch = pytest.importorskip("torch", reason="python3-torch is not installed")
h5py = pytest.importorskip("h5py", reason="python3-h5py is not installed")
lmdb = pytest.importorskip("lmdb", reason="python3-lmdb is not installed")
Image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")

from codelib import FILES, LANGUAGE, is_made_of, only, printed, run_python  # noqa: E402
from conftest import ROOT, STOKER  # noqa: E402
from killlib import kills_at_changes  # noqa: E402
from mpilib import env_for, needs_mpi, run_ranks  # noqa: E402
from pythonlib import environment, plain_environment, stoker  # noqa: E402
from tfrecordlib import frame  # noqa: E402

import torch.utils.data  # noqa: E402

pytestmark = pytest.mark.xdist_group("torch")
N, SHORT = 40, 8  # samples; the last batch of 32 has few
CONTENT = bytes(i * 7 % 251 for i in range(300_000))
RECORDS = [bytes([i]) * (i + 1) for i in range(N)]

ROWS = {}


def row(*names):
    """A function that runs what is made of these files."""
    def add(run):
        for name in names:
            assert name not in ROWS, name
            ROWS[name] = run
        return run
    return add


# ---- what a program has ----

def files_of(folder):
    """A sample per file, in a folder per class."""
    for i in range(N):
        at = folder / f"c{i % 2}"
        at.mkdir(parents=True, exist_ok=True)
        (at / f"{i:02}.bin").write_bytes(RECORDS[i])


def pictures(folder):
    for i in range(N):
        at = folder / f"c{i % 2}"
        at.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((240, 250, 3), i, np.uint8)).save(at / f"{i:02}.png")


def make_sqlite(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t (i INTEGER, x BLOB)")
        db.executemany("INSERT INTO t VALUES (?, ?)", enumerate(RECORDS))
    db.close()


def make_lmdb(path):
    with lmdb.open(str(path), subdir=False, map_size=1 << 22) as db, db.begin(write=True) as t:
        for i, record in enumerate(RECORDS):
            t.put(b"%04d" % i, record)


def make_hdf5(path):
    with h5py.File(path, "w") as f:
        f["NAME"] = np.arange(N * 3).reshape(N, 3)


def make_zip(path):
    with zipfile.ZipFile(path, "w") as z:
        for i, record in enumerate(RECORDS):
            z.writestr(str(i), record)


MAKE = {
    "": lambda p: p.write_bytes(CONTENT),
    "npy": lambda p: np.save(p, np.arange(N)),
    "npz": lambda p: np.savez(p, x=np.arange(N), y=np.arange(3)),
    "json": lambda p: p.write_text(json.dumps({"lr": 0.1})),
    "tfrecord": lambda p: p.write_bytes(b"".join(map(frame, RECORDS))),
    "image": pictures, "folder": files_of, "sqlite": make_sqlite, "lmdb": make_lmdb, "hdf5": make_hdf5,
    "zip": make_zip,
}
SUFFIX = {"npy": ".npy", "npz": ".npz", "json": ".json", "sqlite": ".db", "hdf5": ".h5", "lmdb": ".mdb"}
# What reads all of an opened thing.
READ = {
    "": lambda f: f.read(),
    "npy": lambda a: a.tolist(),
    "npz": lambda z: {k: z[k].tolist() for k in z},
    "sqlite": lambda db: db.execute("SELECT * FROM t ORDER BY i").fetchall(),
    "hdf5": lambda f: f["NAME"][()].tolist(),
    "zip": lambda z: [z.read(n) for n in z.namelist()],
}


def read_lmdb(db):
    with db.begin() as t:
        return [v for _, v in t.cursor()]


READ["lmdb"] = read_lmdb
PLAIN = {"": CONTENT, "npy": list(range(N)), "npz": {"x": list(range(N)), "y": [0, 1, 2]},
         "sqlite": list(enumerate(RECORDS)), "hdf5": np.arange(N * 3).reshape(N, 3).tolist(), "zip": RECORDS,
         "lmdb": RECORDS}


class Box:
    """One program: a folder, what it reads, what it writes, and the code that was run in it."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.patch, self.ran = folder, monkeypatch, []
        self.target = folder / "to"
        monkeypatch.chdir(folder)

    def source(self, form, name="a 'b"):
        path = self.folder / (name + SUFFIX.get(form, ""))
        MAKE[form](path)
        return path

    def text(self, kind, source, form="", language="python", **given):
        program = "c" if language == "c" else "python"
        found = printed("test_action", "--render", source, self.target, "" if form == "folder" else form,
                        *(f"{k}={v}" for k, v in given.items()))
        text = "".join(only(language, found[f"{kind} {program}"]))
        assert text, found
        self.ran.append(text)
        return text

    def python(self, kind, source, form="", names=None, **given):
        """What the last line gives, and the variables."""
        names = {} if names is None else names
        return run_python(self.text(kind, source, form, **given), names), names

    def run_shell(self, text, **more):
        """As pasted. Whatever a cluster has is a program that notes how it was called."""
        bin_ = self.folder / "bin"
        if not bin_.exists():
            bin_.mkdir()
            for name, does in CLUSTER.items():
                (bin_ / name).write_text(f'#!/bin/bash\nprintf "%s\\n" "{name} $*" >> {bin_}/calls\n{does}\n')
                (bin_ / name).chmod(0o755)
        path = f"{bin_}:{STOKER.parent}:{os.environ['PATH']}"
        env = {**plain_environment(), "PATH": path, "TMPDIR": str(self.folder), "SLURM_NNODES": "1", **more}
        return ["bash", "-c", text], env

    def shell(self, kind, source, form="", rc=0, **given):
        argv, env = self.run_shell(self.text(kind, source, form, "shell", **given))
        done = subprocess.run(argv, env=env, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == rc, (argv, done)
        return done.stdout

    def calls(self):
        return (self.folder / "bin/calls").read_text()


CLUSTER = {
    "lfs": "", "pbsnodes": "", "bhosts": "", "qhost": "", "scontrol": "", "sacct": "",
    "srun": 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
    "sbcast": 'exec cp "$1" "$2"',
    "h5repack": 'exec cp "${@: -2:1}" "${@: -1}"',
}


@pytest.fixture
def box(tmp_path, monkeypatch):
    return Box(tmp_path, monkeypatch)


# ---- packages that need not be here: the calls that are printed, as they are declared there ----

def stand_in(box, name, **members):
    """Only if the package is not installed."""
    try:
        __import__(name)
    except ImportError:
        *above, _ = name.split(".")
        for i in range(1, len(above) + 1):
            parent = ".".join(above[:i])
            if parent not in sys.modules:
                box.patch.setitem(sys.modules, parent, types.ModuleType(parent))
        module = types.ModuleType(name)
        vars(module).update(members)
        box.patch.setitem(sys.modules, name, module)
        if above:
            box.patch.setattr(sys.modules[".".join(above)], name.rpartition(".")[2], module, raising=False)
        return True
    return False


class Records:
    """A tf.data.Dataset."""

    def __init__(self, samples):
        self.samples = list(samples)

    def __iter__(self):
        return iter(self.samples)

    def shard(self, num_shards, index):
        return Records(self.samples[index::num_shards])

    def map(self, map_func, num_parallel_calls=None):
        return Records(map(map_func, self.samples))

    def prefetch(self, buffer_size):
        return self


def record_files(filenames, compression_type=None, buffer_size=None, num_parallel_reads=None):
    return Records(bytes(s) for f in filenames for s in (x["data"] for x in stoker.Dataset(f, payload="raw")))


TF = types.SimpleNamespace(data=types.SimpleNamespace(AUTOTUNE=-1, TFRecordDataset=record_files))


# ---- reading: the data is that of the plain program ----

@row("any-open.py", "keep-open.py", "hdf5-open.py", "npy-open.py", "npz-open.py", "lmdb-open.py", "sqlite-open.py",
     "zip-open.py")
def keeps_open(box):
    """In a Dataset that is copied to workers."""
    for form in ("", "hdf5", "npy", "npz", "lmdb", "sqlite", "zip"):
        text = box.text("keep-open", box.source(form), form)
        names = {"h5py": h5py, "numpy": np, "lmdb": lmdb, "sqlite3": sqlite3, "zipfile": zipfile, "READ": READ[form]}
        body = "".join(f"    {line}\n" for line in (text + "    return READ(self.f)").splitlines())
        run_python(f"class Data:\n{body}", names)
        data = names["Data"]()
        copy = pickle.loads(pickle.dumps(data.__dict__))  # to a worker
        assert copy == {} and data[0] == PLAIN[form], form
        assert form == "" or data[1] == PLAIN[form], form


@row("keep-open-numpy.py")
def keeps_open_in_a_script(box):
    _, names = box.python("keep-open", box.source(""), framework="numpy")
    assert names["f"].read() == CONTENT


@row("keep-in-memory.py", "read-once.py", "read-whole.py")
def whole_files(box):
    for kind in ("keep-in-memory", "read-once", "read-whole"):
        assert box.python(kind, box.source(""))[1]["data"] == CONTENT


@row("npy-keep.py", "npz-keep.py", "npy-parse.py", "npz-parse.py", "json-parse.py", "hdf5-keep.py", "hdf5-load.py",
     "zip-keep.py", "lmdb-larger.py", "sqlite-larger.py")
def through_libraries(box):
    for kind, form, name in (("keep-in-memory", "npy", "data"), ("read-once", "npy", "data"), ("read-once", "npz", "data"),
                             ("keep-in-memory", "npz", "data"), ("keep-in-memory", "hdf5", "f"), ("read-whole", "hdf5", "f"),
                             ("keep-in-memory", "zip", "z"), ("larger-reads", "lmdb", "env"),
                             ("larger-reads", "sqlite", "connection")):
        _, names = box.python(kind, box.source(form), form)
        assert READ[form](names[name]) == PLAIN[form], (kind, form)
    assert box.python("read-once", box.source("json"), "json")[1]["config"] == {"lr": 0.1}


@row("keep-mapped.py")
def mapped(box):
    _, names = box.python("keep-mapped", box.source(""))
    assert names["data"].tobytes() == CONTENT


@row("keep-stat.py")
def asked_once(box):
    source = box.source("")
    assert box.python("keep-stat", source)[1]["found"] == os.stat(source)


@row("larger-reads.py", "stream-buffer.py")
def buffers(box):
    for kind in ("larger-reads", "stream-buffer"):
        f = box.python(kind, box.source(""))[1]["f"]
        assert f.read(1) == CONTENT[:1] and f.raw.tell() == len(CONTENT), "the buffer is as large as it says"
        assert f.read() == CONTENT[1:]


@row("positioned-reads.py", "prefetch-numpy.py", "sort-reads.py")
def small_reads(box):
    source = box.source("")
    with open(source, "rb", buffering=0) as f:
        for offset in (0, 1000, len(CONTENT) - 3):
            f.seek(offset)
            _, names = box.python("prefetch", source, names={"f": f}, framework="numpy")
            _, names = box.python("positioned-reads", source, names={"f": f, "offset": offset, "length": 10})
            assert names["data"] == f.read(10) == CONTENT[offset:offset + 10]
    assert box.python("sort-reads", source, names={"batch": [3, 1, 2]})[1]["batch"] == [1, 2, 3]


@row("hdf5-batch-read.py", "hdf5-batch-write.py", "hdf5-divide.py")
def in_hdf5(box):
    source = box.source("hdf5")
    with h5py.File(source, "a") as f:
        _, names = box.python("batch-reads", source, "hdf5", {"f": f, "i": 8, "batch": 8})
        assert names["x"].tolist() == PLAIN["hdf5"][8:16]
        parts = [box.python("divide-by-rank", source, "hdf5", {"f": f, "rank": r, "world_size": 3}, framework="torch")[1]["mine"]
                 for r in range(3)]
        assert sorted(i for part in parts for i in part) == list(range(N))
        box.python("batch-writes", source, "hdf5", {"d": f["NAME"], "i": 4, "rows": 2, "block": np.full((2, 3), 9)})
        assert f["NAME"][()].tolist() == PLAIN["hdf5"][:4] + [[9, 9, 9]] * 2 + PLAIN["hdf5"][6:]


@row("sqlite-read-only.py")
def queries(box):
    _, names = box.python("sqlite-read-only", box.source("sqlite"))
    assert READ["sqlite"](names["connection"]) == PLAIN["sqlite"]


@row("netcdf-open.py", "netcdf-keep.py", "arrow-open.py", "arrow-parse.py", "parquet-open.py", "parquet-parse.py",
     "parquet-larger.py")
def through_other_libraries(box):
    """The calls are those of the package: with the package itself where it is installed."""
    source = box.source("")

    def opened(path, **options):
        return path, options

    mine = stand_in(box, "netCDF4", Dataset=lambda filename, mode="r", memory=None: memory or open(filename, "rb").read())
    arrow = stand_in(box, "pyarrow.parquet", ParquetFile=lambda source, pre_buffer=False: open(source, "rb").read(),
                     read_table=lambda source: open(source, "rb").read())
    if arrow:
        stand_in(box, "pyarrow.ipc", open_file=lambda source: open(source, "rb").read())
        stand_in(box, "pyarrow.feather", read_table=lambda source: open(source, "rb").read())
    import pyarrow.feather
    import pyarrow.ipc
    import pyarrow.parquet
    sources = {f: source for f in ("netcdf", "arrow", "parquet")}
    plain = CONTENT
    if not mine:
        import netCDF4
        sources["netcdf"] = box.folder / "a.nc"
        with netCDF4.Dataset(sources["netcdf"], "w") as f:
            f.createDimension("n", N)
            f.createVariable("NAME", "i8", ("n",))[:] = np.arange(N)
    if not arrow:
        table = pyarrow.table({"x": list(range(N))})
        sources["arrow"], sources["parquet"] = box.folder / "a.arrow", box.folder / "a.parquet"
        pyarrow.feather.write_feather(table, sources["arrow"], compression="uncompressed")
        pyarrow.parquet.write_table(table, sources["parquet"])

    def numbers(data):
        if isinstance(data, bytes):
            return data
        if hasattr(data, "variables"):
            return data["NAME"][:].tolist()
        return (data.read_all() if hasattr(data, "read_all") else data.read() if hasattr(data, "read") else data)["x"].to_pylist()

    for form in ("netcdf", "arrow", "parquet"):
        plain = CONTENT if sources[form] == source else list(range(N))
        names = {"pyarrow": sys.modules["pyarrow"], "netCDF4": sys.modules["netCDF4"]}
        text = box.text("keep-open", sources[form], form).splitlines()[-1].partition("=")[2]
        assert numbers(run_python(text.strip(), names)) == plain, form
        _, names = box.python("keep-in-memory", sources[form], form)
        assert numbers(names["f" if form == "netcdf" else "table"]) == plain, form
    assert numbers(box.python("larger-reads", sources["parquet"], "parquet")[1]["f"]) == (CONTENT if arrow else list(range(N)))


# ---- readers, ranks ----

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return N

    def __getitem__(self, i):
        return i


@row("more-readers.py", "more-decoders.py", "prefetch.py", "prefetch-pinned.py")
def workers_of_torch(box):
    """The batches of the program, with the arguments that it has."""
    made = functools.partial(torch.utils.data.DataLoader, batch_size=32)
    plain = [b.tolist() for b in made(Numbers())]
    for kind, given in (("more-readers", {}), ("more-decoders", {}), ("prefetch", {}), ("prefetch", {"pinned": 1})):
        loader, _ = box.python(kind, "x", "", {"DataLoader": made, "dataset": Numbers()}, framework="torch", **given)
        with pytest.MonkeyPatch.context() as m:  # without a GPU, torch says that it cannot pin
            m.setattr(loader, "pin_memory", loader.pin_memory and torch.cuda.is_available())
            assert [b.tolist() for b in loader] == plain and loader.num_workers == 3, kind


def counted(seen, ahead):
    """Samples of a dataset that may be larger than memory: only so many are read ahead."""
    for i in range(N):
        assert i - len(seen) <= ahead, (i, len(seen))
        yield -i


@row("more-readers-numpy.py", "more-decoders-numpy.py")
def workers_of_python(box):
    for kind, name in (("more-readers", "read"), ("more-decoders", "decode")):
        text = box.text(kind, "x", framework="numpy").replace("        pass", "        seen.append(result)")
        names = {name: abs, "seen": []}
        names["samples"] = counted(names["seen"], 2 * 3)
        run_python(text, names)
        assert names["seen"] == list(range(N)), kind


@row("more-readers-tf.py", "more-decoders-tf.py", "prefetch-tf.py", "divide-by-rank-tf.py", "tfrecord-readers.py",
     "tfrecord-ahead.py", "tfrecord-divide.py")
def in_tensorflow(box):
    source = box.source("tfrecord")
    names = {"tf": TF, "files": [str(source)], "read": len, "decode": len, "world_size": 3}
    for kind, form in (("more-readers", ""), ("more-decoders", ""), ("prefetch", "")):
        made = box.python(kind, source, form, {**names, "dataset": Records(RECORDS)}, framework="tf")[1]["dataset"]
        assert list(made) == (RECORDS if kind == "prefetch" else list(map(len, RECORDS)))
    for kind in ("more-readers", "prefetch"):
        assert list(box.python(kind, source, "tfrecord", dict(names), framework="tf")[0]) == RECORDS
    for form in ("", "tfrecord"):
        parts = [list(box.python("divide-by-rank", source, form, {**names, "rank": r, "dataset": Records(RECORDS)},
                                 framework="tf")[1]["dataset"]) for r in range(3)]
        assert sorted(sum(parts, []), key=len) == RECORDS


@row("divide-by-rank.py", "divide-by-rank-numpy.py")
def by_rank(box):
    parts = [box.python("divide-by-rank", "x", names={"samples": RECORDS, "rank": r, "ranks": 3}, framework="numpy")[1]["mine"]
             for r in range(3)]
    assert sorted(sum(parts, []), key=len) == RECORDS
    torch.distributed.init_process_group("gloo", init_method=f"file://{box.folder}/meet", rank=0, world_size=1)
    try:
        sampler = box.python("divide-by-rank", "x", names={"dataset": Numbers()}, framework="torch")[1]["sampler"]
    finally:
        torch.distributed.destroy_process_group()
    first = list(sampler)
    sampler.set_epoch(1)
    assert sorted(first) == list(range(N)) and list(sampler) != first


@row("parts-by-rank.py", "exchange-parts.py")
def parts(box):
    """Every byte once, whatever the number of ranks."""
    for size, ranks in ((10, 3), (2, 3), (299, 7), (0, 2)):
        data, got = np.frombuffer(CONTENT[:size], np.uint8), []
        for rank in range(ranks):
            _, names = box.python("parts-by-rank", "x", names={"size": size, "rank": rank, "ranks": ranks})
            got.append(data[names["offset"]:names["end"]])
        assert np.concatenate(got).tolist() == data.tolist()

        class Comm:
            def allgather(self, value):
                return list(map(len, got))

            def Allgatherv(self, sendbuf, recvbuf):
                into, counts = recvbuf
                assert counts == list(map(len, got))
                into[:] = np.concatenate(got)

        whole = np.zeros(size, np.uint8)
        box.python("exchange-parts", "x", names={"comm": Comm(), "part": got[0], "whole": whole})
        assert whole.tolist() == data.tolist()


@row("collective-reads.py", "collective-writes.py", "more-aggregators.py")
def with_mpi4py(box):
    """The calls of MPI.File and MPI.Info."""
    class File:
        def Read_all(self, buf, status=None):
            buf[:] = CONTENT[:len(buf)]

        def Write_at_all(self, offset, buf, status=None):
            wrote[offset] = bytes(buf)

    class Info(dict):
        def Set(self, key, value):
            self[key] = value.upper()  # a str

    buffer, wrote, info = bytearray(100), {}, Info()
    box.python("collective-reads", "x", names={"file": File(), "buffer": buffer})
    box.python("collective-writes", "x", names={"file": File(), "offset": 7, "part": b"part"})
    box.python("more-aggregators", "x", names={"info": info})
    assert bytes(buffer) == CONTENT[:100] and wrote == {7: b"part"} and info == {"cb_nodes": "3"}


# ---- stoker's loaders ----

def seen_in(names, loader, key="data"):
    for batch in loader:
        yield from (bytes(x) for x in batch[key])


@row("use-loader-torch.py", "use-loader-numpy.py", "loop-fields.py", "loop-order.py", "loop-validation.py")
def loaders(box):
    """Every sample once per epoch, as the program had them; the last batch, too."""
    source = box.source("folder")
    for given in ({"framework": "torch"}, {"framework": "numpy"}, {"framework": "numpy", "last": "short"},
                  {"framework": "torch", "last": "short"}):
        text = box.text("use-loader", source, "folder", **given)
        names = {"print": lambda *a: None}
        run_python(text, names)
        batches = [[bytes(x) for x in b["data"]] for b in names["loader"]]
        assert [len(b) for b in batches] == [32, SHORT], given
        seen = sum(batches, [])
        plain = [p.read_bytes() for p in sorted(source.glob("*/*"))]
        assert (seen == plain) == ("last" in given) and sorted(seen) == sorted(plain), given
        assert ("another one in each epoch" in text) == ("last" not in given)


@row("use-loader-torch-images.py", "use-loader-numpy-images.py", "loop-images.py", "loop-labelled.py")
def image_loaders(box):
    source = box.source("image")
    for framework in ("torch", "numpy"):
        for labelled in ({}, {"labelled": 1}):
            names = box.python("use-loader", source, "image", framework=framework, **labelled)[1]
            seen, n = {}, []
            for batch in names["loader"]:
                x, y = batch if labelled else (batch["data"], [None] * len(batch["data"]))
                n.append(len(x))
                for picture, label in zip(x, y):
                    value = float(np.asarray(picture).mean()) * (255 if framework == "torch" else 1)
                    seen[round(value)] = label if label is None else int(label)
            assert n == [32, SHORT] and seen == {i: i % 2 if labelled else None for i in range(N)}, framework


def write_all(folder, names, writes):
    folder.mkdir(parents=True)
    for i, name in enumerate(names):
        writes(folder / name, i)


def of_image(path, i):
    Image.fromarray(np.full((4, 4), i, np.uint8)).save(path)


FILES_OF = {  # format: (suffix, written by, what is read of it)
    "npy": (".npy", lambda p, i: np.save(p, np.full(3, i)), lambda x: int(x[0])),
    "npz": (".npz", lambda p, i: np.savez(p, x=np.full(3, i)), lambda x: int(x["x"][0])),
    "json": (".json", lambda p, i: p.write_text(json.dumps({"i": i})), lambda x: x["i"]),
    "text": (".txt", lambda p, i: p.write_text(f"{i}\n" * (i + 1)), lambda x: int(x.split()[0])),
    "image": (".png", of_image, lambda x: np.asarray(x).flat[0]),
    "audio": (".wav", lambda p, i: p.write_bytes(bytes([i]) * 9), lambda x: x.read()[0]),
}


@row("loop-files.py", "loop-pairs.py", "map-dataset-files.py")
def fields_of_files(box):
    """The fields are there, and what is printed makes objects of what they hold, in every framework."""
    for form, (suffix, writes, value) in FILES_OF.items():
        for labelled in ({}, {"labelled": 1}):
            folder = box.folder / f"{form}{len(labelled)}"
            for c in "ab" if labelled else "a":
                write_all(folder / c if labelled else folder, [f"{i:02}{suffix}" for i in range(4)], writes)
            check_files(box, folder, form, value, lambda y: int(y) in (0, 1), field="data", **labelled)
    fields_of_pairs(box)


def fields_of_pairs(box):
    for other, (field, more) in {"image": ("masks.png", {}), "text": ("txt", {"parsed": 1}),
                                 "json": ("json", {"parsed": 1})}.items():
        suffix, writes, value = FILES_OF[other]
        folder, names = box.folder / other, [f"{i:02}" for i in range(4)]
        write_all(folder / "images", [n + ".png" for n in names], of_image)
        write_all(folder / ("masks" if other == "image" else "labels"), [n + suffix for n in names], writes)
        check_files(box, folder, "image", FILES_OF["image"][2], lambda y: value(y) in range(4), field="png",
                    other=field, of=other, **more)


def check_files(box, folder, form, value, right, **given):
    for framework in ("torch", "numpy"):
        text = box.text("use-loader", folder, form, framework=framework, last="short", **given)
        run_python(text, names := {})
        pairs = zip(names["x"], names["y"]) if "y" in names else [(x, 0) for x in names["x"]]
        got = [(value(x), right(y)) for x, y in pairs]
        assert sorted(set(got)) == [(i, True) for i in range(4)], (text, got)
    data = run_python(text := box.text("map-dataset", folder, form, **given), names := {}) or names["dataset"]
    pairs = [data[i] if "labelled" in given or "other" in given else (data[i], 0) for i in range(len(data))]
    assert {(value(x), right(y)) for x, y in pairs} == {(i, True) for i in range(4)}, text


@row("map-dataset.py", "map-dataset-images.py")
def map_datasets(box):
    data = box.python("map-dataset", box.source("folder", "f"), "folder")[1]["dataset"]
    assert sorted(bytes(data[i]["data"]) for i in range(len(data))) == sorted(RECORDS)
    names = {"transform": lambda image: np.asarray(image)[0, 0, 0]}
    data = box.python("map-dataset", box.source("image", "p"), "image", names)[1]["dataset"]
    assert sorted((int(x), y) for x, y in (data[i] for i in range(N))) == [(i, i % 2) for i in range(N)]


TF_PYTHON = os.environ.get("STOKER_TF_PYTHON", sys.executable)


@row("use-loader-tf.py", "use-loader-tf-images.py")
def tf_loaders(box):
    """In a Python that has TensorFlow."""
    for form in ("folder", "image"):
        text = box.text("use-loader", box.source(form, form), form, framework="tf")
        script = text + "\nprint(sum(len(next(iter(b.values()))) for b in loader))\n"
        done = subprocess.run([TF_PYTHON, "-c", script], env=environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == str(N)


# ---- writing: what a killed program leaves ----

OLD, NEW = b"old" * 20000, b"new" * 30000


def dump(obj, file):
    for at in range(0, len(obj), 8192):
        file.write(obj[at:at + 8192])


@row("local-checkpoint.py", "save-in-background.py", "sync-once.py", "sort-writes.py", "local-scratch.py")
def saves(box):
    """The old file or the new one, whole, at each kill."""
    box.target.mkdir()
    (box.folder / "out").mkdir()
    last = box.folder / "out/last.pt"

    near, aside = box.text("local-checkpoint", last.parent), box.text("local-scratch", last.parent)

    def checkpoint():
        run_python(near, names := {})
        names["save"](NEW, last.name).join()

    def scratch():
        run_python(aside, names := {})
        (pathlib.Path(names["work"]) / last.name).write_bytes(NEW)
        names["keep"](last.name)

    works = [checkpoint, scratch]
    works += [lambda text=box.text(kind, last): run_python(text, {"state": NEW, "data": NEW})
              for kind in ("sync-once", "sort-writes")]
    text = box.text("save-in-background", last)
    works.append(lambda: run_python(text + "stoker._save._running and [s.join() for s in [*stoker._save._running.values()]]\n",
                                    {"state": NEW}))
    for work in works:
        made = whole_or_not(last, work)
        assert made == {OLD, NEW}, work


def whole_or_not(last, work, most=8):
    """What was found after kills."""
    seen = set()

    def clean():
        for p in last.parent.iterdir():
            p.unlink()
        last.write_bytes(OLD)

    clean()
    for n in kills_at_changes(work, clean, most):
        now = last.read_bytes() if last.exists() else None
        assert now in (OLD, NEW), f"torn by a kill at change {n}: {now and len(now)} bytes"
        seen.add(now)
    seen.add(last.read_bytes())
    return seen


@row("whole-lines.py", "keep-writer.py")
def logs(box):
    """Lines that were complete are there."""
    path = box.folder / "train.log"
    counted = mmap.mmap(-1, 8)

    def write(text):
        f = run_python(text, names := {"mode": "a"}) or names["f"]
        for i in range(20):
            f.write(f"epoch {i} ")
            print("loss", i, file=f)
            counted[0] = i + 1

    for kind in ("whole-lines", "keep-writer"):
        check_lines(path, functools.partial(write, box.text(kind, path)), counted)


def check_lines(path, work, counted):
    def clean():
        path.unlink(missing_ok=True)
        counted[0] = 0

    for _ in kills_at_changes(work, clean, 8):
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        assert len(lines) >= counted[0] and lines == [f"epoch {i} loss {i}\n" for i in range(len(lines))]
    assert len(path.read_text().splitlines()) == 20


@row("larger-writes.py")
def large_buffer(box):
    path = box.folder / "result"
    f = box.python("larger-writes", path, names={"mode": "wb"})[1]["f"]
    f.write(CONTENT)
    assert path.stat().st_size == 0
    f.close()
    assert path.read_bytes() == CONTENT


@row("write-archive.py")
def archives(box):
    """What was kept before a kill is there, and what other runs and ranks have kept."""
    out = box.folder / "out"
    out.mkdir()
    text = box.text("write-archive", out)
    counted = mmap.mmap(-1, 8)

    def work():
        counted[0] = 0
        run_python(text, names := {})
        for i in range(10):
            names["keep"](f"{i}", RECORDS[i])
            counted[0] = i + 1

    def clean():
        for p in out.iterdir():
            p.unlink()

    for _ in kills_at_changes(work, clean, 10):
        for path in out.iterdir():
            kept = []
            if path.stat().st_size:
                with tarfile.open(path) as t:
                    try:
                        for m in t:
                            kept.append(t.extractfile(m).read())
                    except tarfile.ReadError:
                        pass  # the one that it was writing
            assert kept[:counted[0]] == RECORDS[:counted[0]]
    work()
    assert len(list(out.iterdir())) == 2, "an earlier run keeps its own"


@row("sqlite-transactions.py")
def transactions(box):
    path = box.folder / "a.db"
    text = box.text("sqlite-transactions", path)

    def clean():
        for p in box.folder.glob("a.db*"):
            p.unlink()
        make_sqlite(path)

    def work():
        run_python(text, {"connection": sqlite3.connect(path), "sql": "INSERT INTO t VALUES (?, ?)",
                          "rows": [(N + i, b"x") for i in range(N)]})

    seen = set()
    for _ in kills_at_changes(work, clean, 8):
        with sqlite3.connect(path) as db:
            seen.add(db.execute("SELECT COUNT(*) FROM t").fetchone()[0])
    assert seen <= {N, 2 * N}


@row("arrow-rewrite.py", "parquet-rewrite.py", "zarr-rewrite.py")
def rewritten(box):
    """A store that a killed rewrite left half done would be read as a whole one, of fewer samples or of zeros."""
    source = box.folder / "from"

    def write_dataset(data, base_dir, *, format):
        os.mkdir(base_dir)
        for p in sorted(data):
            (pathlib.Path(base_dir) / p.name).write_bytes(p.read_bytes())

    class Array(list):
        shape = (N, 3)

        def __getitem__(self, i):
            return list(self) if isinstance(i, slice) else list.__getitem__(self, i)

    def array(data, *, store, chunks):
        assert chunks == (1, 3)
        os.mkdir(store)
        for i, path in enumerate(data):
            (pathlib.Path(store) / str(i)).write_bytes(path.read_bytes())

    if not stand_in(box, "pyarrow.dataset", dataset=lambda s, format=None: list(pathlib.Path(s).iterdir()),
                    write_dataset=write_dataset):
        pytest.skip("stores of real packages are compared by make check-writers, not here")
    stand_in(box, "zarr", open_array=lambda store, mode: Array(pathlib.Path(store).iterdir()), array=array)
    source.mkdir()
    for i in range(4):
        (source / str(i)).write_bytes(RECORDS[i])

    def clean():
        for folder in (box.target, pathlib.Path(f"{box.target}.new")):
            if folder.exists():
                for p in folder.iterdir():
                    p.unlink()
                folder.rmdir()

    for form in ("arrow", "parquet", "zarr"):
        text = box.text("rewrite", source, form)
        for _ in kills_at_changes(lambda: run_python(text, {}), clean, 8):
            assert not box.target.exists() or len(list(box.target.iterdir())) == 4
        assert sorted(p.read_bytes() for p in box.target.iterdir()) == sorted(RECORDS[:4])
        clean()


# ---- C ----

HEAD = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <stoker.h>
#define CHECK(x) do { if (!(x)) { fprintf(stderr, "%d: %s\\n", __LINE__, #x); exit(1); } } while (0)
#define SIZE 300000
static unsigned char content(long i) { return (unsigned char)(i * 7 % 251); }
static void same(const unsigned char *data, long from, long n) { for (long i = 0; i < n; i++) CHECK(data[i] == content(from + i)); }
static int write_state(int fd) { for (int i = 0; i < 30000; i += 3000) { char part[9001]; int n = 0;
    for (int k = 0; k < 3000; k++) n += sprintf(part + n, "new"); CHECK(write(fd, part, n) == n); } return 0; }
static volatile unsigned char *counted;
static void lines(FILE *f) { for (int i = 0; i < 20; i++) { fprintf(f, "epoch %d ", i); fprintf(f, "loss %d\\n", i); *counted = i + 1; } }
static struct stk_err err; static struct stk_save *save; static int rc;
"""
SAVED = ("", "CHECK(rc == 0);")
# Kind, and the program around its code.
IN_C = {
    "keep-mapped.c": ("keep-mapped", "long size = SIZE; unsigned char *data;", "same(data, 0, size);"),
    "keep-stat.c": ("keep-stat", "struct stat found; int fd = open(SOURCE_PATH, O_RDONLY);", "CHECK(found.st_size == SIZE);"),
    "keep-writer.c": ("keep-writer", "", "lines(f);"),
    "larger-reads.c": ("larger-reads", "static unsigned char buffer[4 << 20]; int fd = open(SOURCE_PATH, O_RDONLY); ssize_t n;",
                       "CHECK(n == SIZE); same(buffer, 0, n);"),
    "larger-writes.c": ("larger-writes", 'FILE *stream = fopen(SOURCE_PATH, "w"); struct stat now;',
                        "for (long i = 0; i < SIZE; i++) fputc(content(i), stream);"
                        "CHECK(fstat(fileno(stream), &now) == 0 && now.st_size == 0); CHECK(fclose(stream) == 0);"),
    "stream-buffer.c": ("stream-buffer", 'FILE *stream = fopen(SOURCE_PATH, "r");',
                        "CHECK(fgetc(stream) == content(0) && lseek(fileno(stream), 0, SEEK_CUR) == SIZE);"
                        "for (long i = 1; i < SIZE; i++) CHECK(fgetc(stream) == content(i));"),
    "whole-lines.c": ("whole-lines", 'FILE *stream = fopen(SOURCE_PATH, "a");', "lines(stream);"),
    "more-readers.c": ("more-readers", "unsigned char part[10]; size_t length = 10; off_t offset = 77; int fd = open(SOURCE_PATH, O_RDONLY);",
                       "same(part, 77, 10);"),
    "positioned-reads.c": ("positioned-reads", "unsigned char buffer[10]; size_t length = 10; off_t offset = 5; ssize_t n; "
                           "int fd = open(SOURCE_PATH, O_RDONLY);", "CHECK(n == 10); same(buffer, 5, 10);"),
    "prefetch.c": ("prefetch", "int fd = open(SOURCE_PATH, O_RDONLY); off_t offset = 0;", "CHECK(fd >= 0);"),
    "local-checkpoint.c": ("local-checkpoint", 'char path[4096]; snprintf(path, sizeof path, "%s/last.pt", SOURCE_PATH);',
                           "CHECK(rc == 0);"),
    "save-in-background.c": ("save-in-background", *SAVED),
    "sort-writes.c": ("sort-writes", *SAVED),
    "sync-once.c": ("sync-once", 'char partial[4096]; const char *final = SOURCE_PATH; snprintf(partial, sizeof partial, "%s.new", final);'
                    'FILE *f = fopen(partial, "w"); for (int i = 0; i < 30000; i++) fputs("new", f);', ""),
    "local-scratch.c": ("local-scratch", "char work[4096]; struct stat made;",
                        "CHECK(stat(work, &made) == 0 && S_ISDIR(made.st_mode)); rmdir(work);"),
    "use-loader.c": ("use-loader", "struct stk_dataset *dataset = NULL; struct stk_loader *loader = NULL; struct stk_batch *batch;",
                     'stk_loader_close(loader); stk_dataset_close(dataset); CHECK(rc == 0);'),
}


class Compiled:
    """All of it in one program: `program NAME` runs one, and kills see no more than that."""

    def __init__(self, folder):
        self.folder, self.texts = folder, {}
        for name in ("data", "out/last.pt"):
            (folder / name).parent.mkdir(exist_ok=True)
        (folder / "to").mkdir()
        (folder / "data").write_bytes(CONTENT)
        files_of(folder / "set")
        body, table = "", ""
        for i, (name, (kind, before, after)) in enumerate(IN_C.items()):
            path = self.path(name)
            text = "".join(only("c", printed("test_action", "--render", path, folder / "to", "")[f"{kind} c"]))
            self.texts[name] = text
            if name == "use-loader.c":
                text = text.replace("stk_batch_release(batch);", "{ seen += batch->n; stk_batch_release(batch); }")
                before, after = before + " size_t seen = 0;", after + f" CHECK(seen == {N});"
            body += f"#undef SOURCE_PATH\n#define SOURCE_PATH {json.dumps(str(path))}\n" \
                    f"static void run_{i}(void) {{\n{before}\n{text}\n{after}\n}}\n"
            table += f'    if (strcmp(argv[1], "{name}") == 0) run_{i}();\n'
        (folder / "a.c").write_text(HEAD + body + "int main(int argc, char **argv) {\n"
                                    "    counted = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, open(argv[2], O_RDWR), 0);\n"
                                    + table + "    return argc != 3;\n}\n")
        # With the sanitizers, these must be there first: LD_PRELOAD has them.
        subprocess.run([os.environ.get("CC", "cc"), "-w", f"-I{ROOT / 'include'}", folder / "a.c", "-o", folder / "a",
                        STOKER.parent / "libstoker.so.1", f"-Wl,-rpath,{STOKER.parent}", "-Wl,--allow-shlib-undefined"],
                       check=True, env=plain_environment())
        (folder / "counted").write_bytes(bytes(8))
        self.counted = mmap.mmap(os.open(folder / "counted", os.O_RDWR), 8)

    def path(self, name):
        if name == "use-loader.c":
            return self.folder / "set"
        if name == "local-checkpoint.c":
            return self.folder / "out"
        if name in ("save-in-background.c", "sort-writes.c", "sync-once.c"):
            return self.folder / "out/last.pt"
        return self.folder / {"keep-writer.c": "log1", "whole-lines.c": "log2", "larger-writes.c": "result"}.get(name, "data")

    def argv(self, name):
        return [str(self.folder / "a"), name, str(self.folder / "counted")]

    def run(self, name):
        done = subprocess.run(self.argv(name), capture_output=True, text=True)
        assert done.returncode == 0, (self.texts[name], done.stderr)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return Compiled(tmp_path_factory.mktemp("c"))


def in_c(box, compiled, name):
    box.ran.append(compiled.texts[name])
    argv = compiled.argv(name)
    path = compiled.path(name)
    if path.parent.name == "out" or path.name == "out":
        last = compiled.folder / "out/last.pt"
        assert whole_or_not(last, lambda: os.execv(argv[0], argv)) == {OLD, NEW}
    elif name in ("keep-writer.c", "whole-lines.c"):
        check_lines(path, lambda: os.execv(argv[0], argv), compiled.counted)
    else:
        compiled.run(name)
    if name == "larger-writes.c":
        assert path.read_bytes() == CONTENT


IN_MPI = {"parts-by-rank.c": "parts-by-rank", "exchange-parts.c": "exchange-parts", "collective-reads.c": "collective-reads",
          "collective-writes.c": "collective-writes", "more-aggregators.c": "more-aggregators"}


@row(*IN_MPI)
def with_mpi(box):
    """Three ranks divide a file that they cannot divide evenly, exchange it, and write it together."""
    needs_mpi("openmpi")
    source = box.folder / "data"
    source.write_bytes(CONTENT[:1000])
    text = {kind: box.text(kind, source, language="c") for kind in IN_MPI.values()}
    (box.folder / "m.c").write_text(f"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{{
    MPI_Init(&argc, &argv);
    int rank, ranks, count[8], first[8];
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    MPI_Offset size = 1000, offset, end;
    {text["parts-by-rank"]}
    int n = (int)(end - offset);
    char value[16], part[1000], whole[1000], *buffer = part;
    MPI_Info info;
    MPI_Info_create(&info);
    {text["more-aggregators"]}
    MPI_File file;
    MPI_Status status;
    if (MPI_File_open(comm, argv[1], MPI_MODE_RDONLY, info, &file))
        return 1;
    MPI_File_seek(file, offset, MPI_SEEK_SET);
    {text["collective-reads"]}
    MPI_File_close(&file);
    {text["exchange-parts"]}
    MPI_File_open(comm, argv[2], MPI_MODE_CREATE | MPI_MODE_WRONLY, info, &file);
    {text["collective-writes"]}
    MPI_File_close(&file);
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", argv[2], rank);
    FILE *f = fopen(name, "w");
    fwrite(whole, 1, 1000, f);
    fclose(f);
    return MPI_Finalize();
}}
""")
    subprocess.run(["mpicc.openmpi", "-w", "m.c", "-o", "m"], check=True, env=plain_environment())
    run_ranks("openmpi", 3, box.folder / "m", source, box.folder / "out", env={"LD_PRELOAD": ""})
    for name in ("out", "out.0", "out.1", "out.2"):
        assert (box.folder / name).read_bytes() == CONTENT[:1000], name


# ---- shell ----

@row("pack.sh")
def packs(box):
    def whole(place):
        return sorted(bytes(s["data"]) for s in stoker.Dataset(place)) == sorted(RECORDS)

    in_shell(box, "pack", box.source("folder"), box.target, whole, form="folder", most=3)


def in_shell(box, kind, source, made, whole, form="", most=4, **given):
    """Runs it; killed anywhere, it has left nothing of that name, or all of it, and runs again."""
    argv, env = box.run_shell(box.text(kind, source, form, "shell", **given))

    def work():
        os.chdir(box.folder)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execvpe(argv[0], argv, env)

    def clean():
        subprocess.run(["rm", "-rf", "--", made], check=True)

    assert subprocess.run(argv, env=env, cwd=box.folder).returncode == 0 and whole(made)
    for _ in kills_at_changes(work, clean, most):
        if not made.exists():
            assert subprocess.run(argv, env=env, cwd=box.folder, stdout=subprocess.DEVNULL).returncode == 0
        assert whole(made)


@row("list-once.sh", "pack-environment.sh")
def lists(box):
    source = box.source("folder")
    names = sorted(str(p) for p in source.rglob("*") if p.is_file())
    in_shell(box, "list-once", source, box.folder / "files.txt", lambda made: sorted(made.read_text().splitlines()) == names)
    in_shell(box, "pack-environment", source, box.folder / "environment.tar",
             lambda made: len([m for m in tarfile.open(made) if m.isfile()]) == N)
    assert len(list((box.folder / "environment").rglob("*.bin"))) == N


@row("stage-file.sh", "stage-copy-one.sh", "stage-file-slurm.sh", "stage-files.sh", "stage-copy-many.sh", "hdf5-rewrite.sh")
def copies(box):
    source, box.target = box.source(""), box.folder / "node"
    box.target.mkdir()
    second = box.source("", "second")
    in_shell(box, "stage", source, box.target / source.name, lambda made: made.read_bytes() == CONTENT, file=1)
    in_shell(box, "stage", source, box.target / second.name, lambda made: made.read_bytes() == CONTENT, second=second)
    box.shell("stage", source, file=1, scheduler="slurm")
    assert "sbcast " in box.calls() and (box.target / source.name).read_bytes() == CONTENT
    box.target.joinpath("full").symlink_to("/dev/full")
    for given in ({"file": 1}, {"second": second}, {"file": 1, "scheduler": "slurm"}):
        box.shell("stage", box.folder / "none", rc=1, **given)  # a job does not go on without its data
    box.target = box.folder / "to.h5"
    in_shell(box, "rewrite", box.source("hdf5"), box.target, lambda made: READ["hdf5"](h5py.File(made)) == PLAIN["hdf5"],
             form="hdf5")


@row("stage-listed.sh", "stage-copy.sh", "stage-matching.sh", "stage-copy-found.sh", "stage.sh")
def folders(box):
    source, box.target = box.source("folder"), box.folder / "node"
    (source / "notes.txt").write_text("not read")
    (source / "-rf").write_text("not read")
    read = "import pathlib, sys\nfor p in pathlib.Path(sys.argv[1]).rglob('*.bin'): p.read_bytes()"
    subprocess.run([STOKER, "profile", "-q", "-o", box.folder / "p", "--", "/usr/bin/python3", "-c", read, source], check=True,
                   env=plain_environment(), stdout=subprocess.DEVNULL)
    plain = {str(p.relative_to(source)): p.read_bytes() for p in source.rglob("*.bin")}
    for given in ({"profile": box.folder / "p"}, {"pattern": "*.bin"}, {"profile": box.folder / "p", "scheduler": "slurm"}):
        subprocess.run(["rm", "-rf", box.target], check=True)
        box.shell("stage", source, **given)
        there = box.target / source.name
        assert {str(p.relative_to(there)): p.read_bytes() for p in there.rglob("*") if p.is_file()} == plain, given
    box.shell("stage", source, rc=1, profile=box.folder / "none")
    box.shell("stage", box.folder / "none", rc=1, pattern="*.bin")
    text = box.text("stage", source, language="shell")
    argv, env = box.run_shell(text + 'cat "$DATA"/*/*.bin', STOKER_SCRATCH=str(box.folder / "scratch"))
    (box.folder / "scratch").mkdir()
    assert sorted(subprocess.run(argv, env=env, capture_output=True).stdout) == sorted(b"".join(RECORDS))


@row("warm-up.sh", "show-stripes.sh", "stripe-file.sh", "stripe-new-files.sh", "check-node-slurm.sh", "check-node-pbs.sh",
     "check-node-lsf.sh", "check-node-sge.sh")
def commands(box):
    """What is asked of Lustre and of schedulers."""
    source = box.source("")
    assert box.shell("warm-up", source) == ""
    for kind in ("show-stripes", "stripe-file", "stripe-new-files"):
        box.shell(kind, source)
    for scheduler in ("slurm", "pbs", "lsf", "sge"):
        box.shell("check-node", "node7", scheduler=scheduler)
    assert box.calls().splitlines() == [
        f"lfs getstripe -v {source}", f"lfs migrate -S 4096K -c 3 {source}", f"lfs setstripe -S 4096K -c 3 {source}",
        "scontrol show node node7", "sacct -N node7 -S now-1hour", "pbsnodes node7", "bhosts -l node7", "qhost -h node7 -j"]


# ---- the table ----

def runs():
    for run in dict.fromkeys(ROWS.values()):
        names = [name for name in ROWS if ROWS[name] is run]
        yield pytest.param(run, names, id=names[0], marks=pytest.mark.others if run is tf_loaders else ())


def test_each_file_has_a_row():
    """Code that no test has run would be found broken by the user who pastes it."""
    assert set(FILES) == set(ROWS) | set(IN_C)


@pytest.mark.parametrize("run, names", runs())
def test_code(box, run, names):
    run(box)
    check_ran(box, names)


@pytest.mark.parametrize("name", IN_C)
def test_code_in_c(box, compiled, name):
    in_c(box, compiled, name)
    check_ran(box, [name])


def check_ran(box, names):
    for name in names:
        assert any(is_made_of(text, name) for text in box.ran), f"{name} was not run: {box.ran}"
