"""`stoker report`: what a profile shows on a terminal, and what programs get of it."""

import csv
import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import termios

import pytest

from conftest import ROOT, STOKER, clean_env, run_stoker

CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
EVIL = b"evil\x1b[31m\n\xff.bin"

# Known I/O: 2 epochs of 4 files of 32 KiB in reads of 4 KiB, a forked worker that reads a file in
# 16 reads of 1000 bytes, three writes, and a hostile name.
PROGRAM = r"""
import ctypes, os, sys
folder = sys.argv[1]
lib = ctypes.CDLL(None)
none = ctypes.c_uint64(2**64 - 1)
for epoch in range(2):
    lib.stoker_preload_mark(3, None, none)
    for i in range(4):
        lib.stoker_preload_mark(1, None, none)
        lib.stoker_preload_phase_begin(b"load")
        fd = os.open(f"{folder}/data{i}.bin", os.O_RDONLY)
        for k in range(8):
            os.pread(fd, 4096, k * 4096)
        os.close(fd)
        lib.stoker_preload_phase_end()
pid = os.fork()
if pid == 0:
    fd = os.open(f"{folder}/worker.bin", os.O_RDONLY)
    while os.read(fd, 1000):
        pass
    os._exit(0)
os.waitpid(pid, 0)
fd = os.open(f"{folder}/out.bin", os.O_WRONLY | os.O_CREAT, 0o666)
for i in range(3):
    os.write(fd, b"x" * 100000)
os.close(fd)
os.stat(os.fsencode(folder) + b"/evil\x1b[31m\n\xff.bin")
fd = os.open(os.fsencode(folder) + b"/evil\x1b[31m\n\xff.bin", os.O_RDONLY)
os.read(fd, 100)
os.close(fd)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    for i in range(4):
        (root / f"data{i}.bin").write_bytes(os.urandom(32768))
    (root / "worker.bin").write_bytes(os.urandom(16000))
    with open(os.fsencode(root) + b"/" + EVIL, "wb") as f:
        f.write(b"x" * 100)
    (root / "program.py").write_text(PROGRAM)
    return root


@pytest.fixture(scope="module")
def profile(data):
    """A traced profile of PROGRAM."""
    folder = data / "traced.profile"
    run_stoker("profile", "--trace", "-o", folder, "--", "/usr/bin/python3",
                      data / "program.py", data)
    return folder


@pytest.fixture(scope="module")
def plain(data):
    """The same, not traced."""
    folder = data / "plain.profile"
    run_stoker("profile", "-o", folder, "--", "/usr/bin/python3", data / "program.py", data)
    return folder


@pytest.fixture(scope="module")
def result(profile):
    return run_stoker("report", profile, "--json", "-").json()["result"]


def record(result, name):
    found = [r for r in result["records"] if r["path"].endswith(name) and r["api"] == "posix"]
    assert len(found) == 1, [r["path"] for r in result["records"]]
    return found[0]


# ---- text ----------------------------------------------------------------------------------


def test_the_first_look_fits_one_screen(stoker, profile):
    """A first look that scrolls away is no first look."""
    lines = stoker("report", profile).out.splitlines()
    assert len(lines) < 24
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)
    text = "\n".join(lines)
    for word in ("program.", "exit status 0", "coverage", "main loop", "requests", "--numbers"):
        assert word in text
    assert lines.index(next(x for x in lines if x.startswith("  main loop"))) < 8


@pytest.mark.parametrize("option, word", [
    ("numbers", "re-read"), ("files", "data0.bin"), ("dirs", "directories"), ("formats", "I/O time"),
    ("ranks", "workers"), ("processes", "worker 1"), ("phases", "load"), ("sizes", "to 10 KiB"),
    ("latency", "longest read"), ("timeline", "over time"), ("notes", "not seen"),
    ("findings", "")])
def test_details_come_on_request(stoker, profile, option, word):
    """Who asks for a table gets that table, not the screen before it."""
    out = stoker("report", profile, f"--{option}").out
    assert out and word in out and "main loop" not in out
    assert out in stoker("report", profile, "--all").out


def test_a_process_that_executes_a_program_is_one(stoker, tmp_path):
    """A shell forks and executes: a pipeline of three programs would look like seven processes."""
    (tmp_path / "unit.bin").write_bytes(bytes(3 << 20))
    script = f"cat {tmp_path}/unit.bin | tail -c 10 | wc -c; exit 7"
    stoker("profile", "-o", tmp_path / "p", "--", "bash", "-c", script, rc=7)
    shown = stoker("report", tmp_path / "p", "--timeline").out
    assert "4 processes" in stoker("report", tmp_path / "p").out
    assert not re.search(r"-  +-  +1  +1 ", shown), shown   # no calls, no calls a second


def test_a_script_is_one_rank_and_its_calls_are_shown(stoker, tmp_path):
    """Invented ranks, syncs that are not counted, and a command that cannot be pasted."""
    script = f"cd {tmp_path}; dd if=/dev/zero of=a bs=1k count=1 conv=fsync; mv a b; rm b; cat 'p'"
    stoker("profile", "-o", tmp_path / "p", "--", "sh", "-c", script, rc=1)
    out = stoker("report", tmp_path / "p", "--numbers").out
    assert "1 sync" in out and "1 rename" in out and "1 remove" in out
    shown = stoker("report", tmp_path / "p", "--json", "-").json()["result"]
    assert [r["rank"] for r in shown["ranks"]] == [0] and shown["profile"]["ranks"] == 1
    assert shlex.split(shown["profile"]["command"]) == ["sh", "-c", script]
    commands = stoker("report", tmp_path / "p", "--processes").out
    assert re.search(r"^  mv a b ", commands, re.M), commands
    for line in out.splitlines():
        shares = re.findall(r"([\d.]+) %", line)
        if line.startswith(("each thread", "any thread", "main process")):
            assert len(shares) == 4 and round(sum(map(float, shares)), 1) == 100


def test_how_it_ended_is_said(stoker, tmp_path):
    """137 is a number to look up; too little to tell is no alarm."""
    subprocess.run([STOKER, "profile", "-q", "-o", tmp_path / "p", "--", "sh", "-c", "kill -9 $$"],
                   env=clean_env(), check=False)
    out = stoker("report", tmp_path / "p").out
    assert "ended by signal 9" in out and "too little was read to tell" in " ".join(out.split())
    run = next((tmp_path / "p").glob("run.*.json"))
    run.write_text(json.dumps(json.loads(run.read_text()) | {
        "state": "running", "exit_status": None, "signal": None, "seconds": None}))
    assert "still running" in stoker("report", tmp_path / "p").out


def test_steps_and_epochs_are_on_the_axis(stoker, profile):
    """Rates over time say little without the epoch they belong to."""
    out = stoker("report", profile).out
    assert re.search(r"^epoch +\|0", out, re.M) and re.search(r"^step +\|", out, re.M)
    assert "8 steps (marked)" in stoker("report", profile, "--phases").out


def test_names_do_not_steer_the_terminal(stoker, profile):
    """A file's name could clear the screen, or hide a line of the report."""
    out = stoker("report", profile, "--all", "--top", "0").out_bytes
    assert rb"[31m\n\xff.bin" in out
    assert not CONTROL.search(out)


def test_a_terminal_without_utf8_gets_ascii(stoker, profile):
    """Bars would be rubbish there."""
    out = stoker("report", profile, "--all", env={"LC_ALL": "C"}).out_bytes
    assert out.isascii() and b"#" in out


def on_terminal(columns, *args):
    """What the command writes to a terminal of that width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen([STOKER, *map(str, args)], stdout=slave, stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, env=clean_env({"NO_COLOR": "1"})) as process:
        os.close(slave)
        out = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            out += part
        assert process.wait() == 0, process.stderr.read()
    os.close(master)
    return out.decode().replace("\r\n", "\n")


def test_a_wide_terminal_has_more_columns(profile):
    """The room is there, and nothing may run over it."""
    wide = on_terminal(120, "report", profile, "--files")
    assert "a read's speed" in wide and "a read's speed" not in on_terminal(80, "report", profile, "--files")
    for columns in (80, 120):
        for option in ((), ("--files", "--dirs", "--ranks", "--processes", "--sizes")):
            text = on_terminal(columns, "report", profile, *option)
            assert max(map(len, text.splitlines())) <= columns


def test_quiet_prints_nothing(stoker, profile):
    """Scripts that want the JSON alone."""
    done = stoker("report", profile, "--quiet")
    assert done.out == "" and done.err == ""


# ---- JSON ----------------------------------------------------------------------------------


def test_json_has_every_counter_and_they_are_true(result):
    """A script that checks a job would decide by wrong numbers."""
    for i in range(4):
        c = record(result, f"data{i}.bin")["counters"]
        assert (c["opens"], c["closes"], c["reads"], c["read_bytes"]) == (2, 2, 16, 65536)
        assert (c["first_reads"], c["seq_reads"], c["consec_reads"]) == (2, 14, 14)
        assert (c["min_offset"], c["max_offset"]) == (0, 32768)
    worker = record(result, "worker.bin")
    assert (worker["counters"]["reads"], worker["counters"]["eof_reads"]) == (16, 1)
    assert result["processes"][worker["process"]]["worker"] == 1
    out = record(result, "out.bin")
    assert (out["counters"]["writes"], out["counters"]["write_bytes"]) == (3, 300000)
    assert out["write_size"][4] == 0 and out["write_size"][3] == 3 and sum(out["read_size"]) == 0
    assert out["counters"]["first_read_ns"] is None


def test_json_names_are_those_of_the_documentation(result):
    """A script written from the page would find nothing."""
    page = (ROOT / "docs" / "profile.md").read_text()
    assert set(record(result, "data0.bin")["counters"]) <= set(re.findall(r"`([a-z_0-9]+)`", page))
    words = set(re.findall(r"`(\w+)`", page))
    assert set(result) <= words
    for part in ("profile", "coverage", "io_share", "use", "job", "steps"):
        assert set(result[part]) <= words, part
    for table in ("hosts", "processes", "records", "files", "phases", "epochs", "samples", "marks"):
        for row in result[table][:1]:
            assert set(row) <= words, table


def test_json_carries_settings_and_totals(stoker, profile, result):
    """A result must say how it came about."""
    whole = stoker("report", profile, "--top", "5", "--json", "-").json()
    assert whole["settings"]["top"]["value"] == 5
    job = result["job"]
    assert job["counters"]["read_bytes"] == 8 * 32768 + 16000 + 100
    assert job["distinct_bytes"] == 4 * 32768 + 16000 + 100 and job["distinct_exact"]
    assert job["files_read"] == 6 and job["files_written"] == 1
    assert [p["name"] for p in result["phases"]] == ["load"] and result["phases"][0]["count"] == 8
    assert result["epochs_marked"] and len(result["epochs"]) == 2
    assert sum(b["read_bytes"] for b in result["timeline"]["bins"]) == job["counters"]["read_bytes"]


# ---- CSV -----------------------------------------------------------------------------------


def test_csv_has_what_json_has(stoker, profile, result, tmp_path):
    """Tables for a spreadsheet, with the odd name whole."""
    stoker("report", profile, "--csv", tmp_path / "tables")
    names = {p.name for p in (tmp_path / "tables").iterdir()}
    assert names == {f"{t}.csv" for t in
                     ("files", "processes", "ranks", "samples", "timeline", "phases", "records")}
    with open(tmp_path / "tables/records.csv", encoding="utf-8", errors="surrogateescape",
              newline="") as f:
        rows = list(csv.DictReader(f))
    assert len(rows) == len(result["records"])
    assert any(os.fsencode(r["path"]).endswith(EVIL) for r in rows)
    row = next(r for r in rows if r["path"].endswith("data0.bin"))
    for name, value in record(result, "data0.bin")["counters"].items():
        assert row[name] == ("" if value is None else str(value))


def test_one_table_by_its_name(stoker, profile, tmp_path):
    """And a name that is none is found at once."""
    stoker("report", profile, "--csv", f"files={tmp_path}/f.csv")
    head = (tmp_path / "f.csv").read_text(errors="replace").split("\n")[0].split(",")
    assert head[0] == "path" and {"format", "files", "io_s", "read_bytes"} <= set(head) and len(head) == len(set(head))
    done = stoker("report", profile, "--csv", f"file={tmp_path}/f.csv", rc=2)
    assert "did you mean files?" in done.err


# ---- trace ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trace(profile, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    out = run_stoker("report", profile, "--trace-out", path).out
    assert "operations" in out and str(path) in out
    return json.loads(path.read_text())["traceEvents"]


def test_trace_has_every_operation(trace, result):
    """A read that is missing on the time axis is the one that is looked for."""
    reads = [e for e in trace if e["ph"] == "X" and e["name"] == "read"]
    data0 = [e for e in reads if e["args"].get("file", "").endswith("data0.bin")]
    assert sorted(e["args"]["offset"] for e in data0) == sorted(2 * [k * 4096 for k in range(8)])
    assert all(e["args"]["bytes"] == 4096 and e["dur"] >= 0 for e in data0)
    assert len({e["pid"] for e in reads}) == 2
    opens = [e for e in trace if e["ph"] == "X" and e["name"] == "open"]
    assert len([e for e in opens if "data" in e["args"].get("file", "")]) == 8


def test_trace_names_processes_and_has_marks_and_counters(trace):
    """A user who opens it must know what it shows."""
    names = [e["args"]["name"] for e in trace if e["name"] == "process_name"]
    assert "job" in names and any("program.py" in n for n in names)
    assert any(n.startswith("worker 1: ") for n in names)
    for kind, n in (("step", 8), ("epoch", 2), ("phase", 8)):
        slices = [e for e in trace if e.get("cat") == kind]
        assert len(slices) == n and all(e["ph"] == "X" for e in slices)
    assert {"read MB/s", "write MB/s"} <= {e["name"] for e in trace if e["ph"] == "C"}


def test_a_profile_without_trace_says_how_to_get_one(stoker, plain, tmp_path):
    """Not an empty file that looks like a job without I/O."""
    done = stoker("report", plain, "--trace-out", tmp_path / "t.json", rc=4)
    assert "--trace" in done.err and not (tmp_path / "t.json").exists()


# ---- what is not a profile -----------------------------------------------------------------


def test_what_is_not_a_profile_is_an_error(stoker, tmp_path):
    """A wrong path must not look like a job without I/O."""
    assert "No such file" in stoker("report", tmp_path / "none", rc=4).err
    (tmp_path / "empty").mkdir()
    assert stoker("report", tmp_path / "empty", rc=(2, 4)).err
    (tmp_path / "text").write_text("hello")
    assert stoker("report", tmp_path / "text", rc=(2, 4)).err


def test_a_damaged_log_is_left_out_and_named(stoker, profile, tmp_path):
    """One bad disk block must not take the whole profile with it."""
    copy = tmp_path / "copy"
    shutil.copytree(profile, copy)
    log = sorted(copy.glob("*.stklog"))[0]
    log.write_bytes(b"rubbish" * 100)
    assert "damaged" in stoker("report", copy, "--notes").out


def test_two_profiles_side_by_side(profile, tmp_path):
    """Who changed something wants to see what it did, not to hold two screens beside each other."""
    run_stoker("profile", "-o", tmp_path / "after", "--", "cat", tmp_path / "none", rc=1)
    result = run_stoker("report", profile, tmp_path / "after", "--json", "-",
                        rc=3).json()["result"]
    assert not result["comparable"] and "The run after failed" in result["differences"]
    assert result["before"]["reads"] == 4 * 8 * 2 + 16 + 1 and result["after"]["reads"] == 0
    assert result["before"]["write_bytes"] == 300000 and result["after"]["command"].startswith("cat")
    mine = run_stoker("report", profile, profile, "--json", "-").json()["result"]
    assert mine["before"]["run_s"] == mine["after"]["run_s"] > 0
    assert not mine["findings_gone"] and not mine["findings_new"]
    shown = run_stoker("report", profile, profile).out
    assert "not known (1x measured)" in shown and re.search(r"reads +81 +81 +same", shown)
    shown = run_stoker("report", profile, tmp_path / "after", rc=3).out
    assert "The run after failed" in " ".join(shown.split())   # quick for another reason
    run_stoker("report", profile, profile, "--files", rc=2)


def page_of(stoker, folder, *results):
    """What the page says of results, which are files of --json: (verdict, what the number is) of each."""
    page, paths = folder / "page.html", []
    for i, (command, result) in enumerate(results):
        paths.append(folder / f"r{i}.json")
        paths[-1].write_text(json.dumps({"schema": 1, "command": command, "arguments": [], "settings": {}, "result": result}))
    if "built without the page" in stoker("report", *paths, "-o", page, rc=None).err:
        pytest.skip("stoker was built without the page")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)
    return [(r["verdict"], r["number"]["what"]) for r in json.loads(data[1])["results"]]


LOADED = {"samples_per_second": 800.0, "stall_fraction": 0.5, "read_bytes": 1000}


@pytest.mark.parametrize("storage, before, said", [
    (0, 1.0, "most of the data came from memory, not from storage"), (900, 0.0, None),
    (None, 0.25, "how much of the data came from storage is not known; at the start 25.0 % of the files was in the page cache")])
def test_a_page_does_not_show_the_page_cache_as_storage(stoker, tmp_path, storage, before, said):
    """A speed of the page cache in large digits, without a word, sells storage that nobody measured."""
    result = {**LOADED, "storage_bytes": storage, "in_memory_before_fraction": before}
    [(verdict, what)] = page_of(stoker, tmp_path, ("load", result))
    assert verdict.startswith("The loader delivered 800 samples per second")
    assert (said in verdict and said in what) if said else ("storage" not in verdict + what)


def test_a_page_of_benchmarks_says_what_one_run_shows(stoker, tmp_path):
    """Equal figures are not equal storage, and one run is no verdict."""
    run = {"utilisation": 0.5, "io_share": 0.4, "samples_per_second": 10.0, "ranks": 1, "per_rank": []}
    verdict, what = page_of(stoker, tmp_path, ("bench", run), ("bench", {**run, "samples_per_second": 20.0}))[-1]
    assert "r1.json against r0.json: not known (2x measured): one run of each does not show the noise" in verdict
    assert what.startswith("as measured")
    assert "not known" in page_of(stoker, tmp_path, ("bench", run), ("bench", run))[-1][0]
