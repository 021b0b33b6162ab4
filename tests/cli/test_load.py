"""stoker load: which samples come, in which order, on which rank, what becomes of bad ones, and how
they were read."""

import json
import re
import shutil
import signal
import struct
import subprocess
import tarfile
import time

import pytest

import formatlib
from conftest import LONG, PATIENCE_S, STOKER, clean_env, flip_byte, make_images
from faultlib import needs_strace, traced_env
from tfrecordlib import frame, make_example, messages, records

CLASSES, PER_CLASS = 5, 21
N = CLASSES * PER_CLASS  # 105: divides evenly by no batch size and number of ranks used here


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """(a packed dataset of 105 samples in three shards, what is in it as (name, bytes))."""
    work = tmp_path_factory.mktemp("data")
    files = make_images(work / "images", CLASSES, PER_CLASS, sizes=(200, 4000))
    subprocess.run([STOKER, "pack", work / "images", work / "packed", "--shards", "3", "--quiet"],
                   check=True, env=clean_env())
    return work / "packed", sorted(files.items())


class Given:
    """What --ids says of a run: batches as lists of samples, in order."""

    def __init__(self, text, result=None):
        self.lines = [line.split() for line in text.splitlines()]
        self.samples = [int(line[2]) for line in self.lines]
        self.flags = [int(line[3]) for line in self.lines]
        self.hashes = [line[4] for line in self.lines if len(line) > 4]
        self.result = result
        self.batches = {}
        for epoch, step, sample, *_ in self.lines:
            self.batches.setdefault((int(epoch), int(step)), []).append(int(sample))

    def fresh(self):
        """Those that are not repeats."""
        return [s for s, f in zip(self.samples, self.flags) if not f & 1]

    @property
    def sizes(self):
        return [len(b) for b in self.batches.values()]


@pytest.fixture
def load(stoker, tmp_path):
    """load(path, *args, rc=0) -> Given, with the JSON result in .json."""
    def run(path, *args, rc=0, **kw):
        result = stoker("load", path, "--ids", tmp_path / "ids", "--json", "-", *args, rc=rc, **kw)
        given = Given((tmp_path / "ids").read_text(), result)
        given.json = result.json()
        return given
    return run


# ---- order ---------------------------------------------------------------------------------


def test_as_stored(load, data):
    """Without a shuffle the samples come as they are stored: evaluation scripts rely on it."""
    given = load(data[0], "--shuffle", "none", "--last", "short", "--batch", "10")
    assert given.samples == list(range(N)) and given.sizes == [10] * 10 + [5]
    assert list(given.batches) == [(0, i) for i in range(11)]


@pytest.mark.parametrize("how", [["--shuffle", "global"], ["--shuffle", "block"],
                                 ["--block", "8K", "--window", "40K"]])
def test_shuffles_are_permutations(load, data, how):
    """A shuffle that loses or repeats samples trains on another dataset."""
    given = load(data[0], *how, "--last", "short")
    assert sorted(given.samples) == list(range(N)) and given.samples != list(range(N))
    assert set(given.flags) == {0}


@pytest.mark.parametrize("how", ["global", "block"])
def test_order_depends_on_seed_and_epoch_alone(load, data, how):
    """Results cannot be reproduced when the order depends on the machine."""
    args = ["--shuffle", how, "--last", "short", "--block", "8K", "--window", "40K"]
    want = load(data[0], *args, "--seed", "7").samples
    for other in (["--threads", "1"], ["--threads", "5"], ["--io", "mmap"], ["--io", "direct"],
                  ["--io", "uring"], ["--io", "threads", "--depth", "1"], ["--memory", "1M"],
                  ["--read-size", "64K"], ["--batch", "1"], ["--batch", "1000"], ["--no-check"],
                  ["--consume", "none"], ["--fields", "label"], ["--decode", "raw"]):
        assert load(data[0], *args, "--seed", "7", *other).samples == want, other
    assert load(data[0], *args, "--seed", "8").samples != want
    assert load(data[0], *args, "--seed", "7", "--epoch", "1").samples != want


def test_epochs_follow_each_other(load, data):
    """The second epoch of a run is the epoch 1 that a run beginning there has."""
    both = load(data[0], "--epochs", "2", "--batch", "10")
    assert [e["epoch"] for e in both.json["result"]["epochs"]] == [0, 1]
    first, second = (load(data[0], "--epoch", e, "--batch", "10") for e in "01")
    assert both.samples == first.samples + second.samples and first.samples != second.samples
    assert set(both.batches) == set(first.batches) | set(second.batches)


def test_steps_limit_a_run(load, data):
    """A quick look at a dataset of a day's length."""
    given = load(data[0], "--steps", "13", "--epochs", "9", "--batch", "10")
    assert len(given.batches) == 13 and given.json["result"]["batches"] == 13
    assert given.samples == load(data[0], "--epochs", "2", "--batch", "10").samples[:130]


def test_an_empty_dataset(load, tmp_path):
    """Nothing to load is an end at once, not a hang."""
    (tmp_path / "a.csv").write_text("a,b\n")
    for last in ("drop", "pad", "short"):
        assert load(tmp_path / "a.csv", "--last", last, "--epochs", "2", "--mixing").samples == []


def test_less_than_a_batch(stoker, tmp_path):
    """A first look at a small dataset, or at one of many ranks, would show zeros and no reason."""
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    assert "there is less than a batch: --last short" in stoker("load", tmp_path / "a.csv", "--batch", "3").out
    assert "each rank has less than a batch" in stoker("load", tmp_path / "a.csv", "--batch", "2", "--rank", "0/2").out
    assert "less than" not in stoker("load", tmp_path / "a.csv", "--batch", "3", "--last", "short").out


def npy(path, samples, sample_bytes):
    """A file of zeros that takes no room: the order does not look at the samples."""
    shape = f"({samples}, {sample_bytes})"
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head)
        f.truncate(10 + len(head) + samples * sample_bytes)
    return path


@pytest.mark.parametrize("samples, sample_bytes, window", [
    (24000, 3072, None), (20000, 1000, "2M"), (30000, 4, "32K"), (3000, 40000, "8M")])
def test_sorted_classes_come_in_fair_shares(load, tmp_path, samples, sample_bytes, window):
    """Training on one class after the other: accuracy lost because the data lies as in a folder."""
    path = npy(tmp_path / "a.npy", samples, sample_bytes)
    args = ["--window", window] if window else []
    for seed in (0, 1):
        got = load(path, "--batch", "16", "--last", "short", "--seed", seed, *args)
        classes = [[i * 10 // samples for i in batch] for batch in got.batches.values()]
        for first in range(len(classes) - 59):
            run = [c for batch in classes[first:first + 60] for c in batch]
            assert all(48 <= run.count(c) <= 144 for c in range(10)), (seed, first)
        assert sorted(got.samples) == list(range(samples))


def test_tiny_samples_are_mixed(load, tmp_path):
    """Samples of four bytes: a window of megabytes that mixed only some thousands of them."""
    path = npy(tmp_path / "a.npy", 1000000, 4)
    mix = load(path, "--mixing", "--steps", "1", "--batch", "64").json["result"]["mixing"]
    assert mix["parts_fraction"] >= 0.95 * mix["parts_fraction_random"]
    assert mix["block_samples"] * mix["window_blocks"] > 100000


# ---- ranks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("world, batch", [(2, 10), (3, 16), (7, 4), (8, 13), (106, 2)])
def test_ranks_share_the_epoch(stoker, tmp_path, data, world, batch):
    """Samples seen by two ranks or by none; and a rank with a step more hangs all the others."""
    order = Given(stoker("load", data[0], "--last", "short", "--ids", "-", "--quiet").out).samples
    some = range(world) if world < 100 else (0, 1, 50, 103, 104, 105)
    parts = {}
    for last in ("drop", "pad", "short"):
        ranks = {r: Given(stoker("load", data[0], "--rank", f"{r}/{world}", "--last", last, "--batch",
                                 batch, "--ids", "-", "--quiet").out) for r in some}
        assert len({len(g.batches) for g in ranks.values()}) == 1, last
        for g in ranks.values():
            full = [batch] * len(g.batches)
            assert g.sizes == full if last != "short" else g.sizes[:-1] == full[:-1]
            assert all(0 < size <= batch for size in g.sizes)
            assert last != "drop" or not any(g.flags)
        parts[last] = ranks
    for last in ("pad", "short") if world < 100 else ():
        assert sum((g.fresh() for g in parts[last].values()), []) == order
        sizes = [len(g.fresh()) for g in parts[last].values()]
        assert max(sizes) - min(sizes) <= 1
    for r, g in parts["drop"].items():
        assert g.samples == parts["short"][r].samples[:len(g.samples)]


@pytest.mark.parametrize("env", [
    {"RANK": 2, "WORLD_SIZE": 3, "LOCAL_RANK": 0, "SLURM_PROCID": 0, "SLURM_STEP_NUM_TASKS": 1},
    {"OMPI_COMM_WORLD_RANK": 2, "OMPI_COMM_WORLD_SIZE": 3},
    {"SLURM_PROCID": 2, "SLURM_STEP_NUM_TASKS": 3, "SLURM_LOCALID": 0},
])
def test_launchers_tell_the_rank(load, data, env):
    """srun -n 3 must give three parts, not the same data three times."""
    told = load(data[0], env=env)
    assert told.samples == load(data[0], "--rank", "2/3").samples
    assert told.json["result"]["rank"] == 2 and told.json["result"]["world"] == 3
    whole = load(data[0], "--rank", "0/1", env=env)
    assert len(whole.samples) == N // 32 * 32


def test_contradicting_launchers_are_an_error(stoker, data):
    """Better no training than one where all ranks read the same."""
    r = stoker("load", data[0], rc=2, env={"RANK": 3, "WORLD_SIZE": 3})
    assert "RANK=3" in r.err and "WORLD_SIZE=3" in r.err and "--rank" in r.err
    assert "R/W" in stoker("load", data[0], "--rank", "3/3", rc=2).err


# ---- going on later ------------------------------------------------------------------------


@pytest.mark.parametrize("last", ["drop", "pad", "short"])
def test_resume_is_as_if_nothing_happened(load, data, tmp_path, last):
    """A job that hits its time limit loses or repeats what it was at."""
    args = ["--batch", "8", "--last", last, "--rank", "1/2", "--epochs", "2"]
    whole = load(data[0], *args)
    pieces = []
    for steps in ([1], [2], [4], []):
        more = ["--steps", steps[0]] if steps else []
        pieces.append(load(data[0], *args, "--state", tmp_path / "state", *more))
    assert [len(p.batches) for p in pieces[:3]] == [1, 2, 4]
    joined = sum((p.lines for p in pieces), [])[:len(whole.lines)]
    # All but the number of the step, which counts from where a run began.
    assert [[a, *b] for a, _, *b in joined] == [[a, *b] for a, _, *b in whole.lines]


def test_state_at_the_end_of_an_epoch_is_the_next(load, data, tmp_path):
    """A job of one epoch each goes through the epochs, not through the first one for ever."""
    one = load(data[0], "--state", tmp_path / "s")
    two = load(data[0], "--state", tmp_path / "s")
    assert two.samples == load(data[0], "--epoch", "1").samples != one.samples


@pytest.mark.parametrize("worlds", [(3, 2), (2, 5), (1, 4, 2)])
def test_resume_with_another_number_of_ranks(load, data, tmp_path, worlds):
    """A requeued job gets other nodes than before: no sample may be lost or come twice."""
    seen, states = [], []
    for turn, world in enumerate(worlds):
        rest = ["--steps", "2"] if turn + 1 < len(worlds) else []
        before = [a for path in states for a in ("--from", path)]
        states = [tmp_path / f"{turn}-{r}" for r in range(world)]
        for r in range(world):
            given = load(data[0], "--rank", f"{r}/{world}", "--batch", 7 + turn, "--last", "short",
                         "--state", states[r], *before, *rest)
            seen += given.fresh()
    assert sorted(seen) == list(range(N))


def test_states_of_something_else_are_refused(stoker, load, data, tmp_path, images):
    """Going on in the wrong dataset, or from half a file, would skip samples in silence."""
    state = tmp_path / "s"
    load(data[0], "--steps", "1", "--state", state)
    text = state.read_text()
    assert len(text) < 1000 and json.loads(text)
    assert "stoker: load: " in stoker("load", images[0], "--state", state, rc=4).err
    assert "--seed 0" in stoker("load", data[0], "--state", state, "--seed", "5", rc=2).err
    assert "--shuffle block" in stoker("load", data[0], "--state", state, "--shuffle", "none",
                                       rc=2).err
    for bad in (text[:-9], "", "{}", text.replace("0", "99999999999999999999", 1)):
        state.write_text(bad)
        r = stoker("load", data[0], "--state", state, rc=4)
        assert str(state) in r.err
        assert state.read_text() == bad


def test_a_state_of_the_former_order(stoker, load, data, tmp_path):
    """An epoch finished in another order than it was begun in: samples twice, others never."""
    state = tmp_path / "state"
    first = load(data[0], "--batch", "5", "--state", state, "--steps", "3")
    now = json.loads(state.read_text())
    assert now.pop("order") == 2
    now["stoker_loader"] = 1
    state.write_text(json.dumps(now))
    err = stoker("load", data[0], "--batch", "5", "--state", state, rc=4).err
    assert "in the middle of epoch 0" in err and "earlier version" in err
    assert len(first.samples) == 15
    state.write_text(json.dumps({**now, "done": []}))  # nothing given yet: any order will do
    whole = load(data[0], "--batch", "5", "--last", "short", "--state", state).samples
    assert sorted(whole) == list(range(N))
    state.write_text(json.dumps({**now, "shuffle": "none"}))
    rest = load(data[0], "--batch", "5", "--state", state, "--steps", "1").samples
    assert rest == list(range(15, 20))


def test_a_state_survives_staging(load, data, tmp_path):
    """A job requeued on a node with its own copy of the data could not go on."""
    args = ["--batch", "8", "--last", "short"]
    whole = load(data[0], *args)
    load(data[0], *args, "--steps", "3", "--state", tmp_path / "s")
    copy = tmp_path / "staged"
    shutil.copytree(data[0], copy, copy_function=shutil.copyfile)  # with other times
    rest = load(copy, *args, "--state", tmp_path / "s")
    assert rest.samples == whole.samples[3 * 8:]


def test_a_state_of_equal_shape_is_refused(stoker, load, tmp_path):
    """Arrays of the same shape, or files of the same sizes, are not the same dataset."""
    np = pytest.importorskip("numpy")
    for name, values in ("a", np.arange(4000)), ("b", np.arange(4000)[::-1]):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "x.npy", values)
        for i in range(4):
            (tmp_path / f"f{name}").mkdir(exist_ok=True)
            (tmp_path / f"f{name}" / f"{name}{i}.bin").write_bytes(b"same" * 100)
    for one, other in ("a/x.npy", "b/x.npy"), ("fa", "fb"):
        state = tmp_path / "s"
        state.unlink(missing_ok=True)
        load(tmp_path / one, "--batch", "1", "--steps", "1", "--state", state)
        r = stoker("load", tmp_path / other, "--state", state, rc=4)
        assert "another dataset: as many samples, but other files" in r.err
        load(tmp_path / one, "--batch", "1", "--steps", "1", "--state", state)


# ---- bad samples ---------------------------------------------------------------------------


@pytest.fixture
def damaged(data, tmp_path):
    """(a copy of the dataset with two damaged records, their numbers, their file and offsets)."""
    copy = tmp_path / "damaged"
    shutil.copytree(data[0], copy)
    shard = sorted(copy.glob("*.tfrecord"))[1]
    offset, places, first = 0, {}, len(records(sorted(copy.glob("*.tfrecord"))[0].read_bytes()))
    for i, record in enumerate(records(shard.read_bytes())):
        if i in (3, 20):
            flip_byte(shard, offset + 12 + len(record) // 2)
            places[first + i] = offset
        offset += len(record) + 16
    return copy, places, shard


def test_a_bad_sample_stops(stoker, damaged, tmp_path):
    """Bad data must not reach the training; and what came before it is good."""
    path, places, shard = damaged
    r = stoker("load", path, "--shuffle", "none", "--batch", "5", "--ids", tmp_path / "ids", rc=4)
    bad = min(places)
    assert f"{shard}:{places[bad]}" in r.err and "--on-error" in r.err
    assert Given((tmp_path / "ids").read_text()).samples == list(range(bad // 5 * 5))
    assert "samples" in r.out  # what was measured up to there


@pytest.mark.parametrize("threads, io_", [(1, "threads"), (3, "mmap"), (2, "direct")])
def test_a_bad_sample_is_skipped(load, damaged, threads, io_):
    """One bad sample in a million must not end a job of a week, and must be named."""
    path, places, shard = damaged
    args = ["--batch", "5", "--threads", threads, "--io", io_]
    given = load(path, *args, "--on-error", "skip", rc=1)
    result = given.json["result"]
    assert result["skipped"] == 2 and result["corrupt"] == 2 and given.json["exit_status"] == 1
    for offset in places.values():
        assert any(f"{shard}:{offset}" in p for p in result["problems"])
    assert len(given.batches) == N // 5 and sorted(set(given.samples)) == sorted(given.fresh())
    assert not set(places) & set(given.samples)
    assert sorted(given.fresh()) == [i for i in range(N) if i not in places]


def test_skipping_keeps_ranks_and_resumes(load, damaged, tmp_path):
    """Refilled batches, other ranks, and a break: still every good sample once."""
    path, places, _ = damaged
    seen, states = [], []
    for r in range(3):
        args = ["--rank", f"{r}/3", "--batch", "5", "--on-error", "skip", "--last", "pad"]
        states += ["--from", tmp_path / f"s{r}"]
        first = load(path, *args, "--steps", "4", "--state", tmp_path / f"s{r}", rc=(0, 1))
        assert first.sizes == [5] * 4
        seen += first.fresh()
    for r in range(2):
        second = load(path, *states, "--rank", f"{r}/2", "--batch", "5", "--on-error", "skip",
                      "--last", "pad", rc=(0, 1))
        seen += second.fresh()
    assert sorted(seen) == [i for i in range(N) if i not in places]


def test_a_bad_sample_is_replaced(load, damaged):
    """The same stand-in in every run, or results cannot be reproduced."""
    path, places, _ = damaged
    order = load(path, "--batch", "5", "--fields", "label", "--no-check").samples
    given = [load(path, "--batch", "5", "--on-error", "replace", "--threads", t, rc=1) for t in (1, 4)]
    assert given[0].samples == given[1].samples and given[0].flags == given[1].flags
    assert given[0].json["result"]["replaced"] == 2
    for was, now, flag in zip(order, given[0].samples, given[0].flags):
        assert flag & 2 and now not in places if was in places else (now == was and not flag)


def test_a_file_that_is_gone(stoker, load, data, tmp_path):
    """A shard deleted under a running job is named; the others go on."""
    copy = tmp_path / "copy"
    shutil.copytree(data[0], copy)
    gone = sorted(copy.glob("*.tfrecord"))[2]
    gone.unlink()
    err = stoker("load", copy, rc=4).err
    assert str(gone) in err and "--on-error skip" in err
    given = load(copy, "--on-error", "skip", "--batch", "5", rc=1)
    assert any(str(gone) in p for p in given.json["result"]["problems"])


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("how", ["missing", "shrunken"])
@pytest.mark.parametrize("shard", [0, 2])
def test_a_packed_dataset_that_has_suffered(stoker, load, data, tmp_path, policy, how, shard):
    """A shard that is lost or cut off costs its own samples, and no step: every rank goes on, from the
    state of a whole dataset as well, and what is left of the shard is read."""
    copy, state = tmp_path / "copy", tmp_path / "s"
    shutil.copytree(data[0], copy)
    args = ["--batch", "4", "--last", "pad", "--rank", "1/2"]
    load(copy, *args, "--steps", "2", "--state", state)
    victim = sorted(copy.glob("*.tfrecord"))[shard]
    kept = records(victim.read_bytes())[:5]
    if how == "missing":
        victim.unlink()
    else:
        victim.write_bytes(b"".join(frame(r) for r in kept) + b"half a record")
    assert str(victim) in stoker("load", copy, rc=4).err
    runs = [load(copy, "--batch", "4", "--last", "pad", "--rank", f"{r}/2", "--on-error", policy,
                 rc=1) for r in range(2)]
    first = sum(len(records(p.read_bytes())) for p in sorted(data[0].glob("*.tfrecord"))[:shard])
    size = len(records(sorted(data[0].glob("*.tfrecord"))[shard].read_bytes()))
    bad = set(range(first + (len(kept) if how == "shrunken" else 0), first + size))
    steps = {run.json["result"]["steps_per_epoch"] for run in runs}
    fresh = [s for run in runs for s, f in zip(run.samples, run.flags) if not f]
    assert steps == {len(runs[0].batches)} == {len(runs[1].batches)} == {14}
    assert sorted(fresh) == [i for i in range(N) if i not in bad]
    assert load(copy, *args, "--state", state, "--on-error", policy, rc=1).sizes == [4] * 12


def test_nothing_is_left(stoker, data, tmp_path):
    """Who passes over bad samples is not told to do so."""
    copy = tmp_path / "copy"
    shutil.copytree(data[0], copy)
    for victim in copy.glob("*.tfrecord"):
        victim.write_bytes(b"")
    err = stoker("load", copy, "--on-error", "skip", "--decode", "raw", rc=4).err
    assert f"not one of its {N} samples can be read" in err and "--on-error" not in err


def test_batches_of_which_nothing_is_left(load, data, tmp_path):
    """Not one sample of a batch, nor of those before it, can be read: the run goes on."""
    copy = tmp_path / "copy"
    shutil.copytree(data[0], copy)
    for victim in sorted(copy.glob("*.tfrecord"))[1:]:
        victim.write_bytes(victim.read_bytes()[:100])
    given = load(copy, "--batch", "1", "--shuffle", "none", "--on-error", "skip", rc=1)
    assert len(given.batches) == N and len(given.fresh()) == len(set(given.fresh())) == 35


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("first", ["empty", "text"])
def test_a_bad_beginning(stoker, load, photos, policy, first):
    """The first files of a folder are no images: the rest is a dataset all the same."""
    if not has_jpeg(stoker):
        pytest.skip("JPEG or PNG is not built in")
    for i in range(20):
        (photos / f"c0/.{i:02d}.jpg").write_bytes(b"" if first == "empty" else b"not an image")
        (photos / f"c0/-{i:02d}.jpg").write_bytes(b"" if first == "empty" else b"not an image")
    args = ["--decode", "image:16", "--batch", "4", "--last", "short"]
    assert "no field of the first sample holds" in stoker("load", photos, *args, rc=2).err
    given = load(photos, *args, "--on-error", policy, rc=1)
    assert len([f for f in given.flags if not f]) == 41


# ---- checksums -----------------------------------------------------------------------------

PACKED = [("tar", ""), ("tar", "zstd"), ("recordio", ""), ("npz", ""), ("npz", "deflate"),
          ("hdf5", ""), ("hdf5", "deflate"), ("lmdb", ""), ("squashfs", ""), ("folder", ""), ("csv", ""),
          ("jsonl", ""), ("tfrecord", "")]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    np = pytest.importorskip("numpy")
    path = tmp_path_factory.mktemp("rows") / "rows.npz"
    np.savez(path, x=np.arange(40 * 64, dtype="i4").reshape(40, 64), label=np.arange(40))
    return path


@pytest.mark.parametrize("format, compress", PACKED)
def test_a_flipped_bit_in_what_was_packed(stoker, load, rows, images, tmp_path, format, compress):
    """Most formats have no checksums: data that went bad on the disk went into the training."""
    has = {f["name"]: f for f in stoker("formats", "--json", "-").json()["result"]["formats"]}
    if not has[format]["write"]:
        pytest.skip(f"{format} is not built in")
    arrays = format in ("npz", "hdf5", "csv", "jsonl")
    dst = tmp_path / "packed"
    stoker("pack", rows if arrays else images[0], dst, "--format", format,
           *(["--compress", compress] if compress else []))
    args = ["--batch", "5", "--last", "short"]
    given = load(dst, *args)
    result = given.json["result"]
    assert result["checked"] == result["samples"] > 0
    assert result["checked_bytes"] == result["asked_bytes"]
    assert "checksums     compared for every sample" in stoker("load", dst, *args).out
    assert "checksums     not compared" in stoker("load", dst, *args, "--no-check").out
    stoker("verify", dst)
    files = [p for p in dst.rglob("*") if p.is_file() and p.suffix not in (".json", ".stkidx", ".idx")]
    victim = max(files, key=lambda p: (p.stat().st_size, p.name))
    clean = load(dst, *args, "--consume", "hash").json["result"]["content_hash"]
    size, found = victim.stat().st_size, 0
    for i in range(1, 101):  # some of them between samples, where nothing is lost
        flip_byte(victim, size * (i * 37 % 101) // 101)
        r = stoker("load", dst, *args, "--consume", "hash", rc=(0, 4))
        flip_byte(victim, size * (i * 37 % 101) // 101)
        assert r.rc == 4 or f"content       {clean}" in r.out
        found += r.rc == 4
        if found == 3:
            break
    assert found == 3
    load(dst, *args)


@pytest.fixture(scope="module")
def members_tar(tmp_path_factory):
    """(a packed tar, where the members of its samples begin and end): some larger than the blocks they
    are read in, some of several members, an empty one among them."""
    work = tmp_path_factory.mktemp("members")
    (work / "in").mkdir()
    for i, size in enumerate((300000, 5, 700001, 262144, 90000)):
        for ending, n in (("aa", 10), ("bb", size), ("cc", 0), ("dd", 77 * i)):
            (work / "in" / f"{i}.{ending}").write_bytes(bytes((i + k * 7) % 251 for k in range(n)))
    subprocess.run([STOKER, "pack", work / "in", work / "out", "--format", "tar", "--group", "--quiet"],
                   check=True, env=clean_env())
    with tarfile.open(next((work / "out").glob("*.tar"))) as tar:
        return work / "out", [(m.offset_data, m.offset_data + m.size) for m in tar if m.size]


@pytest.mark.parametrize("engine", ["threads", "uring", "direct", "mmap"])
def test_a_flipped_bit_at_the_edge_of_a_block(load, members_tar, tmp_path, engine):
    """Checksums are taken block by block, while bytes come: none may fall between two blocks."""
    dst, members = tmp_path / "packed", members_tar[1]
    shutil.copytree(members_tar[0], dst)
    shard = next(dst.glob("*.tar"))
    args = ["--io", engine, "--batch", "2", "--last", "short", "--on-error", "skip"]
    for shuffle in ("none", "global"):
        result = load(dst, *args, "--shuffle", shuffle).json["result"]
        assert result["checked"] == result["samples"] == 5
        assert result["checked_bytes"] == result["asked_bytes"] == sum(e - b for b, e in members)
    base = members[0][0]  # where the first read begins
    blocks = [base + k * (256 << 10) + d for k in (1, 2, 4) for d in (-1, 0)]
    edges = [at for begin, end in members[1:5] for at in (begin, end - 1)]
    for at in blocks + edges:
        flip_byte(shard, at)
        found = load(dst, *args, "--shuffle", "none", rc=(0, 1)).json["result"]["problems"]
        flip_byte(shard, at)
        inside = any(begin <= at < end for begin, end in members)
        assert len(found) == inside and all("its checksum is not the one in" in p for p in found), at


def test_verify_names_the_sample(stoker, images, tmp_path):
    """A file's checksum says that something is wrong with it, but not what is lost."""
    dst = tmp_path / "packed"
    stoker("pack", images[0], dst, "--format", "tar")
    shard = next(dst.glob("*.tar"))
    with tarfile.open(shard) as tar:
        members = tar.getmembers()
    image = next(m for m in members if m.name.endswith(".jpg"))
    flip_byte(shard, image.offset_data + 3)
    out = stoker("verify", dst, rc=1).out
    assert f"{shard}:{members[0].offset_data}: corrupt sample: its checksum is not the one in the index" in out


def test_what_has_no_checksums_is_said(stoker, load, tmp_path, images):
    """A user who loads unpacked files should know that a flipped bit goes unnoticed."""
    result = load(images[0], "--last", "short").json["result"]
    assert result["checked"] == 0 and result["samples"] > 0
    out = stoker("load", images[0], "--last", "short").out
    assert "checksums     none: a flipped bit goes undetected" in out


# ---- what is in the batches ----------------------------------------------------------------

M64 = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                      0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def xxh64(data):
    """XXH64 from its specification, seed 0."""
    def rot(x, r):
        return (x << r | x >> (64 - r)) & M64

    def step(acc, lane):
        return rot((acc + lane * P2) & M64, 31) * P1 & M64

    n, at = len(data), 0
    if n >= 32:
        acc = [(P1 + P2) & M64, P2, 0, -P1 & M64]
        while at + 32 <= n:
            acc = [step(a, lane) for a, lane in zip(acc, struct.unpack_from("<4Q", data, at))]
            at += 32
        h = sum(rot(a, r) for a, r in zip(acc, (1, 7, 12, 18))) & M64
        for a in acc:
            h = ((h ^ step(0, a)) * P1 + P4) & M64
    else:
        h = P5
    h = (h + n) & M64
    for size, code in ((8, "<Q"), (4, "<I"), (1, "<B")):
        while at + size <= n:
            (lane,) = struct.unpack_from(code, data, at)
            if size == 8:
                h = (rot(h ^ step(0, lane), 27) * P1 + P4) & M64
            elif size == 4:
                h = (rot(h ^ lane * P1 & M64, 23) * P2 + P3) & M64
            else:
                h = rot(h ^ lane * P5 & M64, 11) * P1 & M64
            at += size
    h = (h ^ h >> 33) * P2 & M64
    h = (h ^ h >> 29) * P3 & M64
    return h ^ h >> 32


def sample_hash(**fields):
    """As --consume hash does it."""
    return sum(xxh64(name.encode() + b"\0" + struct.pack("<Q", len(v)) + v)
               for name, v in fields.items()) & M64


def test_hash_is_the_one_documented(load, data):
    """The hash in --ids is what a user can compute from the bytes."""
    given = load(data[0], "--consume", "hash", "--last", "short")
    total = 0
    for sample, found in zip(given.samples, given.hashes):
        name, value = data[1][sample]
        want = sample_hash(data=value, label=struct.pack("<q", int(name[5:7])))
        assert found == f"{want:016x}"
        total += want
    assert given.json["result"]["content_hash"] == f"{total & M64:016x}"


FORMATS = [name for name in formatlib.IMAGES if name != "jsonl"]  # whose bytes are base64


def packed_as(stoker, name, src, dst, *args):
    if name == "folder":
        return src
    if not formatlib.writes(name):
        pytest.skip(f"{name} is not built in")
    stoker("pack", src, dst, "--format", name, "--shard-size", "8M", *args)
    return dst


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("io_", ["threads", "mmap"])
def test_every_format_gives_the_bytes_of_the_files(stoker, load, images, tmp_path, name, io_):
    """A format whose samples come back different trains on other data."""
    root, files = images
    path = packed_as(stoker, name, root, tmp_path / "p")
    field = "jpg" if name == "tar" else "data"  # WebDataset's field is the file's ending
    given = load(path, "--consume", "hash", "--last", "short", "--fields", field, "--batch", "4",
                 "--io", io_)
    assert sorted(given.samples) == list(range(len(files)))
    for sample, found in list(zip(given.samples, given.hashes))[::1 if LONG else 5]:
        if name == "tar":
            stoker("inspect", path, "--sample", sample, "-o", f"{tmp_path}/out/", "--force")
            one = next((tmp_path / "out").rglob("*.jpg")).read_bytes()
            shutil.rmtree(tmp_path / "out")
        else:
            one = stoker("inspect", path, "--sample", sample, "-o", "-").out_bytes
        assert one in files.values()
        assert found == f"{sample_hash(**{field: one}):016x}"
    whole = load(path, "--consume", "hash", "--last", "short").json["result"]["content_hash"]
    if name not in ("hdf5", "npz"):
        want = sum(sample_hash(**{field: v, "label": struct.pack("<q", int(k[5:7]))})
                   for k, v in files.items())
        assert whole == f"{want & M64:016x}"


@pytest.mark.parametrize("name", ["npy", "npz", "hdf5", "csv", "jsonl", "gzip csv"])
def test_arrays_and_tables(stoker, load, tmp_path, name):
    """Rows of arrays and tables as typed columns: every number as it was."""
    np = pytest.importorskip("numpy")
    rng = np.random.default_rng(1)
    columns = {"x": rng.integers(0, 99, (70, 3, 5), dtype="i4"), "label": np.arange(70, dtype="i8")}
    if name == "npy":
        columns = {"data": columns["x"]}
        np.save(tmp_path / "a.npy", columns["data"])
    elif name == "npz":
        np.savez(tmp_path / "a.npz", **columns)
    elif name == "hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "a.h5", "w") as f:
            f.create_dataset("x", data=columns["x"], chunks=(8, 3, 5), compression="gzip")
            f.create_dataset("label", data=columns["label"])
    else:
        columns = {"label": columns["label"], "y": rng.normal(size=70)}
        rows = list(zip(*(c.tolist() for c in columns.values())))
        if name == "jsonl":
            text = "".join(json.dumps(dict(zip(columns, row))) + "\n" for row in rows)
        else:
            text = "label,y\n" + "".join(f"{a},{b!r}\n" for a, b in rows)
        import gzip
        raw = gzip.compress(text.encode()) if "gzip" in name else text.encode()
        (tmp_path / {"csv": "a.csv", "jsonl": "a.jsonl", "gzip csv": "a.csv.gz"}[name]).write_bytes(raw)
    path = next(tmp_path.glob("a.*"))
    given = load(path, "--consume", "hash", "--last", "short", "--batch", "16")
    assert sorted(given.samples) == list(range(70))
    for sample, found in zip(given.samples, given.hashes):
        want = sample_hash(**{k: c[sample].tobytes() for k, c in columns.items()})
        assert found == f"{want:016x}", (name, sample)


def test_features_and_fields(load, tmp_path, stoker):
    """tf.train.Example features come as they are; those not asked for do not come."""
    pytest.importorskip("google.protobuf")
    example = messages()[0]
    rows = [{"ids": [i, i + 1, i + 2], "score": [i / 2], "name": f"n{i}".encode()} for i in range(9)]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(frame(make_example(example, r)) for r in rows))
    parts = [{"ids": struct.pack("<3q", *r["ids"]), "score": struct.pack("<f", *r["score"]),
              "name": r["name"]} for r in rows]
    for fields in (["ids"], ["score", "name"], ["ids", "score", "name"]):
        given = load(tmp_path / "a.tfrecord", "--consume", "hash", "--last", "short", "--fields",
                     ",".join(fields))
        for sample, found in zip(given.samples, given.hashes):
            want = sample_hash(**{f: parts[sample][f] for f in fields})
            assert found == f"{want:016x}", fields
    given = load(tmp_path / "a.tfrecord", "--consume", "hash", "--last", "short", "--decode", "raw")
    raw = records((tmp_path / "a.tfrecord").read_bytes())
    assert given.hashes == [f"{sample_hash(data=raw[s]):016x}" for s in given.samples]
    assert "nosuch" in stoker("load", tmp_path / "a.tfrecord", "--fields", "nosuch", rc=2).err
    assert "empty" in stoker("load", tmp_path / "a.tfrecord", "--fields", "ids,,name", rc=2).err


@pytest.fixture
def photos(tmp_path):
    """Real images in two class directories: 40 JPEGs and a PNG, of several sizes."""
    image = pytest.importorskip("PIL.Image")
    for i in range(41):
        path = tmp_path / f"photos/c{i % 2}/{i:02d}.{'png' if i == 40 else 'jpg'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.linear_gradient("L").resize((40 + i, 30 + i)).convert("RGB").save(path)
    return tmp_path / "photos"


def has_jpeg(stoker):
    parts = stoker("version", "--json", "-").json()["result"]["parts"]
    return not [p for p in parts if p["name"] in ("JPEG", "PNG") and p["missing_package"]]


def test_images_are_decoded(stoker, load, photos):
    """Pixels: one array per batch, the same for every thread and every position of the sample."""
    if not has_jpeg(stoker):
        pytest.skip("JPEG or PNG is not built in")
    spec = "image:24x16,crop=random,flip"
    want = None
    for args in (["--threads", "1"], ["--threads", "4", "--io", "mmap"], ["--batch", "7"],
                 ["--rank", "0/1", "--memory", "1M"]):
        given = load(photos, "--decode", spec, "--consume", "hash", "--last", "short", *args)
        found = dict(zip(given.samples, given.hashes))
        assert len(found) == 41 and (want is None or found == want), args
        want = found
    other = load(photos, "--decode", spec, "--consume", "hash", "--last", "short", "--epoch", "1")
    assert dict(zip(other.samples, other.hashes)) != want
    load(photos, "--decode", "image:gray,layout=nchw", "--last", "short")  # every size its own
    assert "crop=" in stoker("load", photos, "--decode", "image:24,crop=middle", rc=2).err


def test_a_cut_off_jpeg_is_a_bad_sample(stoker, load, photos):
    """Half a picture must not pass for a picture."""
    if not has_jpeg(stoker):
        pytest.skip("JPEG or PNG is not built in")
    victim = photos / "c0/02.jpg"
    victim.write_bytes(victim.read_bytes()[:300])
    args = ["--decode", "image:16", "--batch", "4"]
    assert str(victim) in stoker("load", photos, *args, rc=4).err
    given = load(photos, *args, "--on-error", "skip", rc=1)
    assert given.json["result"]["skipped"] == 1 and str(victim) in given.json["result"]["problems"][0]
    number = sorted(p.relative_to(photos) for p in photos.rglob("*.*")).index(victim.relative_to(photos))
    assert number not in given.samples and len(given.samples) == 40
    load(photos, "--batch", "4")  # the bytes can be had


# ---- what is printed -----------------------------------------------------------------------


def test_the_screen(stoker, data):
    """One screen that says how fast, how, and what it waited for."""
    out = stoker("load", data[0], "--batch", "8", "--io", "threads", "--threads", "2").out
    labels = [line.split("  ")[1] for line in out.splitlines()[2:]]
    assert labels == ["batches", "time", "samples", "asked for", "read", "from storage",
                      "checksums", "engine", "threads", "memory", "stalls", "a batch"]
    assert len(out.splitlines()) < 24  # the first line has the path, which may be long
    assert all(len(line) < 100 for line in out.splitlines()[1:])
    assert "13 of 8 samples" in out and re.search(r"p50, .* p99, .* longest", out)
    assert re.search(r"from storage +(0 B|not known|[\d,.]+ (B|KiB))", out)
    epochs = stoker("load", data[0], "--epochs", "30").out
    assert len(epochs.splitlines()) < 30 and re.search(r"^ +\.\.\.$", epochs, re.M)
    assert stoker("load", data[0], "--quiet").out == ""


def test_json_has_every_number(load, data):
    """A script that compares runs would have to parse text."""
    result = load(data[0], "--batch", "8", "--epochs", "2", "--io", "threads").json["result"]
    assert result["samples"] == 208 and result["batches"] == 26 and result["engine"] == "threads"
    assert result["steps_per_epoch"] == 13 and result["dataset_samples"] == N
    assert result["problems"] == [] and result["mixing"] is None and result["content_hash"] is None
    size = sum(p.stat().st_size for p in data[0].glob("*.tfrecord"))
    assert 0.8 * 2 * size < result["asked_bytes"] <= 2 * size <= result["read_bytes"] * 1.2
    assert sum(e["asked_bytes"] for e in result["epochs"]) == result["asked_bytes"]
    assert sum(e["samples"] for e in result["epochs"]) == 208
    for name in ("load_seconds", "first_batch_seconds", "batch_p50_seconds", "batch_p99_seconds",
                 "batch_max_seconds", "samples_per_second", "cpu_seconds", "memory_bytes"):
        assert result[name] > 0, name
    assert 0 <= result["stall_fraction"] <= 1 and result["queue_depth_mean"] >= 0
    assert result["batch_p50_seconds"] <= result["batch_p99_seconds"] <= result["batch_max_seconds"]


def test_ids_and_json_do_not_share_stdout(stoker, data, tmp_path):
    """No program can read two kinds of data mixed in one stream."""
    assert "standard output" in stoker("load", data[0], "--ids", "-", "--json", "-", rc=2).err
    assert stoker("load", data[0], "--ids", tmp_path / "no/such", rc=4).err
    r = stoker("load", data[0], "--ids", "-", "--batch", "5")
    assert len(r.out.splitlines()) == N and "from storage" in r.err


@pytest.fixture(scope="module")
def many_classes(tmp_path_factory):
    """400 folders of 8 small files."""
    root = tmp_path_factory.mktemp("many")
    for c in range(400):
        (root / "in" / f"{c:03}").mkdir(parents=True)
        for i in range(8):
            (root / "in" / f"{c:03}" / f"{i}.bin").write_bytes(bytes([c % 256]) * 100)
    return root


def test_classes_that_stay_together(stoker, many_classes):
    """A window with a third of the classes: said when it is loaded, with what to do."""
    folder, packed, mixed = (many_classes / n for n in ("in", "packed", "mixed"))
    said = stoker("pack", folder, packed, "--json", many_classes / "a.json").out
    assert re.search(r"^ *order +class after class; --shuffle SEED", said, re.M)
    assert json.loads((many_classes / "a.json").read_text())["result"]["class_by_class"] is True
    assert "class after class" not in stoker("pack", folder, mixed, "--shuffle", "1").out
    again = stoker("pack", packed, many_classes / "again", "--format", "tar").out
    assert "class after class" in again

    def warnings(path, *args):
        shown = stoker("load", path, "--steps", "1", "--json", many_classes / "w.json", *args).out
        told = json.loads((many_classes / "w.json").read_text())["result"]["warnings"]
        assert all(f"warning: {text}\n" in shown for text in told) and ("warning" in shown) == bool(told)
        return told

    small = ("--window", "80000")
    for path, window in ((folder, small), (packed, ("--window", "110K")), (many_classes / "again", small)):
        assert warnings(path) == []
        assert warnings(path, *window, "--shuffle", "global") == []
        [text] = warnings(path, *window)
        assert "stand together" in text and "--window" in text and "pack --shuffle SEED" in text
        assert re.search(r"\d+ samples in a row have 1\d\d classes, those of a random order 3\d\d", text)
    assert warnings(mixed, "--window", "110K") == []


def test_mixing(load, stoker, data):
    """What a shuffle gives in numbers: none mixes nothing, global as random does."""
    args = ["--mixing", "--steps", "1", "--batch", "20"]
    mix = {how: load(data[0], "--shuffle", how, *args).json["result"]["mixing"]
           for how in ("none", "global")}
    assert mix["none"]["kept_fraction"] == 1 and mix["none"]["moved_fraction"] == 0
    assert 0.2 < mix["global"]["moved_fraction"] < 0.45
    assert mix["global"]["kept_fraction"] < 0.15
    # Stored class by class: a batch of 20 neighbours has two of the five classes at most.
    assert mix["none"]["classes_fraction"] <= 0.4 < 0.9 < mix["global"]["classes_fraction"]
    assert mix["none"]["classes_fraction_random"] > 0.9
    out = stoker("load", data[0], "--shuffle", "none", *args).out
    assert re.search(r"classes in a batch.* %", out) and "--shuffle block or global mixes" in " ".join(out.split())
    out = stoker("load", data[0], "--shuffle", "global", *args).out
    assert "as mixed as random" in out


# ---- stopping ------------------------------------------------------------------------------


@pytest.mark.parametrize("sig, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_cleanly(data, tmp_path, sig, status):
    """Ctrl-C and time limits: load reports what it measured, and the next run resumes there."""
    state, out = tmp_path / "state", tmp_path / "json"
    argv = [STOKER, "load", data[0], "--epochs", 10**9, "--state", state, "--json", out, "--ids",
            tmp_path / "ids", "--batch", "5"]
    with subprocess.Popen(list(map(str, argv)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=clean_env(), text=True) as run:
        while not (tmp_path / "ids").exists() or not (tmp_path / "ids").stat().st_size:
            assert run.poll() is None
            time.sleep(0.02)
        run.send_signal(sig)
        text, err = run.communicate()
    assert run.returncode == status, err
    assert "samples" in text and "stopped by" in err and "Sanitizer" not in err
    told = json.loads(out.read_text())
    given = Given((tmp_path / "ids").read_text())
    assert told["outcome"] == "stopped" and told["result"]["samples"] == len(given.samples)
    follow = [str(a) for a in (STOKER, "load", data[0], "--state", state, "--epochs", 2, "--batch", 5,
                               "--steps", 3, "--ids", "-", "--quiet")]
    more = Given(subprocess.run(follow, env=clean_env(), capture_output=True, text=True).stdout)
    epoch = int(given.lines[-1][0])
    want = [str(a) for a in (STOKER, "load", data[0], "--epoch", epoch, "--epochs", 2, "--batch", 5,
                             "--ids", "-", "--quiet")]
    whole = Given(subprocess.run(want, env=clean_env(), capture_output=True, text=True).stdout)
    at = len([line for line in given.lines if int(line[0]) == epoch])
    assert more.samples == whole.samples[at:at + 15]


# ---- how it reads --------------------------------------------------------------------------

BIG = 3 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A folder of 300 files, 3 MiB in all, in class directories."""
    root = tmp_path_factory.mktemp("large") / "tree"
    make_images(root, 3, 100, sizes=(BIG // 300 - 500, BIG // 300 + 500))
    return root


CALL = re.compile(r"^(?P<thread>\d+) +(?P<name>\w+)\(\d+<(?P<path>[^>]*)>.* = (?P<got>-?\d+)")


def reads_of(path, tmp_path, *args):
    """(name of the call, bytes) of every read of the dataset's files by one `stoker load`."""
    log = tmp_path / "trace"
    done = subprocess.run(["strace", "-f", "-y", "-qq", "-o", log, "-e",
                           "trace=read,pread64,readv,preadv,preadv2,mmap,clone,clone3,fork,vfork",
                           STOKER, "load", path, *map(str, args)],
                          env=traced_env(), capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    text = log.read_text(errors="replace")
    pieces = {}
    lines = []
    for line in text.splitlines():  # calls that others ran into are in two pieces
        thread = line.split()[0]
        if line.endswith("<unfinished ...>"):
            pieces[thread] = line[:-len("<unfinished ...>")]
        elif "resumed>" in line:
            lines.append(pieces.pop(thread, "") + line.split("resumed>", 1)[1])
        else:
            lines.append(line)
    forked = [line for line in lines if re.match(r"\d+ +(v?fork|clone3?)\(", line)
              and "CLONE_THREAD" not in line]
    assert not forked, forked  # no child lists the dataset: the index is there
    found = []
    for line in lines:
        call = CALL.match(line)
        if call and str(path) in call["path"] and not call["path"].endswith((".stkidx", ".json")):
            found.append((call["name"], int(call["got"])))
    mapped = [line for line in lines if " mmap(" in line and str(path) in line
              and ".stkidx" not in line]
    assert not mapped, mapped[:3]
    return found


@needs_strace
@pytest.mark.parametrize("name", ["tfrecord", "tar", "recordio", "hdf5", "lmdb", "squashfs", "npz",
                                  "npy", "csv", "jsonl"])
def test_reads_are_ours_large_and_few(stoker, large, tmp_path, name):
    """Thousands of small reads by a library are what makes a shared file system slow."""
    if name in ("npy", "csv", "jsonl"):
        path = tmp_path / f"a.{name}"
        if name == "npy":
            np = pytest.importorskip("numpy")
            np.save(path, np.zeros((300, BIG // 300), dtype="u1"))
        else:
            row = "x" * (BIG // 300)
            line = '{"a": "%s"}\n' if name == "jsonl" else "%s\n"
            path.write_text(("a\n" if name == "csv" else "") + (line % row) * 300)
    else:
        path = packed_as(stoker, name, large, tmp_path / "packed")
    stoker("inspect", path)  # the index is there
    settings = ["--io", "threads", "--read-size", "512K", "--block", "256K", "--last", "short"]
    found = reads_of(path, tmp_path, *settings, "--shuffle", "none")
    # One sample is read to see what fields there are; the rest in pieces of up to 512 KiB, of which what
    # is in memory is copied in blocks (preadv2 that does not wait).
    calls = {"pread64", "preadv2"}
    assert {call for call, _ in found} <= calls
    assert len(found) <= 4 + 4 * BIG // (256 << 10), found
    assert sum(n for _, n in found) <= 1.6 * BIG
    large_ones = [n for _, n in found if n >= 64 << 10]
    assert sum(large_ones) >= 0.9 * sum(n for _, n in found)
    # Shuffled: the first batch is fetched sample by sample, without waiting for a window.
    found = reads_of(path, tmp_path, *settings, "--shuffle", "block")
    assert {call for call, _ in found} <= calls
    assert len(found) <= 4 + 96 + 4 * BIG // (256 << 10), found
    assert sum(n for _, n in found) <= 2.6 * BIG


def test_sound_but_not_read(stoker, tmp_path):
    """A folder with WebP among its JPEGs would be called damaged; a training that checks the status
    could not tell."""
    PIL = pytest.importorskip("PIL.Image")
    for i in range(6):
        PIL.new("RGB", (8, 8), (i, 2, 3)).save(tmp_path / f"{i}.jpg")
    (tmp_path / "7.jpg").write_bytes(b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11")
    args = ["load", tmp_path, "--decode", "image:8", "--batch", "1", "--on-error", "skip"]
    result = stoker(*args, rc=3)
    assert "WebP" in result.out
    (tmp_path / "8.jpg").write_bytes(b"\xff\xd8\xff cut")
    stoker(*args, rc=1)


def test_file_sound_but_not_read(stoker, tmp_path):
    """The same where the whole file is of a kind that is not read."""
    np = pytest.importorskip("numpy")
    np.save(tmp_path / "a.npy", np.arange(12.0).reshape(4, 3))
    np.save(tmp_path / "b.npy", np.asfortranarray(np.arange(12.0).reshape(4, 3)))
    result = stoker("load", tmp_path, "--format", "npy", "--on-error", "skip", "--batch", "2", rc=3)
    assert "Fortran" in result.out


def test_blocks_decoded_again_are_said(stoker, tmp_path):
    """A shuffle that decodes every compressed block many times would just be slow."""
    np = pytest.importorskip("numpy")
    rows = np.random.default_rng(0).integers(0, 64, (6000, 1000)).astype("u1")
    np.savez_compressed(tmp_path / "x.npz", x=rows)
    args = ["load", tmp_path / "x.npz", "--shuffle", "global", "--batch", "10", "--memory", "2M", "--steps", "100"]
    result = stoker(*args, "--json", tmp_path / "j")
    assert "times the dataset: compressed blocks of many samples" in result.out
    assert "samples are compressed together" in result.out
    assert json.loads((tmp_path / "j").read_text())["result"]["read_passes"] > 1.5
    stoker("pack", tmp_path / "x.npz", tmp_path / "packed", "--quiet")
    result = stoker("load", tmp_path / "packed", *args[2:])
    assert "times the dataset: compressed" not in result.out


@pytest.mark.parametrize("shuffle", ["none", "block", "global"])
def test_a_chunk_larger_than_a_stretch_is_decoded_once(stoker, tmp_path, shuffle):
    """A pass over one large compressed chunk would take as many times as long as it has stretches."""
    np, h5py = pytest.importorskip("numpy"), pytest.importorskip("h5py")
    rows = np.random.default_rng(0).integers(0, 64, (6000, 4096)).astype("u1")
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", data=rows, chunks=rows.shape, compression="gzip",
                         compression_opts=1, shuffle=True)
    stoker("load", tmp_path / "x.h5", "--shuffle", shuffle, "--batch", "32", "--memory", "32M",
           "--json", tmp_path / "j")
    result = json.loads((tmp_path / "j").read_text())["result"]
    assert rows.nbytes <= result["decoded_bytes"] <= 1.1 * rows.nbytes
