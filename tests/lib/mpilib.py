"""Ranks on this machine, started by Open MPI or MPICH, each a node of its own with a folder of its
own. Skipped, aloud, where an MPI is not installed."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

import conftest
from conftest import STOKER, clean_env

LAUNCH = {
    "openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
    "mpich": ["mpirun.mpich"],
}
# Ranks that outlive another one: the launcher does not end them.
LENIENT = {"openmpi": ["--enable-recovery"], "mpich": ["-disable-auto-cleanup"]}
MPIS = sorted(LAUNCH)
RANK = "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}"


def env_for(extra=None):
    """MPI libraries leave memory behind; the ranks share few cores and one machine."""
    env = clean_env(extra)
    env["ASAN_OPTIONS"] += ":detect_leaks=0"
    env.update({"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader", "OMPI_MCA_mpi_yield_when_idle": "1",
                "OMPI_MCA_btl_base_warn_component_unused": "0"})
    return env


def needs_mpi(name):
    missing = [c for c in (LAUNCH[name][0], f"mpicc.{name}") if not shutil.which(c)]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed")
    if not (STOKER.parent / f"libstoker-mpi-{name}.so").exists():
        pytest.skip(f"this build has no MPI module for {name}")


def argv_of(mpi, ranks, *argv, lenient=False):
    return [*LAUNCH[mpi], *(LENIENT[mpi] if lenient else []), "-n", str(ranks), *map(str, argv)]


def run_ranks(mpi, ranks, *argv, rc=0, lenient=False, env=None, cwd=None):
    """mpirun -n RANKS ARGV."""
    line = argv_of(mpi, ranks, *argv, lenient=lenient)
    done = subprocess.run(line, env=env_for(env), cwd=cwd, capture_output=True, stdin=subprocess.DEVNULL,
                          timeout=conftest.PATIENCE_S)
    result = conftest.Result(line, done.returncode, done.stdout, done.stderr)
    conftest.check_sane(result)
    assert rc is None or result.rc == rc, repr(result)
    return result


class Nodes:
    """`stoker stage` as nodes on this machine: each rank is node R with the tier FOLDER/tierR."""

    def __init__(self, folder, mpi, ranks):
        self.folder, self.mpi, self.ranks = pathlib.Path(folder), mpi, ranks
        self.script = self.folder / "rank.sh"
        self.stoker = STOKER

    def write_script(self, per_node):
        node = f"$(({RANK} / {per_node}))"
        self.script.write_text(f'#!/bin/sh\nN={node}\nexport STOKER_NODE=node$N\n'
                               f'exec {self.stoker} stage --status {self.folder}/status "$@" {self.folder}/tier$N\n')
        self.script.chmod(0o755)

    def argv(self, *args, lenient=False, per_node=1):
        self.write_script(per_node)
        return argv_of(self.mpi, self.ranks, self.script, *args, lenient=lenient)

    def stage(self, *args, rc=0, per_node=1, env=None, lenient=False):
        """(result of the run, its JSON)."""
        out = self.folder / "out.json"
        out.unlink(missing_ok=True)
        self.write_script(per_node)
        done = run_ranks(self.mpi, self.ranks, self.script, "--json", out, *args, rc=rc, env=env, cwd=self.folder,
                         lenient=lenient)
        return done, json.loads(out.read_text())["result"] if out.exists() else None

    def status(self, node):
        try:
            return json.loads((self.folder / f"status/node-{node:04d}.json").read_text())
        except (OSError, ValueError):
            return None


def same_tree(a, b):
    a, b = pathlib.Path(a), pathlib.Path(b)
    def files(root):
        return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    return files(a) == files(b)


def total(result, key):
    return sum(n[key] for n in result["nodes"])
