"""Slurm's clients without Slurm: programs of their names that play back what the real ones printed
(tests/data/slurm, made by tests/slurm/capture), and keep the arguments they were called with.

A folder of answers holds sacct.txt, squeue.txt, sstat.txt (the first line: the fields that were
asked for) and scontrol.txt. NAME.err and NAME.rc beside them make a client fail.
"""

import os
import pathlib
import re
import shutil
import stat
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests/data/slurm"
STORED = "|@|"  # between fields in the files


# ---- inside a fake client ----------------------------------------------------------------------

def option(argv, *names):
    for i, word in enumerate(argv):
        if word in names and i + 1 < len(argv):
            return argv[i + 1]
        for name in names:
            if word.startswith(name + "="):
                return word[len(name) + 1:]
    return None


def records(text, columns, separator):
    """Rows; the last field may hold line ends, the first never does."""
    parts, rows = text.split(separator), []
    row = [parts[0]]
    for part in parts[1:]:
        if len(row) < columns - 1:
            row.append(part)
            continue
        last, _, first = part.rpartition("\n")
        rows.append(row + [last])
        row = [first]
    return rows


def wanted(ids, label):
    """Whether a row of this JobID belongs to what -j named."""
    job = label.partition(".")[0]
    return any(job == want or re.split("[_+]", job)[0] == want for want in ids.split(","))


def play_rows(folder, name, argv):
    head, _, text = (folder / f"{name}.txt").read_text().partition("\n")
    fields = option(argv, "-o")
    if name == "squeue":
        separator = re.fullmatch(r"%\w(.*?)%\w.*", fields).group(1)
        asked, count = "".join(re.findall(r"%(\w)", fields.replace(separator, ""))), len(head)
    else:
        separator = option(argv, "--delimiter") or "|"
        asked, count = fields, head.count(",") + 1
    if asked != head:
        sys.exit(f"{name}: the stored answer has {head}, not {asked}: run tests/slurm/capture")
    ids = option(argv, "-j")
    stored = "|" if name == "sstat" else STORED
    rows = records(text + stored, count, stored)
    rows = [row for row in rows if not ids or wanted(ids, row[0]) or (len(row) > 1 and wanted(ids, row[1]))]
    if name == "squeue" and ids and not rows:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    print("".join(separator.join(row) + "\n" for row in rows), end="")


def play_scontrol(folder, argv):
    text = (folder / "scontrol.txt").read_text().partition("\n")[2]
    blocks = [b for b in re.split(r"(?=^JobId=)", text, flags=re.M) if b.startswith("JobId=")]
    job, _, task = argv[-1].partition("_")
    found = [b for b in blocks if re.match(rf"JobId={job} ", b) or
             re.match(rf"JobId=\d+ ArrayJobId={job} ", b)]
    if task:
        found = [b for b in found if f"ArrayTaskId={task} " in b]
    if not found:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    print("".join(found), end="")


def play(name, argv):
    folder = pathlib.Path(os.environ["STOKER_FAKE_SLURM"])
    with open(folder / "calls", "a") as calls:
        calls.write(repr([name, *argv]) + "\n")
    if (folder / f"{name}.sleep").exists():
        time.sleep(float((folder / f"{name}.sleep").read_text()))
    if (folder / f"{name}.err").exists():
        sys.stderr.write((folder / f"{name}.err").read_text())
        sys.exit(int((folder / f"{name}.rc").read_text()) if (folder / f"{name}.rc").exists() else 1)
    if name == "sbatch":
        (folder / "sbatch.script").write_text(sys.stdin.read())
        print((folder / "sbatch.txt").read_text(), end="")
    elif name == "scontrol":
        play_scontrol(folder, argv)
    elif name != "scancel":
        play_rows(folder, name, argv)


# ---- for tests ---------------------------------------------------------------------------------

class FakeSlurm:
    """A folder with clients and their answers; env() puts them in PATH."""

    def __init__(self, where, version="22.05"):
        self.folder = where / "fake-slurm"
        self.bin = self.folder / "bin"
        self.bin.mkdir(parents=True)
        if version:
            for path in (DATA / version).glob("*.txt"):
                shutil.copy(path, self.folder)
        for name in ("sacct", "squeue", "scontrol", "sstat", "sbatch", "scancel"):
            self.install(name)

    def install(self, name):
        path = self.bin / name
        path.write_text(f"#!/usr/bin/python3\nimport sys\nsys.path.insert(0, {str(ROOT / 'tests/lib')!r})\n"
                        f"import slurmlib\nslurmlib.play({name!r}, sys.argv[1:])\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def remove(self, name):
        (self.bin / name).unlink()

    def fails(self, name, words, status=1):
        (self.folder / f"{name}.err").write_text(words)
        (self.folder / f"{name}.rc").write_text(str(status))

    def answers(self, name, text):
        (self.folder / f"{name}.txt").write_text(text)

    def add_rows(self, name, rows):
        """More rows, each a dict of fields; those not named are empty."""
        path = self.folder / f"{name}.txt"
        head = path.read_text().partition("\n")[0].split(",")
        with open(path, "a") as file:
            for row in rows:
                assert set(row) <= set(head), set(row) - set(head)
                file.write(STORED.join(row.get(field, "") for field in head) + "\n")

    def calls(self):
        path = self.folder / "calls"
        return [eval(line) for line in path.read_text().splitlines()] if path.exists() else []

    def env(self):
        return {"STOKER_FAKE_SLURM": str(self.folder), "PATH": f"{self.bin}:/usr/bin:/bin", "TZ": "UTC"}
