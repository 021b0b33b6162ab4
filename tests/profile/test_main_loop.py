"""How long the main loop waited for data, and how that is known: a user asks this first."""

import pytest

from conftest import run_stoker
from profilelib import PYTHON, profile, zeros  # noqa: F401

# A reader gives its data away only after it has seen the main thread asleep: that one waits then.
READER = """
import multiprocessing, os, queue, subprocess, sys, threading, time
main, path = int(os.environ.get("MAIN", os.getpid())), sys.argv[2]
os.environ["MAIN"] = str(main)

def load(_=0):
    seen = 0
    with open(path, "rb") as f:
        data = f.read()
    while seen < 5:
        with open(f"/proc/{main}/stat") as f:
            seen = seen + 1 if f.read().rsplit(")", 1)[1].split()[0] == "S" else 0
        time.sleep(0.002)
    return len(data)

def by_queue():
    q = queue.Queue(2)
    threading.Thread(target=lambda: q.put(load())).start()
    q.get()

def by_imap():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        list(pool.imap(load, range(2)))

def send(end):
    end.send(load())

def by_pipe(how="fork"):
    here, there = multiprocessing.Pipe()
    worker = multiprocessing.get_context(how).Process(target=send, args=(there,))
    worker.start()
    here.recv()
    worker.join()

def by_spawn():
    by_pipe("spawn")

def feed():
    os.write(1, bytes(load()))

def by_program():
    with subprocess.Popen([sys.executable, __file__, "feed", path], stdout=subprocess.PIPE) as p:
        p.stdout.read()

def alone():
    with open(path, "rb") as f:
        f.read()

if __name__ == "__main__":
    globals()[sys.argv[1]]()
"""


@pytest.fixture
def loop(profile, tmp_path):  # noqa: F811
    """loop(argv) -> (the JSON of the main loop, the first screen)"""
    data = zeros(tmp_path / "data/a.bin", 100_000)
    (tmp_path / "reader.py").write_text(READER)

    def run(how):
        p = profile([PYTHON, tmp_path / "reader.py", how, data])
        assert p.rc == 0, p.err
        return p.report["main_loop"], run_stoker("report", p.dir).out
    return run


@pytest.mark.parametrize("how, known_from, says", [
    ("by_queue", "threads", "measured in its waits for other threads"),
    ("by_imap", "workers", "measured in its waits for 1 worker"),
    ("by_pipe", "workers", "measured in its waits for 1 worker"),
    ("by_spawn", "workers", "measured in its waits for 1 worker"),
    ("by_program", "pipes", "measured in its waits for data from other programs"),
])
def test_waits_for_others(loop, how, known_from, says):
    m, screen = loop(how)
    assert m["known_from"] == known_from and m["unknown_because"] is None
    assert m["wait_s"] > 0.008
    parts = m["start_s"] + m["wait_s"] + m["write_s"] + m["compute_s"]
    assert parts == pytest.approx(m["run_s"])
    assert says in " ".join(screen.split())


def test_a_program_that_reads_itself(loop):
    m, screen = loop("alone")
    assert m["known_from"] == "reads" and 0 < m["wait_s"] < m["run_s"]
    assert "main loop  waited for data " in screen


PASSES = """
import sys, threading
together = threading.Barrier(4)

def one_pass():
    for path in sys.argv[2:]:
        with open(path, "rb", 0) as f:
            while f.read(1000):
                pass
        if sys.argv[1] == "threads":
            together.wait()

if sys.argv[1] == "threads":
    threads = [threading.Thread(target=one_pass) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
else:
    [one_pass() for _ in range(4)]
"""


@pytest.mark.parametrize("how, epochs", [("threads", 0), ("loop", 4)])
def test_passes_at_the_same_time_are_no_epochs(profile, tmp_path, how, epochs):  # noqa: F811
    files = [zeros(tmp_path / f"data/{i}.bin", 100_000) for i in range(5)]
    (tmp_path / "passes.py").write_text(PASSES)
    p = profile([PYTHON, tmp_path / "passes.py", how, *files])
    assert p.rc == 0 and len(p.report["epochs"]) == epochs
