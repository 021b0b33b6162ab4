"""What stoker makes, renames and removes, in folders that another user may write too: nothing of the
victim's is emptied, replaced or removed through what was planted there, nothing is published that
was put in its place, and nothing is readable that the data is not."""

import contextlib
import io
import os
import pathlib
import shutil
import stat
import subprocess
import tarfile

import pytest

import formatlib
from conftest import STOKER, clean_env, run_stoker
from faultlib import held_at, let_go, names, needs_strace, same_tree, tree
from securitylib import ATTACKER, GROUP, VICTIM

MANY = 10_000  # swaps of a folder and a link while stoker runs again and again
FORMATS = [name for name in formatlib.IMAGES if name not in ("tar", "jsonl")]  # written as tfrecord is


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.fixture
def precious(node):
    """Another dataset of the victim's, packed, with an unrelated file in it."""
    path = node.victim.home / "precious"
    node.victim.stoker("pack", node.data, path)
    node.victim.write(path / "thesis.txt", "years of work")
    return path, tree(path)


def pack(node, *more, rc=0, umask=0o022, dst="out"):
    return node.victim.stoker("pack", node.data, node.shared / dst, "--quiet", *more, rc=rc, umask=umask)


# ---- DST.partial ---------------------------------------------------------------------------------

@pytest.mark.parametrize("ending", [".partial", ".old.partial"])
@pytest.mark.parametrize("more", [(), ("--resume",), ("--force",)])
def test_planted_link(node, precious, ending, more):
    """`ln -s ~vic/precious P/out.partial`: pack emptied `precious`."""
    path, before = precious
    if more == ("--force",):
        pack(node)
    node.attacker.shell(f"ln -s {path} out{ending}", cwd=node.shared)
    done = pack(node, *more, rc=(0, 4))
    same_tree(path, before)
    assert os.path.islink(node.shared / f"out{ending}")
    if ending == ".partial":
        assert done.rc == 4 and "out.partial" in done.err and "a link" in done.err
    else:
        assert done.rc == 0 and not (node.shared / "out").is_symlink()
        node.victim.stoker("verify", node.shared / "out", "--quiet")


@pytest.mark.parametrize("what", ["dataset", "unfinished"])
@pytest.mark.parametrize("ending", [".partial", ".old.partial"])
def test_own_dataset_moved_there(node, ending, what):
    """In a folder that is not sticky another user can rename what he cannot remove. `P/other` as
    `P/out.partial` would be taken for what an earlier run left, and cleared away."""
    pack(node, dst="other")
    pack(node)
    if what == "unfinished":
        other = node.shared / "other"
        (other / "manifest.json").rename(other / "manifest.json.partial")
        node.victim.write(other / "pack.plan", "stoker\ndestination other\n")
    before = tree(node.shared / "other")
    node.attacker.shell(f"mv other out{ending}", cwd=node.shared)
    done = pack(node, "--force", rc=(0, 4))
    same_tree(node.shared / f"out{ending}", before)
    if ending == ".partial":
        assert done.rc == 4 and "in the way" in done.err
    node.victim.stoker("verify", node.shared / "out", "--quiet")


@pytest.mark.parametrize("bits", [0o777, 0o755, 0o2775])
def test_foreign_folder(node, bits):
    """If pack adopts the attacker's folder, the attacker can replace what pack writes in it."""
    node.attacker.shell(f"mkdir out.partial && chmod {bits:o} out.partial", cwd=node.shared)
    done = pack(node, rc=4)
    assert f"uid {ATTACKER}" in done.err and "choose another place" in done.err
    assert names(node.shared / "out.partial") == [] and not (node.shared / "out").exists()


def test_own_folder_others_may_write(node):
    """What is in it may be theirs: shards of a run that is resumed, say."""
    folder = node.shared / "out.partial"
    folder.mkdir()
    node.victim.own(folder, 0o2775)
    os.chown(folder, VICTIM, GROUP)
    done = pack(node, rc=4)
    assert "others may write in it (mode 2775)" in done.err
    folder.chmod(0o700)
    pack(node)


def test_link_inside_the_partial_folder(node, precious):
    """What an unfinished run left is cleared away; a link in it is only a link."""
    path, before = precious
    folder = node.shared / "out.partial"
    node.victim.shell(f"mkdir -m 700 out.partial && cd out.partial && mkdir -p a/b.partial && "
                      f"ln -s {path} x.partial && ln -s {path} a/b.partial/y && mv a a.partial && "
                      f"ln -s {path}/thesis.txt pack.plan.partial.1", cwd=node.shared)
    pack(node)
    same_tree(path, before)
    assert not folder.exists()


def test_destination_is_a_strangers_link(node, precious):
    """`P/out -> ~vic/precious` and `pack --force src P/out`: the caller never named `precious`."""
    path, before = precious
    node.attacker.shell(f"ln -s {path} out", cwd=node.shared)
    for more in ((), ("--force",)):
        done = pack(node, *more, rc=4)
        assert f"a link made by uid {ATTACKER}" in done.err
    same_tree(path, before)
    assert not [n for n in names(path.parent) if "partial" in n]
    (node.shared / "out").unlink()
    node.victim.shell(f"ln -s {path} out", cwd=node.shared)  # one's own is meant
    assert "thesis.txt" in pack(node, "--force", rc=4).err  # and what is not of the dataset stays
    same_tree(path, before)
    (path / "thesis.txt").unlink()
    pack(node, "--force")
    assert (node.shared / "out").is_symlink() and names(path) != []


def held(node, call, n, *args, umask=0o022):
    """stoker (as root: strace cannot be somebody else here), standing still behind the n-th call."""
    before = os.umask(umask)
    try:
        return held_at((call, n), *args, "--quiet", log=node.root / "strace.log", cwd=node.root)
    finally:
        os.umask(before)


def release(proc):
    let_go(proc)
    err = proc.communicate()[1].decode()
    return proc.returncode, err


def held_with_plan(node, *more, umask=0o022, dst="out"):
    """pack when it has made its folder and written nothing but the plan: index and plan have got
    their names."""
    proc = held(node, "renameat", 2, "pack", node.data, node.shared / dst, "--jobs", "1", *more, umask=umask)
    assert names(node.shared / f"{dst}.partial") == ["pack.plan"]
    return proc


@needs_strace
def test_private_until_it_is_whole(node):
    """Shards of private data could be read, and replaced, while they are written."""
    for umask, want in ((0o022, 0o2755), (0o002, 0o2775), (0o077, 0o2700)):
        out = f"out{umask:o}"
        proc = held_with_plan(node, umask=umask, dst=out)
        assert mode(node.shared / f"{out}.partial") == 0o2700
        assert release(proc)[0] == 0 and mode(node.shared / out) == want
        for name in ("manifest.json", "index.stkidx"):
            assert mode(node.shared / out / name) == 0o666 & ~umask


@needs_strace
@pytest.mark.parametrize("fmt", FORMATS)
def test_moved_away_while_it_is_written(node, precious, fmt):
    """Whoever may rename in the folder puts a link in DST.partial's place: every writer, and every
    library that writes, must go on in the folder that was checked."""
    path, before = precious
    proc = held_with_plan(node, "--format", fmt)
    node.attacker.shell(f"mv out.partial aside; ln -s {path} out.partial", cwd=node.shared)
    rc, err = release(proc)
    if rc and "install" in err:
        pytest.skip(f"this build does not write {fmt}")
    same_tree(path, before)
    assert rc == 4 and not (node.shared / "out").exists()
    assert "was moved away" in err, err
    assert "manifest.json" in names(node.shared / "aside")  # all of it went where it belongs


@needs_strace
def test_old_dataset_swapped_before_it_goes(node):
    """--force removes what it has replaced, and nothing that was put there instead."""
    pack(node, "--shuffle", "1")
    stuff = node.shared / "stuff"
    stuff.mkdir()
    node.victim.write(stuff / "thesis.txt", "years of work")
    node.victim.own(stuff)
    points = held(node, "renameat2", 1, "pack", node.data, node.shared / "out", "--force")
    node.attacker.shell("mv out.partial aside; mv stuff out.partial", cwd=node.shared)
    release(points)
    assert (node.shared / "out.partial/thesis.txt").read_text() == "years of work"


# ---- races ---------------------------------------------------------------------------------------

class Bin:
    """Takes things out of the attacker's reach, whatever they are by now, without following them."""

    def __init__(self, node):
        self.path, self.n = node.root / "bin", 0
        self.path.mkdir(mode=0o700)

    def take(self, path):
        self.n += 1
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, self.path / str(self.n))


def race(node, swapped, against, prepare, run, least=4):
    """Runs it again and again until the attacker has swapped the two names often enough."""
    bin = Bin(node)
    runs = 0
    with node.attacker.swapping(node.shared / swapped, node.shared / against) as swaps:
        while runs < least or swaps.count() < MANY:
            prepare()
            run()
            runs += 1
            for name in ("out", "out.partial", "out.swap.partial", against):
                bin.take(node.shared / name)
            assert runs < 3000, f"only {swaps.count()} swaps"


@pytest.mark.parametrize("name", ["out.partial", "out"])
def test_race_of_link_and_folder(node, precious, name):
    """Between any two calls of pack the name is the folder, or a link to another dataset."""
    path, before = precious

    def plant():
        os.symlink(path, node.shared / "trap")
        os.chown(node.shared / "trap", ATTACKER, ATTACKER, follow_symlinks=False)

    def run():
        done = pack(node, "--force", rc=(0, 4))
        if done.rc == 0:
            assert not [n for n in names(path) if n not in {pathlib.Path(b).parts[0] for b in before}]

    race(node, name, "trap", plant, run)
    same_tree(path, before)


def test_race_of_old_dataset_and_folder(node):
    """--force, and what it replaces is now the old dataset, now a folder of the victim's with other
    things in it."""
    pack(node, "--shuffle", "1")
    keep, ready = node.root / "keep", node.root / "ready"
    os.rename(node.shared / "out", keep)
    ready.mkdir(mode=0o700)
    made = []

    def plant():  # each is whole before the attacker gets hold of it
        (ready / "stuff").mkdir()
        node.victim.write(ready / "stuff/thesis.txt", "years of work")
        shutil.copytree(keep, ready / "out")
        made.append((ready / "stuff").stat().st_ino)
        for name in ("stuff", "out"):
            os.rename(node.victim.own(ready / name), node.shared / name)

    def run():
        pack(node, "--force", rc=(0, 4))

    race(node, "out", "stuff", plant, run)
    kept = {p.parent.stat().st_ino for p in node.root.rglob("thesis.txt")
            if p.read_text() == "years of work"}
    assert set(made) <= kept


# ---- single files --------------------------------------------------------------------------------

def plant_for_pids(node, name, target):
    """NAME.partial.PID for the next 3,000 processes, as a link."""
    last = int(pathlib.Path("/proc/sys/kernel/ns_last_pid").read_text())
    node.attacker.python("import os, sys\n"
                         "for i in range(int(sys.argv[1]), int(sys.argv[1]) + 3000):\n"
                         "    os.symlink(sys.argv[2], f'{sys.argv[3]}.partial.{i}')",
                         last, target, node.shared / name)


OUTPUTS = {"json": ("inspect", "--json"), "ids": ("load", "--batch", "5", "--ids"),
           "state": ("load", "--batch", "5", "--state"),
           "sample": ("inspect", "--sample", "0", "--force", "-o")}


# A state that is there is read.
@pytest.mark.parametrize("output, plant", [(o, p) for o in OUTPUTS for p in ("pids", "link", "hard")
                                           if (o, p) not in {("state", "link"), ("state", "hard")}])
def test_output_is_not_written_through_a_link(node, output, plant):
    """400 planted `r.partial.PID` links, and `--json P/r` overwrote a dot file."""
    dot = node.victim.write(node.victim.home / ".bashrc", "alias ls='ls -F'\n")
    out = node.shared / "r"
    if plant == "pids":
        plant_for_pids(node, "r", dot)
    elif plant == "link":
        node.attacker.shell(f"ln -s {dot} r", cwd=node.shared)
    else:
        os.link(dot, out)
    command, *more = OUTPUTS[output]
    node.victim.stoker(command, node.data, *more, out, "--quiet")
    assert dot.read_text() == "alias ls='ls -F'\n"
    assert out.stat().st_size > 0 and out.stat().st_uid == VICTIM and not out.is_symlink()
    assert mode(out) == 0o644


def test_strangers_pipe_is_replaced(node):
    """A FIFO under the name of the output: stoker would wait for ever, or talk to whoever reads."""
    node.attacker.shell("mkfifo -m 666 r.json ids", cwd=node.shared)
    node.victim.stoker("inspect", node.data, "--json", node.shared / "r.json", "--quiet")
    node.victim.stoker("load", node.data, "--ids", node.shared / "ids", "--quiet")
    for name in ("r.json", "ids"):
        assert stat.S_ISREG(os.lstat(node.shared / name).st_mode)


def test_own_pipe_is_written(node):
    """`--json PIPE` with a reader at its other end is what people do; so is /dev/stdout."""
    pipe = node.victim.home / "r.json"
    node.victim.shell("mkfifo r.json", cwd=node.victim.home)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    node.victim.stoker("inspect", node.data, "--json", pipe, "--quiet")
    assert os.read(reader, 1 << 16).endswith(b"}\n") and stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)
    for path in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        assert run_stoker("inspect", node.data, "--json", path, "--quiet").json()["outcome"] == "done"


def test_stdout_that_is_a_file(node):
    """`--json /dev/stdout >file` as root replaced /dev/stdout itself."""
    with open(node.root / "said", "wb") as out:
        subprocess.run([STOKER, "inspect", node.data, "--json", "/dev/stdout", "--quiet"], stdout=out,
                       env=clean_env(), check=True)
    assert os.path.islink("/dev/stdout") and '"outcome"' in (node.root / "said").read_text()


def test_sample_is_not_written_below_a_link(node):
    """A key out of strangers' data and a folder that they have made: `P/x/class00 -> ~vic`."""
    node.attacker.shell(f"mkdir x; chmod 777 x; ln -s {node.victim.home} x/class00", cwd=node.shared)
    node.victim.stoker("inspect", node.data, "--quiet")
    before = names(node.victim.home)
    for more in ((), ("--force",)):
        done = node.victim.stoker("inspect", node.data, "--sample", "0", "-o", f"{node.shared}/x/", *more,
                                  rc=4)
        assert "in the way" in done.err
    assert names(node.victim.home) == before


# ---- indexes -------------------------------------------------------------------------------------

def gzipped_tar(path, text):
    with tarfile.open(path, "w:gz") as tar:
        for i in range(40):
            member = tarfile.TarInfo(f"patient-{i}.txt")
            data = (text + f"{i} " * 3000).encode()
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("bits, group, want", [(0o600, VICTIM, 0o600), (0o640, GROUP, 0o640),
                                               (0o640, VICTIM, 0o640), (0o644, VICTIM, 0o644),
                                               (0o664, GROUP, 0o644)])
def test_index_is_as_private_as_the_data(node, bits, group, want):
    """The names in a private archive, and 32 KiB of its text at each access point, for all to read."""
    data = node.shared / "d.tar.gz"
    gzipped_tar(data, "diagnosis: ")
    os.chown(data, VICTIM, group)
    data.chmod(bits)
    node.victim.stoker("inspect", data, "--quiet")
    index = node.shared / "d.tar.gz.stkidx"
    assert mode(index) == want
    assert index.stat().st_gid == group or not want & 0o040 or want & 0o004
    can = node.attacker.run("cat", data, rc=None).rc
    assert node.attacker.run("cat", index, rc=None).rc == can


@pytest.mark.parametrize("what", ["root", "below", "file"])
def test_index_of_a_private_folder(node, what):
    """It stands beside the folder: what keeps others out of that does not keep them from this."""
    data = node.data
    private = {"root": data, "below": data / "class01", "file": data / "class01/img0001.jpg"}[what]
    private.chmod(private.stat().st_mode & 0o700)
    node.victim.stoker("inspect", data, "--quiet")
    assert mode(node.shared / "data.stkidx") == 0o600


def test_cache_that_is_not_ours(node):
    """The user who creates the cache folder first would get every index, and could plant others."""
    loot = node.victim.home / "loot"
    loot.mkdir()
    node.victim.own(loot)
    for plant in (f"ln -s {loot} stoker", "mkdir -m 777 stoker"):
        node.attacker.shell(plant, cwd=node.tmp)
        node.data.chmod(0o755)
        node.shared.chmod(0o755)  # beside the data there is no place
        node.victim.stoker("inspect", node.data, "--quiet", env={"XDG_CACHE_HOME": node.tmp})
        assert names(loot) == [] and (not (node.tmp / "stoker").is_dir() or os.path.islink(
            node.tmp / "stoker") or names(node.tmp / "stoker") == [])
        (node.tmp / "stoker").unlink() if os.path.islink(node.tmp / "stoker") else \
            (node.tmp / "stoker").rmdir()
        node.shared.chmod(0o2775)


def test_leftovers_of_others_stay(node):
    """What killed runs left beside the data is cleared away: only one's own, and never a pipe's
    reader's time."""
    dot = node.victim.write(node.victim.home / ".bashrc", "mine")
    node.attacker.shell(f"ln -s {dot} data.stkidx.partial.0000000000000001; mkfifo data.stkidx.partial.0000000000000002; "
                        "echo x >data.stkidx.partial.0000000000000003", cwd=node.shared)
    node.victim.write(node.shared / "data.stkidx.partial.0000000000000004", "x")
    node.victim.stoker("inspect", node.data, "--quiet")
    assert dot.read_text() == "mine"
    assert [n[-1] for n in names(node.shared) if ".partial." in n] == ["1", "2", "3"]


@pytest.mark.parametrize("command", ["report", "inspect"])
def test_folder_for_outputs_that_is_a_strangers_link(node, command):
    """Tables and samples would go into, and over, what lies in the victim's own folder."""
    node.victim.stoker("profile", "-q", "-o", node.victim.home / "p", "--", "true")
    (node.victim.home / "a.csv").write_text("x,y\n1,2\n")
    node.victim.write(node.victim.home / "files.csv", "years of work")
    before = names(node.victim.home)
    node.attacker.shell(f"ln -s {node.victim.home} dir", cwd=node.shared)
    argv = {"report": ["report", node.victim.home / "p", "--csv", node.shared / "dir/"],
            "inspect": ["inspect", node.victim.home / "a.csv", "--no-write-index", "--sample", "0",
                        "--output", node.shared / "dir/"]}[command]
    said = node.victim.stoker(*argv, rc=4)
    assert "a link made by" in said.err and set(names(node.victim.home)) - {".cache"} == set(before)
    assert (node.victim.home / "files.csv").read_text() == "years of work"
