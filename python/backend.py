"""The build backend of `pip install .` (PEP 517 and 660), without anything from the network.

It runs the system's Meson and Ninja in a scratch folder and puts the package, with the extension
and the `stoker` command, into a wheel. The extension keeps to Python's stable ABI: the wheel is
good for every Python from 3.9 on.
"""

import base64
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OLDEST = (3, 9)
DESCRIPTION = "Deep-learning datasets of any format, in batches, at the speed of the storage"
EXTRAS = {"numpy": ["numpy"]}
EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip can hold: wheels of one source are the same


def fail(text):
    sys.exit(f"stoker: {text}")


def version():
    return re.search(r"^\s*version: '([^']+)'", (ROOT / "meson.build").read_text(), re.M).group(1)


def tag():
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    return f"cp{OLDEST[0]}{OLDEST[1]}-abi3-{platform}"


def metadata():
    lines = ["Metadata-Version: 2.1", "Name: stoker", f"Version: {version()}",
             f"Summary: {DESCRIPTION}", "License: MIT",
             f"Requires-Python: >={OLDEST[0]}.{OLDEST[1]}"]
    for extra, needs in EXTRAS.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {need}; extra == "{extra}"' for need in needs]
    lines += ["Description-Content-Type: text/markdown", "",
              (ROOT / "docs/python.md").read_text(encoding="utf-8")]
    return "\n".join(lines)


def wheel_file():
    return (f"Wheel-Version: 1.0\nGenerator: stoker {version()}\nRoot-Is-Purelib: false\n"
            f"Tag: {tag()}\n")


# ---- building ----------------------------------------------------------------------------------

def tool(*names, package):
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    return fail(f"{names[0]} is not on the PATH; it is needed to build stoker. "
                f"Install {package} (Debian: apt-get install {package}), or load its module.")


def run(argv, env):
    done = subprocess.run([str(a) for a in argv], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    if done.returncode != 0:
        fail(f"{' '.join(map(str, argv))}\n{done.stdout[-6000:]}")


def check_headers():
    """Any Python's headers will do, but some must be there: say so before Meson does."""
    include = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(include, "Python.h")):
        fail(f"there is no Python.h in {include}: install the headers of this Python "
             "(Debian: apt-get install python3-dev)")


def build(folder):
    """Builds the package in `folder`/python/stoker and the command in `folder`/stoker."""
    meson = tool("meson", package="meson")
    tool("ninja", "ninja-build", "samu", package="ninja-build")
    tool(*filter(None, [os.environ.get("CC")]), "cc", "gcc", "clang", package="gcc")
    check_headers()
    # pip's isolation hides modules from Python programs that are not pip's, Meson among them.
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    # Meson may run on another Python than the one that is installed for.
    options = ["-Dbuildtype=release", "-Dpython=enabled", f"-Dpython_exe={sys.executable}"]
    again = ["--reconfigure"] if (folder / "build.ninja").exists() else []
    run([meson, "setup", *again, *options, folder, ROOT], env)
    run([meson, "compile", "-C", folder], env)


def package_files(folder):
    """{name in the wheel: file} of what was built."""
    built = folder / "python/stoker"
    files = {f"stoker/{p.name}": p for p in sorted(built.iterdir())
             if p.is_file() and p.name.endswith((".py", ".pyi", ".so", "py.typed"))}
    return {**files, f"stoker-{version()}.data/scripts/stoker": folder / "stoker"}


# ---- wheels ------------------------------------------------------------------------------------

class Wheel:
    """A zip that keeps its own list of contents."""

    def __init__(self, directory):
        self.name = f"stoker-{version()}-{tag()}.whl"
        self.info = f"stoker-{version()}.dist-info"
        self.zip = zipfile.ZipFile(pathlib.Path(directory) / self.name, "w", zipfile.ZIP_DEFLATED)
        self.record = io.StringIO()

    def add(self, name, data, mode=0o644):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.write(f"{name},sha256={digest},{len(data)}\n")
        self._write(name, data, mode)

    def _write(self, name, data, mode):
        entry = zipfile.ZipInfo(name, EPOCH)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)

    def finish(self):
        for name, text in info_files().items():
            self.add(f"{self.info}/{name}", text.encode())
        self.record.write(f"{self.info}/RECORD,,\n")
        self._write(f"{self.info}/RECORD", self.record.getvalue().encode(), 0o644)
        self.zip.close()
        return self.name


def info_files():
    return {"METADATA": metadata(), "WHEEL": wheel_file(),
            "LICENSE": (ROOT / "LICENSE").read_text(encoding="utf-8")}


def add_files(wheel, files):
    for name, path in files.items():
        wheel.add(name, path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """-C build-dir=DIR keeps the build there for the next time."""
    keep = (config_settings or {}).get("build-dir")
    with tempfile.TemporaryDirectory(prefix="stoker-build-") as scratch:
        folder = pathlib.Path(keep or scratch).resolve()
        build(folder)
        wheel = Wheel(wheel_directory)
        add_files(wheel, package_files(folder))
        return wheel.finish()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The package stays where its source is; the extension is put beside it."""
    with tempfile.TemporaryDirectory(prefix="stoker-build-") as scratch:
        folder = pathlib.Path((config_settings or {}).get("build-dir") or scratch).resolve()
        build(folder)
        files = package_files(folder)
        here = ROOT / "python/stoker/_stoker.abi3.so"
        beside = here.with_suffix(".so.new")
        shutil.copy(files["stoker/_stoker.abi3.so"], beside)
        os.replace(beside, here)  # a Python that has the old one open goes on with it
        wheel = Wheel(wheel_directory)
        add_files(wheel, {n: p for n, p in files.items() if not n.startswith("stoker/")})
        wheel.add("stoker.pth", f"{ROOT / 'python'}\n".encode())
        return wheel.finish()


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    info = pathlib.Path(metadata_directory) / f"stoker-{version()}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    for name, text in info_files().items():
        (info / name).write_text(text, encoding="utf-8")
    return info.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


# ---- source archive ----------------------------------------------------------------------------

def source_files():
    """What git knows; without git, everything but what building leaves behind."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    names = listed.stdout.decode("utf-8", "surrogateescape").split("\0")
    if listed.returncode == 0:
        return sorted(n for n in names if n and (ROOT / n).is_file())
    left = re.compile(r"(^|/)(build(-[^/]*)?|__pycache__|\.[^/]*)(/|$)|\.so$")
    found = (p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if p.is_file())
    return sorted(n for n in found if not left.search(n) or n in (".clang-format", ".gitignore"))


def build_sdist(sdist_directory, config_settings=None):
    base = f"stoker-{version()}"
    name = f"{base}.tar.gz"
    with tarfile.open(pathlib.Path(sdist_directory) / name, "w:gz",
                      format=tarfile.PAX_FORMAT) as tar:
        for path in source_files():
            tar.add(ROOT / path, f"{base}/{path}")
        entry = tarfile.TarInfo(f"{base}/PKG-INFO")
        data = metadata().encode()
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    return name


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_wheel
get_requires_for_build_sdist = get_requires_for_build_wheel
