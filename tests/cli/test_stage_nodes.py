"""`stoker stage` under mpirun, with Open MPI and with MPICH: what each node gets, what is read from
the source, and what is said when something is wrong with one of them."""

import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

import conftest
from conftest import STOKER, make_images, until
from faultlib import needs_root, small_disk
from mpilib import MPIS, Nodes, env_for, needs_mpi, run_ranks, same_tree, total
from slowfslib import slowfs

PARCEL = 4 << 20


@pytest.fixture(params=MPIS)
def mpi(request):
    needs_mpi(request.param)
    return request.param


@pytest.fixture
def source(tmp_path):
    """Small files, a large one, an empty one."""
    folder = tmp_path / "source"
    make_images(folder, classes=2, per_class=40)
    (folder / "large.bin").write_bytes(os.urandom(3 * PARCEL + 1000))
    (folder / "empty").write_bytes(b"")
    return folder


def test_every_node_gets_all_and_each_byte_is_read_once(mpi, source, tmp_path, stoker):
    """N nodes would read N times as much, and the shared file system would be the limit."""
    # A packed dataset has checksums of whole files: small shards are read by one node, which sends the
    # checksum to the others; one large shard is read by all.
    packed = tmp_path / "packed"
    make_images(tmp_path / "large", classes=1, per_class=8, sizes=(2_600_000, 2_600_000))
    stoker("pack", tmp_path / "large", packed, "--shards", 4 if mpi == "mpich" else 1, "--quiet")
    nodes = Nodes(tmp_path, mpi, 4)
    for data in (source, packed):
        done, result = nodes.stage(data)
        assert [n["state"] for n in result["nodes"]] == ["done"] * 4
        assert result["mode"] == "replicate" and result["mpi"] == mpi and result["ranks"] == 4
        assert total(result, "bytes_read") == result["bytes"]
        assert total(result, "bytes_written") == 4 * result["bytes"]
        assert all(n["bytes_read"] for n in result["nodes"])
        for i, node in enumerate(result["nodes"]):
            assert node["node"] == f"node{i}" and str(tmp_path / f"tier{i}") in node["path"]
            assert same_tree(data, node["path"])
        # Standard output is one path, whatever the number of ranks. Here the nodes have different ones.
        assert done.out.splitlines() == [str(data)] and result["path"] == str(data) and result["staged"]
        assert "node3" in done.err and "slowest" in done.err
    assert not (tmp_path / "status").exists()
    again = nodes.stage(packed)[1]
    assert total(again, "bytes_read") == 0 and again["nodes_good"] == 4


@pytest.mark.parametrize("order, copies", [(["--shuffle", "none"], 2),
                                           (["--shuffle", "block", "--seed", "3", "--window", "3M"], 1)],
                         ids=["stored", "block"])
def test_shards_are_what_loaders_ask_for(order, copies, tmp_path, stoker):
    """A rank would read from the shared file system although its node has a part of the data."""
    needs_mpi("mpich")
    packed = tmp_path / "packed"
    make_images(tmp_path / "large", classes=2, per_class=16, sizes=(700_000, 700_000))
    stoker("pack", tmp_path / "large", packed, "--shards", 4, "--quiet")
    done, result = Nodes(tmp_path, "mpich", 4).stage(packed, "--mode", "shard", "--batch", 2, *order,
                                                       "--copies", copies)
    assert result["mode"] == "shard" and result["nodes_good"] == 4 and done.out.strip() == str(packed)
    assert result["bytes"] >= total(result, "bytes_read")
    assert all(n["bytes_there"] < result["bytes"] for n in result["nodes"])
    for rank, copy in itertools.product(range(4), range(copies)):  # copies: on the nodes that follow
        loaded = stoker("load", packed, "--rank", f"{rank}/4", "--batch", 2, *order, "--json", "-",
                        env={"STOKER_TIER": tmp_path / f"tier{(rank + copy) % 4}"}).json()["result"]
        assert loaded["source_bytes"] == 0 and loaded["tier_memory_bytes"] + loaded["tier_disk_bytes"] > 0


def test_ranks_of_one_node_share_its_copy(source, tmp_path):
    """Four ranks of a node would write the same files at once."""
    needs_mpi("openmpi")
    result = Nodes(tmp_path, "openmpi", 4).stage(source, "--mode", "replicate", per_node=2)[1]
    assert [(n["node"], n["rank"], n["state"]) for n in result["nodes"]] == [("node0", 0, "done"), ("node1", 2, "done")]
    assert total(result, "bytes_read") == result["bytes"]


def test_a_node_with_a_bad_disk_does_not_stop_the_others(mpi, source, tmp_path):
    """At 256 nodes one or two always fail: an allocation would be lost."""
    (tmp_path / "tier2").write_text("a file, not a folder")
    nodes = Nodes(tmp_path, mpi, 4)
    done, result = nodes.stage(source, rc=3)
    assert [n["state"] for n in result["nodes"]] == ["done", "done", "failed", "done"]
    assert "tier2" in result["nodes"][2]["error"] and result["nodes"][2]["path"] is None
    assert result["nodes"][2]["bytes_read"] and total(result, "bytes_read") == result["bytes"]
    assert same_tree(source, result["nodes"][3]["path"])
    assert done.out.strip() == str(source) and "3 of 4 nodes" in done.err
    assert nodes.status(2)["phase"] == "failed"
    # Enough is enough; what is there is not read again.
    done, result = nodes.stage(source, "--min-nodes", 3)
    assert result["staged"] and result["nodes_good"] == 3
    assert total(result, "bytes_read") == 0
    (tmp_path / "tier2").unlink()
    assert nodes.stage(source)[1]["nodes_good"] == 4


def test_a_node_whose_disk_is_full(source, tmp_path):
    """The same in the middle of the copy."""
    needs_mpi("openmpi")
    nodes = Nodes(tmp_path, "openmpi", 3)
    nodes.write_script(1)
    nodes.script.write_text(nodes.script.read_text().replace("exec", '[ $N = 1 ] && set -- --limit 5M "$@"\nexec'))
    run = run_ranks("openmpi", 3, nodes.script, "--json", tmp_path / "out.json", "--mode", "replicate", source,
                    rc=None, cwd=tmp_path)
    result = json.loads((tmp_path / "out.json").read_text())["result"]
    assert [n["state"] for n in result["nodes"]] == ["done", "failed", "done"], repr(run)
    assert total(result, "bytes_read") == result["bytes"]
    assert not list((tmp_path / "tier1").glob("*/data"))


def test_rank_0_may_finish_what_it_writes(source, tmp_path):
    """Open MPI ends all ranks once one has failed: the result would be lost."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    needs_mpi("openmpi")
    out = tmp_path / "out.json"
    (tmp_path / "tier2").write_text("a file, not a folder")
    nodes = Nodes(tmp_path, "openmpi", 3)
    argv = nodes.argv("--json", out, source)
    calls = "openat,rename,renameat,renameat2"
    late = f"strace -f -o /dev/null -P {out} -e trace={calls} -e inject={calls}:delay_enter=2000000"
    nodes.script.write_text(nodes.script.read_text().replace("exec", f'[ $N = 0 ] && L="{late}"\nexec $L', 1))
    run = subprocess.run(argv, env=env_for(), cwd=tmp_path, capture_output=True, text=True,
                         timeout=conftest.PATIENCE_S)
    assert run.returncode == 3 and json.loads(out.read_text())["result"]["nodes_good"] == 2, run.stderr


@needs_root
def test_a_node_whose_disk_is_too_small(source, tmp_path):
    """It would be filled to the last byte, and have no copy."""
    needs_mpi("mpich")
    nodes = Nodes(tmp_path, "mpich", 3)
    with small_disk(tmp_path / "tier1", "8m") as disk:
        done, result = nodes.stage(source, "--mode", "replicate", rc=3)
        assert [n["state"] for n in result["nodes"]] == ["done", "failed", "done"], repr(done)
        assert re.search(r"too small.* free, .* needed", result["nodes"][1]["error"])
        assert total(result, "bytes_read") == result["bytes"] and disk.used() < 1 << 20
        disk.resize("64m")
        assert nodes.stage(source)[1]["nodes_good"] == 3


@needs_root
def test_one_disk_is_too_small_and_the_others_are_enough(tmp_path, stoker):
    """Two complete copies were of no use, because a third node could hold a part only."""
    needs_mpi("mpich")
    packed = tmp_path / "packed"
    make_images(tmp_path / "large", classes=1, per_class=6, sizes=(2_600_000, 2_600_000))
    stoker("pack", tmp_path / "large", packed, "--shards", 2, "--quiet")
    nodes = Nodes(tmp_path, "mpich", 3)
    with small_disk(tmp_path / "tier1", "10m"):
        done, result = nodes.stage(packed, "--min-nodes", 2)
        assert result["mode"] == "replicate" and "2 are enough" in done.err
        assert [n["state"] for n in result["nodes"]] == ["done", "failed", "done"] and result["staged"]
        assert all(same_tree(packed, result["nodes"][i]["path"]) for i in (0, 2))
    shutil.rmtree(tmp_path / "tier0")
    shutil.rmtree(tmp_path / "tier2")
    with small_disk(tmp_path / "tier1", "10m"):
        assert nodes.stage(packed)[1]["mode"] == "shard"


# MPICH's launcher fails when a rank is killed, and no rank outlives it, whatever its options say.
@pytest.mark.parametrize("mpi, lenient", [("openmpi", False), ("openmpi", True), ("mpich", False)],
                         ids=["killed by mpirun", "outlived", "killed by MPICH"])
def test_one_rank_dies(source, tmp_path, mpi, lenient):
    """The others would wait for it until the job's end, and nobody would know for which."""
    needs_mpi(mpi)
    nodes = Nodes(tmp_path, mpi, 4)
    # So slow that it never ends by itself.
    argv = nodes.argv("--max-rate", "50K", "--mode", "replicate", source, lenient=lenient)
    with subprocess.Popen(argv, env=env_for(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as run:
        until(lambda: all((nodes.status(i) or {}).get("phase") == "copying" for i in range(4)))
        os.kill(nodes.status(2)["pid"], signal.SIGKILL)
        out, err = run.communicate(timeout=conftest.PATIENCE_S)
    assert run.returncode != 0 or lenient
    assert nodes.status(2)["phase"] == "copying" and nodes.status(2)["node"] == "node2"
    if lenient:
        assert "rank 2 on node node2 is lost: its process has ended" in err
        assert any(line.lstrip().startswith("node2") and "lost" in line for line in err.splitlines())
        assert out.strip() == str(source)
    assert not list(tmp_path.glob("tier*/*/data"))
    result = nodes.stage(source)[1]
    assert result["nodes_good"] == 4 and all(same_tree(source, n["path"]) for n in result["nodes"])


def test_a_rank_that_dies_before_they_have_met(source, tmp_path):
    """The others would wait for a minute, and nobody would know for which rank."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    runs = {}
    for mpi in MPIS:
        needs_mpi(mpi)
        (tmp_path / mpi).mkdir()
        nodes = Nodes(tmp_path / mpi, mpi, 4)
        argv = nodes.argv(source, lenient=True)
        # A rank looks at its namespace when it introduces itself to the others.
        kill = "strace -f -o /dev/null -P /proc/self/ns/pid -e inject=readlink,readlinkat:signal=SIGKILL"
        nodes.script.write_text(nodes.script.read_text().replace("exec", f'[ $N = 2 ] && K="{kill}"\nexec $K', 1))
        runs[mpi] = subprocess.Popen(argv, env=env_for(), cwd=tmp_path / mpi, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
    for mpi, run in runs.items():
        out, err = run.communicate(timeout=conftest.PATIENCE_S)
        assert not list((tmp_path / mpi).glob("tier*/*/data"))
        if mpi == "mpich" and run.returncode and "rank 2 is lost" not in err:
            continue  # its launcher ends all ranks if one dies that is still asking it for addresses
        assert "rank 2 is lost" in err, err
        assert any(line.lstrip().startswith("(rank 2)") and "lost" in line for line in err.splitlines()), err
        assert out.strip() == str(source), err


def test_a_node_whose_disk_hangs(source, tmp_path):
    """The ring would stand still until the job's end."""
    needs_mpi("openmpi")
    (tmp_path / "disk").mkdir()
    nodes = Nodes(tmp_path, "openmpi", 3)
    argv = nodes.argv("--disk-limit", "2s", "--mode", "replicate", "--json", tmp_path / "out.json", source)
    with slowfs(tmp_path / "disk", tmp_path / "tier1") as fs:
        fs.command("stall large.bin 9999s op=write")
        with subprocess.Popen(argv, env=env_for(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as run:
            # The process of that node may not end before its disk answers.
            until(lambda: (tmp_path / "out.json").exists())
            fs.command("clear")
            out, err = run.communicate(timeout=conftest.PATIENCE_S)
        result = json.loads((tmp_path / "out.json").read_text())["result"]
        assert [n["state"] for n in result["nodes"]] == ["done", "failed", "done"], err
        assert "the disk has not completed a write for" in result["nodes"][1]["error"]
        assert run.returncode == 3 and out.strip() == str(source), err
        assert all(same_tree(source, result["nodes"][i]["path"]) for i in (0, 2))
        assert not list((tmp_path / "disk").glob("*/data"))
        result = nodes.stage(source)[1]
        assert result["nodes_good"] == 3 and same_tree(source, result["nodes"][1]["path"])


@pytest.mark.parametrize("call", ["syncfs", "fsync"])
def test_a_node_whose_disk_hangs_in_a_sync(source, tmp_path, call):
    """A disk that takes all writes and then never says that they are safe."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    needs_mpi("openmpi")
    nodes = Nodes(tmp_path, "openmpi", 3)
    argv = nodes.argv("--disk-limit", "2s", "--mode", "replicate", "--json", tmp_path / "out.json", source)
    # The folder of the tier is synced when the tier is made, all of its file system when the copy is published.
    where = f"-P {tmp_path}/tier1" if call == "fsync" else ""
    hang = f"strace -f -o /dev/null {where} -e trace={call} -e inject={call}:delay_enter=9999000000"
    (tmp_path / "tier1").mkdir(mode=0o700)
    nodes.script.write_text(nodes.script.read_text().replace("exec", f'[ $N = 1 ] && H="{hang}"\nexec $H', 1))
    run = subprocess.run(argv, env=env_for(), cwd=tmp_path, capture_output=True, text=True,
                         timeout=conftest.PATIENCE_S)
    result = json.loads((tmp_path / "out.json").read_text())["result"]
    assert [n["state"] for n in result["nodes"]] == ["done", "failed", "done"], run.stderr
    assert "the disk has not completed a sync for" in result["nodes"][1]["error"]
    assert run.returncode == 3 and run.stdout.strip() == str(source), run.stderr
    assert all(same_tree(source, result["nodes"][i]["path"]) for i in (0, 2))
    nodes.write_script(1)
    result = nodes.stage(source)[1]
    assert result["nodes_good"] == 3 and same_tree(source, result["nodes"][1]["path"])


def test_a_source_that_one_node_does_not_see(source, tmp_path):
    """A missing mount on one node would end in an error of all."""
    needs_mpi("mpich")
    nodes = Nodes(tmp_path, "mpich", 3)
    nodes.write_script(1)
    hide = f"bwrap --dev-bind / / --tmpfs {source.parent}/source"
    if not shutil.which("bwrap") or subprocess.run([*hide.split(), "true"], capture_output=True).returncode:
        pytest.skip("bwrap cannot hide a folder here")
    nodes.script.write_text(nodes.script.read_text().replace("exec", f'[ $N = 1 ] && H="{hide}"\nexec $H', 1))
    run = run_ranks("mpich", 3, nodes.script, "--json", tmp_path / "out.json", source, cwd=tmp_path)
    result = json.loads((tmp_path / "out.json").read_text())["result"]
    assert result["nodes_good"] == 3, repr(run)
    assert [bool(n["bytes_read"]) for n in result["nodes"]] == [True, False, True]
    assert total(result, "bytes_read") == result["bytes"]


def test_a_source_that_is_not_there(mpi, tmp_path):
    """Every rank would print the same error."""
    done, _ = Nodes(tmp_path, mpi, 3).stage(tmp_path / "nothing", rc=None)
    assert done.rc != 0 and done.err.count("nothing: ") == 1, repr(done)


# ---- modules -----------------------------------------------------------------------------------


def test_messages(mpi, tmp_path):
    """The same checks as with forked ranks, over this MPI; the module is found by the launcher."""
    program = STOKER.parent / "tests/test_comm"
    if not program.exists():
        pytest.skip("the unit tests are not built")
    (tmp_path / "data").write_text("abcdefghijklmnop")
    folder = tmp_path / "home/stoker/mpi"
    folder.mkdir(parents=True, mode=0o700)
    for name in MPIS:
        if (STOKER.parent / f"libstoker-mpi-{name}.so").exists():
            shutil.copy(STOKER.parent / f"libstoker-mpi-{name}.so", folder)
    done = run_ranks(mpi, 5, program, "ranks", mpi, 5, tmp_path / "data", env={"XDG_DATA_HOME": tmp_path / "home"})
    assert len([line for line in done.out.splitlines() if line.startswith("rank ")]) == 5, repr(done)


def alone(tmp_path):
    """The program without the modules beside it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return pathlib.Path(shutil.copy(STOKER, folder))


def test_without_a_module_each_node_copies_alone(source, tmp_path):
    """A missing MPI would be a failed job, or an unexplained slow one."""
    needs_mpi("openmpi")
    nodes = Nodes(tmp_path, "openmpi", 2)
    nodes.stoker = alone(tmp_path)
    env = {"XDG_DATA_HOME": tmp_path / "nothing"}
    nodes.write_script(1)
    done = run_ranks("openmpi", 2, nodes.script, source, env=env, cwd=tmp_path)
    said = " ".join(done.err.split())
    assert "each node copies alone" in said and "--build-mpi" in said
    paths = list(tmp_path.glob("tier?/*/data/source"))
    assert len(paths) == 2 and all(same_tree(source, p) for p in paths)
    assert done.out == f"{source}\n" and "different paths" in said


def test_a_module_of_the_other_mpi(source, tmp_path):
    """Two processes would each think to be the only one."""
    for name in MPIS:
        needs_mpi(name)
    nodes = Nodes(tmp_path, "openmpi", 2)
    nodes.write_script(1)
    done = run_ranks("openmpi", 2, nodes.script, source, env={"STOKER_MPI": "mpich"}, cwd=tmp_path)
    assert "the launcher started 2 processes, and the MPI of module \"mpich\" sees 1" in " ".join(done.err.split())
    named = run_ranks("openmpi", 2, nodes.script, source, env={"STOKER_MPI": "nonsense"}, rc=None, cwd=tmp_path)
    assert named.rc != 0 and "STOKER_MPI=nonsense" in named.err


def test_a_module_is_built_later(source, tmp_path):
    """At a site whose MPI is not that of the package, nodes could not talk at all."""
    needs_mpi("mpich")
    nodes = Nodes(tmp_path, "mpich", 2)
    nodes.stoker = alone(tmp_path)
    env = env_for({"XDG_DATA_HOME": tmp_path / "home"})

    def build(compiler):
        return subprocess.run([nodes.stoker, "doctor", "--quick", "--build-mpi", compiler], env=env, text=True,
                              capture_output=True)

    assert "stoker_mpi.c, is not in" in " ".join(build("mpicc.mpich").stderr.split())
    for name in ("stoker_mpi.c", "stoker_mpi.h"):
        shutil.copy(STOKER.parent / name, nodes.stoker.parent)
    wrong = build("cc")
    assert wrong.returncode != 0 and "is it the compiler of an MPI?" in wrong.stderr
    assert not list((tmp_path / "home").rglob("*.so"))
    built = build("mpicc.mpich")
    assert built.returncode == 0 and "MPICH 4" in built.stdout + built.stderr
    (module,) = (tmp_path / "home").rglob("*.so")
    assert module.name == "libstoker-mpi-mpich.so"
    result = nodes.stage(source, env={"XDG_DATA_HOME": tmp_path / "home"})[1]
    assert result["mpi"] == "mpich" and result["nodes_good"] == 2
    # A folder that others may write is no place for code.
    module.parent.chmod(0o777)
    done = nodes.stage(source, env={"XDG_DATA_HOME": tmp_path / "home"})[0]
    assert "each node copies alone" in done.err


def test_core_does_not_link_mpi():
    """A node without this MPI could not run stoker at all."""
    for path in (STOKER, STOKER.parent / "libstoker.so"):
        needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True).stdout
        assert "libmpi" not in needed
