"""stoker bench: workloads, the data folder, faults, series of runs, and what is refused."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from benchlib import KIB, STUDY, VIRTUAL, stream
from conftest import LONG, ROOT, STOKER, SANITIZER_ENV, until
from faultlib import change_points, kill_at, ladder, needs_strace, small_disk
from profilelib import profile  # noqa: F401
from slowfslib import slowfs

if "libyaml" in subprocess.run([STOKER, "bench", "bert", "--show-workload"], capture_output=True, text=True).stderr:
    pytest.skip("stoker was built without libyaml", allow_module_level=True)

WORKLOADS = sorted(p.stem for p in (ROOT / "workloads").glob("*.yaml"))


@pytest.fixture
def bench(stoker, tmp_path):
    def run(workload, *args, data=tmp_path / "data", rc=0):
        out = tmp_path / "result.json"
        got = stoker("bench", workload, "--data", data, "--json", out, *VIRTUAL, *args, rc=rc)
        got.result = json.loads(out.read_text())["result"] if rc in (0, 3) and out.exists() else None
        return got
    return run


def write(tmp_path, text, name="w.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


SMALL = """name: t
dataset: {format: tfrecord, files: 6, samples_per_file: 8, record: 1000}
training: {batch: 4, compute: 1ms}
"""


@pytest.mark.parametrize("name", sorted(set(WORKLOADS) - set(STUDY)))
def test_workloads_beside_those_of_the_study(bench, stoker, tmp_path, name):
    """The ten of the study are in test_bench_study.py."""
    bench(name, "--small", "--generate-only")
    four = bench(name, "--small", "--ranks", "4").result
    assert four["ranks_are"] == "forked" and len(four["per_rank"]) == 4 and 0 < four["utilisation"] <= 1
    if name == "imagetext":  # Python's tarfile reads streams in blocks of 10 KiB
        for io in (rank["io"] for rank in four["per_rank"]):
            stream(io, 10 * KIB)
            assert io["opens"] == 1
    else:
        assert four["io"]["requests"] == 0 < four["checkpoint_bytes"] and four["restores"] == 2
    stoker("bench", "--clean", "--data", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_data_is_the_same_every_time_and_can_be_resumed(bench, stoker, tmp_path):
    """A benchmark that is run again must read the same bytes, also after a stopped generation."""
    w = write(tmp_path, SMALL)
    digest = []
    for data in (tmp_path / "a", tmp_path / "b"):
        assert bench(w, "--generate-only", data=data).result == {"generated": 6, "kept": 0}
        digest.append([hashlib.sha1(p.read_bytes()).hexdigest() for p in sorted(data.glob("train/*"))])
    assert digest[0] == digest[1] and len(set(digest[0])) == 6
    data = tmp_path / "b"
    note = data / "stoker-bench.json"
    note.write_text(note.read_text().replace('"complete":true', '"complete":false'))
    sorted(data.glob("train/*"))[3].unlink()
    (data / "train/t-00003-of-00006.tfrecord.partial").write_bytes(b"half")
    assert "--generate resumes" in bench(w, data=data, rc=4).err
    assert bench(w, "--generate-only", data=data).result == {"generated": 1, "kept": 5}
    assert digest[0] == [hashlib.sha1(p.read_bytes()).hexdigest() for p in sorted(data.glob("train/*"))]


def test_clean_removes_only_what_was_generated(bench, stoker, tmp_path):
    """The folder of a project must survive a --clean."""
    w = write(tmp_path, SMALL.replace("files: 6", "files: 6, folders: 2"))
    data = tmp_path / "data"
    bench(w, "--generate-only")
    mine = [data / "thesis.tex", data / "train/photo.jpg", data / "train/00001/x.tfrecord"]
    for path in mine:
        path.write_text("mine")
    assert "removed 6 files" in stoker("bench", "--clean", "--data", data).out
    assert sorted(p for p in data.rglob("*") if p.is_file()) == sorted(mine)
    assert "nothing was removed" in stoker("bench", "--clean", "--data", data, rc=4).err


def test_progress_counts_files(stoker, tmp_path):
    """4,000 files were shown as 4,000 bytes."""
    w, data = write(tmp_path, SMALL), ("--data", tmp_path / "data", "--progress-every", "0")
    assert "generate: 33%, 2 of 6 files" in stoker("bench", w, *data, "--generate-only", "--jobs", 1).err
    assert "remove: 50%, 3 of 6 files" in stoker("bench", *data, "--clean").err


def test_clean_neither_follows_links_nor_makes_folders(bench, stoker, tmp_path):
    """What is behind somebody's link was not generated, whatever its name is."""
    w = write(tmp_path, SMALL.replace("files: 6", "files: 6, folders: 3"))
    data, mine = tmp_path / "data", tmp_path / "mine"
    bench(w, "--generate-only")
    shutil.rmtree(data / "train/00001")
    mine.mkdir()
    (mine / "t-00001-of-00006.tfrecord").write_text("mine")
    (data / "train/00001").symlink_to(mine)
    shutil.rmtree(data / "train/00002")
    assert "removed 2 files" in stoker("bench", "--clean", "--data", data).out
    assert [p.name for p in mine.iterdir()] == ["t-00001-of-00006.tfrecord"]
    assert [p.name for p in (data / "train").iterdir()] == ["00001"]


def test_clean_can_be_stopped(bench, tmp_path):
    """A million files take minutes: Ctrl-C ends it, and the same command removes the rest."""
    bench(write(tmp_path, SMALL), "--generate-only")
    note = tmp_path / "data/stoker-bench.json"
    note.write_text(note.read_text().replace('"dataset.files":6', '"dataset.files":100000000'))
    for path in tmp_path.glob("data/train/*"):
        path.rename(str(path).replace("of-00006", "of-100000000"))
    argv = [STOKER, "bench", "--clean", "--data", tmp_path / "data"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=os.environ | SANITIZER_ENV) as proc:
        try:
            while list(tmp_path.glob("data/train/*")):  # it has begun
                assert proc.poll() is None
            proc.send_signal(signal.SIGINT)
            _, err = proc.communicate(timeout=60)
        finally:
            proc.kill()
    assert (proc.returncode, note.exists()) == (130, True) and "stopped by an interrupt" in err


def test_a_damaged_note_is_named(bench, stoker, tmp_path):
    w, note = write(tmp_path, SMALL), tmp_path / "data/stoker-bench.json"
    bench(w, "--generate-only")
    for text in ("", "{", "[1]"):
        note.write_text(text)
        for got in (bench(w, rc=4), bench(w, "--generate", rc=4), stoker("bench", "--clean", "--data", note.parent, rc=4)):
            assert str(note) in got.err
    assert len(list(tmp_path.glob("data/train/*"))) == 6


def test_folders_of_others_are_refused(bench, tmp_path):
    """A dataset of another workload, or no dataset at all, must not be overwritten or measured."""
    w = write(tmp_path, SMALL)
    data = tmp_path / "data"
    assert "--generate" in bench(w, rc=4).err
    data.mkdir()
    (data / "precious").write_text("x")
    assert "was not made by stoker bench: nothing was written" in bench(w, "--generate", rc=4).err
    assert [p.name for p in data.iterdir()] == ["precious"]
    other = tmp_path / "other"
    bench(w, "--generate-only", data=other)
    assert "dataset.files is 6 there and 7 here" in bench(
        w, "--set", "dataset.files=7", "--generate", data=other, rc=4).err
    assert len(list(other.glob("train/*"))) == 6
    assert "dataset.dims is [] there" in bench(
        w, "--set", "dataset.dims=10,100", data=other, rc=4).err


@pytest.mark.parametrize("change, why", [
    ("dataset.fils=3", "unknown key dataset.fils; did you mean dataset.files?"),
    ("training.batch=1000", "training.batch: 1 rank with 1000 samples per step need more than the 48 samples"),
    ("training.steps=13", "training.steps: 13, but the data gives 12 per epoch with 1 rank"),
    ("training.ranks=7", 'access.sharing: "own" needs a file per rank, and dataset.files is 6 for 7 ranks'),
    ("training.warmup=12", "training.warmup: leaves none of the 12 steps"),
    ("dataset.chunk=4K", "dataset.chunk: only HDF5"),
    ("dataset.compression=gzip", "dataset.compression: only HDF5 and NPZ"),
    ("model.layers=2", "model.layers: neither checkpoint.every nor"),
    ("access.sharing=collective --set access.readers=2", "access.readers: 2 does not divide 1 ranks"),
    ("access.sharing=collective --set reader.load=start", "reader.load: contradicts access.sharing: collective"),
    ("access.sharing=collective --set reader.cache=direct", 'reader.cache: "direct" contradicts access.sharing'),
    ("access.sharing=collective --set dataset.format=hdf5 --set dataset.chunk=100",
     "dataset.chunk: contradicts access.sharing: collective"),
    ("reader.cache=direct --set access.transfer=0", "access.transfer: reader.cache: direct needs a multiple"),
])
def test_contradictions_are_named_before_anything_is_written(bench, tmp_path, change, why):
    assert why in bench(write(tmp_path, SMALL), "--generate", "--set", *change.split(), rc=2).err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("more", ["format: npz", "format: hdf5, chunk: 20000"])
def test_compressed_data_is_half_as_large(bench, tmp_path, more):
    """Compressed samples take fewer bytes from storage than the program asks for."""
    w = write(tmp_path, SMALL.replace("format: tfrecord", more + ", compression: gzip").replace("1000", "10000"))
    io = bench(w, "--generate").result["io"]
    assert io["bytes_asked"] == 48 * 10000
    assert 0.45 < io["bytes_read"] / io["bytes_asked"] < 0.7


def test_the_workloads_that_come_with_stoker(stoker, tmp_path):
    """The names must not have to be looked up in a manual; data of the same name is not in the way."""
    out = tmp_path / "list.json"
    text = stoker("bench", "--list", "--json", out).out
    listed = json.loads(out.read_text())["result"]["workloads"]
    assert [w["name"] for w in listed] == WORKLOADS and all(f"{name} " in text for name in WORKLOADS)
    assert all(w["description"] and w["small_bytes"] <= 20_000_000 for w in listed)
    (tmp_path / "bert").mkdir()
    assert "dataset.samples_per_file" in stoker("bench", "bert", "--show-workload", cwd=tmp_path).out


def test_files_that_are_no_workloads(stoker, tmp_path):
    """All input is hostile: none of it may take memory or time."""
    huge = tmp_path / "huge.yaml"
    with open(huge, "wb") as f:
        f.truncate(1 << 30)
    bomb = write(tmp_path, "a: &a [x,x]\n" + "".join(f"{c}: &{c} [*a,*a]\n" for c in "bcdefgh"), "bomb.yaml")
    deep = write(tmp_path, "{a: " * 10000, "deep.yaml")
    twice = write(tmp_path, SMALL + "dataset: {seed: 4}\n", "twice.yaml")
    tagged = write(tmp_path, "name: t\ndataset: !!python/object:os.system {files: 3}\n", "tagged.yaml")
    for path, why in ((twice, "line 4: dataset was begun in line 2 already"), (tagged, "tags are not supported"), (huge, "the file has 1073741824 bytes, more than expected"), (bomb, "anchors and aliases are not supported"),
                      (deep, "nested more than 8 deep"), (tmp_path, "is a folder")):
        got = stoker("bench", path, "--data", tmp_path / "data", "--generate", rc=(2, 4))
        assert why in got.err, got.err
        assert not (tmp_path / "data").exists()


def test_unknown_workloads(stoker, tmp_path):
    assert "did you mean imagenet?" in stoker("bench", "imagnet", "--data", tmp_path, rc=2).err
    for argv in (["unet3d", "--data", tmp_path], ["imagenet", "--neighbour", "x", "--small", "--generate", "--data",
                                                   tmp_path / "d", "--neighbour-data", tmp_path / "n"]):
        assert "no workload of that name comes with stoker" in stoker("bench", *argv, "--ranks", 1, rc=2).err


def test_samples_that_do_not_divide_end_on_all_ranks(bench, tmp_path):
    """DLIO hangs with 6 or 7 accelerators where 5 and 8 pass: ranks with one step more wait forever."""
    w = write(tmp_path, SMALL.replace("files: 6", "files: 11"))
    bench(w, "--generate-only")
    for ranks in (2, 3, 7):
        per_rank = bench(w, "--ranks", ranks).result["per_rank"]
        assert {r["steps"] for r in per_rank} == {11 // ranks * 2}


def test_a_rank_that_fails_is_named_and_ends_the_others(bench, tmp_path):
    """One bad disk must not hang a job of a thousand ranks."""
    w = write(tmp_path, SMALL)
    bench(w, "--generate-only")
    (tmp_path / "data/train/t-00004-of-00006.tfrecord").unlink()
    got = bench(w, "--ranks", 6, rc=3)
    assert got.result["lost_rank"] == 4
    assert "rank 4 was lost" in got.out and "t-00004-of-00006.tfrecord" in got.out


@pytest.mark.parametrize("victim", ["a rank", "a rank that is stopped", "the first"])
def test_a_rank_that_is_killed_is_named_and_ends_the_others(stoker, tmp_path, victim):
    """The node of one rank goes down: the rest must not wait until the job's time limit, nor leave what they showed."""
    w = write(tmp_path, SMALL + "reader: {load: never}\n")
    data = ("--data", tmp_path / "data", "--set", "training.steps=100000", "--set", "training.compute=20ms")
    stoker("bench", w, *data, "--generate-only")
    argv = [STOKER, "bench", w, *data, "--ranks", "3", "--no-calibration", "--patience", "2s"]
    status = tmp_path / "data/stoker-bench.status"
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=os.environ | SANITIZER_ENV | {"ASAN_OPTIONS": "detect_leaks=0"}) as proc:
        children = pathlib.Path(f"/proc/{proc.pid}/task/{proc.pid}/children")
        try:
            while True:
                assert proc.poll() is None
                pids = children.read_text().split()
                # Two threads: the ranks know each other, and one watches the others. Each shows itself.
                if len(pids) == 2 and len(os.listdir(f"/proc/{pids[1]}/task")) > 1 and (status / "rank-00002.json").exists():
                    break
                time.sleep(0.01)
            os.kill(proc.pid if victim == "the first" else int(pids[1]),
                    signal.SIGSTOP if victim == "a rank that is stopped" else signal.SIGKILL)
            out, err = proc.communicate(timeout=60)
        finally:
            proc.kill()
    if victim != "the first":
        assert proc.returncode == 3 and "rank 2 was lost" in out, err
    if victim == "a rank that is stopped":  # as soon as --patience allows, not after eight seconds
        assert re.search(r"no sign of life for [2-7] s: its process is stopped", out)
    until(lambda: not status.exists())


@pytest.mark.parametrize("ranks, shown", [(1, 0), (2, 2), (11, 8)])
def test_each_rank_is_shown(bench, tmp_path, ranks, shown):
    """Who reads JSON for the numbers of the second node?"""
    w = write(tmp_path, SMALL.replace("files: 6", "files: 11"))
    out = bench(w, "--generate", "--ranks", ranks).out
    rows = re.findall(r"^ *(\d+)  \S+ +[\d.]+ %.*B +\d+ ", out, re.M)
    assert len(rows) == shown and ("--json has all ranks" in out) == (ranks == 11), out


def test_stokers_own_reader(bench, stoker, tmp_path):
    """The difference between the two readers is the point of the benchmark."""
    w = write(tmp_path, SMALL)
    data = tmp_path / "data"
    bench(w, "--generate-only")
    out = tmp_path / "own.json"
    stoker("bench", w, "--data", data, "--ranks", 2, "--reader", "stoker", "--json", out)
    result = json.loads(out.read_text())["result"]
    assert result["reader"] == "stoker"
    assert result["io"]["samples"] >= 2 * 6 * 4
    assert result["calibration"]["steps"] > 0
    stoker("bench", "--clean", "--data", data)
    assert not data.exists()


def test_stokers_own_reader_evaluates(stoker, tmp_path):
    """What the loader cannot say is null, not zero."""
    w, out = write(tmp_path, SMALL.replace("files: 6", "files: 6, eval_files: 2")), tmp_path / "own.json"
    got = stoker("bench", w, "--data", tmp_path / "data", "--generate", "--ranks", 2, "--reader", "stoker", "--json", out,
                 "--set", "training.epochs=2", "--set", "training.eval_every=1", "--no-calibration")
    result = json.loads(out.read_text())["result"]
    assert [r["evaluation_steps"] for r in result["per_rank"]] == [2 * 2] * 2
    assert result["io"]["samples"] >= 2 * (48 + 16) and result["io"]["requests"] > 0
    assert result["io"]["latency"] is result["io"]["request_sizes"] is result["io"]["consecutive"] is None
    assert "stoker's loader counts requests only" in got.out
    stoker("bench", "--clean", "--data", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_stokers_own_reader_on_virtual_storage(stoker, tmp_path):
    """A gain that the model promises of the loader is compared with one that depends on who else is on the machine."""
    w = write(tmp_path, SMALL)
    stoker("bench", w, "--data", tmp_path / "data", "--generate-only")

    def run(*options):
        result = stoker("bench", w, "--data", tmp_path / "data", "--reader", "stoker", "--virtual-storage", "10M,1ms,shared",
                        "--json", "-", "--no-calibration", *options).json()["result"]
        del result["memory_bytes"]
        return result, result["measured_seconds"], result["io"]["bytes_read"]
    result, took, size = run()
    # A window of it, here all, comes before the first step: at 10 MiB/s, and 2 GB/s for memory that is new.
    assert 48 * 1000 < size < 60000 and abs(took - (size / (10 << 20) + size / 2e9 + 12 * 1e-3)) < 1e-9
    assert result["io"]["requests"] > 0 and run()[1:] == (took, size)
    assert abs(run("--set", "training.epochs=3")[1] - (took + 24 * 1e-3)) < 1e-9  # the rest is read meanwhile
    slow = run("--set", "training.compute=0", "--set", "training.epochs=3")
    assert abs(slow[1] - 3 * size / (10 << 20)) < 1e-9 and slow[2] == size  # its requests are those of one epoch
    two = run("--ranks", 2)  # each reads its half beside the other
    assert abs(two[1] - (size / (10 << 20) + size / 2 / 2e9 + 6 * 1e-3)) < 1e-3


def test_stokers_own_reader_loads_once(stoker, tmp_path):
    """A job that keeps its data in memory reads it once, whoever reads, however many epochs it has."""
    w, out = write(tmp_path, SMALL), tmp_path / "own.json"
    stoker("bench", w, "--data", tmp_path / "data", "--generate", "--ranks", 2, "--reader", "stoker", "--json", out,
           "--set", "reader.load=start", "--set", "access.sharing=shared", "--set", "access.offsets=same",
           "--set", "training.epochs=3", "--no-calibration")
    result = json.loads(out.read_text())["result"]
    assert [r["io"]["samples"] for r in result["per_rank"]] == [48, 48]
    assert all(r["load_seconds"] > 0 and r["wait_seconds"] == 0 for r in result["per_rank"])


STREAM = """
name: stream
dataset: {{format: replay, path: "{data}", samples_per_file: 100, record: 1000}}
files:
  1: {{path: a.bin, count: 1, size: 100000, per: 100, opens: 1, requests: 25, bytes: 100000, hold: yes}}
reader: {{threads: 1, think: 1ms, think_as: sleep, load: {load}}}
training: {{batch: 10, epochs: 2}}
"""


@pytest.mark.parametrize("load,passes,decoded", [("step", 2, 2), ("start", 1, 1), ("stored", 1, 2)])
def test_data_is_read_once_and_decoded_as_often(stoker, tmp_path, load, passes, decoded):
    """Data in memory seems to cost nothing if what is read and decoded for it is left out."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.bin").write_bytes(bytes(100000))
    w = write(tmp_path, STREAM.format(data=tmp_path / "data", load=load))
    out = stoker("bench", w, "--no-calibration", "--json", "-").json()["result"]
    assert out["io"]["requests"] == 25 * passes and out["io"]["bytes_read"] == 100000 * passes
    rank = out["per_rank"][0]
    assert rank["elapsed_seconds"] + rank["load_seconds"] >= 0.1 * decoded


def test_stokers_own_reader_with_an_index(profile, stoker, tmp_path):  # noqa: F811
    """A run that lists all files again measures that, and not the loader."""
    data, index = tmp_path / "data", tmp_path / "kept.stkidx"
    for i in range(20):
        (data / f"c{i % 2}").mkdir(parents=True, exist_ok=True)
        (data / f"c{i % 2}" / f"{i}.bin").write_bytes(bytes(500))
    w = write(tmp_path, f"""
name: files
dataset: {{format: replay, path: "{data}", files: 20, record: 500}}
files:
  1: {{path: ".", count: 20, size: 500, per: 20, opens: 20, requests: 20, bytes: 10000}}
training: {{batch: 4, epochs: 1}}
""")
    stoker("inspect", data, "--index", index)
    p = profile([STOKER, "bench", w, "--reader", "stoker", "--no-calibration", "--set", f"reader.index={index}"])
    assert p.rc == 0 and p.count(index, "reads") > 0
    assert sorted(x.name for x in tmp_path.glob("*.stkidx")) == ["kept.stkidx"]


@pytest.mark.parametrize("samples,share,given", [(40, 1, 300), (900, 1, 300), (40, 0.1, 40)])
def test_stokers_own_reader_reads_as_much(stoker, tmp_path, samples, share, given):
    """Requests of a profile are not samples: a loader that reads a part of what the program reads seems to be faster."""
    data, w, out = tmp_path / "data", tmp_path / "w.yaml", tmp_path / "result.json"
    data.mkdir()
    (data / "t.jsonl").write_text("".join(f'{{"n": {i:6}, "text": "{"x" * 80}"}}\n' for i in range(300)))
    size = (data / "t.jsonl").stat().st_size
    w.write_text(f"""
name: stream
dataset: {{format: replay, path: "{data}", samples_per_file: {samples}, record: {int(size * share) // samples}}}
files:
  1: {{path: t.jsonl, count: 1, size: {size}, per: {samples}, opens: 1, requests: {samples}, bytes: {int(size * share)}}}
training: {{batch: 10, epochs: 1, last: keep}}
""")
    stoker("bench", w, "--reader", "stoker", "--no-calibration", "--json", out)
    assert abs(json.loads(out.read_text())["result"]["io"]["samples"] - given) <= 0.2 * given


def test_memory_is_steady(bench, tmp_path):
    """A job reads billions of samples: nothing may be kept for each of them. 10^5 against 2 * 10^6, or 10^7."""
    steps = 10000 if LONG else 2000
    w = write(tmp_path, """name: t
dataset: {format: tfrecord, files: 1, samples_per_file: 1000, record: 20}
training: {batch: 1000, scaling: weak, compute: 1ms, steps: 100}
""")
    bench(w, "--generate-only")
    few, many = (bench(w, "--set", f"training.steps={n}").result for n in (100, steps))
    assert many["io"]["samples"] == 1000 * steps == few["io"]["samples"] * steps / 100
    assert many["memory_bytes"] < few["memory_bytes"] + (1 << 20)


DLIO = """# as DLIO's own files are written
model:
  name: unet3d
  model_size: 2000
framework: pytorch
workflow:
  generate_data: False
  train: True
  checkpoint: True
dataset:
  data_folder: data/unet3d/
  format: npz
  num_files_train: 24
  num_samples_per_file: 1
  record_length_bytes: 14660.28
  record_length_bytes_stdev: 683
  record_length_bytes_resize: 2097152
reader:
  data_loader: pytorch
  batch_size: 3
  read_threads: 2
  file_shuffle: seed
  sample_shuffle: seed
train:
  epochs: 5
  computation_time: 0.0323
checkpoint:
  checkpoint_folder: checkpoints/unet3d
  checkpoint_after_epoch: 3
  epochs_between_checkpoints: 2
metric:
  au: 0.90
"""


def test_a_file_of_dlio_runs_unchanged(stoker, tmp_path):
    """MLPerf Storage's workloads are what storage is bought by."""
    path, out = write(tmp_path, DLIO, "unet3d.yaml"), tmp_path / "out.json"
    got = stoker("bench", "--dlio", path, "++workload.workflow.generate_data=True", "workload.reader.batch_size=2",
                 "--ranks", 2, "--json", out, *VIRTUAL, cwd=tmp_path)
    result = json.loads(out.read_text())["result"]
    assert (tmp_path / "data/unet3d/train").is_dir()  # dataset.data_folder
    assert result["workload"]["dataset.record"] == "normal(14660, 683)"
    assert result["workload"]["access.shuffle"] == "both"
    assert [r["steps"] for r in result["per_rank"]] == [5 * 24 // 2 // 2] * 2
    assert result["checkpoints"] == 2 and result["checkpoint_bytes"] == 4000  # after epochs 3 and 5
    assert result["io"]["opens"] == 5 * 24
    assert result["dlio_au_met"] is True and "metric.au 90 % of the file: met" in got.out
    assert result["workload"]["checkpoint.dir"] == "checkpoints/unet3d"
    assert (tmp_path / "checkpoints/unet3d").is_dir() and not list((tmp_path / "checkpoints/unet3d").iterdir())
    assert "dataset.record_length_bytes_resize" in result["dlio_keys_without_effect"]


LLAMA = """model:
  name: llama
  num_layers: 2
  parallelism: {tensor: 1, pipeline: 1, zero_stage: 3}
  transformer: {hidden_size: 64, ffn_hidden_size: 128, vocab_size: 256, num_attention_heads: 4, num_kv_heads: 2}
framework: pytorch
workflow: {generate_data: False, train: False, checkpoint: True}
checkpoint: {checkpoint_folder: c, time_between_checkpoints: 5, num_checkpoints_write: 4, num_checkpoints_read: 3, fsync: True}
"""


def test_checkpoints_of_a_large_model_of_dlio(stoker, tmp_path):
    """MLPerf Storage's checkpoints: only written and read, by all ranks."""
    path, out = write(tmp_path, LLAMA, "llama.yaml"), tmp_path / "out.json"
    stoker("bench", "--dlio", path, "--ranks", 4, "--json", out, *VIRTUAL, cwd=tmp_path)
    assert not list((tmp_path / "c").iterdir())  # checkpoint.checkpoint_folder: nothing else is needed
    result = json.loads(out.read_text())["result"]
    kv = 64 // 4 * 2
    parameters = 2 * 256 * 64 + 2 * (2 * 64 + 64 * (64 + 2 * kv) + 64 * 64 + 3 * 64 * 128) + 64
    assert result["checkpoints"] == 4 and result["restores"] == 3
    assert abs(result["checkpoint_bytes"] - 4 * 14 * parameters) < 100
    assert result["restore_bytes"] * 4 == result["checkpoint_bytes"] * 3


def test_evaluation_of_dlio(stoker, tmp_path):
    """Reading the other files is part of the job's I/O."""
    text = DLIO.replace("  checkpoint: True", "  evaluation: True").replace("num_files_train: 24",
                        "num_files_train: 24\n  num_files_eval: 12") + "evaluation:\n  eval_time: 0.01\n"
    path, data, out = write(tmp_path, text, "unet3d.yaml"), tmp_path / "d", tmp_path / "out.json"
    stoker("bench", "--dlio", path, "--data", data, "--generate", "--ranks", 2, "--json", out, *VIRTUAL)
    result = json.loads(out.read_text())["result"]
    assert [r["evaluation_steps"] for r in result["per_rank"]] == [5 * 6] * 2  # one sample each, DLIO's default
    assert result["io"]["opens"] == 5 * (24 + 12)
    assert len(list(data.glob("eval/*.npz"))) == 12
    stoker("bench", "--clean", "--data", data)
    assert not data.exists()


@pytest.mark.parametrize("old, new, why", [
    ("format: npz", "format: parquet", 'dataset.format: "parquet" is not replayed here, only: tfrecord'),
    ("train: True\n  checkpoint: True", "train: False", 'workflow.train: "False" leaves nothing to run'),
    ("  epochs: 5", "  epochs: 5\n  epohcs: 5", "line 26: train.epohcs: this key of DLIO is not replayed here; did you"),
    ("  read_threads: 2", "  read_threads: two", "line 21: reader.read_threads: reader.threads:"),
])
def test_keys_of_dlio_are_honoured_or_refused_by_name(stoker, tmp_path, old, new, why):
    path = write(tmp_path, DLIO.replace(old, new), "unet3d.yaml")
    assert why in stoker("bench", "--dlio", path, "--data", tmp_path / "d", "--generate", rc=4).err
    assert not (tmp_path / "d").exists()


SHARED = """name: t
dataset: {format: tfrecord, files: 16, samples_per_file: 40, record: 984}
access: {transfer: 10000}
training: {batch: 10, scaling: weak, steps: 20, compute: 100ms}
"""


def test_the_most_accelerators_are_found(stoker, tmp_path):
    """A batch of 10 kB per 100 ms and rank at 1 MB/s: ten ranks are fed, eleven are not."""
    w, out = write(tmp_path, SHARED), tmp_path / "out.json"
    got = stoker("bench", w, "--data", tmp_path / "d", "--generate", "--find-max", "--au", "95", "--json", out,
                 "--ranks", 12, "--virtual-storage", "1000kB,0,shared")
    result = json.loads(out.read_text())["result"]
    assert result["most_ranks"] == 10
    assert "10 accelerators stay busy for at least 95 % of the time" in " ".join(got.out.split())
    assert {p["ranks"] for p in result["points"]} == {1, 2, 4, 8, 12, 10, 11}


FEW = """name: t
dataset: {format: files, files: 64, samples_per_file: 1, record: 128K}
reader: {threads: 2, prefetch: 2}
training: {batch: 4, compute: 125ms}
"""


def test_too_few_steps_judge_nothing(stoker, tmp_path):
    """Of two steps the first does not count and the second was read ahead: eight ranks that each need a quarter of
    the storage would stay busy."""
    w, out = write(tmp_path, FEW), tmp_path / "out.json"
    options = "bench", w, "--data", tmp_path / "d", "--find-max", "--au", "90", "--json", out
    got = stoker(*options, "--generate", "--ranks", 8, "--virtual-storage", "16MB,0,shared")
    result = json.loads(out.read_text())["result"]
    assert result["most_ranks"] == 4 and result["ranks_not_judged"] is None
    shares = {p["ranks"]: p["utilisation_mlperf"] for p in result["points"]}
    assert shares[4] > 0.9 > shares[5] and "as MLPerf" in got.out.splitlines()[0]
    # Another epoch would find the data in the page cache.
    got = stoker(*options, "--set", "training.batch=8")
    result = json.loads(out.read_text())["result"]
    assert (result["points"], result["most_ranks"], result["ranks_not_judged"]) == ([], 0, 1)
    assert "Not known how many accelerators stay busy: with 1 accelerator, the data has 8 steps for each, and 11 are needed" in " ".join(got.out.split())


def test_a_sweep_says_where_the_job_turns(stoker, tmp_path):
    """Streaming against processing: a thread reads a batch in 300 ms, a step computes 100 ms."""
    w, out = write(tmp_path, SHARED), tmp_path / "out.json"
    got = stoker("bench", w, "--data", tmp_path / "d", "--generate", "--sweep", "reader.threads=1,2,3,4", "--json", out,
                 "--set", "reader.prefetch=8", "--set", "training.warmup=10", "--virtual-storage", "33333,0")
    points = json.loads(out.read_text())["result"]["points"]
    assert [round(p["utilisation"], 2) for p in points] == [0.33, 0.67, 1.0, 1.0]
    assert "turns from I/O-bound to compute-bound at reader.threads=3." in " ".join(got.out.split())
    for key in ("dataset.files", "samples_per_file"):
        assert f"{key}: a sweep reads the same data" in stoker(
            "bench", w, "--data", tmp_path / "d", "--sweep", f"{key}=1,2", rc=2).err


def test_the_last_word_of_a_key_is_enough(stoker, tmp_path):
    """`--sweep prefetch=1,2` says all there is to say; a word that several keys end in does not."""
    shown = stoker("bench", "imagenet", "--show-workload", "--set", "prefetch=7", "--set", "batch=9", "--json", "-").json()
    assert shown["result"]["reader.prefetch"] == 7 and shown["result"]["training.batch"] == 9
    for word in ("files", "every_", "path"):
        assert f"unknown key {word}" in stoker("bench", "imagenet", "--show-workload", "--set", f"{word}=3", rc=2).err
    w = write(tmp_path, SMALL + "prefetch: 3\n")
    assert "line 4: unknown key prefetch" in stoker("bench", w, "--show-workload", rc=2).err


def test_with_a_neighbour(bench, stoker, tmp_path):
    """On a shared file system the other jobs decide; none of their processes may stay behind."""
    got = bench(write(tmp_path, SMALL), "--generate", "--neighbour", "frnn", "--small", "--neighbour-data",
                tmp_path / "other", "--ranks", "2")
    assert [p["run"] for p in got.result["points"]] == ["alone", "with frnn"]
    assert "With frnn beside it, the job computes" in " ".join(got.out.split())
    assert not subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True).stdout
    bad = stoker("bench", tmp_path / "w.yaml", "--data", tmp_path / "data", "--neighbour", "frnn", *VIRTUAL, rc=2)
    assert "--neighbour needs --neighbour-data DIR" in bad.err


def test_results_side_by_side(bench, stoker, tmp_path):
    w = write(tmp_path, SMALL)
    bench(w, "--generate")
    (tmp_path / "result.json").rename(tmp_path / "a.json")
    bench(w, "--set", "training.batch=2")
    text = stoker("bench", "--compare", tmp_path / "a.json", tmp_path / "result.json").out
    assert "training.batch is 4, and 2 in" in text and "result.json" in text and "utilisation" in text
    # A result of last year must not look like one of another workload, because it wrote 0 for 0.0.
    old = json.loads((tmp_path / "a.json").read_text())
    old["result"]["workload"] = {k: int(v) if isinstance(v, float) and v == int(v) else v
                                 for k, v in old["result"]["workload"].items()}
    (tmp_path / "b.json").write_text(json.dumps(old))
    assert "differs" not in stoker("bench", "--compare", tmp_path / "a.json", tmp_path / "b.json").out
    (tmp_path / "b.json").write_text('{"result": {}}')
    assert "is not the result of a run" in stoker(
        "bench", "--compare", tmp_path / "a.json", tmp_path / "b.json", rc=4).err


# The leak checker stops all threads, and waits for the one that hangs.
NO_LEAKS = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", SANITIZER_ENV["ASAN_OPTIONS"]) + ":detect_leaks=0"}


@pytest.mark.parametrize("rule, more", [
    ("stoker-bench.json", []), ("*.tfrecord", []), ("*.tfrecord", ["--reader", "stoker"]),
    ("*.tfrecord", ["--set", "reader.load=start"]), ("*.tfrecord", ["--set", "access.sharing=collective"]),
])
def test_storage_that_hangs_ends_the_run(stoker, tmp_path, rule, more):
    """A mount whose server is gone blocks every call: the job must not wait for its time limit."""
    w = write(tmp_path, SMALL)
    stoker("bench", w, "--data", tmp_path / "src/data", "--generate-only")
    with slowfs(tmp_path / "src", tmp_path / "mnt") as fs:
        fs.command(f"stall {rule} 3600s")
        got = stoker("bench", w, "--data", tmp_path / "mnt/data", "--patience", "1s", "--no-calibration", *more, rc=4,
                     env=NO_LEAKS)
        fs.command("clear")
    assert "the storage hangs (--patience)" in got.err


@needs_strace
def test_killed_while_it_wrote_its_note(stoker, tmp_path):
    """What it left would make the same command refuse its own folder, and --clean would leave it."""
    w, data = write(tmp_path, SMALL), tmp_path / "data"
    args = ["bench", w, "--data", data, "--generate-only", "--jobs", "1"]
    notes = [p for p in change_points(*args, tmp=tmp_path) if p[0].startswith("rename")]
    for clean in (False, True):
        for point in notes[0], notes[-1]:  # the first note, and that all files are there
            shutil.rmtree(data)
            assert kill_at(point, *args) and list(data.glob("stoker-bench.json.partial.*"))
            if not clean:
                stoker(*args)
                assert sorted(p.name for p in data.iterdir()) == ["stoker-bench.json", "train"]
            stoker("bench", "--clean", "--data", data)
            assert not data.exists()
            data.mkdir()
    theirs = data / "stoker-bench.json.partial.mine"
    theirs.write_text("")
    stoker(*args, rc=4)
    stoker("bench", "--clean", "--data", data, rc=4)
    assert theirs.exists()


SAVING = SMALL + "checkpoint: {every: 3, files: [1K, 70K]}\n"


@needs_strace
@pytest.mark.parametrize("more", [["--reader", "stoker"], ["--ranks", "2", "checkpoint.ranks=all"],
                                  ["checkpoint.dir=SAVED"]], ids=["loader", "ranks", "dir"])
def test_killed_at_twenty_moments(stoker, tmp_path, more):
    """The same command works afterwards; --clean left the checkpoints of killed runs."""
    w, data = write(tmp_path, SAVING), tmp_path / "data"
    saved = tmp_path / "saved"
    saved.mkdir()
    args = ["bench", w, "--data", data, "--generate", "--jobs", "1", *(m.replace("SAVED", str(saved)) for m in more)]
    points = change_points(*args, tmp=tmp_path)
    for i, point in enumerate(ladder(points, 20 if more[0] == "--reader" else 7)):
        if data.exists():
            stoker("bench", "--clean", "--data", data)
        assert not data.exists() and not list(saved.iterdir()), (i, point)
        kill_at(point, *args)
        if i % 2:
            stoker(*args)
            assert not [p for p in tmp_path.rglob("*") if re.search("partial|ckpt|status", p.name)], point
    stoker(*args)
    theirs, left = data / "checkpoint/rank1.ckpt", data / "checkpoint/rank00017-01.ckpt"
    theirs.parent.mkdir()
    theirs.write_text("")
    left.write_text("")  # of a run with more ranks
    assert "data/checkpoint stays there" in stoker("bench", "--clean", "--data", data).out
    assert theirs.exists() and not left.exists()


def test_a_checkpoint_that_fills_the_disk(stoker, tmp_path):
    """The hint was that --generate resumes, which generates nothing."""
    place = tmp_path / "disk"
    w = write(tmp_path, SAVING.replace("70K", "4M"))
    with small_disk(place, "1m"):
        stoker("bench", w, "--data", place / "data", "--generate-only")
        for more in [], ["--generate"], ["--ranks", 2, "checkpoint.interface=stdio"]:
            got = stoker("bench", w, "--data", place / "data", *more, rc=4)
            assert "checkpoint/rank00000-01.ckpt: write: No space left" in got.err and got.err.endswith("free some space\n")
            assert not (place / "data/checkpoint").exists()


@pytest.mark.parametrize("fmt", ["tfrecord", "hdf5"])
def test_full_disk_is_named_and_generation_resumes(stoker, tmp_path, fmt):
    """A dataset of terabytes is not generated again because the quota was a little too small."""
    w = write(tmp_path, SMALL.replace("tfrecord", fmt).replace("1000", "20000"))
    place = tmp_path / "disk"
    argv = ("bench", w, "--data", place / "data", "--generate-only", "--jobs", 1)
    with small_disk(place, "640k") as disk:
        got = stoker(*argv, rc=4)
        assert "t-0000" in got.err and ("No space left" in got.err or "is the disk full?" in got.err)
        assert not list(place.rglob("*.partial"))
        disk.resize("8m")
        out = stoker(*argv).out
        assert re.fullmatch(r"[1-5] files generated, [1-5] were there\n", out)
