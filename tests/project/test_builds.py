"""Other ways to build: without optional libraries, and with every warning an error."""

import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess

import pytest

from conftest import release_build

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
pytestmark = pytest.mark.builds


def build(name, *options, cc="cc", target="all"):
    """target None: only set up."""
    env = {**os.environ, "CC": cc}
    for argv in (["meson", "setup", "--reconfigure", name, *options],
                 ["ninja", "-C", name, "--quiet", target])[:2 if target else 1]:
        if argv[0] == "meson" and not (ROOT / name / "build.ninja").exists():
            argv.remove("--reconfigure")
        done = subprocess.run(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, done.stdout[-8000:]
    return ROOT / name / "stoker"


@pytest.fixture(scope="module")
def core():
    """A binary built without any optional library, as on a cluster's login node."""
    return build("build-core", "-Dextras=disabled", "-Dpage=disabled", "-Doptimization=0", target="stoker")


def run(*argv, cwd=None):
    return subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, cwd=cwd)


@pytest.mark.xdist_group("core")
def test_core_only_needs_zlib_alone(core):
    """Who has no HDF5, LMDB, zstd... still gets a binary that starts."""
    lines = run("readelf", "-d", core).stdout.splitlines()
    needed = {line.split("[")[1].split(".so")[0] for line in lines if "(NEEDED)" in line}
    assert needed <= {"libc", "libz", "libm", "libpthread", "ld-linux-x86-64"}


@pytest.mark.xdist_group("core")
def test_core_only_packs_and_verifies(core, images, tmp_path):
    """The main job works without any optional library."""
    assert run(core, "pack", images[0], tmp_path / "packed").returncode == 0
    assert run(core, "verify", tmp_path / "packed").returncode == 0


@pytest.mark.xdist_group("core")
@pytest.mark.parametrize("name, first_bytes, package", [
    ("a.h5", b"\x89HDF\r\n\x1a\n", "libhdf5-dev"),
    ("a.sqsh", b"hsqs", "libsquashfs-dev"),
    ("data.mdb", b"\0" * 16 + b"\xde\xc0\xef\xbe", "liblmdb-dev"),
])
def test_core_only_says_what_it_lacks(core, tmp_path, name, first_bytes, package):
    """Asked for a format that is not built in, it names the package to install."""
    (tmp_path / name).write_bytes(first_bytes + b"\0" * 8192)
    done = run(core, "inspect", tmp_path / name)
    assert done.returncode == 4
    assert package in done.stdout


@pytest.mark.xdist_group("core")
def test_core_only_makes_no_page(core, tmp_path):
    """Without Node.js, a page cannot be built in: the message says so, and how to get one."""
    done = run(core, "report", tmp_path, "-o", tmp_path / "page.html")
    assert done.returncode == 4 and "tools/setup page" in done.stdout and "nodejs, npm" in done.stdout
    assert not (tmp_path / "page.html").exists()


@pytest.mark.xdist_group("install")
def test_a_release_needs_no_node(tmp_path):
    """Who builds from a tarball has neither npm nor a network: the finished page is in it."""
    if not (ROOT / "web/node_modules/esbuild").is_dir():
        pytest.skip("the libraries of the page are not installed (tools/setup page)")
    release_build()
    made = ROOT / "build-release"
    for argv in (["ninja", "-C", made, "--quiet", "web/page.html"],
                 ["meson", "dist", "-C", made, "--no-tests", "--allow-dirty", "--formats", "gztar"]):
        done = run(*argv, cwd=ROOT)
        assert done.returncode == 0, done.stdout[-4000:]
    tarball = max((made / "meson-dist").glob("*.tar.gz"), key=lambda p: p.stat().st_mtime)
    shutil.unpack_archive(tarball, tmp_path)
    source = next(tmp_path.iterdir())
    assert (source / "web/page.html").stat().st_size > 500_000 and not (source / "web/node_modules").exists()
    (tmp_path / "no-node.ini").write_text("[binaries]\nnode = '/nonexistent/node'\nnpm = '/nonexistent/npm'\n")
    for argv in (["meson", "setup", source / "b", source, "--native-file", tmp_path / "no-node.ini", "-Dpage=enabled", "-Dextras=disabled",
                  "-Doptimization=0"], ["ninja", "-C", source / "b", "--quiet", "stoker"]):
        done = run(*argv, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-4000:]
    (tmp_path / "load.json").write_text('{"schema": 1, "command": "load", "arguments": [], "result": {"samples_per_second": 5.5, "stall_fraction": 0.5}}')
    done = run(source / "b/stoker", "report", tmp_path / "load.json", "-o", tmp_path / "page.html")
    assert done.returncode == 0 and "samples per second" in (tmp_path / "page.html").read_text()


@pytest.mark.xdist_group("install")
def test_nothing_to_warn_about():
    """Who builds from source sees no warning and need not wonder what it means."""
    release_build()


def test_nothing_for_clang_to_warn_about():
    """The same with the other compiler, which only has to look: its warnings need no code."""
    if not shutil.which("clang"):
        pytest.skip("clang is not installed")
    shutil.rmtree(ROOT / "build-clang", ignore_errors=True)  # what an earlier version generated
    build("build-clang", "-Dwerror=true", "-Dtests=true", cc="clang", target=None)
    commands = json.loads((ROOT / "build-clang/compile_commands.json").read_text())

    def look(entry):
        argv = shlex.split(entry["command"])
        argv = argv[:argv.index("-MD")] + ["-fsyntax-only", entry["file"]]
        if not (pathlib.Path(entry["directory"]) / entry["file"]).exists():  # made while building
            run("ninja", entry["file"], cwd=entry["directory"])
        return run(*argv, cwd=entry["directory"])

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        trouble = [done.stdout for done in pool.map(look, commands) if done.returncode]
    assert len(commands) > 100 and not trouble, "".join(trouble)[:8000]


@pytest.mark.xdist_group("install")
def test_two_builds_are_compared(tmp_path):
    """Nobody would see that a release has become slower: the script failed before its first run."""
    release_build()
    folder = ROOT / "build-release"
    programs = [f"bench/bench_{name}" for name in ("load", "gen", "profile")]
    done = run("ninja", "-C", folder, "--quiet", *programs)
    assert done.returncode == 0, done.stdout
    done = run(ROOT / "bench/versus", folder, folder, "--scale", "0.005", "--repeats", "1", "--dir", tmp_path)
    assert done.returncode == 0 and "stage, files, warm" in done.stdout.split("new/old")[-1], done.stdout
    assert not list(tmp_path.glob("versus-*"))
