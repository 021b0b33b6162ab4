#!/usr/bin/python3
"""An OpenMP and an MPI program measured for real on a machine of many cores, up to 16 by default.

    bench/scale_16.py [--n 1,2,4,8,16] [--seconds 3] [--serial 0.05] [--out DIR]

Both integrate the same function; a known part of the work is serial, so that the law is known too.
Builds stoker (build/) and the programs of tests/scale unless --stoker, --omp and --mpi name them.
Prints the table of each study and what was found beside what is true; the studies stay in DIR.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests/scale/programs"
ROOT_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def parse_args():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--n", default="1,2,4,8,16")
    p.add_argument("--seconds", type=float, default=3, help="that N=1 is to take (default 3)")
    p.add_argument("--serial", type=float, default=0.05, help="part of the work that is serial")
    p.add_argument("--runs", default="5..15")
    p.add_argument("--out", default="scale-16", type=pathlib.Path)
    p.add_argument("--stoker", type=pathlib.Path)
    p.add_argument("--omp", type=pathlib.Path, help="tests/scale/programs/omp.c, compiled")
    p.add_argument("--mpi", type=pathlib.Path, help="tests/scale/programs/mpi.c, compiled")
    return p.parse_args()


def build_stoker():
    if not (ROOT / "build/build.ninja").exists():
        subprocess.run(["meson", "setup", "build"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", "build", "--quiet", "stoker"], cwd=ROOT, check=True)
    return ROOT / "build/stoker"


def build_program(args, name, *command):
    """The program, or None and why not."""
    if not shutil.which(command[0]):
        return None, f"{command[0]} is not installed"
    path = args.out.resolve() / f"{name}-program"
    subprocess.run([*command, "-O2", "-o", path, PROGRAMS / f"{name}.c"], check=True)
    return path, ""


def took(argv, steps, env):
    start = time.monotonic()
    subprocess.run([*map(str, argv), str(steps)], check=True, env=env, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def steps_for(argv, seconds, env):
    """(intervals that one core integrates in this time, seconds that it takes to start)."""
    start_s = min(took(argv, 1000, env) for _ in range(3))
    steps = 20_000_000
    while True:
        work_s = took(argv, steps, env) - start_s
        if work_s > 0.5:
            return int(steps * seconds / work_s), start_s
        steps *= 4


def study(args, stoker, name, program, flag, launcher):
    env = {**os.environ, **ROOT_MPI, "OMP_NUM_THREADS": "1"}
    steps, start_s = steps_for([*launcher, program], args.seconds, env)
    serial = int(steps * args.serial)
    folder = args.out / name
    shutil.rmtree(folder, ignore_errors=True)
    json_path = args.out / f"{name}.json"
    print(f"\n== {name}: {steps - serial:,} intervals, {serial:,} of them serial\n", flush=True)
    env.pop("OMP_NUM_THREADS")
    done = subprocess.run([stoker, "scale", "--n", args.n, flag, "--runs", args.runs, "-o", folder, "--json",
                           json_path, "--", program, str(steps - serial), str(serial)], env=env)
    if done.returncode != 0:
        print(f"{name}: stoker scale ended with status {done.returncode}")
        return None
    # Starting takes its time whatever N is: it is serial as well.
    true = (args.serial * args.seconds + start_s) / (args.seconds + start_s)
    return line(name, json.loads(json_path.read_text())["result"], true)


def line(name, result, serial):
    s = result["series"][0]
    laws = s["laws"]
    law = laws[laws["chosen"]]
    last = s["points"][-1]
    wish = s["recommended"]
    return (f"{name:8} N={last['n']}: {last['speedup']:.2f}x, {100 * last['efficiency']:.0f} % efficient; "
            f"{laws['chosen']}: serial {100 * law['serial']:.2f} % (true, with starting: {100 * serial:.2f} %); fastest "
            f"N={wish['fastest']['n']}, cheapest N={wish['cheapest']['n']}, balanced N={wish['balanced']['n']}")


def main():
    args = parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    stoker = (args.stoker or build_stoker()).resolve()
    found = []
    cores = len(os.sched_getaffinity(0))
    largest = max(map(int, args.n.split(",")))
    if cores < largest:
        print(f"scale_16: {cores} cores may be used here: N above that is left out")
        args.n = ",".join(n for n in args.n.split(",") if int(n) <= cores)
    for name, flag, given, command, launcher in (
            ("openmp", "--threads", args.omp, ["cc", "-fopenmp"], []),
            ("mpi", "--ranks", args.mpi, ["mpicc"], ["mpirun", "-n", "1"])):
        source = "omp" if name == "openmp" else name
        program, why = (given.resolve(), "") if given else build_program(args, source, *command)
        if program and launcher and not shutil.which(launcher[0]):
            program, why = None, f"{launcher[0]} is not installed"
        if not program:
            print(f"\n== {name}: left out: {why}")
            continue
        result = study(args, stoker, name, program, flag, launcher)
        found += [result] if result else []
    print("\n" + "\n".join(found))
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
