"""The command line itself: options, help, settings, exit status, what reaches the terminal."""

import ctypes
import json
import os
import pty
import re
import shutil
import signal
import subprocess

import pytest

from conftest import STOKER, clean_env

COMMANDS = ["inspect", "pack", "stage", "verify", "load", "bench", "profile", "report", "advise", "tune", "scale", "job",
            "watch", "doctor", "formats", "help", "version", "completion"]
SAFE = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")  # control bytes other than tab and newline


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Enough small files that a pack of them can be caught at work."""
    root = tmp_path_factory.mktemp("many") / "tree"
    for c in range(20):
        (root / f"c{c:02d}").mkdir(parents=True)
        for i in range(1000):
            (root / f"c{c:02d}" / f"{i:04d}.bin").write_bytes(os.urandom(600))
    return root


def options_in_help(text):
    lines = [line for line in text.splitlines() if re.match(r" {2,6}(-\w, )?--[a-z]", line)]
    return {re.search(r"--([a-z-]+)", line).group(1) for line in lines}


# ---- help and man page -----------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_help_man_and_completion_agree(stoker, command):
    """A user who reads the manual would try options that are not there, or never find others."""
    shown = options_in_help(stoker(command, "--help").out)
    page = stoker("help", "--man", command).out
    heads = re.findall(r"^(?:\\fB\\-\w\\fR, )?\\fB\\-\\-(\S+?)\\fR", page, re.M)
    in_man = {head.replace("\\-", "-") for head in heads}
    words = [line.split("\t")[0] for line in stoker("completion", "bash", "--", command, "--").out.splitlines()]
    completed = {w[2:] for w in words if w.startswith("--") and not w.startswith("--no-")}
    assert {"json", "quiet", "help"} <= shown
    assert shown == in_man == completed


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns_and_has_the_same_text_by_both_ways(stoker, command):
    """Help that wraps on a standard terminal is hard to read."""
    text = stoker(command, "--help").out
    assert text == stoker("help", command).out
    assert all(len(line) < 80 and line == line.rstrip() for line in text.splitlines()
               if not line.startswith("  stoker "))


def test_man_pages_are_valid_roff(stoker):
    """man would print warnings instead of a page."""
    for args in [()] + [(c,) for c in COMMANDS]:
        page = stoker("help", "--man", *args).out_bytes
        assert page.startswith(b".TH STOKER") and b".SH NAME" in page
        groff = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page,
                               capture_output=True, check=True) if have("groff") else None
        assert groff is None or groff.stderr == b""


def have(program):
    return any(os.access(os.path.join(d, program), os.X_OK)
               for d in os.environ["PATH"].split(os.pathsep))


# ---- usage errors --------------------------------------------------------------------------


@pytest.mark.parametrize("argv, says", [
    (["pck"], "did you mean pack?"),
    (["inspcet", "x"], "did you mean inspect?"),
    (["help", "verfy"], "did you mean verify?"),
    (["pack", "a", "b", "--shrads", "3"], "did you mean --shards?"),
    (["pack", "a", "b", "--no-resmue"], "did you mean --no-resume?"),
    (["pack", "a", "b", "--format", "tfrecrod"], "did you mean tfrecord?"),
    (["pack", "a", "b", "--on-error", "skpi"], "did you mean skip?"),
    (["pack", "a"], "DST is missing"),
    (["pack", "a", "b", "c"], "one argument too many"),
    (["pack", "a", "b", "--shards"], "--shards N"),
    (["pack", "a", "b", "--shards", "0"], "not within 1 and"),
    (["pack", "a", "b", "--shard-size", "12Q"], "not a size"),
    (["pack", "a", "b", "--shards", "2", "--shard-size", "1M"], "exclude each other"),
    (["pack", "a", "b", "--label-from", "csv"], "csv:FILE"),
    (["pack", "a", "b", "--force=yes"], "takes no value"),
    (["pack", "a", "b", "--no-jobs"], "not a switch"),
    (["verify", "-Z", "x"], "unknown option -Z"),
    (["inspect", "x", "-o", "y"], "needs --sample"),
    (["load"], "PATH is missing"),
    (["load", "x", "--shuffle", "blok"], "did you mean block?"),
    (["load", "x", "--rank", "4"], "R/W"),
    (["version", "x"], "one argument too many"),
    (["\x1b[2Jx"], "\\x1b[2Jx"),
])
def test_wrong_usage_is_2_and_says_what_was_meant(stoker, argv, says):
    """A typo must cost a second, not a wrong dataset."""
    r = stoker(*argv, rc=2)
    assert says in r.err and r.out == ""
    assert r.err.startswith("stoker: ") and "hint: " in r.err
    assert not SAFE.search(r.err.encode())


def test_no_command_is_2_and_shows_the_commands(stoker):
    """A first user sees what there is."""
    r = stoker(rc=2)
    assert all(c in r.err for c in COMMANDS) and r.out == ""
    assert stoker("--help").out == stoker("help").out == r.err


def test_options_may_stand_anywhere(stoker, images):
    """Options after the path, joined or apart, and -- before a name with a dash."""
    root, files = images
    for argv in (["--sample", "1", root], [root, "--sample=1"], [root, "-s", "1"], ["-s1", root]):
        assert stoker("inspect", "--json", "-", *argv).json()["result"]["sample"] == 1
    dashed = root.parent / "--sample"
    root.rename(dashed)
    r = stoker("inspect", "--json", "-", "--", "--sample", cwd=root.parent)
    assert r.json()["result"]["samples"] == len(files)


# ---- settings ------------------------------------------------------------------------------


def settings(stoker, root, *args, **env):
    r = stoker("inspect", root, "--json", "-", *args, env=env)
    return r.json()["settings"]


def test_precedence_of_sources_and_their_record(stoker, images, tmp_path):
    """A run cannot be reproduced if the origin of a setting is unknown."""
    root, _ = images
    config = tmp_path / "config"
    config.write_text("jobs = 2\nprogress-every = 2m\n[inspect]\nformat = folder\n"
                      "[pack]\nshard-size = 1G\n")
    s = settings(stoker, root, STOKER_CONFIG=config)
    assert s["jobs"] == {"value": 2, "from": "config", "where": f"{config}:1"}
    assert s["progress-every"]["value"] == 120 and s["progress-every"]["unit"] == "seconds"
    assert s["format"]["value"] == "folder" and s["payload"]["from"] == "default"
    s = settings(stoker, root, STOKER_CONFIG=config, STOKER_JOBS=3)
    assert s["jobs"] == {"value": 3, "from": "environment", "where": "STOKER_JOBS"}
    s = settings(stoker, root, STOKER_CONFIG=config, STOKER_JOBS=3, STOKER_INSPECT_JOBS=1)
    assert s["jobs"] == {"value": 1, "from": "environment", "where": "STOKER_INSPECT_JOBS"}
    s = settings(stoker, root, "-j", "4", STOKER_CONFIG=config, STOKER_INSPECT_JOBS=1)
    assert s["jobs"] == {"value": 4, "from": "command line"}


def test_settings_of_the_site(stoker, images, tmp_path):
    """A site sets defaults for all users; each user may have others."""
    root, _ = images
    site, config = tmp_path / "stoker.conf", tmp_path / "config"
    site.write_text("jobs = 5\nprogress-every = 3m\n")
    config.write_text("jobs = 2\n")
    s = settings(stoker, root, STOKER_SITE_CONFIG=site, STOKER_CONFIG=config)
    assert s["jobs"] == {"value": 2, "from": "config", "where": f"{config}:1"}
    assert s["progress-every"]["from"] == "site" and s["progress-every"]["where"] == f"{site}:2"
    s = settings(stoker, root, STOKER_SITE_CONFIG=site, STOKER_JOBS=3)
    assert s["jobs"]["from"] == "environment"
    r = stoker("inspect", root, rc=4, env={"STOKER_SITE_CONFIG": tmp_path / "missing"})
    assert "missing" in r.err


def test_settings_beside_an_installation(images, tmp_path):
    """An installed stoker.conf is found wherever the installation is."""
    root, _ = images
    (tmp_path / "moved/bin").mkdir(parents=True)
    shutil.copy(STOKER, tmp_path / "moved/bin/stoker")
    # LIBDIR depends on the build; any end of its path is looked for relative to the program.
    (tmp_path / "moved/stoker").mkdir()
    (tmp_path / "moved/stoker/stoker.conf").write_text("[inspect]\njobs = 7\n")
    done = subprocess.run([tmp_path / "moved/bin/stoker", "inspect", root, "--json", "-"], env=clean_env(),
                          capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["settings"]["jobs"]["from"] == "site"


def test_config_of_the_user_is_found(stoker, images, tmp_path):
    """~/.config/stoker/config is where the manual says it is."""
    root, _ = images
    (tmp_path / "xdg-config" / "stoker").mkdir(parents=True)
    (tmp_path / "xdg-config" / "stoker" / "config").write_text("[inspect]\njobs = 2\n")
    assert settings(stoker, root)["jobs"]["from"] == "config"


@pytest.mark.parametrize("text, line, says", [
    ("[pack]\nshardsize = 1M\n", 2, "did you mean shard-size?"),
    ("[inspekt]\n", 1, "did you mean [inspect]?"),
    ("jobs\n", 1, "name = value"),
    ("\n[inspect]\njobs = lots\n", 3, "not a whole number"),
])
def test_a_wrong_config_names_the_line(stoker, images, tmp_path, text, line, says):
    """A typo in the config file must not be ignored for months."""
    config = tmp_path / "config"
    config.write_text(text)
    r = stoker("inspect", images[0], rc=2, env={"STOKER_CONFIG": config})
    assert f"{config}:{line}: " in r.err and says in r.err
    stoker("inspect", "--help", env={"STOKER_CONFIG": config})
    stoker("inspect", images[0], rc=4, env={"STOKER_CONFIG": tmp_path / "missing"})


@pytest.mark.parametrize("text, size", [("1", 1), ("64K", 65536), ("64kB", 64000),
                                        ("1.5G", 3 << 29), ("2TiB", 2 << 40)])
def test_sizes_with_units(stoker, images, tmp_path, text, size):
    """256M must be 256 MiB everywhere."""
    r = stoker("verify", images[0], "--json", "-", "--memory", text)
    assert r.json()["settings"]["memory"]["value"] == size


# ---- JSON ----------------------------------------------------------------------------------


def test_version_says_how_readers_are_confined(stoker):
    """A site decides by it whether files of strangers may be read: what the kernel offers is used, and said."""
    landlock = ctypes.CDLL(None).syscall(444, None, 0, 1) >= 1  # its version
    run = stoker("version", "--json", "-")
    assert run.json()["result"]["confined_by"]["landlock"] == landlock
    out = stoker("version").out
    assert "confined by seccomp" in out and f"confined by Landlock  {'yes' if landlock else 'no'}" in out


@pytest.mark.parametrize("command", ["inspect", "verify", "formats", "version", "help"])
def test_every_result_carries_its_circumstances(stoker, images, command):
    """A number without machine, version and settings cannot be compared later."""
    args = [images[0]] if command in ("inspect", "verify") else []
    r = stoker(command, *args, "--json", "-")
    result = json.loads(r.out)
    assert next(iter(result.items())) == ("schema", 1)
    assert result["command"] == command and result["outcome"] == "done"
    assert result["exit_status"] == 0 and result["seconds"] >= 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result["start_time"])
    machine = result["machine"]
    assert machine["hostname"] == os.uname().nodename and machine["kernel"] == os.uname().release
    assert machine["cpus"] >= 1 and machine["memory_bytes"] > 1 << 20
    assert result["version"] in stoker("--version").out
    assert result["settings"]["quiet"] == {"value": False, "from": "default"}


def test_json_to_a_file_leaves_the_text(stoker, images, tmp_path):
    """Both for people and for programs from one run."""
    out = tmp_path / "r.json"
    r = stoker("inspect", images[0], "--json", out)
    assert "15" in r.out and json.loads(out.read_text())["result"]["samples"] == 15
    quiet = stoker("inspect", images[0], "--json", out, "--quiet")
    assert quiet.out == quiet.err == ""
    stoker("inspect", images[0], "--json", tmp_path / "no" / "r.json", rc=4)


def test_failure_is_in_the_json_too(stoker, tmp_path):
    """A script that reads results must see the failed ones."""
    missing = tmp_path / "missing"
    r = stoker("inspect", missing, "--json", "-", rc=4)
    result = r.json()
    assert result["outcome"] == "failed" and result["exit_status"] == 4
    assert result["error"]["path"] == str(missing) and "No such file" in result["error"]["what"]
    assert result["error"]["errno"] == "ENOENT"
    assert f"stoker: inspect: {missing}: " in r.err


def test_output_that_cannot_be_written_is_a_failure(stoker, images):
    """A full disk must not look like success."""
    with open("/dev/full", "w") as full:
        p = subprocess.run([STOKER, "inspect", images[0]], stdout=full, stderr=subprocess.PIPE,
                           env=clean_env())
    assert p.returncode == 4 and b"No space left" in p.stderr


# ---- exit status ---------------------------------------------------------------------------


def test_exit_status_of_pack_and_verify(stoker, images, tmp_path):
    """Job scripts decide by these."""
    root, files = images
    dst = tmp_path / "packed"
    stoker("pack", root, dst, "--format", "tfrecord", rc=0)
    stoker("verify", dst, rc=0)
    r = stoker("pack", root, dst, rc=4)
    assert "--force" in r.err
    shard = next(dst.glob("*.tfrecord"))
    data = bytearray(shard.read_bytes())
    data[40] ^= 1
    shard.write_bytes(data)
    r = stoker("verify", dst, "--json", "-", rc=1)
    problems = r.json()["result"]["problems"]
    assert r.json()["outcome"] == "problem found" and problems
    assert any(shard.name in p["path"] for p in problems)


def test_skipped_samples_are_status_3(stoker, tmp_path):
    """A pack that left something out must not pass for a whole one."""
    src = tmp_path / "a.jsonl"
    src.write_text('{"a": 1}\n{"a": }\n{"a": 3}\n')
    r = stoker("pack", src, tmp_path / "dst", "--on-error", "skip", "--json", "-", rc=3)
    assert r.json()["outcome"] == "partly done"
    assert r.json()["result"]["skipped_total"] == 1 and r.json()["result"]["samples"] == 2
    stoker("pack", src, tmp_path / "dst2", rc=4)
    assert not (tmp_path / "dst2").exists()


# ---- progress and signals ------------------------------------------------------------------


def test_progress_lines_without_a_terminal(stoker, images, tmp_path):
    """A batch job's log shows that it is alive, and --quiet keeps it empty."""
    r = stoker("pack", images[0], tmp_path / "a", "--progress-every", "0s")
    lines = [line for line in r.err.splitlines() if re.match(r"stoker: pack: .*(%|samples)", line)]
    assert lines and "\r" not in r.err and "\x1b" not in r.err
    assert stoker("pack", images[0], tmp_path / "b").err == ""  # nothing in the first ten seconds
    r = stoker("pack", images[0], tmp_path / "c", "--progress-every", "0s", "--quiet")
    assert r.err == r.out == ""


def test_progress_bar_on_a_terminal(many, tmp_path):
    """One line that moves, and nothing of it left behind."""
    main, side = pty.openpty()
    p = subprocess.Popen([STOKER, "pack", many, tmp_path / "dst", "-j1"], stdout=subprocess.PIPE,
                         stderr=side, env=clean_env({"TERM": "xterm"}))
    os.close(side)
    seen = b""
    while True:
        try:
            chunk = os.read(main, 65536)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    out = p.communicate()[0]
    assert p.returncode == 0 and b"packed" in out
    assert seen.endswith(b"\r\x1b[K") and b"\n" not in seen
    widths = [len(part.decode()) for part in re.split(rb"\r|\x1b\[K", seen)]
    assert max(widths) in range(10, 80)


@pytest.mark.parametrize("sig, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_pack_leaves_nothing_half_done_and_resumes(stoker, many, tmp_path, sig, status):
    """Ctrl-C and the end of a time slot must not cost the work done, nor fake a dataset."""
    dst = tmp_path / "dst"
    p = subprocess.Popen([STOKER, "pack", many, dst, "-j1", "--progress-every", "0s"],
                         stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                         env=clean_env())
    for line in p.stderr:
        if line.startswith("stoker: pack: ") and "index:" not in line:
            break
    p.send_signal(sig)
    err = p.communicate()[1]
    assert p.returncode == status, err
    assert "stopped by" in err and "--resume" in err
    assert not (dst / "manifest.json").exists()
    r = stoker("pack", many, dst, "--resume", "--json", "-")
    assert r.json()["result"]["samples"] == 20000
    stoker("verify", dst)


# ---- what reaches the terminal -------------------------------------------------------------


def hostile_tree(root):
    names = ["\x1b[2Jclear.txt", "\x1b]0;title\x07.txt", "bell\x07.txt", "new\nline.txt",
             "\u202egpj.exe", "\x9b31m.txt", "tab\tbed.txt"]
    folder = root / "class\x1b[31m"
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("hello \x1b[5m world")
    with open(os.fsencode(folder) + b"/\xff\xfe.txt", "wb") as f:
        f.write(b"x")
    return len(names) + 1


def test_hostile_names_do_not_reach_the_terminal(stoker, tmp_path):
    """A file name must not be able to clear the screen, fake a prompt or hide a fault."""
    root = tmp_path / "evil\x1b[7m"
    count = hostile_tree(root)
    runs = [stoker("inspect", root), stoker("verify", root),
            stoker("pack", root, tmp_path / "dst\x1b[1m")]
    runs += [stoker("inspect", root, "--sample", i) for i in range(count)]
    runs += [stoker("inspect", root / "no\x1b[2J", rc=4)]
    for r in runs:
        assert not SAFE.search(r.out_bytes) and not SAFE.search(r.err.encode()), repr(r)
        assert "\u202e" not in r.out and "\x9b" not in r.out
    assert "\\x1b[7m" in runs[0].out


def test_sample_written_out_stays_below_the_folder(stoker, tmp_path):
    """A key like ../../x must not write outside the folder that was named."""
    src = tmp_path / "a.jsonl"
    src.write_text(json.dumps({"key": "../../x", "a": "one", "../b": "two", "n": [1, 2, 3]}) + "\n")
    out = tmp_path / "out" / "deep"
    stoker("inspect", src, "--sample", 0, "-o", out, "--json", tmp_path / "r.json")
    written = [p for p in out.rglob("*") if p.is_file()]
    outside = {p.name for p in tmp_path.iterdir()} | {p.name for p in out.parent.iterdir()}
    assert written and not [name for name in outside if re.match(r"x\b", name)]
    listed = json.loads((tmp_path / "r.json").read_text())["result"]["written"]
    assert sorted(map(str, written)) == sorted(listed)
    assert all(re.fullmatch(r"[\w.,+@=%-]+", p.name) for p in written)
    contents = [p.read_bytes() for p in written]
    assert b"one" in contents and b"two" in contents
    assert any(c.startswith(b"\x93NUMPY") for c in contents)
    stoker("inspect", src, "--sample", 0, "-o", out, rc=4)
    stoker("inspect", src, "--sample", 0, "-o", out, "--force")


def test_sample_data_to_stdout_and_file(stoker, images, tmp_path):
    """The bytes of a sample come out as they went in."""
    root, files = images
    first = sorted(files)[0]
    assert stoker("inspect", root, "--sample", 0, "-o", "-").out_bytes == files[first]
    stoker("inspect", root, "--sample", 0, "-o", tmp_path / "one.jpg")
    assert (tmp_path / "one.jpg").read_bytes() == files[first]
    stoker("inspect", root, "--sample", 0, "-o", f"{tmp_path}/out/")
    assert (tmp_path / "out" / first).read_bytes() == files[first]
    stoker("inspect", root, "--sample", 0, "-o", "-", "--json", "-", rc=2)
    stoker("inspect", root, "--sample", len(files), rc=2)


def test_sample_shows_kind_type_and_preview(stoker, tmp_path):
    """One look tells what a sample holds."""
    src = tmp_path / "a.jsonl"
    src.write_text('{"text": "a cat", "label": 3, "box": [1.5, 2.0, -3.25]}\n')
    r = stoker("inspect", src, "--sample", 0)
    row = {line.split()[0]: line for line in r.out.splitlines() if line.strip()}
    assert "a cat" in row["text"] and "3" in row["label"].split()
    assert "1.5, 2, -3.25" in row["box"] and "float" in row["box"]


def test_inspect_of_damaged_data_shows_the_rest(stoker, images, tmp_path):
    """One bad record must not hide what the other thousand are; the status still says it."""
    dst = tmp_path / "packed"
    stoker("pack", images[0], dst, "--format", "tfrecord")
    shard = tmp_path / "x.tfrecord"
    data = bytearray(next(dst.glob("*.tfrecord")).read_bytes())
    data[40] ^= 1
    shard.write_bytes(data[:-10])
    r = stoker("inspect", shard, "--json", "-", rc=1)
    result = r.json()["result"]
    assert result["samples"] == 14 and result["problems_total"] == 2
    assert {"x.tfrecord"} == {os.path.basename(p["path"]) for p in result["problems"]}
    assert [p["offset"] for p in result["problems"]][0] == 0


def test_inspect_advises_packing_of_small_files(stoker, many):
    """The one thing most users should do next, as a command to copy."""
    text = stoker("inspect", many).out
    assert f"stoker pack {many} {many}-packed" in text


def test_inspect_names_the_first_classes(stoker, tmp_path):
    """"1,000 classes" does not tell a user whether the right directories were taken."""
    for i in range(12):
        (tmp_path / f"data/k\x1b{i:02d}").mkdir(parents=True)
        (tmp_path / f"data/k\x1b{i:02d}/x.bin").write_bytes(b"x")
    for path in (tmp_path / "data", tmp_path / "packed"):
        r = stoker("inspect", path)
        assert re.search(r"classes +12: k\\x1b00, k\\x1b01, .*, \.\.\.$", r.out, re.M)
        result = stoker("inspect", path, "--json", "-").json()["result"]
        assert result["classes"] == 12 and result["first_classes"][:2] == ["k\x1b00", "k\x1b01"]
        if path.name == "data":
            stoker("pack", path, tmp_path / "packed")


def test_format_by_the_ending_of_the_destination(stoker, images, tmp_path):
    """`pack x out.tar` must not write TFRecord files into a folder called out.tar."""
    for name, ending in (("out.tar", ".tar"), ("out.JSONL/", ".jsonl"), ("out", ".tfrecord")):
        stoker("pack", images[0], f"{tmp_path}/{name}")
        assert list((tmp_path / name.rstrip("/")).glob(f"*-00000-of-00001{ending}")), name


def test_payload_auto_is_the_default(stoker, images, tmp_path):
    """A choice the help offers must be taken."""
    stoker("pack", images[0], tmp_path / "a", "--name", "n")
    stoker("pack", images[0], tmp_path / "b", "--name", "n", "--payload", "auto")
    shard = "n-00000-of-00001.tfrecord"
    assert (tmp_path / "a" / shard).read_bytes() == (tmp_path / "b" / shard).read_bytes()


def test_formats_lists_all_and_what_is_missing(stoker):
    """A user learns which package to install before a job fails."""
    r = stoker("formats", "--json", "-")
    formats = {f["name"]: f for f in r.json()["result"]["formats"]}
    assert {"folder", "tar", "tfrecord", "recordio", "npy", "npz", "csv", "tsv", "json", "jsonl",
            "hdf5", "lmdb", "squashfs"} <= set(formats)
    text = stoker("formats").out
    for name, f in formats.items():
        line = next(x for x in text.splitlines() if x.split()[:1] == [name])
        assert (f["missing_package"] or "") in line
        assert f["read"] or f["missing_package"]
