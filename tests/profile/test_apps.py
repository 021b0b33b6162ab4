"""The ten applications of the study "Analyzing I/O for Deep Learning Workloads": each gets the
findings the study gives for it, and not the others'.

They run on slowfs, a FUSE file system: storage that is shared, with a latency of its own.
Suggestions on Lustre's stripes need Lustre, which says what its stripes are; they are tried in the
unit tests of the rules.
"""

import subprocess

import pytest

from profilelib import HERE, PYTHON, bare_env, compiled, profile  # noqa: F401
from slowfslib import slowfs

APPS = HERE / "apps"
# Findings weigh times against each other; those of made profiles are in the unit tests of the rules.
pytestmark = pytest.mark.idle

# I/O takes a little more of the time than in the study (6 to 8 %), since starting Python takes a
# part of so short a run, and a machine under load makes that part larger.
# application: (ranks, what the storage is like, must be found, may be found besides).
# Everything else must not be found. Each line of `must` and `may` says where it stands there.
SLOW = {"open": "1ms", "read": "600us", "bandwidth": "500MB", "cache": "off"}
CACHED = {**SLOW, "cache": "open"}

# Ranks share two cores with other tests: one that was starved is slow, and that may be said.
STARVED = {"imbalance", "slow-requests"}

TABLE = {
    "imagenet": (4, SLOW, {
        "prefetch-depth",    # "the default prefetching size of 1 is too small … several hundreds"
        "read-parallelism",  # "increase read parallelism … to 128 (number of cores)"
        "stage-to-node",     # "data size per node is small …, we can stage data into … SSDs"
        "too-many-files",    # "reduce files by increasing images per TFRecord file"
    }, {"metadata-load"}),   # "This would decrease metadata lookups"
    "cosmic_tagger": (4, SLOW, {
        "small-reads",       # "The data transfer I/O per request is few kilobytes. This is the main
                             #  cause … This should be several Megabytes"
        "stage-to-node",     # "we can use staging plus prefetching on a fast cache"
        "in-memory-hdf5",    # "we can use in-memory HDF5 API to load the data set in memory"
        "read-parallelism",  # "Multiple threads can be utilized to perform I/O"
    }, {
        "reread-small-file",  # "As the file is small and read multiple times, we can cache"
        "prefetch-depth",
        "same-data-every-rank",  # "Every rank seems to be reading the same offsets"; RDMA from RAM
    }),
    "ffn": (4, SLOW, {
        "small-reads",       # "I/O per request is few tens of kilobytes … should be couple of
                             #  Megabytes"
        "random-reads",      # "we can stage data into a faster cache before training begins. This
                             #  enables random access … for random shuffling"
        "same-data-every-rank",  # "Each rank is reading same portions of the file. This should be
                                 #  avoided"
        "in-memory-hdf5",    # "we can use in-memory HDF5 API"
        "read-parallelism",  # "Multiple threads should be utilized to perform I/O"
    }, {"stage-to-node", "reread-small-file"}),
    "climate_seg": (4, SLOW, {
        "stats-file-reread",  # "The stats file should be read in memory in one call"
    }, set()),
    "cosmoflow": (4, {**SLOW, "read": "2ms"}, {
        "read-parallelism",  # "change buffer_size=None, num_parallel_reads=None to improve I/O"
        "prefetch-depth",    # "Enabling Prefetching would reduce I/O time"
    }, {
        "decode-parallelism",  # "operator parallelism for data processing was 4 …"
        "stage-to-node",
    }),
    # "less than 1 % of total time on I/O": nothing is suggested. Text that every run parses, and
    # that every rank reads, may be noted.
    "candle": (2, SLOW, set(), {"csv-to-records", "same-data-every-rank"}),
    "l2hmc": (1, SLOW, {
        "checkpoint-local",  # "store all checkpoints into local SSD instead of the PFS"
    }, set()),
    "bert": (1, CACHED, {
        "csv-to-records",    # "Instead of using CSV format, use tf record format"
    }, set()),
    "mmadsp": (1, SLOW, set(), set()),  # "Didn't detect any I/O in the application"
    # 8 % of the time, a file a step, read in one go; the study stops before it suggests anything.
    # What is true of any reader on demand may be said, nothing on requests, ranks or formats.
    "frnn": (4, SLOW, set(), {"prefetch-depth", "read-parallelism", "stage-to-node",
                              "many-small-files", "metadata-load"}),
}


MODULES = {"candle": "pandas", "frnn": "numpy", "cosmic_tagger": "h5py", "ffn": "h5py",
           "climate_seg": "h5py", "mmadsp": "h5py"}


# Not of the study: a job that does it right.
HEALTHY = {"healthy": (2, CACHED, set(), set())}


def program(app):
    """(argv that makes the data or None, argv that runs it on a folder)."""
    if app == "l2hmc":
        return None, [compiled("apps/l2hmc.c", "-O1")]
    script = APPS / f"{app}.py"
    return [PYTHON, script, "make"], [PYTHON, script, "run"]


@pytest.fixture
def measured(profile, tmp_path):
    """measured(app) -> its profile; on a local disk without a file system in between."""
    def run(app, shared=True):
        ranks, storage, *_ = {**TABLE, **HEALTHY}[app]
        if app in MODULES:
            pytest.importorskip(MODULES[app], reason=f"python3-{MODULES[app]} is not installed")
        make, argv = program(app)
        source = tmp_path / "data"
        source.mkdir()
        if make:
            subprocess.run([*map(str, make), source], check=True, env=bare_env())
        if ranks > 1:
            argv = [PYTHON, APPS / "common.py", ranks, *argv]
        if shared:
            with slowfs(source, tmp_path / "mnt", **storage) as fs:
                p = profile([*argv, fs.mnt])
        else:
            p = profile([*argv, source])
        assert p.rc == 0, p.err
        return p
    return run


@pytest.mark.parametrize("app", [*TABLE, *HEALTHY])
def test_application(app, measured):
    """A user of one of these gets what an expert needed a day for, and no false alarm."""
    _, _, must, may = {**TABLE, **HEALTHY}[app]
    p = measured(app)
    found = set(p.findings) - STARVED
    shown = "\n".join(f"{f['id']} ({f['severity']}): {f['title']}" for f in p.findings.values())
    assert must <= found, f"not found: {sorted(must - found)}\n{shown}"
    assert found <= must | may, f"should not be said: {sorted(found - must - may)}\n{shown}"
    for finding in p.findings.values():
        assert finding["sentences"] and finding["evidence"], finding
    if not must | may:
        assert p.advice["verdict"].startswith(("nothing to fix", "no known fault"))


@pytest.mark.parametrize("app", ["l2hmc", "ffn"])
def test_data_that_is_local_already(app, measured):
    """Nobody is told to copy data to where it is."""
    p = measured(app, shared=False)
    assert not set(p.findings) & {"stage-to-node", "checkpoint-local", "same-data-every-rank"}


def test_what_the_study_measured(measured):
    """The stand-ins do what is written of the applications: else the test above says nothing."""
    p = measured("cosmic_tagger")
    h5 = next(f for f in p.report["files"] if f["name"].endswith(".h5"))
    assert 2000 < h5["mean_read_bytes"] < 8000 and h5["rank_overlap"] == pytest.approx(4, rel=0.2)
    assert h5["reread"] > 4 and 1e6 < h5["bandwidth_Bps"] < 2e7
    assert p.report["profile"]["ranks"] == 4


def test_ranks_read_their_own_files(measured):
    p = measured("imagenet")
    job = p.report["job"]
    assert job["rank_overlap"] == pytest.approx(1, abs=0.01)
    assert job["reread"] == pytest.approx(1.5, abs=0.3)
    assert job["mean_read_bytes"] > 200000 and job["consec"] > 0.98
