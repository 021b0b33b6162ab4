"""pip install: offline, into a fresh environment, one binary for every Python from 3.9 on."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

import pytest

from conftest import ROOT
from pythonlib import plain_environment

pytestmark = pytest.mark.xdist_group("package")
MINIMUM = (3, 9)
USE = """
import json, sys
import stoker
path = sys.argv[1]
ds = stoker.Dataset(path)
batch = next(iter(stoker.Loader(path, batch=3, shuffle=False)))
print(json.dumps([stoker.__version__, ds[1]["text"], ds[2]["v"].tolist(), batch["v"].tolist(),
                  sum(len(b) for b in stoker.Loader(path, batch=1, shuffle="global"))]))
try:
    stoker.Dataset(path + ".none")
except FileNotFoundError as e:
    assert isinstance(e, stoker.Error)
"""
EXPECT = '["%s", "b", [5, 6], [[1, 2], [3, 4], [5, 6]], 3]'


def run(*argv, rc=0, **kw):
    # CFLAGS: what is tested is the packaging, and code without optimisation compiles much faster.
    kw.setdefault("env", plain_environment(PIP_DISABLE_PIP_VERSION_CHECK=1, PIP_NO_CACHE_DIR=1,
                                           CFLAGS="-O0"))
    done = subprocess.run(list(map(str, argv)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600, **kw)
    assert done.returncode == rc, f"{argv}\n{done.stdout[-6000:]}"
    return done.stdout


def version():
    return re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)


def offline():
    """A prefix that takes the network away, where this kernel lets us."""
    probe = ["unshare", "-rn", "true"]
    if shutil.which("unshare") and subprocess.run(probe, stderr=subprocess.DEVNULL).returncode == 0:
        return probe[:2]
    return []


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The source archive, unpacked: what a user without a git repository gets."""
    made = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-c", "import backend, sys; backend.build_sdist(sys.argv[1])", made,
        cwd=ROOT / "python")
    with tarfile.open(made / f"stoker-{version()}.tar.gz") as tar:
        tar.extractall(made)
    return made / f"stoker-{version()}"


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """For pip: wheel and editable installation share what was compiled."""
    return f"--config-settings=build-dir={tmp_path_factory.mktemp('build')}"


@pytest.fixture(scope="module")
def wheel(source, settings, tmp_path_factory):
    """A wheel, built by pip without network."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"],
                      stdout=subprocess.DEVNULL).returncode:
        pytest.skip("python3-pip is not installed")
    made = tmp_path_factory.mktemp("wheel")
    run(*offline(), sys.executable, "-m", "pip", "wheel", "--no-index", settings, "-w", made,
        source)
    return next(made.glob("*.whl"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "a.jsonl"
    path.write_text("".join(f'{{"text": "{t}", "v": [{2 * i + 1}, {2 * i + 2}]}}\n'
                            for i, t in enumerate("abc")))
    return path


def other_pythons():
    """Pythons of this machine that the wheel is for, besides the one that runs this."""
    found, this = set(), pathlib.Path(sys.executable).resolve()
    for folder in os.environ.get("PATH", "").split(":") + [
            str(p) for p in (pathlib.Path.home() / ".pyenv/versions").glob("*/bin")]:
        for minor in range(MINIMUM[1], 20):
            path = pathlib.Path(folder) / f"python3.{minor}"
            if path.exists() and "shims" not in folder:
                found.add(path.resolve())
    return sorted(str(p) for p in found - {this})


@pytest.mark.builds
def test_wheel_contents(wheel):
    """The wheel has the package, the command and a name that says what it is good for."""
    platform = re.sub("[-.]", "_", sysconfig.get_platform())
    assert wheel.name == f"stoker-{version()}-cp39-abi3-{platform}.whl"
    with zipfile.ZipFile(wheel) as z:
        names = set(z.namelist())
        record = z.read(f"stoker-{version()}.dist-info/RECORD").decode()
        metadata = z.read(f"stoker-{version()}.dist-info/METADATA").decode()
    assert {"stoker/__init__.py", "stoker/torch.py", "stoker/tf.py", "stoker/_stoker.abi3.so",
            "stoker/py.typed", "stoker/loader.pyi",
            f"stoker-{version()}.data/scripts/stoker"} <= names
    assert {line.split(",")[0] for line in record.splitlines()} == names
    sources = {p.name for p in (ROOT / "python/stoker").glob("*.py")}
    assert sources == {n.split("/")[1] for n in names if re.fullmatch(r"stoker/\w+\.py", n)}
    head = metadata.split("\n\n")[0]
    assert "Requires-Python: >=3.9" in head and "Requires-Dist: numpy; extra" in head
    assert not re.search(r"^Requires-Dist: (?!.*extra)", head, re.M)


def test_metadata_agrees():
    """pyproject.toml, for tools that read it, says what the backend writes."""
    tomllib = pytest.importorskip("tomllib")
    spec = importlib.util.spec_from_file_location("stoker_backend", ROOT / "python/backend.py")
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["build-system"]["requires"] == []
    project = project["project"]
    assert project["description"] == backend.DESCRIPTION
    assert project["optional-dependencies"] == backend.EXTRAS
    assert project["requires-python"] == f">={backend.OLDEST[0]}.{backend.OLDEST[1]}"


@pytest.mark.builds
def test_only_the_stable_abi(wheel, tmp_path):
    """The extension asks Python for nothing that is not promised to stay, and exports its init."""
    with zipfile.ZipFile(wheel) as z:
        z.extract("stoker/_stoker.abi3.so", tmp_path)
    module = tmp_path / "stoker/_stoker.abi3.so"
    symbols = run("nm", "-D", "--defined-only", module).split("\n")
    assert {line.split()[-1] for line in symbols if line} == {"PyInit__stoker"}
    assert "libpython" not in run("readelf", "-d", module)


@pytest.mark.builds
def test_install_offline(wheel, data, tmp_path):
    """Into a fresh environment; then Dataset, Loader and the command work."""
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(*offline(), tmp_path / "venv/bin/pip", "install", "--no-index", wheel)
    out = run(tmp_path / "venv/bin/python", "-c", USE, data, cwd=tmp_path)
    assert out.strip() == EXPECT % version()
    assert version() in run(tmp_path / "venv/bin/stoker", "--version")


@pytest.mark.builds
def test_every_python(wheel, data, tmp_path):
    """The same file works in every later and earlier Python of this machine, from 3.9 on."""
    others = other_pythons()
    if not others:
        pytest.skip("there is one Python here")
    with zipfile.ZipFile(wheel) as z:
        z.extractall(tmp_path / "site")
    for python in others:
        out = run(python, "-c", USE, data, env=plain_environment(PYTHONPATH=tmp_path / "site"))
        assert out.strip() == EXPECT % version(), python


def python_of(minor):
    """A Python 3.minor of this machine, or None."""
    for path in [*other_pythons(), sys.executable]:
        asked = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2])"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if asked.stdout.split() == ["3", str(minor)]:
            return path
    return None


@pytest.mark.builds
@pytest.mark.parametrize("minor", range(9, 14))
def test_pip_install_in_a_fresh_environment(source, settings, data, tmp_path, minor):
    """`pip install .` as the README says it, in a new environment of every Python there is: its own
    headers, and a Meson of the system that may be older than it."""
    python = python_of(minor)
    if python is None:
        pytest.skip(f"there is no Python 3.{minor} here")
    run(python, "-m", "venv", tmp_path / "venv")
    run(*offline(), tmp_path / "venv/bin/pip", "install", settings, source)
    out = run(tmp_path / "venv/bin/python", "-c", USE, data, cwd=tmp_path)
    assert out.strip() == EXPECT % version()


@pytest.mark.builds
def test_editable(wheel, source, settings, data, tmp_path):
    """pip install -e: the Python files are those of the source."""
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv/bin/pip", "install", "--no-index", settings, "-e", source)
    out = run(tmp_path / "venv/bin/python", "-c", "import stoker; print(stoker.__file__)",
              cwd=tmp_path)
    assert out.strip() == str(source / "python/stoker/__init__.py")
    assert run(tmp_path / "venv/bin/python", "-c", USE, data,
               cwd=tmp_path).strip() == EXPECT % version()


@pytest.mark.parametrize("missing, said", [("meson", "apt-get install meson"),
                                           ("ninja", "apt-get install ninja-build")])
def test_missing_tools_are_named(source, tmp_path, missing, said):
    """Without Meson or Ninja, pip ends with the package to install, not with a traceback."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("meson", "ninja", "cc", "git", "python3"):
        if name != missing and shutil.which(name):
            (tools / name).symlink_to(shutil.which(name))
    out = run(sys.executable, "-c", "import backend; backend.build_wheel('/nonexistent')", rc=1,
              cwd=source / "python", env=plain_environment(PATH=tools))
    assert said in out and "Traceback" not in out


def test_archive_is_complete(source):
    """The source archive has what a build needs and nothing a build makes."""
    with tarfile.open(source.parent / f"{source.name}.tar.gz") as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert {"meson.build", "include/stoker.h", "python/backend.py", "pyproject.toml", "LICENSE",
            "PKG-INFO"} <= names
    assert not [n for n in names if n.startswith("build") or n.endswith((".so", ".o", ".pyc"))]
