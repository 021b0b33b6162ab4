"""What profiles, studies and `watch` give away to others on the node, and what others can make them
say: who may read them, what of a command is written down, whose are believed."""

import contextlib
import json
import os
import pathlib
import shutil
import stat
import subprocess

import pytest

from conftest import STOKER, clean_env, run_stoker, until
from securitylib import ATTACKER, VICTIM, needs_users
from slurmlib import FakeSlurm

SECRET = "hunter2-aa55-not-for-others"
RUNNING = 33  # a job of tests/slurm/capture that runs
PRELOAD = STOKER.parent / "libstoker-preload.so"


def modes(folder):
    """{name: mode} of a folder and all below it."""
    paths = [folder, *folder.rglob("*")]
    return {str(p.relative_to(folder.parent)): stat.S_IMODE(p.lstat().st_mode) for p in paths}


def leaks(folder, text=SECRET):
    return [p.name for p in folder.rglob("*") if p.is_file() and text.encode() in p.read_bytes()]


# ---- who may read what we write ------------------------------------------------------------------

@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022])
def test_a_profile_is_private(node, umask):
    """Colleagues would read which files a user works on, and how the program is started."""
    folder = node.shared / "prof"
    node.victim.stoker("profile", "-o", folder, "--", "cat", "/etc/hostname", umask=umask)
    for name, mode in modes(folder).items():
        assert not mode & 0o077, (name, oct(mode))
    node.attacker.run("ls", folder, rc=2)


@pytest.mark.parametrize("umask, readable", [(0o002, 0o044), (0o022, 0o044), (0o027, 0o040), (0o077, 0)])
def test_a_profile_that_is_shared(node, umask, readable):
    """Whoever asks support for help would have to change modes file by file; and nobody else may write."""
    folder = node.shared / "prof"
    node.victim.stoker("profile", "--share", "-o", folder, "--", "cat", "/etc/hostname", umask=umask)
    for name, mode in modes(folder).items():
        assert mode & 0o077 & 0o444 == readable and not mode & 0o022, (name, oct(mode))
    assert any(name.endswith(".stklog") for name in modes(folder))


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_a_study_is_private(node, umask):
    """The plan of a study is a command with its arguments; failed runs keep what they printed."""
    folder = node.shared / "study"
    node.victim.stoker("scale", "--n", "1,2", "--runs", 1, "-o", folder, "--", "sh", "-c",
                       "test {n} = 1 || { echo no; exit 3; }", umask=umask, rc=(1, 3))
    assert (folder / "output").is_dir()
    for name, mode in modes(folder).items():
        assert not mode & 0o077, (name, oct(mode))


def test_a_shared_study_stays_so(node):
    """What is added by --resume would be hidden from those who read the rest; and a umask of 002 must
    not leave a plan that others may write, and that its owner may not run."""
    folder = node.shared / "study"
    node.victim.stoker("scale", "--share", "--n", 1, "--runs", 1, "-o", folder, "--", "true", "{n}", umask=0o002)
    node.victim.stoker("scale", "--resume", folder, "--runs", 2, umask=0o077)
    node.victim.stoker("scale", "--resume", folder, "--runs", 3, umask=0o002)
    for name, mode in modes(folder).items():
        assert mode & 0o044 == 0o044 and not mode & 0o022, (name, oct(mode))
    node.attacker.run("cat", folder / "study.json")


# ---- secrets ---------------------------------------------------------------------------------

COMMANDS = [
    ["true", f"--token={SECRET}", "--api-key", SECRET, "--n", "5"],
    ["env", f"WANDB_API_KEY={SECRET}", "true", f"https://vic:{SECRET}@host/x"],
    ["sh", "-c", f"export DB_PASSWORD={SECRET}; cat /etc/hostname", "-H", f"Authorization: Bearer {SECRET}"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[1][:12])
def test_a_profile_holds_no_secret(stoker, tmp_path, command):
    """A profile is sent around; the token on its command line would go with it."""
    folder, out = tmp_path / "p", tmp_path / "out.json"
    env = {"MY_SECRET_TOKEN": SECRET, "MPI_LOCALRANKID_X": SECRET}
    done = stoker("profile", "-o", folder, "--json", out, "--", *command, env=env)
    assert SECRET not in done.err
    assert leaks(folder) == [] and SECRET not in out.read_text()
    assert any(b"***" in p.read_bytes() for p in folder.glob("run.*.json"))
    assert any(b"***" in p.read_bytes() for p in folder.glob("*.stklog"))
    shown = stoker("report", folder, "--all", "--json", out, "--csv", tmp_path / "csv")
    assert SECRET not in shown.out + out.read_text() and leaks(tmp_path / "csv") == []
    assert "***" in shown.out


def test_old_records_are_masked_when_they_are_read(stoker, tmp_path):
    """Profiles that an earlier version wrote have the secret in them: reports must not repeat it."""
    folder = tmp_path / "p"
    stoker("profile", "-o", folder, "--", "true", "--note=old")
    (run,) = folder.glob("run.*.json")
    record = json.loads(run.read_text())
    record["command"] = ["true", "--token", SECRET]
    record["unseen"] = [{"pid": 5, "command": f"./x --token={SECRET}", "rchar": 9, "wchar": 0,
                         "read_bytes": 0, "write_bytes": 0}]
    run.write_text(json.dumps(record))
    done = stoker("report", folder, "--all", "--json", tmp_path / "o.json")
    assert SECRET not in done.out + (tmp_path / "o.json").read_text()


def test_a_study_keeps_the_secret_to_itself(stoker, tmp_path):
    """The plan must have it, or --resume could not run the command; nothing else may."""
    folder, out, got = tmp_path / "s", tmp_path / "o.json", tmp_path / "got"
    command = ["sh", "-c", f"echo $1 >>{got}; echo 'bad: token={SECRET}'; exit 1", "x", f"--token={SECRET}", "{n}"]
    done = stoker("scale", "--n", 1, "--runs", 1, "-o", folder, "--json", out, "--prepare",
                  f"TOKEN={SECRET} true", "--", *command, rc=1)
    assert got.read_text().splitlines() == [f"--token={SECRET}"] * 2  # with the warm-up; as it is
    assert SECRET not in done.out + done.err + out.read_text()
    assert set(leaks(folder)) == {"plan.json", "n1-r0.txt"}
    stoker("scale", "--resume", folder, "--n", 2, rc=None)
    assert got.read_text().count(SECRET) == 3


def test_watch_masks_commands(node):
    """Everybody who may look at a job's screen would read its token."""
    process = node.victim.popen("sh", "-c", "exec sleep 10000", "sh", f"--token={SECRET}",
                                env={"SLURM_JOB_ID": 4242})
    sleep = node.victim.popen("perl", "-e", "sleep 10000", "--", "--api-key", SECRET, env={"SLURM_JOB_ID": 4242})
    try:
        def seen():
            out = node.victim.stoker("watch", "--node-sample", "--samples", 1, 4242).out
            found = {p["pid"]: p["command"] for p in json.loads(out)["process"]}
            return "perl" in found.get(sleep.pid, "") and (out, found)
        out, found = until(seen)
        assert SECRET not in out and found[sleep.pid].endswith("--api-key ***")
    finally:
        for p in (process, sleep):
            p.kill()
            p.wait()


# ---- folders that others have put in our way ------------------------------------------------------

def test_a_planted_profile_folder_is_not_used(node):
    """The owner of the folder could replace its files, and read which files were opened."""
    planted = node.shared / "prof"
    node.attacker.shell(f"mkdir -m 777 {planted}")
    done = node.victim.stoker("profile", "-o", planted, "--", "cat", "/etc/hostname")
    assert list(planted.iterdir()) == []
    assert f"uid {ATTACKER}" in done.err and "prof-2" in done.err
    assert any((node.shared / "prof-2").glob("*.stklog"))


def test_a_link_in_place_of_a_profile_folder(node):
    """A planted link leads into a folder of the victim's, where --force removes older profiles."""
    precious = node.victim.home / "precious"
    node.victim.stoker("profile", "-o", precious, "--", "true")
    before = sorted(p.name for p in precious.iterdir())
    node.attacker.shell(f"ln -s {precious} {node.shared}/prof")
    node.victim.stoker("profile", "--force", "-o", node.shared / "prof", "--", "cat", "/etc/hostname")
    assert sorted(p.name for p in precious.iterdir()) == before


def test_links_swapped_for_a_profile_folder(node):
    """Between the check and the use of a name, whoever may write the folder above leads it elsewhere."""
    precious = node.victim.home / "precious"
    node.victim.stoker("profile", "-o", precious, "--", "true")
    before = {p.name: p.read_bytes() for p in precious.iterdir()}
    name, lure = node.shared / "prof", node.shared / "lure"
    node.attacker.shell(f"mkdir -m 777 {name}; ln -s {precious} {lure}")
    with node.attacker.swapping(name, lure) as swaps:
        for _ in range(6):
            node.victim.stoker("profile", "--force", "-o", name, "--", "true")
        until(lambda: swaps.count() > 10000)
    assert {p.name: p.read_bytes() for p in precious.iterdir()} == before


def test_links_of_ones_own_lead_on(node):
    """`latest -> run-7` is how people keep profiles."""
    node.victim.shell("mkdir -m 700 run-7 && ln -s run-7 latest")
    node.victim.stoker("profile", "-o", "latest", "--", "true", umask=0o022)
    assert any((node.victim.home / "run-7").glob("*.stklog"))
    for mode in modes(node.victim.home / "run-7").values():
        assert not mode & 0o077


def test_a_folder_made_with_a_umask_of_002(node):
    """`mkdir DIR; stoker profile -o DIR` is what batch scripts do; at many sites a group may write
    there then."""
    folder = node.shared / "mine"
    node.victim.shell(f"umask 002; mkdir {folder}")
    done = node.victim.stoker("profile", "-o", folder, "--", "true")
    assert any(folder.glob("*.stklog")) and not folder.stat().st_mode & 0o022, done.err


def test_a_planted_study_folder_is_not_used(node):
    """Its owner would replace the plan, and the next --resume runs that."""
    node.attacker.shell(f"mkdir -m 777 {node.shared}/study")
    done = node.victim.stoker("scale", "--n", 1, "--runs", 1, "-o", node.shared / "study", "--", "true", "{n}",
                              rc=4)
    assert f"uid {ATTACKER}" in done.err and list((node.shared / "study").iterdir()) == []
    assert "--force" not in done.err  # which `scale` does not have


# ---- whose may be believed ---------------------------------------------------------------------

@pytest.fixture
def planted(node):
    """A profile and a study of the attacker's in the shared folder."""
    node.attacker.stoker("profile", "--share", "-o", node.shared / "prof", "--", "cat", "/etc/hostname")
    node.attacker.stoker("scale", "--share", "--n", "1,2", "--runs", 1, "-o", node.shared / "study", "--",
                         "true", "{n}")
    return node


@pytest.mark.parametrize("command", [["report", "prof"], ["advise", "prof"], ["report", "prof", "prof"],
                                     ["scale", "--from", "study"], ["scale", "--from", "study/study.json"]],
                         ids=" ".join)
def test_what_a_stranger_planted_is_not_believed(planted, command):
    """A profile that somebody slips under a colleague's name gives advice that is theirs."""
    done = planted.victim.stoker(*command, cwd=planted.shared, rc=4)
    assert f"uid {ATTACKER}" in done.err and f"--trust {ATTACKER}" in done.err
    planted.victim.stoker(*command, "--trust", ATTACKER, cwd=planted.shared, rc=(0, 1))


def test_a_planted_file_in_ones_own_profile(node):
    """One false record among true ones changes what the report says."""
    folder = node.shared / "prof"
    node.victim.stoker("profile", "-o", folder, "--", "cat", "/etc/hostname")
    folder.chmod(0o775)
    os.chown(folder, VICTIM, 61000)
    node.attacker.shell(f"echo '{{}}' >{folder}/run.other.1.json")
    done = node.victim.stoker("report", folder, rc=4)
    assert "run.other.1.json" in done.err and f"uid {ATTACKER}" in done.err


def test_what_lies_in_somebodys_home_is_theirs(node):
    """Support reads the profiles of users every day: no option for what is where it belongs."""
    node.attacker.home.chmod(0o755)
    node.attacker.stoker("profile", "--share", "-o", "prof", "--", "cat", "/etc/hostname")
    node.victim.stoker("report", node.attacker.home / "prof")
    run_stoker("report", node.attacker.home / "prof")  # root


# ---- setuid, root --------------------------------------------------------------------------------

@contextlib.contextmanager
def private_etc(scratch, preload):
    """The start of a command line that sees an /etc of its own with `preload` in ld.so.preload: the
    node's own is not touched."""
    etc = scratch / "etc"
    shutil.copytree("/etc", etc, symlinks=True, ignore_dangling_symlinks=True,
                    ignore=lambda folder, names: [n for n in names if not os.access(os.path.join(folder, n), os.R_OK)])
    (etc / "ld.so.preload").write_text(f"{preload}\n")
    inner = 'mount --bind "$1" /etc && shift && exec "$@"'
    probe = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", inner, "sh", etc, "true"],
                           capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"an /etc of its own needs mount namespaces: {probe.stderr.strip()}")
    yield ["unshare", "-m", "--propagation", "private", "sh", "-c", inner, "sh", str(etc)]


@pytest.mark.parametrize("bits", [0o4755, 0o2755], ids=["setuid", "setgid"])
def test_a_setuid_program_is_not_recorded(node, bits):
    """With the library in /etc/ld.so.preload any user chose where root's programs write."""
    if not PRELOAD.exists():
        pytest.skip("this build has no preload library")
    program = node.root / "cat"
    shutil.copy("/bin/cat", program)
    os.chown(program, 0, 0)
    program.chmod(bits)
    if os.statvfs(node.root).f_flag & os.ST_NOSUID:
        pytest.skip("setuid programs do not work where the test's files are")
    logs = node.root / "logs"
    logs.mkdir()
    logs.chmod(0o700 if bits & 0o4000 else 0o770)
    with private_etc(node.root, PRELOAD) as start:
        become = ["setpriv", f"--reuid={VICTIM}", f"--regid={VICTIM}", "--clear-groups"]
        record = ["env", f"STOKER_PROFILE_DIR={logs}"]  # which is not there for those before
        how = {"env": clean_env(), "check": True, "stdout": subprocess.DEVNULL}
        subprocess.run([*start, *become, *record, str(program), "/etc/hostname"], **how)
        assert list(logs.iterdir()) == []
        subprocess.run([*start, *record, "cat", "/etc/hostname"], **how)
        assert list(logs.iterdir()), "the library was not there at all"


def fake_srun(slurm):
    """Runs the helper here, as srun does on a node."""
    path = slurm.bin / "srun"
    path.write_text("#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nexport SLURMD_NODENAME=node1\nexec \"$@\"\n")
    path.chmod(0o755)


@pytest.fixture
def job(node, tmp_path, monkeypatch):
    """A job of the victim's that runs here, beside a process of the attacker's that claims to be part
    of it. Gives (the fake Slurm, the victim's process, the attacker's)."""
    slurm = FakeSlurm(tmp_path)
    for name in ("sacct", "squeue", "scontrol"):
        text = (slurm.folder / f"{name}.txt").read_text()
        (slurm.folder / f"{name}.txt").write_text(text.replace("root", str(VICTIM)))
    fake_srun(slurm)
    env = {"SLURM_JOB_ID": RUNNING, "SLURMD_NODENAME": "node1"}
    both = [user.popen("sleep", "10000", env=env) for user in (node.victim, node.attacker)]
    yield slurm, *both
    for process in both:
        process.kill()
        process.wait()


def watched(slurm, *options, rc=0, **env):
    """The processes shown; none when the node did not answer in time: reading another test's process
    that hangs on a stalled file system takes as long as the stall."""
    out = run_stoker("watch", "--once", "--every", "0.1s", "--json", "-", *options, RUNNING,
                     rc=rc or (0, 4), env={**slurm.env(), **env})
    if rc:
        return out
    if out.rc:
        assert "no node of the job answered" in out.err, out
        return set()
    return {p["pid"] for n in out.json()["result"]["nodes"] for p in n["process"]}


def test_root_sees_the_jobs_owner_only(job):
    """Another user's process would stand on the screen as the job's, with its command."""
    slurm, victim, attacker = job
    both = {victim.pid, attacker.pid}
    until(lambda: both <= watched(slurm, "--all"))
    shown = until(lambda: watched(slurm))
    assert shown & both == {victim.pid}


def test_behind_sudo_a_job_is_its_owners(job):
    """A site that lets users start `stoker watch` as root would show everybody everybody's jobs."""
    slurm, victim, _ = job
    done = watched(slurm, SUDO_UID=str(ATTACKER), rc=2)
    assert str(VICTIM) in done.err and "--all" in done.err
    until(lambda: victim.pid in watched(slurm, SUDO_UID=str(VICTIM)))
