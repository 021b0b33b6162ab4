"""The documentation says what is there: tables, options, links, the index layout, the examples."""

import functools
import os
import pathlib
import re
import shutil
import struct
import subprocess

import pytest

from conftest import STOKER, clean_env, flip_byte
from tfrecordlib import masked

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
EXAMPLES = ROOT / "examples"


def test_the_table_of_formats_is_the_programs(stoker):
    """A reader of the page would plan with a format or a compression that is not there."""
    rows = re.findall(r"^\| (`[a-z0-9`, ]+`) \|(.*)\|$", (ROOT / "docs/formats.md").read_text(), re.M)
    table = {}
    for names, rest in rows:
        _, read, write, shards, compress, endings = [c.strip() for c in rest.split("|")]
        for name in re.findall(r"`(\w+)`", names):
            table[name] = (read, write, shards, compress, endings)
    formats = stoker("formats", "--json", "-").json()["result"]["formats"]
    assert set(table) == {f["name"] for f in formats}
    for f in formats:
        if f["missing_package"]:
            continue
        read, write, shards, compress, endings = table[f["name"]]
        said = {"yes": True, "no": False}
        assert (said[read], said[write], said[shards]) == (f["read"], f["write"], f["shards"])
        assert set(f["suffixes"]) <= set(re.findall(r"\.\w+", endings))
        assert f["gzip_files"] == (".gz" in endings)
        have = (["zstd", "lz4"] if f["compress"] else []) + (["deflate"] if f["deflate"] else [])
        assert re.findall(r"\w+", compress) == have, f["name"]


def documented_commands():
    """(file, command, options) of every line with `stoker COMMAND` in code of pages and examples."""
    for page in [*PAGES, *EXAMPLES.glob("*.*"), *EXAMPLES.glob("*/*.py"), *EXAMPLES.glob("*/*.sbatch")]:
        text = page.read_text()
        code = text if page.suffix != ".md" else "\n".join(
            re.findall(r"^```\n(.*?)^```", text, re.M | re.S) + re.findall(r"`([^`\n]+)`", text))
        for line in code.splitlines():
            found = re.search(r"\bstoker (inspect|pack|stage|verify|load|bench|profile|report|advise|tune|scale|job|watch|doctor|formats|help|"
                              r"version)\b(.*)", line)
            if found:
                words = found.group(2).split("#")[0].split(" -- ")[0]
                options = re.findall(r"(?:^|\s)(--[a-z-]+|-[a-z](?=\s|$))", words)
                yield page.name, found.group(1), options


def test_options_in_the_documentation_exist(stoker):
    """Lines that people copy would fail."""
    seen = 0
    help_of = functools.cache(lambda command: stoker("help", command).out)
    for page, command, options in documented_commands():
        text = help_of(command)
        for option in options:
            seen += 1
            plain = option.replace("--no-", "--")
            assert re.search(rf"(^|[ ,]){plain}\b", text, re.M), f"{page}: {command} {option}"
    assert seen > 15


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    """A link that leads nowhere is found by readers only."""
    for target in re.findall(r"\]\(([^)#\s]*)(?:#[^)]*)?\)", page.read_text()):
        if target and "://" not in target:
            assert (page.parent / target).exists(), target


def heading_id(line):
    return re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_to_headings_exist(page):
    """The same, for places within a page."""
    for target, place in re.findall(r"\]\(([^)#\s]*)#([^)]*)\)", page.read_text()):
        other = page.parent / target if target else page
        heads = {heading_id(h) for h in other.read_text().splitlines() if h.startswith("#")}
        assert place in heads, f"{target}#{place}"


# ---- docs/profile.md -----------------------------------------------------------------------


def test_every_rule_is_documented(stoker):
    """A user who gets a finding would not learn what it is based on."""
    rules = [r["id"] for r in stoker("advise", "--list", "--json", "-").json()["result"]["rules"]]
    page = (ROOT / "docs/profile.md").read_text().split("\n## Findings\n")[1].split("\n## ")[0]
    assert sorted(rules) == sorted(re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.M))


def test_every_action_is_documented():
    """A script that acts on findings knows their kinds and parameters from this page alone."""
    table = (ROOT / "src/advice/action.c").read_text().split("static const struct row rows")[1]
    page = (ROOT / "docs/profile.md").read_text().split("\n### Actions\n")[1].split("\n### ")[0]
    infos = re.findall(r"=\s+\{\{(.*?)\}", table, re.DOTALL)
    assert len(infos) > 30
    for info in infos:
        for word in re.findall(r'"([^"]+)"', info):
            assert f"`{word}`" in page, word


# ---- docs/index.md -------------------------------------------------------------------------


def test_the_index_is_laid_out_as_documented(stoker, images, tmp_path):
    """A reader of the index written from the page would read nonsense."""
    stoker("pack", images[0], tmp_path / "p", "--shards", "2", "--name", "n")
    data = (tmp_path / "p/index.stkidx").read_bytes()
    magic, version, ntables, size = struct.unpack_from("<8sIIQ", data, 0)
    nfiles, nextents, nsamples = struct.unpack_from("<QQQ", data, 32)
    assert (magic, version, ntables, size) == (b"STKINDX\0", 7, 20, len(data))
    assert (nfiles, nextents, nsamples) == (2, 15, 15)
    assert data[88:104].rstrip(b"\0") == b"tfrecord" and data[104:120].rstrip(b"\0") == b"example"
    tables = [struct.unpack_from("<QQQII", data, 128 + 32 * i) for i in range(20)]
    assert [t[3] for t in tables] == [32, 1, 24, 16, 48, 48, 8, 16, 8, 1, 96, 1, 32, 32, 1, 16, 1, 8,
                                      4, 1]
    assert min(t[0] for t in tables) == 832 and max(t[0] for t in tables) == tables[17][0]
    assert tables[17][1] == -(-(tables[17][0] - 832) // 65536)
    assert all(t[0] % 64 == 0 and t[4] == 0 for t in tables)
    names = []
    for i in range(nfiles):
        off, length, _, file_size, mtime = struct.unpack_from("<QIIQq", data, tables[0][0] + 32 * i)
        names.append(data[tables[1][0] + off:][:length].decode())
        assert file_size == (tmp_path / "p" / names[i]).stat().st_size and mtime == 0
    for i in range(nextents):
        a, b = struct.unpack_from("<QQ", data, tables[3][0] + 16 * i)
        offset, length = a & (1 << 48) - 1, a >> 48 | (b & (1 << 28) - 1) << 16
        shard = (tmp_path / "p" / names[b >> 28 & (1 << 28) - 1]).read_bytes()
        record = shard[offset:offset + length]
        assert b >> 56 == 0 and masked(record) == struct.unpack_from("<I", shard, offset + length)[0]
    first, count = struct.unpack_from("<QQ", data, tables[4][0])
    kind = struct.unpack_from("<H", data, tables[4][0] + 46)[0]
    assert (first, count, kind) == (0, 15, 1)


# ---- examples ------------------------------------------------------------------------------


def read_in_python(*args):
    done = subprocess.run(["/usr/bin/python3", EXAMPLES / "read_tfrecord.py", *map(str, args)],
                          capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_python_example_reads_what_pack_wrote(stoker, images, tmp_path):
    """The way out for those who can install nothing: it must read our files, and see damage."""
    root, files = images
    stoker("pack", root, tmp_path / "p", "--shards", "2", "--name", "n")
    status, out, _ = read_in_python(tmp_path / "p", "--check", "-n", "15")
    assert status == 0 and out.splitlines()[-1].startswith("15 samples read, 15 in the manifest")
    for line, (name, data) in zip(out.splitlines(), sorted(files.items())):
        label = int(name[5:7])
        assert line == f"{name}  label {label} (class{label:02d})  data {len(data)} bytes"
    flip_byte(tmp_path / "p/n-00000-of-00002.tfrecord", 40)
    status, _, err = read_in_python(tmp_path / "p", "--check")
    assert status != 0 and "damaged data" in err


def fake_slurm(folder, first_status):
    """srun and scontrol that note what they are asked; the first srun ends as a time limit does."""
    folder.mkdir()
    (folder / "srun").write_text(
        f'#!/bin/bash\necho "srun $*" >> "{folder}/log"\n'
        f'if [ ! -e "{folder}/once" ]; then touch "{folder}/once"; exit {first_status}; fi\n'
        f'shift\nexec "{STOKER}" "$@"\n')
    (folder / "scontrol").write_text(f'#!/bin/bash\necho "scontrol $*" >> "{folder}/log"\n')
    for tool in ("srun", "scontrol"):
        (folder / tool).chmod(0o755)
    return clean_env({"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "17"})


def run_job(env, *args):
    return subprocess.run(["bash", EXAMPLES / "pack.sbatch", *map(str, args)], env=env,
                          capture_output=True, text=True).returncode


def test_slurm_example_requeues_and_goes_on(images, tmp_path):
    """A pack longer than the time limit would end after the first, or never."""
    dst, bin_dir = tmp_path / "p", tmp_path / "bin"
    env = fake_slurm(bin_dir, 143)
    assert run_job(env, images[0], dst) == 0 and not dst.exists()
    assert (bin_dir / "log").read_text().splitlines()[-1] == "scontrol requeue 17"
    assert run_job(env, images[0], dst) == 0 and (dst / "manifest.json").exists()
    # Once more, as after a node failure behind the last step: nothing left to pack.
    assert run_job(env, images[0], dst) == 0
    log = (bin_dir / "log").read_text().splitlines()
    assert [line.split()[:3] for line in log] == [
        ["srun", "stoker", "pack"], ["scontrol", "requeue", "17"], ["srun", "stoker", "pack"],
        ["srun", "stoker", "verify"], ["srun", "stoker", "verify"]]


def test_slurm_example_stops_at_a_real_failure(images, tmp_path):
    """A job that fails must not go round in the queue for ever."""
    env = fake_slurm(tmp_path / "bin", 4)
    assert run_job(env, images[0], tmp_path / "p") == 4
    assert "scontrol" not in (tmp_path / "bin/log").read_text()


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_shell_examples_are_sound():
    """A syntax error would be found on a compute node, after hours in the queue."""
    subprocess.run(["bash", "-n", EXAMPLES / "pack.sbatch"], check=True)
