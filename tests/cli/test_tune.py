"""stoker tune: changes are tried beside the job as it is, and only real gains are recommended."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from conftest import STOKER, clean_env, make_images, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tune"))
from scenarios import kinds_of  # noqa: E402

SMALL = """name: small
dataset: {format: tfrecord, files: 2, samples_per_file: 64, record: 16K}
access: {transfer: 4K}
reader: {threads: 1, prefetch: 2}
training: {batch: 8, compute: 2ms}
"""
# Bytes per second and seconds per request of modelled storage, by a virtual clock: the seconds of a budget are exact, and
# pass at once.
VIRTUAL = ["--virtual-storage", "100M,1ms"]


def tree_of(path):
    """Names, sizes and times of everything below path."""
    return sorted((str(p.relative_to(path)), s.st_size if p.is_file() else 0, s.st_mtime_ns)
                  for p in path.rglob("*") for s in [p.lstat()])


@pytest.fixture
def job(stoker, tmp_path):
    """A workload with its data, in a folder of its own: what tune leaves there is seen."""
    def make(text):
        place = tmp_path / "storage {n}"  # words that mean something in the command of a study
        place.mkdir()
        workload = tmp_path / "job.yaml"
        workload.write_text(text)
        stoker("bench", workload, "--data", place / "data", "--generate-only")
        return workload, place / "data"
    return make


def tuned(stoker, workload, data, *options):
    run = stoker("tune", workload, "--data", data, "--near", data, *VIRTUAL, "--json", "-", *options)
    result = run.json()["result"]
    best = next((c for c in result["candidates"] if c["id"] == result["best"]), None)
    return result, best


def by_id(result):
    return {c["id"]: c for c in result["candidates"]}


def test_small_requests_with_recorded_costs(stoker, job):
    """The user would buy a faster file system instead of changing one number."""
    workload, data = job(SMALL)
    before = tree_of(data / "train")
    result, best = tuned(stoker, workload, data, "--budget", "1h")
    assert "request" in kinds_of(best) and best["times"] > 3 and best["confirmed"]
    assert best["actions"][0]["kind"] == "larger-reads" and "buffering=" in best["lines"]
    assert any(len(c["changes"]) > 1 for c in result["candidates"])  # combinations of winners
    ids = [c["id"] for c in result["candidates"]]
    assert ids[0] == "baseline" and result["candidates"][0]["verdict"] == "baseline"
    gains = [c["times"] for c in result["candidates"] if c["verdict"] == "gain"]
    assert gains == sorted(gains, reverse=True)
    for c in result["candidates"][1:]:  # the model agrees with the clock that it models
        if c["verdict"] == "gain" and len(c["changes"]) == 1 and c["predicted_epoch_s"]:
            assert 0.5 < c["predicted_epoch_s"] / c["epoch_s"] < 2
    assert tree_of(data / "train") == before and os.listdir(data.parent) == ["data"]


def test_nothing_to_gain_with_recorded_costs(stoker, job):
    """A change that gains nothing costs the user a day, and the trust in the next one."""
    workload, data = job(SMALL.replace("4K", "1M").replace("2ms", "200ms"))
    run = stoker("tune", workload, "--data", data, *VIRTUAL, "--near", data, "--budget", "1h")
    assert "Nothing to gain: the accelerators are busy for" in run.out
    assert "waits for data only" in " ".join(run.out.split())  # why nothing was tried
    assert os.listdir(data.parent) == ["data"]


def test_data_in_other_forms(stoker, job):
    """Copies that stay, or an index beside the data, fill somebody's quota."""
    workload, data = job(SMALL.replace("tfrecord, files: 2, samples_per_file: 64", "files, files: 120")
                         .replace("access: {transfer: 4K}", "access: {sharing: shared}"))
    before = tree_of(data / "train")
    result, _ = tuned(stoker, workload, data, "--only", "pack,squashfs,loader", "--budget", "1h")
    seen = by_id(result)
    assert seen["loader"]["verdict"] == "gain"
    for name in ("pack", "squashfs"):
        assert seen[name]["verdict"] == "gain" and seen[name]["costs"]["disk_bytes"] > 120 * 16384
    # Opening 120 files and a request for each take 240 ms, and writing 2 MB about 20.
    assert 0.25 < seen["pack"]["costs"]["once_s"] < 0.28
    assert tree_of(data / "train") == before
    assert os.listdir(data.parent) == ["data"]


def test_no_space_is_told_by_name(stoker, job):
    """Half a copy on a full disk stops the jobs of others."""
    workload, data = job(SMALL.replace("tfrecord, files: 2, samples_per_file: 64", "files, files: 120")
                         .replace("access: {transfer: 4K}", "access: {sharing: shared}"))
    result, best = tuned(stoker, workload, data, "--only", "pack", "--space", "1K", "--budget", "1h")
    pack = by_id(result)["pack"]
    assert not best and pack["verdict"] == "skipped" and "--space" in pack["why"]


def interrupted(workload, data):
    """A call that is ended in the middle of its runs: its status, and its folder."""
    # A virtual second is half a million requests: each of its many runs takes about as long as it says.
    process = subprocess.Popen([STOKER, "tune", workload, "--data", data, "--near", data, "--virtual-storage", "10G,2us",
                                "--budget", "40s", "--only", "threads,request"],
                               env=clean_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: any(p.stat().st_size for p in data.parent.glob("stoker-tune.*/first/runs.jsonl")))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    return process.returncode, out, err, next(data.parent.glob("stoker-tune.*"))


def test_stopped_resumed_and_cleaned(stoker, job):
    """A night of runs is not lost to one key, and what it left can be removed."""
    workload, data = job(SMALL.replace("batch: 8, compute: 2ms", "batch: 8, epochs: 100000, compute: 10us")
                         .replace("4K", "512").replace("threads: 1", "threads: 0"))
    status, out, err, folder = interrupted(workload, data)
    assert status == 128 + signal.SIGINT and "as it is" in out
    assert f"--resume '{folder}'" in err and f"--clean '{folder}'" in err  # to be pasted
    done = len((folder / "first/runs.jsonl").read_text().splitlines())
    run = stoker("tune", "--resume", folder, "--budget", "4s", "--keep", "--json", "-")
    result = run.json()["result"]
    assert result["folder"] == str(folder) and result["candidates"][0]["runs"]
    lines = (folder / "first/runs.jsonl").read_text().splitlines()
    assert len(lines) > done
    assert len({(r["point"], r["repeat"]) for r in map(json.loads, lines)}) == len(lines)
    stoker("tune", "--clean", folder)
    assert os.listdir(data.parent) == ["data"]


def test_one_call_at_a_time(stoker, tmp_path):
    """A second shell that cleans up, or continues what still runs, must not take the folder away from it."""
    here, gate = tmp_path / "here", tmp_path / "gate"
    make_images(here / "data")
    os.mkfifo(gate)  # a command that reads it does not end

    def refused(what, pattern, *options):
        with subprocess.Popen([STOKER, "tune", "--budget", "30s", *what], env=clean_env(), cwd=here,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            folder = here / until(lambda: next(here.glob(pattern), None)).relative_to(here).parts[0]
            process.send_signal(signal.SIGSTOP)  # it is there, however fast the machine is
            before = {name for name in os.listdir(folder) if ".partial." not in name}
            said = [stoker("tune", option, folder, rc=None) for option in options]
            left = set(os.listdir(folder))
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)
        assert all(run.rc == 2 and "another stoker is working in this folder" in run.err for run in said), said
        assert before <= left  # the profiler goes on
        if folder.exists():
            stoker("tune", "--clean", folder)
        assert os.listdir(here) == ["data"]
    refused([here / "data", "--only", "threads"], "stoker-tune.*/tune.json", "--clean", "--resume")
    refused(["--", "cat", gate], "stoker-tune-profile.*/*", "--clean")


def copies_in(said):
    """The copies that were made, by their candidates."""
    return {copy["id"]: copy["at"] for copy in said["copies"]}


def test_prepared_copies_are_used_again(stoker, tmp_path):
    """An hour of packing is not done twice, and --clean still knows the folders on other storage."""
    near, data = tmp_path / "near", tmp_path / "here" / "pictures"
    near.mkdir()
    make_images(data, per_class=60)
    what = ["--near", near, *VIRTUAL, "--keep", "--budget", "1h", "--json", "-"]
    first = stoker("tune", data, "--only", "pack,loader", *what).json()["result"]
    folder = pathlib.Path(first["folder"])
    said = json.loads((folder / "tune.json").read_text())
    copies = copies_in(said)
    assert {"pack", "loader"} <= set(copies)
    stamps = {at: os.stat(at).st_ino for at in copies.values()}
    stoker("tune", "--resume", folder, "--keep", "--budget", "1h", "--json", "-")
    again = json.loads((folder / "tune.json").read_text())
    assert copies_in(again) == copies
    assert again["folders"] == said["folders"]
    assert {at: os.stat(at).st_ino for at in stamps} == stamps
    stoker("tune", "--clean", folder)
    assert not os.listdir(near) and not folder.exists()


def test_resumed_in_another_folder(stoker, tmp_path, other_storage):
    """A copy on other storage that nobody knows any more stays for ever: named from elsewhere, or not tried again."""
    near, data = other_storage, tmp_path / "here/data"
    make_images(data, per_class=4)
    what = ["--budget", "1s", "--json", "-"]

    def kept(*options, cwd):
        run = stoker("tune", *options, *what, "--keep", cwd=cwd)
        folder = pathlib.Path(run.json()["result"]["folder"])
        return folder, json.loads((folder / "tune.json").read_text())
    folder, said = kept(data, *VIRTUAL, "--only", "checkpoint", "--near", os.path.relpath(near, tmp_path / "here"),
                        cwd=tmp_path / "here")
    assert said["folders"] == [str(near / folder.name)]
    (near / folder.name).mkdir(mode=0o700)
    assert kept("--resume", folder, cwd=tmp_path)[1]["folders"] == said["folders"]
    stoker("tune", "--resume", folder, *what)
    assert not folder.exists() and not os.listdir(near)


def test_resumed_with_other_data(stoker, tmp_path):
    """Times of yesterday's data beside those of today's: a gain or a loss that nobody has."""
    data = tmp_path / "here/data"
    make_images(data, per_class=20)
    what = ["--budget", "1s", "--keep", "--json", "-"]
    result = stoker("tune", data, *VIRTUAL, "--only", "threads", "--near", data, *what).json()["result"]
    folder = pathlib.Path(result["folder"])

    def resumed():
        (folder / "first").mkdir(mode=0o700, exist_ok=True)
        (folder / "first/marker").write_text("of the runs before")
        notes = stoker("tune", "--resume", folder, *what).json()["result"]["notes"]
        return (folder / "first/marker").exists(), "The data has changed since" in " ".join(notes)
    assert resumed() == (True, False)
    (data / "class00/one-more.jpg").write_bytes(b"x" * 1000)
    assert resumed() == (False, True)
    stamp = (data / "class00/one-more.jpg").stat().st_mtime_ns
    os.utime(data / "class00/one-more.jpg", ns=(stamp, stamp + 10**9))  # written again, as long as before
    assert resumed() == (False, True)
    stoker("tune", "--clean", folder)


def test_data_that_is_not_there_today(stoker, tmp_path, other_storage):
    """A file system that is not mounted must not cost the copies of a night: a resume that fails leaves all as it was."""
    data = tmp_path / "here/data"
    make_images(data, per_class=4)
    run = stoker("tune", data, *VIRTUAL, "--near", other_storage, "--only", "checkpoint,loader", "--budget", "1s", "--keep", "--json", "-")
    folder = pathlib.Path(run.json()["result"]["folder"])
    (other_storage / folder.name).mkdir(mode=0o700)
    (other_storage / folder.name / "checkpoint").write_text("an hour")
    data.rename(tmp_path / "away")
    before = tree_of(other_storage), sorted(os.listdir(folder))
    run = stoker("tune", "--resume", folder, rc=4)
    assert f"{data}: open the data" in run.err and f"--resume {folder}" in run.err and "bench --generate" not in run.err
    assert (tree_of(other_storage), sorted(os.listdir(folder))) == before and not run.out
    (tmp_path / "away").rename(data)
    stoker("tune", "--resume", folder, "--budget", "1s")
    assert not os.listdir(other_storage) and os.listdir(data.parent) == ["data"]


def test_indexes_wherever_they_are(stoker, tmp_path):
    """The index of a colleague's data lies in the user's cache, and what a killed run has left of one beside it."""
    data, cache = tmp_path / "here/data", tmp_path / "xdg-cache/stoker"
    make_images(data)
    what = ["tune", data, *VIRTUAL, "--only", "checkpoint", "--near", data, "--budget", "1s", "--keep", "--json", "-"]

    def kept():
        folder = pathlib.Path(stoker(*what).json()["result"]["folder"])
        return folder, json.loads((folder / "tune.json").read_text())["indexes"]
    folder, indexes = kept()
    assert not cache.exists() and sorted(os.listdir(data.parent)) == ["data", folder.name]
    assert [pathlib.Path(p).parent for p in indexes] == [data.parent, cache]
    cache.mkdir(mode=0o700, parents=True)
    for path in indexes:
        for name in (path, path + ".partial.0123456789abcdef"):
            pathlib.Path(name).write_text("index")
    stoker("tune", "--clean", folder)
    assert not cache.exists() and os.listdir(data.parent) == ["data"]
    stoker("inspect", data)
    folder, indexes = kept()
    stoker("tune", "--clean", folder)
    assert sorted(os.listdir(data.parent)) == ["data", "data.stkidx"]  # it was there before


def test_clean_removes_only_its_own(stoker, tmp_path):
    """A wrong path must not cost anybody a folder."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("x")
    stoker("tune", "--clean", tmp_path / "mine", rc=4)
    (tmp_path / "mine/tune.json").write_text("{}")
    assert "was not made by stoker tune" in stoker("tune", "--clean", tmp_path / "mine", rc=4).err
    assert (tmp_path / "mine/file").exists()


def test_data_that_is_packed_already(stoker, tmp_path):
    """Who has packed the data wants to know what comes next: it has an index, so none is made for the loader."""
    make_images(tmp_path / "images", per_class=100)
    stoker("pack", tmp_path / "images", tmp_path / "data", "--shard-size", "32K")
    run = stoker("tune", tmp_path / "data", *VIRTUAL, "--only", "loader", "--near", tmp_path, "--budget", "1h", "--json", "-")
    loader = by_id(run.json()["result"])["loader"]
    assert loader["runs"] and loader["costs"]["disk_bytes"] == 0
    assert sorted(os.listdir(tmp_path)) == ["data", "images", "images.stkidx"]


def test_data_that_one_request_reads(stoker, tmp_path):
    """The first steps of a small dataset in one shard take no time on modelled storage: that is no reason to give up."""
    make_images(tmp_path / "images", per_class=150)
    stoker("pack", tmp_path / "images", tmp_path / "data")
    run = stoker("tune", tmp_path / "data", "--virtual-storage", "100M,1ms", "--only", "memory", "--near", tmp_path, "--budget",
                 "1h", "--json", "-")
    assert by_id(run.json()["result"])["memory"]["times"] > 1


def test_resumed_with_a_smaller_budget(stoker, job):
    """What an hour has measured is not lost because the next call has a second."""
    workload, data = job(SMALL)
    what = ["--keep", "--json", "-"]
    first = stoker("tune", workload, "--data", data, "--near", data, *VIRTUAL, "--only", "request,prefetch,threads", "--budget", "1h",
                   *what).json()["result"]
    again = stoker("tune", "--resume", first["folder"], "--budget", "1s", *what).json()["result"]
    was, now = by_id(first), by_id(again)
    assert len([c for c in was.values() if c["runs"]]) > 3
    for name, c in was.items():
        assert (now[name]["verdict"], now[name]["times"], now[name]["runs"]) == (c["verdict"], c["times"], c["runs"])
    stoker("tune", "--clean", first["folder"])


def test_clean_after_a_kill_while_storage_is_measured(stoker, tmp_path):
    """Files for measuring must not lie beside the data for ever."""
    make_images(tmp_path / "data")
    what = ["tune", tmp_path / "data", *VIRTUAL, "--only", "checkpoint", "--near", tmp_path / "data", "--budget", "1s", "--keep"]
    folder = pathlib.Path(stoker(*what, "--json", "-").json()["result"]["folder"])
    (folder / ".stoker-doctor.0123456789abcdef").mkdir()
    (folder / ".stoker-doctor.0123456789abcdef/data").write_text("x")
    stoker("tune", "--clean", folder)
    assert os.listdir(tmp_path) == ["data"]


def test_a_folder_of_a_later_version(stoker, tmp_path):
    """Words that this version does not know are no reason to leave copies of a night behind."""
    make_images(tmp_path / "data")
    what = ["tune", tmp_path / "data", *VIRTUAL, "--only", "checkpoint,loader", "--near", tmp_path / "data", "--budget", "1s", "--keep"]
    folder = pathlib.Path(stoker(*what, "--json", "-").json()["result"]["folder"])
    state = json.loads((folder / "tune.json").read_text())
    state["stage"] = "later"
    (folder / "tune.json").write_text(json.dumps(state))
    assert "'stage' is not" in stoker("tune", "--resume", folder, rc=4).err
    stoker("tune", "--clean", folder)
    assert os.listdir(tmp_path) == ["data"]


def test_a_folder_of_an_earlier_version(stoker, tmp_path):
    """After an upgrade: it is said that the old call cannot go on, nothing is lost, and its copies can be removed."""
    folder, near = tmp_path / "stoker-tune.0123", tmp_path / "near/stoker-tune.0123"
    (near / "stage.source").mkdir(parents=True)
    (near / "stage.source/file").write_text("x")
    for name in ("first", "pack"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text("x")
    (folder / "workload.yaml").write_text(SMALL)
    index = tmp_path / "data.stkidx"
    index.write_text("index")
    (folder / "tune.json").write_text(json.dumps({
        "kind": "stoker tune", "workload": str(folder / "workload.yaml"), "via": "local", "notes": [], "steps": 8,
        "points": {"baseline": ["bench"], "pack": ["bench"], "stage": ["bench"]}, "prepared": {},
        "folders": [str(near)], "indexes": [str(index)]}))
    for path in (folder, near):
        path.chmod(0o700)
    before = tree_of(tmp_path)
    err = stoker("tune", "--resume", folder, rc=4).err
    assert "left by an earlier version" in err and "--clean" in err and tree_of(tmp_path) == before
    stoker("tune", "--clean", folder)
    assert os.listdir(tmp_path) == ["near"] and not any(tmp_path.glob("near/*"))


def test_what_is_not_used_is_told(stoker, tmp_path):
    """Options that are silently without effect cost the user an hour, or an argument with a colleague."""
    make_images(tmp_path / "data")
    folder = tmp_path / "stoker-tune.x"
    for words in (["--resume", folder, tmp_path / "data"], ["--clean", folder, "--", "true"]):
        assert "says what is tuned" in stoker("tune", *words, rc=2).err
    (tmp_path / "file").write_text("x")
    run = stoker("tune", tmp_path / "data", "--near", tmp_path / "file", *VIRTUAL, "--only", "checkpoint", "--budget", "1s", "--json", "-")
    assert f"Nothing is tried in --near {tmp_path}/file: is not a folder" in run.json()["result"]["notes"]
    odd = os.fsencode(tmp_path) + b"/caf\xe9"
    os.rename(tmp_path / "data", odd)
    assert "rename the folder" in stoker("tune", os.fsdecode(odd), rc=4).err


def test_a_command_that_fails(stoker, tmp_path):
    """Numbers of a run that failed are numbers of nothing."""
    run = stoker("tune", "--", "false", rc=4, cwd=tmp_path)
    assert "ended with status 1" in run.err and "stoker tune PROFILE" in run.err and "--for" in run.err
    assert os.listdir(tmp_path) == []


def test_a_dataset(stoker, images):
    """The question of a new user: this folder, what now?"""
    index = images[0] / "of an earlier run.stkidx"
    index.write_bytes(b"x" * 100)  # counted as no file of the dataset
    before = tree_of(images[0])
    result = stoker("tune", images[0], "--only", "threads,loader", "--near", images[0], *VIRTUAL, "--budget", "1h",
                    "--json", "-").json()["result"]
    seen = by_id(result)
    assert result["files"] == 15 and seen["baseline"]["epoch_s"] > 0 and seen["loader"]["runs"]
    loader = seen["loader"]["costs"]
    assert loader["once_s"] > 0 and loader["disk_bytes"] > 0, loader  # its index: made once, not in every run
    assert tree_of(images[0]) == before
    index.unlink()
    assert not [n for n in os.listdir(images[0].parent) if n.startswith(("stoker-", "images."))]


@pytest.mark.parametrize("part", ["train", "images/val2017"])
def test_nothing_is_written_where_programs_list(stoker, tmp_path, part):
    """Another job's ImageFolder takes a folder in the dataset for a class without pictures."""
    data = tmp_path / "det" / part
    data.mkdir(parents=True)
    (data / "1.bin").write_bytes(bytes(5000))
    before = sorted(tmp_path.rglob("*"))
    stoker("tune", data, *VIRTUAL, "--only", "checkpoint", "--keep", "--near", tmp_path)
    assert [p.name.split(".")[0] for p in set(tmp_path.iterdir()) - {tmp_path / "det"}] == ["stoker-tune"]
    assert sorted(p for p in tmp_path.rglob("*") if "stoker-tune" not in str(p)) == before
    assert not list((tmp_path / "det").rglob("stoker*"))


def test_a_dataset_of_one_file(stoker, tmp_path, images):
    """HDF5, tar and CSV datasets are often one file: it is tuned, not the folder that it happens to be in."""
    data = tmp_path / "data"
    data.mkdir()
    subprocess.run(["tar", "-cf", data / "d.tar", "-C", images[0], "."], check=True)
    (data / "other.bin").write_bytes(bytes(1 << 20))
    result = stoker("tune", data / "d.tar", "--only", "prefetch,loader", "--choose", "prefetch-8", "--near", data, *VIRTUAL,
                    "--budget", "1h", "--json", "-").json()["result"]
    assert result["files"] == 1 and result["bytes"] == (data / "d.tar").stat().st_size
    prefetch = by_id(result)["prefetch-8"]
    assert "num_workers=2, prefetch_factor=4" in prefetch["lines"]  # torch refuses it without workers
    assert sorted(os.listdir(data)) == ["d.tar", "other.bin"]


def test_files_that_are_not_what_their_names_say(stoker, tmp_path):
    """A broken array that is packed is broken in all copies, and nobody looks again."""
    image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")
    folder = tmp_path / "mixed"
    for name in ("a/1", "a/2", "b/3"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        image.effect_noise((40, 40), 9).save(folder / f"{name}.jpg")
    (folder / "a/labels.csv").write_text("name,label\n1.jpg,2\n")
    look = ["tune", folder, *VIRTUAL, "--only", "checkpoint", "--json", "-"]
    assert not stoker(*look).json()["result"]["notes"]
    picture = folder / "a/2.jpg"
    picture.write_bytes(picture.read_bytes()[:-60])
    notes = stoker(*look).json()["result"]["notes"]
    assert len(notes) == 1 and "1 of 4 files cannot be read as what its name says: a/2.jpg: " in notes[0]
    (folder / "b/rows.npy").write_text("no array")
    assert stoker(*look).json()["result"]["notes"][0].startswith("2 of 5 files cannot be read")
    assert not [n for n in os.listdir(tmp_path) if n.startswith(("stoker-", "mixed."))]


def test_a_sample_of_data_that_is_too_large(stoker, tmp_path):
    """A user with a terabyte and a gigabyte of space still gets an answer, and knows what it is of."""
    data = tmp_path / "data"
    for i in range(300):
        (data / f"{i % 3}").mkdir(parents=True, exist_ok=True)
        (data / f"{i % 3}/{i}.bin").write_bytes(bytes([i % 256]) * (20000 if i % 3 else 80000))
    before = tree_of(data)
    run = stoker("tune", data, "--only", "pack", "--choose", "pack", "--near", data, *VIRTUAL, "--space", "8M",
                 "--budget", "1h", "--json", "-", "--keep")
    result = run.json()["result"]
    kept = pathlib.Path(result["folder"])
    sample = [p for p in (kept / "sample").rglob("*") if p.is_file()]
    large = sum(p.stat().st_size == 80000 for p in sample)
    assert 20 < len(sample) < 60 and abs(large / len(sample) - 1 / 3) < 0.05
    assert result["files"] == 300 and result["bytes"] == 12000000
    assert result["sample_bytes"] == sum(p.stat().st_size for p in sample) <= 8 << 20
    assert any("All of it ran on a sample of" in n for n in result["notes"])
    pack = by_id(result)["pack"]
    assert f"stoker pack {data} {data}-packed" in pack["lines"]  # all of it, not the sample
    assert pack["runs"] and pack["costs"]["disk_bytes"] > 12000000
    again = stoker("tune", "--resume", kept, "--budget", "1h", "--json", "-").json()["result"]
    assert (again["bytes"], again["sample_bytes"]) == (12000000, result["sample_bytes"])
    assert tree_of(data) == before and not kept.exists()


def test_no_space_for_a_sample(stoker, tmp_path):
    """Ten files are not one batch: what needs no space is tried, the rest is skipped by name."""
    for i in range(100):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / f"data/{i}.bin").write_bytes(b"x" * 40000)
    result = stoker("tune", tmp_path / "data", "--only", "pack,threads", "--near", tmp_path, *VIRTUAL, "--space", "1700K",
                    "--budget", "1h", "--json", "-").json()["result"]
    seen = by_id(result)
    assert result["sample_bytes"] == result["bytes"] and seen["baseline"]["epoch_s"] > 0
    assert seen["pack"]["verdict"] == "skipped" and "--space" in seen["pack"]["why"]
    error = stoker("tune", tmp_path / "data", *VIRTUAL, "--set", "training.batch=1000", rc=2).err
    assert "cannot be replayed: training.batch: " in error and "1000 samples per step" in error


def test_what_to_ask_for(stoker, job, tmp_path):
    """Eight GPUs that wait for two CPUs, or a queue of a day for memory that nobody needs."""
    workload, data = job(SMALL)
    (tmp_path / "times.csv").write_text("ranks,time,nodes,gpus\n" + "".join(
        f"{n},{t},{(n + 1) // 2},{n}\n" for n, t in ((1, 100), (2, 51), (4, 27), (8, 26.5), (16, 26.4))))
    quick = ["tune", workload, "--data", data, *VIRTUAL, "--near", data, "--budget", "1h", "--only", "request", "--ask"]
    told = stoker(*quick, "--study", tmp_path / "times.csv", "--json", "-").json()["result"]["ask"].splitlines()
    lines = dict(line.split(maxsplit=2)[1].removeprefix("--").split("=") for line in told if line.startswith("#S"))
    assert {k: v for k, v in lines.items() if k != "mem"} == {
        "nodes": "2", "ntasks": "4", "cpus-per-task": "2", "gpus-per-task": "1"}
    assert all(line.count("#") == 2 for line in told if line.startswith("#SBATCH"))  # each has its reason
    assert "times.csv" in told[0] and any(line.startswith("# tmp: nothing") for line in told)
    assert "no-such" in stoker(*quick, "--study", tmp_path / "no-such", rc=4).err
    (tmp_path / "nodes.csv").write_text("nodes,time\n1,100\n2,55\n4,30\n8,29\n")
    told = stoker(*quick, "--study", tmp_path / "nodes.csv", "--json", "-").json()["result"]["ask"]
    assert "--nodes=4 " in told and "--ntasks=4 " in told  # sbatch takes nodes without a task away


def test_fewer_cpus(stoker, job):
    """A user asks for 16 CPUs per GPU because everybody does."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one CPU here")
    workload, data = job(SMALL)
    run = stoker("tune", workload, "--data", data, "--near", data, "--only", "cpus", "--ask", "--budget", "1s",
                 "--keep", "--json", "-")
    folder = pathlib.Path(run.json()["result"]["folder"])
    said = json.loads((folder / "tune.json").read_text())
    name = next(name for name in said["points"] if name.startswith("cpus-"))
    assert said["points"][name]["cpus"] == int(name.removeprefix("cpus-")) < len(os.sched_getaffinity(0))
    figures = stoker("tune", "--step", name, folder).json()
    assert figures["cpus"] == said["points"][name]["cpus"] and figures["epoch_seconds"] > 0
    tried = next(c for c in run.json()["result"]["candidates"] if c["id"] == name)
    asked = run.json()["result"]["ask"]
    assert tried["verdict"] in ("nothing", "unclear", "skipped") and "--cpus-per-task=" in asked
    assert "--study DIR" in asked and "--nodes=" not in asked and "--ntasks=1" in asked
    stoker("tune", "--clean", folder)


def test_own_results_are_no_data(stoker, tmp_path):
    """A study would be tuned as a dataset of JSON."""
    (tmp_path / "s").mkdir()
    (tmp_path / "t.csv").write_text("n,time\n1,10\n2,6\n")
    stoker("scale", "--from", tmp_path / "t.csv", "--save", tmp_path / "s/study.json", "--json", tmp_path / "r.json")
    for path, command in (("s/study.json", "scale --from"), ("s", "scale --from"), ("r.json", "report")):
        refused = stoker("tune", tmp_path / path, rc=2)
        assert "not a dataset" in refused.err and f"`stoker {command}`" in refused.err


def test_wrong_words(stoker, job, tmp_path):
    workload, data = job(SMALL)
    assert "is missing" in stoker("tune", rc=2).err
    assert "either" in stoker("tune", workload, "--", "true", rc=2).err
    assert "--data DIR is missing" in stoker("tune", workload, rc=2).err
    assert "no such file" in stoker("tune", "nothing", rc=2).err
    assert os.listdir(data.parent) == ["data"]
