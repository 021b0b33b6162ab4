"""advise and tune promise the same gain for the same change of the same job on the same storage: a user
who follows one of them and is told something else by the other trusts neither.

The job is a Darshan log in which every call takes exactly as long as on storage with 0.5 ms per request and
100 MiB/s: `advise` fits that storage to the log, and `tune` gets it as data, with a workload made of the log.
"""

import re

import pytest

RATE, LATENCY = 100 * 2**20, 0.5e-3
WEIGHTS = 16 << 20  # one large file shows the rate; it is read before the training


class Log:
    """A log of one process that makes one call after the other."""

    def __init__(self, root):
        self.root, self.now, self.lines = root, 0.0, []

    def read(self, name, size, requests):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(size))
        read_s = requests * LATENCY + size / RATE
        counters = {"OPENS": 1, "READS": requests, "WRITES": 0, "SEEKS": 0, "STATS": 0, "BYTES_READ": size,
                    "BYTES_WRITTEN": 0, "MAX_BYTE_READ": size - 1, "CONSEC_READS": requests - 1, "SEQ_READS": requests - 1,
                    "SIZE_READ_10K_100K" if size / requests <= 100 << 10 else "SIZE_READ_1M_4M": requests,
                    "ACCESS1_ACCESS": size // requests, "ACCESS1_COUNT": requests,
                    "F_OPEN_START_TIMESTAMP": self.now, "F_OPEN_END_TIMESTAMP": self.now + LATENCY,
                    "F_READ_START_TIMESTAMP": self.now + LATENCY}
        self.now += LATENCY + read_s
        counters |= {"F_READ_END_TIMESTAMP": self.now, "F_CLOSE_START_TIMESTAMP": self.now,
                     "F_CLOSE_END_TIMESTAMP": self.now, "F_READ_TIME": read_s, "F_META_TIME": LATENCY,
                     "F_WRITE_TIME": 0.0, "F_MAX_READ_TIME": read_s / requests}
        record = len(self.lines)
        for counter, value in counters.items():
            value = f"{value:.6f}" if isinstance(value, float) else value
            self.lines.append(f"POSIX\t0\t{record}\tPOSIX_{counter}\t{value}\t{path}\t{self.root}\tnfs")

    def write(self, computes):
        path = self.root.parent / "log.txt"
        head = ["# darshan log version: 3.41", "# exe: ./app", "# uid: 1000", "# jobid: 1", "# start_time: 1794741021",
                "# end_time: 1794741031", "# nprocs: 1", f"# run time: {self.now + computes:.6f}", f"# mount entry:\t{self.root}\tnfs"]
        path.write_text("\n".join(head + self.lines) + "\n")
        return path


@pytest.fixture
def promised(stoker, tmp_path):
    """The gains that advise and tune promise for a job: by finding, and by change."""
    def ask(files, size, computes, *kinds):
        root = tmp_path / "data"
        root.mkdir()
        log, workload = Log(root), tmp_path / "job.yaml"
        log.read("weights.pt", WEIGHTS, 4)
        for i in range(files):
            log.read(f"train/{i:05}.jpg", size, 1)
        path = log.write(computes)
        found = stoker("advise", path, "--json", "-", rc=1).json()["result"]["findings"]
        stoker("advise", path, "--workload", workload, rc=(0, 1))
        workload.write_text(re.sub(r"  2:\n(    .*\n)+", "", workload.read_text()))  # the weights
        result = stoker("tune", workload, "--near", root, "--virtual-storage", f"{RATE},500us,shared", "--budget", "1s",
                        "--only", ",".join(kinds), "--json", "-").json()["result"]
        now = result["candidates"][0]["predicted_epoch_s"]
        changes = {c["id"]: now - c["predicted_epoch_s"] for c in result["candidates"] if c["predicted_epoch_s"]}
        return {f["id"]: f["gain_s"] for f in found}, changes, path
    return ask


def near(a, b):
    return abs(a - b) <= 0.05 * max(abs(a), abs(b))


def test_the_loader(promised):
    """A job that only reads: opens and requests overlap; the transfer of 31 MiB into new memory and the start of the
    loader remain."""
    advised, tuned, _ = promised(512, 64 << 10, 0, "loader", "pack")
    assert near(advised["many-small-files"], tuned["pack"]) and near(tuned["pack"], tuned["loader"])
    start = 0.01 + 9 * 2 * LATENCY + 512 * (64 << 10) / 2e9
    assert near(tuned["pack"], 512 * 2 * LATENCY - start)


def test_the_loader_reads_while_the_job_computes(promised):
    """Beside 5 s of computing, only the first window of 64 MiB of 88 is waited for."""
    advised, tuned, _ = promised(1408, 64 << 10, 5, "pack")
    assert near(advised["many-small-files"], tuned["pack"])
    assert near(tuned["pack"], 1408 * (2 * LATENCY + (64 << 10) / RATE) - (64 << 20) / RATE)


def test_more_readers(promised):
    """Waits overlap, transfers do not: with four readers, the transfer is what remains."""
    advised, tuned, _ = promised(512, 64 << 10, 0, "threads")
    assert near(advised["read-parallelism"], tuned["threads-4"])
    assert near(tuned["threads-4"], 512 * 2 * LATENCY)


def test_more_readers_while_the_job_computes(promised):
    """Readers read ahead: beside 1 s of computing, only the first of 16 batches is waited for. It takes one reader as
    long as four batches take all of them."""
    advised, tuned, _ = promised(512, 64 << 10, 1, "threads")
    assert near(advised["read-parallelism"], tuned["threads-4"])
    transfer = 512 * (64 << 10) / RATE
    assert near(tuned["threads-4"], 512 * 2 * LATENCY + transfer - 4 / 16 * transfer)


def test_staging(promised, stoker, tmp_path):
    """An epoch from the source takes what the log says, for stage as for tune: one thread waits for each request."""
    _, _, log = promised(512, 64 << 10, 0, "threads")
    cost = stoker("stage", tmp_path / "data/train", tmp_path / "to", "--dry-run", "--profile", log, "--rates",
                  "source=100M,write=1G,read=1000M", "--json", "-").json()["result"]["cost"]
    assert near(cost["first_epoch_s"], 512 * 2 * LATENCY + 512 * (64 << 10) / RATE)
