"""What the compiler and the linker were asked to put between a bug and its abuse is in what was built."""

import re
import shutil
import subprocess

import pytest

from conftest import ROOT, STOKER, release_build

LIBRARIES = ["libstoker.so", "libstoker-preload.so", "python/stoker/_stoker.abi3.so"]
FILES = ["stoker", *LIBRARIES]


def readelf(option, file):
    if not shutil.which("readelf"):
        pytest.skip("readelf is not installed")
    return subprocess.run(["readelf", "-W", option, file], capture_output=True, text=True, check=True).stdout


def built(folder, name):
    if not (folder / name).exists():
        pytest.skip(f"{name} is not in this build")
    return folder / name


# The program of `make test` is at a fixed address, for its quick start.
@pytest.mark.parametrize("name", [pytest.param("stoker", marks=pytest.mark.builds), *LIBRARIES])
def test_layout_of_the_program(name):
    """With code at known places, tables of functions that can be overwritten or a stack that can be run,
    a small bug becomes somebody else's shell."""
    file = built(STOKER.parent, name)
    assert re.search(r"Type:\s+DYN", readelf("-h", file)), "its place in memory is fixed (no PIE)"
    segments, dynamic = readelf("-l", file), readelf("-d", file)
    assert "GNU_RELRO" in segments and re.search(r"FLAGS_1.*\bNOW\b", dynamic), "no full RELRO"
    assert re.search(r"GNU_STACK.* RW +0x", segments), "the stack can be run"
    assert "TEXTREL" not in dynamic


@pytest.mark.parametrize("name", FILES)
def test_stack_is_protected(name):
    """An overrun of a buffer on the stack would go unnoticed."""
    assert "__stack_chk_fail" in readelf("--dyn-syms", built(STOKER.parent, name))


@pytest.mark.builds
@pytest.mark.xdist_group("install")
@pytest.mark.parametrize("name", ["stoker", "libstoker.so", "python/stoker/_stoker.abi3.so"])
def test_fortified(name):
    """An overrun of a buffer whose size the compiler knows would go unnoticed in what users install."""
    release_build()
    symbols = readelf("--dyn-syms", built(ROOT / "build-release", name))
    if "GLIBC" not in symbols:
        pytest.skip("not the GNU C library")
    assert re.search(r"\b__(memcpy|snprintf|vsnprintf)_chk\b", symbols)


def test_control_flow_is_marked(tmp_path):
    """Where compiler and processor can, a jump into the middle of a function is an error. (Whether the
    program as a whole asks for it depends on the C library's own files too.)"""
    probe = tmp_path / "probe.c"
    probe.write_text("int x;\n")
    made = subprocess.run(["cc", "-fcf-protection", "-c", probe, "-o", tmp_path / "probe.o"], capture_output=True)
    if made.returncode or "IBT" not in readelf("-n", tmp_path / "probe.o"):
        pytest.skip("the compiler has no CET")
    objects = sorted(STOKER.parent.glob("stoker.p/*.o"))
    assert objects and all("IBT" in readelf("-n", o) for o in objects[:5])
