"""scale: what a study costs beside its runs, and whether its times are right: a command of 10 ms,
by `stoker scale` and by hyperfine, in turns."""

import json
import shutil
import subprocess
import time

from common import STOKER, Failed, median, table

COMMAND = ["sleep", "0.010"]
LIMIT_MS = 2.0
FEW, MANY = 100, 400


def study(bench, runs):
    """(seconds in all, times of the runs)."""
    folder = bench.fresh("study")
    start = time.monotonic()
    done = subprocess.run([STOKER, "scale", "--n", "1", "--runs", str(runs), "--warmup", "0", "--quiet",
                           "--launcher", "env N={n}", "-o", folder, "--", *COMMAND], capture_output=True, text=True)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        raise Failed(f"stoker scale: {done.stderr[-500:]}")
    lines = (folder / "runs.jsonl").read_text().splitlines()
    return seconds, [json.loads(line)["wall_s"] for line in lines]


def hyperfine(bench, runs):
    path = bench.fresh("hyperfine.json")
    subprocess.run(["hyperfine", "-N", "--warmup", "0", "--runs", str(runs), "--export-json", path,
                    " ".join(["env", "N=1", *COMMAND])], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return json.loads(path.read_text())["results"][0]["times"]


def mean(values):
    return sum(values) / len(values)


def overhead_ms(bench):
    """Between a short and a long study, so that starting and computing are not in it."""
    few_s, few = study(bench, FEW)
    many_s, many = study(bench, MANY)
    return 1e3 * ((many_s - sum(many)) - (few_s - sum(few))) / (MANY - FEW)


def run(bench, _python):
    peer = shutil.which("hyperfine")
    ours, theirs, cost = [], [], []
    for _ in range(bench.repeats):
        cost.append(overhead_ms(bench))
        ours.append(1e3 * mean(study(bench, FEW)[1]))
        if peer:
            theirs.append(1e3 * mean(hyperfine(bench, FEW)))
    rows = [["stoker scale", f"{median(ours):.3f}", f"{min(ours):.3f}-{max(ours):.3f}", f"{median(cost):.3f}"]]
    if peer:
        rows.append(["hyperfine -N", f"{median(theirs):.3f}", f"{min(theirs):.3f}-{max(theirs):.3f}", ""])
    else:
        print("scale: without hyperfine: it is not installed\n")
    table([f"{' '.join(COMMAND)}, {FEW} runs", "mean ms", "range of means", "added ms a run"], rows)
    bench.claim(f"a study of a 10 ms command costs less than {LIMIT_MS:.0f} ms a run",
                f"{median(cost):.2f} ms", median(cost) < LIMIT_MS)
    if peer:
        spread = max(max(v) - min(v) for v in (ours, theirs))
        apart = abs(median(ours) - median(theirs))
        bench.claim("means of stoker scale and hyperfine agree within noise",
                    f"{apart:.3f} ms apart; means of the same differ by up to {spread:.3f} ms",
                    apart <= max(spread, 0.1))
    bench.results["scale"] = {"command": COMMAND, "runs": FEW, "stoker_mean_ms": ours,
                              "hyperfine_mean_ms": theirs, "added_ms_per_run": cost}
