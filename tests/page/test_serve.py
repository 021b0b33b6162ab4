"""`stoker report --serve`: one page, for the one who knows its address, on this node only."""

import json
import os
import signal
import socket
import subprocess

import pytest

from conftest import STOKER, clean_env, run_stoker
from pagelib import Server
from profilelib import LIBRARY, PYTHON, bare_env

LOAD = {"schema": 1, "command": "load", "arguments": ["set"], "result": {"samples_per_second": 5.5, "stall_fraction": 0.5}}


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "load.json"
    path.write_text(json.dumps(LOAD))
    done = run_stoker("report", path, "-o", path.with_suffix(".html"), rc=None)
    if "built without the page" in done.err:
        pytest.skip("this build has no page: Node.js or its libraries are missing")
    return path


@pytest.fixture
def server(result):
    it = Server(result)
    yield it
    it.process.kill()
    it.process.communicate()


def test_only_the_page_and_only_with_the_token(server, result):
    """Other users of the node reach the port, too."""
    status, text, headers = server.ask()
    assert status == 200 and "samples_per_second" not in text and "The loader delivered" in text
    assert headers["Cache-Control"] == "no-store" and headers["X-Frame-Options"] == "DENY" and headers["Refresh"] is None
    for path in ["/", "/index.html", f"/{'0' * 32}/", f"/{server.token}", f"/{server.token}/..", f"/{server.token}/x", "/../../etc/passwd", f"/{server.token[:-1]}/"]:
        status, text, _ = server.ask(path=path)
        assert status == 404 and "loader" not in text, path
    for method in ["POST", "PUT", "DELETE", "OPTIONS"]:
        assert server.ask(method)[0] == 405
    status, text, headers = server.ask("HEAD")
    assert (status, text) == (200, "") and int(headers["Content-Length"]) > 500000
    assert server.ask(Host="evil.example")[0] == 404  # a name of another site that leads here
    assert server.ask(Host="localhost:9")[0] == 200   # a tunnel from another port
    assert server.end() == 0


def test_loopback_only(server):
    """Nothing listens on the network's addresses."""
    with open("/proc/net/tcp") as f:
        mine = [line.split()[1] for line in f if line.split()[1].endswith(f":{int(server.port):04X}") and line.split()[3] == "0A"]
    assert mine == [f"0100007F:{int(server.port):04X}"]


def test_bad_clients_do_no_harm(server):
    """Half a request, noise, a header without end, a client that leaves before its answer."""
    for data in [b"", b"GET / HT", b"\0\xff" * 3000, b"GET /" + b"a" * 20000, f"GET /{server.token}/ HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()]:
        with socket.create_connection(("127.0.0.1", int(server.port))) as s:
            try:
                s.sendall(data)
            except OSError:
                pass
    assert server.ask()[0] == 200


def test_others_who_say_nothing_do_not_keep_it(server):
    """Anyone on the node can connect: 18 such connections made the user's browser wait for 90 s."""
    idle = []
    for i in range(40):
        idle.append(socket.create_connection(("127.0.0.1", int(server.port)), timeout=20))
        idle[-1].sendall(b"GET /"[:i % 6])
    assert server.ask()[0] == 200
    for s in idle:
        s.close()
    assert server.ask()[0] == 200


def test_shows_what_is_there_now(server, result):
    """The page is made again for each request; a result that is damaged meanwhile is said, not served."""
    try:
        result.write_text(json.dumps({**LOAD, "result": {**LOAD["result"], "samples_per_second": 77777.0}}))
        assert "77,777" in server.ask()[1]
        result.write_text("{")
        status, text, _ = server.ask()
        assert status == 500 and "load.json" in text
    finally:
        result.write_text(json.dumps(LOAD))
    assert server.ask()[0] == 200


def test_a_growing_study_refreshes(tmp_path, result):
    folder = tmp_path / "study"
    folder.mkdir(mode=0o700)
    (tmp_path / "t.csv").write_text("n,time\n1,10\n2,6\n4,4\n")
    run_stoker("scale", "--from", tmp_path / "t.csv", "--save", folder / "study.json")
    server = Server(folder)
    assert int(server.ask()[2]["Refresh"]) >= 2
    os.utime(folder / "study.json", (1, 1))
    assert server.ask()[2]["Refresh"] is None
    (folder / "status.json").write_text("{}")  # a run that takes longer than two minutes: the runner says that it is there
    assert int(server.ask()[2]["Refresh"]) >= 2
    os.utime(folder / "status.json", (1, 1))
    assert server.ask()[2]["Refresh"] is None
    assert server.end(signal.SIGTERM) == 0


def test_a_study_whose_first_run_has_not_ended(tmp_path, result):
    """Whoever opens the page right after the start of a study waits there for its first number."""
    folder = tmp_path / "study"
    folder.mkdir(mode=0o700)
    for name in ("plan.json", "runs.jsonl", "status.json"):
        (folder / name).write_text("{}\n")
    server = Server(folder)
    status, text, headers = server.ask()
    assert status == 200 and "No run of the study has ended yet." in text and int(headers["Refresh"]) >= 2
    (tmp_path / "t.csv").write_text("n,time\n1,10\n2,6\n4,4\n")
    run_stoker("scale", "--from", tmp_path / "t.csv", "--save", folder / "study.json")
    status, text, _ = server.ask()
    assert status == 200 and "No run of the study" not in text and '"id":"speedup"' in text
    assert server.end() == 0


def test_what_is_wrong_is_said_before_an_address(result):
    done = run_stoker("report", result.parent / "missing", "--serve", rc=4)
    assert "missing" in done.err and "http" not in done.out


def test_a_taken_port_is_named(server, result):
    done = run_stoker("report", result, "--serve", "--port", server.port, rc=4)
    assert f"port {server.port}" in done.err


def test_quiet_leaves_the_address(result):
    """Without its address, nobody could open the page."""
    server = Server(result, "--quiet")
    assert server.ask()[0] == 200 and server.end() == 0
    server = subprocess.Popen([STOKER, "report", result, "--serve", "--json", "-"], env=clean_env(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert server.stderr.readline().startswith("http://127.0.0.1:")
    server.send_signal(signal.SIGINT)
    out, _ = server.communicate(timeout=300)
    assert json.loads(out)["command"] == "report"


def test_ends_when_nobody_looks(result):
    """A forgotten server does not stay on the login node: it ends by itself, and wrong requests do not keep it."""
    for idle in ["0", "300ms"]:
        server = Server(result, "--idle", idle)
        server.process.communicate(timeout=300)
        assert server.process.returncode == 0
    done = run_stoker("report", result, "--serve", "--idle", "x", rc=2)
    assert "--idle" in done.err


def test_a_running_profile_refreshes(tmp_path, result):
    """Whoever watches a run sees it grow, and the page rests when the run has ended."""
    if not LIBRARY:
        pytest.skip("libstoker-preload.so is not built")
    folder = tmp_path / "p"
    program = "import sys; open('/etc/passwd').read(); print('on', flush=True); sys.stdin.readline()"
    run = subprocess.Popen([STOKER, "profile", "-q", "-o", folder, "--", PYTHON, "-c", program], env=bare_env(), text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert run.stdout.readline() == "on\n"
    server = Server(folder)
    try:
        assert int(server.ask()[2]["Refresh"]) >= 2
        run.communicate("\n", timeout=300)
        assert run.returncode == 0
        assert server.ask()[2]["Refresh"] is None
    finally:
        run.kill()
        assert server.end() == 0
