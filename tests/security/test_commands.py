"""Commands of others never run: plans that somebody else wrote or could have changed, programs that
somebody put into PATH, and texts from Slurm that would like to be a command or an escape sequence."""

import json
import os
import re
import shutil

import pytest

from conftest import run_stoker
from securitylib import ATTACKER, GROUP, VICTIM
from slurmlib import FakeSlurm

ESCAPES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def evil(node):
    """What a plan of the attacker's leaves behind when it is run."""
    return node.victim.home / "evil"


@pytest.fixture
def study(node):
    """A finished study of the attacker's in the shared folder, whose next run does evil."""
    folder = node.shared / "study"
    node.attacker.stoker("scale", "--n", 1, "--runs", 1, "--warmup", 0, "-o", folder, "--shell", "--",
                         f"touch {node.victim.home}/evil; : {{n}} --token=s3cr3t \x1b]0;evil\x07 || true",
                         umask=0o002, cwd=node.shared, rc=None)
    node.attacker.shell(f"chmod -R a+rwX {folder}")
    return folder


def refused(node, folder, *options, why=f"uid {ATTACKER}"):
    done = node.victim.stoker("scale", "--resume", folder, "--runs", 2, *options, rc=2)
    assert not evil(node).exists()
    assert "the study was not run" in done.err and why in done.err and "--trust" in done.err
    return done


# ---- plans -------------------------------------------------------------------------------------

def test_a_strangers_study_is_shown_and_not_run(node, study):
    """`--resume` of what a colleague seems to have left ran their commands as the caller."""
    done = refused(node, study)
    assert f"touch {node.victim.home}/evil" in done.out
    assert "s3cr3t" not in done.out and not ESCAPES.search(done.out + done.err)


def test_it_runs_once_it_was_looked_at(node, study):
    """Colleagues do go on with each other's studies."""
    done = node.victim.stoker("scale", "--resume", study, "--runs", 2, "--trust", "all", rc=None)
    assert evil(node).exists(), repr(done)


def test_a_job_of_a_strangers_study(node, study):
    """The same by the option that jobs are started with."""
    done = node.victim.stoker("scale", "--resume", study, "--inside", "n1-r1", rc=(2, 4), cwd=study)
    assert not evil(node).exists() and f"uid {ATTACKER}" in done.err


@pytest.fixture
def mine(node):
    """A study of the victim's that the group may write, as an earlier version made it under umask 002."""
    folder = node.shared / "mine"
    node.victim.stoker("scale", "--n", 1, "--runs", 1, "-o", folder, "--shell", "--", ": {n}")
    for path in (folder, *folder.iterdir()):
        os.chown(path, VICTIM, GROUP)
    return folder


def rewrite(node, folder):
    plan = json.loads((folder / "plan.json").read_text())
    plan["argv"] = [f"touch {evil(node)}; : {{n}}"]
    return json.dumps(plan)


@pytest.mark.parametrize("how", ["written over", "replaced", "a link", "a folder"])
def test_a_plan_that_others_could_change(node, mine, how):
    """A user's study in a group's folder: any member who edits it would choose what runs."""
    plan = mine / "plan.json"
    text = rewrite(node, mine)
    why = "others"
    if how == "written over":
        plan.chmod(0o664)
        node.attacker.run("tee", plan, input=text.encode(), rc=(0, 1))  # the folder keeps it out
        plan.write_text(text)
        why = "others can write plan.json (mode 0664)"
    elif how == "replaced":
        plan.unlink()
        node.attacker.write(plan, text)
        why = f"plan.json belongs to uid {ATTACKER}; use --trust {ATTACKER}"
    elif how == "a link":
        node.attacker.home.chmod(0o755)
        plan.unlink()
        node.attacker.write(node.attacker.home / "plan", text)
        plan.symlink_to(node.attacker.home / "plan")
        why = "plan.json is a link"
    else:
        mine.chmod(0o775)
        plan.write_text(text)
        why = "others can write it (mode 0775)"
    refused(node, mine, why=why)


def test_a_link_to_ones_own_study(node, mine):
    """A stranger's link chooses which of the victim's studies runs."""
    node.attacker.shell(f"ln -s {mine} {node.shared}/lure")
    done = node.victim.stoker("scale", "--resume", node.shared / "lure", "--runs", 2, rc=2)
    assert f"uid {ATTACKER}" in done.err
    node.victim.stoker("scale", "--resume", mine, "--runs", 2)


def test_the_plan_that_was_looked_at_is_the_one_that_runs(node, mine):
    """Swapped between check and use, 1,000 times: no run of the attacker's plan."""
    bad = node.shared / "bad"
    bad.mkdir()
    node.attacker.write(bad / "plan.json", rewrite(node, mine))
    node.attacker.own(bad, 0o777)
    with node.attacker.swapping(mine, bad) as swaps:
        for i in range(6):
            node.victim.stoker("scale", "--resume", mine, "--runs", 2 + i, rc=None)
            assert not evil(node).exists()
        assert swaps.count() > 1000


# ---- programs ------------------------------------------------------------------------------------

TOOLS = {
    "sbatch": ["scale", "--via", "slurm", "--n", 1, "--detach", "--runs", 1, "-o", "{out}", "--", "true", "{{n}}"],
    "squeue": ["job", 12],
    "mpirun": ["scale", "--n", 1, "--ranks", "--runs", 1, "-o", "{out}", "--", "true"],
    "mksquashfs": ["pack", "{data}", "{out}", "--format", "squashfs"],
}


def start(node, tool, path, rc=None):
    words = [str(w).format(out=node.root / "out", data=node.data) for w in TOOLS[tool]]
    return run_stoker(*words, env={"PATH": path}, rc=rc, cwd=node.root)


def plant(node, tool, folder):
    folder.mkdir(exist_ok=True)
    path = folder / tool
    path.write_text(f"#!/bin/sh\ntouch {node.root}/evil\necho 1\n")
    path.chmod(0o755)
    return path


def bin_without(node, tool):
    """All of /usr/bin but the tool."""
    folder = node.root / "bin"
    folder.mkdir()
    for name in ("sh", "touch", "python3", "env", "true"):
        (folder / name).symlink_to(shutil.which(name))
    return folder


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("how", ["of another user", "writable", "sticky", "below a writable one", "a file of theirs"])
def test_root_starts_nothing_that_others_put_there(node, tool, how):
    """An administrator's PATH includes a project's bin: every user who may write there becomes root."""
    folder = node.root / "site"
    plant(node, tool, folder)
    if how == "of another user":
        os.chown(folder, ATTACKER, ATTACKER)
    elif how == "writable":
        folder.chmod(0o777)
    elif how == "sticky":
        folder.chmod(0o1777)
    elif how == "below a writable one":
        (node.root / "deep").mkdir()
        folder = folder.rename(node.root / "deep/site")
        (node.root / "deep").chmod(0o777)
    else:
        os.chown(folder / tool, ATTACKER, ATTACKER)
    done = start(node, tool, f"{folder}:{bin_without(node, tool)}")
    assert done.rc != 0 and not (node.root / "evil").exists()
    assert "root does not start it" in done.err and str(folder) in done.err


@pytest.mark.parametrize("entry", ["", ".", "site"])
def test_root_starts_nothing_by_a_relative_entry(node, entry):
    """An empty entry of PATH is the current folder, which may be anybody's."""
    plant(node, "squeue", node.root / entry if entry else node.root)
    done = start(node, "squeue", f"{entry}:{bin_without(node, 'squeue')}")
    assert not (node.root / "evil").exists() and "not absolute" in done.err


def test_roots_own_folders_are_fine(node):
    """/usr/local/bin of Debian is writable for the group staff; links of alternatives lead on."""
    folder = node.root / "site"
    plant(node, "squeue", node.root / "alternatives")
    folder.mkdir()
    os.chown(folder, 0, 50)
    folder.chmod(0o2775)
    (folder / "squeue").symlink_to(node.root / "alternatives/squeue")
    start(node, "squeue", f"{folder}:{bin_without(node, 'squeue')}")
    assert (node.root / "evil").exists()


def test_a_user_may_have_any_path(node):
    """Only root gets the message about its PATH."""
    folder = node.shared / "bin"
    node.victim.shell(f"mkdir {folder}; printf '#!/bin/sh\\ntouch ~/ran\\n' >{folder}/squeue; chmod 755 {folder}/squeue")
    done = node.victim.stoker("job", 12, "--verbose", rc=None, env={"PATH": f"{folder}:/usr/bin:/bin"})
    assert (node.victim.home / "ran").exists()
    assert f"squeue is {folder}/squeue" in done.err


def test_programs_are_named_once(node):
    """Which sbatch was it? Sites have several."""
    for tool in ("sacct", "squeue", "scontrol", "sstat"):
        plant(node, tool, node.root / "site")
    done = run_stoker("job", 12, 13, 14, "--verbose", rc=None, env={"PATH": f"{node.root}/site:/usr/bin:/bin"})
    assert done.err.count(f"squeue is {node.root}/site/squeue") == 1


# ---- what Slurm says -------------------------------------------------------------------------------

HOSTILE = ["\x1b]0;evil\x07", "\x1b[2J", "$(touch evil)", "`touch evil`", "a\nJobId=99 JobName=b", "-1", "a" * 100000,
           "\x9b31m", "\u202eevil", "=cmd|' /C calc'!A0", "%s%n", "'; touch evil; '", "\r\nfake", "-99999999999999999999"]


def test_whatever_slurm_says_is_only_shown(tmp_path):
    """The user who submits a job chooses its name, and an administrator looks at it."""
    slurm = FakeSlurm(tmp_path)
    fields = (slurm.folder / "sacct.txt").read_text().partition("\n")[0].split(",")
    jobs = [str(901 + shift) for shift in range(3)]
    for shift, number in enumerate(jobs):  # every field says every thing in one of them, or nearly
        row = {f: HOSTILE[(i + 5 * shift) % len(HOSTILE)] for i, f in enumerate(fields)}
        slurm.add_rows("sacct", [{**row, "JobID": number, "JobIDRaw": number, "State": "COMPLETED"}])
    for words in ([jobs[0]], [jobs[1]], [jobs[2]], jobs):
        done = run_stoker("job", *words, env=slurm.env(), cwd=tmp_path)
        assert not ESCAPES.search(done.out + done.err), repr(done)
        assert len(done.out) < 20000
    told = run_stoker("job", *jobs, "--json", "-", env=slurm.env(), cwd=tmp_path).json()["result"]["jobs"]
    assert [j["id"] for j in told] == jobs or len(told) == 3
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("said", ["\x1b]0;evil\x07 no", "1; touch evil", "-1", "1\x00;x", "a" * (1 << 20)], ids=lambda t: repr(t[:12]))
def test_whatever_sbatch_says_is_no_command(tmp_path, said):
    """The number of a job goes into the next command line."""
    slurm = FakeSlurm(tmp_path)
    slurm.answers("sbatch", said + "\n")
    done = run_stoker("scale", "--via", "slurm", "--n", 1, "--runs", 1, "--detach", "-o", tmp_path / "s", "--",
                      "true", "{n}", env=slurm.env(), cwd=tmp_path, rc=None)
    assert not (tmp_path / "evil").exists() and not ESCAPES.search(done.out + done.err)
    lines = (tmp_path / "s/jobs.jsonl").read_text().splitlines() if (tmp_path / "s/jobs.jsonl").exists() else []
    assert all(isinstance(json.loads(line)["job"], int) for line in lines)


def test_the_batch_file_names_the_folder_for_sh(tmp_path):
    """A folder's name with a quote in it would end the word, and begin a command."""
    slurm = FakeSlurm(tmp_path)
    slurm.answers("sbatch", "7\n")
    folder = tmp_path / "a'; touch evil; '$(touch evil)"
    run_stoker("scale", "--via", "slurm", "--n", 1, "--runs", 1, "--detach", "-o", folder, "--", "true", "{n}",
               env=slurm.env(), cwd=tmp_path)
    script = (slurm.folder / "sbatch.script").read_text()
    words = os.popen("set -- " + script.splitlines()[-1].removeprefix("exec ") + '; printf %s "$5"').read()
    assert words == str(folder) and not (tmp_path / "evil").exists()
