"""make install: what another program, a packager and a user of the command find afterwards."""

import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import release_build

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
pytestmark = [pytest.mark.builds, pytest.mark.xdist_group("install")]

PROGRAM = r"""
#include <stdio.h>
#include <stoker.h>
int main(int argc, char **argv)
{
    struct stk_dataset *ds;
    struct stk_err err;
    struct stk_sample *s = stk_sample_new();
    char text[2100];
    size_t len;
    if (argc < 2 || stk_dataset_open(argv[1], NULL, &ds, &err) || stk_dataset_read(ds, 1, s, &err))
        return fprintf(stderr, "%s\n", stk_err_text(&err, text, sizeof text)), 1;
    printf("%s %llu ", stk_dataset_format(ds), (unsigned long long)stk_dataset_len(ds));
    printf("%.*s\n", (int)stk_sample_get(s, "name")->size, (const char *)stk_sample_get(s, "name")->data);
    stk_sample_key(s, &len);
    stk_dataset_close(ds);
    stk_sample_free(s);
    return 0;
}
"""


def run(*argv, env=None, **kw):
    done = subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env={**os.environ, **(env or {})}, **kw)
    assert done.returncode == 0, f"{argv}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The prefix of a release build installed with `make install`."""
    prefix = tmp_path_factory.mktemp("prefix")
    run("make", "install", *release_build(), f"PREFIX={prefix}", cwd=ROOT)
    return prefix


@pytest.fixture(scope="module")
def program(installed, tmp_path_factory):
    """(source file of a small user of the library, a CSV for it, its environment)."""
    work = tmp_path_factory.mktemp("program")
    (work / "user.c").write_text(PROGRAM)
    (work / "people.csv").write_text("name,age\nada,36\ngrace,85\n")
    env = {"PKG_CONFIG_PATH": str(installed / "lib/pkgconfig"), "XDG_CACHE_HOME": str(work)}
    return work, env


def pkg_config(env, *args):
    return run("pkg-config", *args, "stoker", env=env).split()


def test_shared_library(installed, program):
    """A program that follows `pkg-config --libs` links against the shared library and reads."""
    work, env = program
    run("cc", "user.c", "-o", "shared", *pkg_config(env, "--cflags", "--libs"), cwd=work, env=env)
    assert "libstoker.so.1" in run("readelf", "-d", work / "shared")
    out = run(work / "shared", work / "people.csv", env={**env, "LD_LIBRARY_PATH": installed / "lib"})
    assert out.split() == ["csv", "2", "grace"]


def test_static_library(installed, program):
    """A program that follows `pkg-config --static` carries the library with it."""
    work, env = program
    libs = [str(installed / "lib/libstoker.a") if flag == "-lstoker" else flag
            for flag in pkg_config(env, "--static", "--cflags", "--libs")]
    run("cc", "user.c", "-o", "static", *libs, cwd=work, env=env)
    assert "libstoker" not in run("readelf", "-d", work / "static")
    assert run(work / "static", work / "people.csv", env=env).split() == ["csv", "2", "grace"]


def test_example_program(installed, program):
    """The example people begin with builds by its own first lines and reads a dataset."""
    work, env = program
    source = ROOT / "examples/read_dataset.c"
    run("cc", "-Wall", "-Wextra", "-Wconversion", "-Werror", source, "-o", "example",
        *pkg_config(env, "--cflags", "--libs"), cwd=work, env=env)
    (work / "label.csv").write_text("key,label\na,0\nb,1\nc,1\n")
    out = run(work / "example", work / "label.csv",
              env={**env, "LD_LIBRARY_PATH": installed / "lib"})
    assert "csv, 3 samples" in out and "label 0: 1 samples\nlabel 1: 2 samples" in out


def test_loader_example_program(installed, program):
    """The same for the loader's: three epochs, and a second run goes on behind them."""
    work, env = program
    run("cc", "-Wall", "-Wextra", "-Wconversion", "-Werror", ROOT / "examples/load_batches.c", "-o",
        "load", *pkg_config(env, "--cflags", "--libs"), cwd=work, env=env)
    (work / "many.csv").write_text("key,label\n" + "".join(f"k{i},{i % 7}\n" for i in range(200)))
    env = {**env, "LD_LIBRARY_PATH": installed / "lib"}
    out = run(work / "load", work / "many.csv", "3", work / "position", env=env)
    assert [line[:24] for line in out.splitlines()[:3]] == [
        f"epoch {e}: 3 of 3 batches," for e in range(3)]
    assert "rank 0 of 1: 576 samples, 0 skipped" in out
    assert "epoch 3: 3 of 3" in run(work / "load", work / "many.csv", "1", work / "position", env=env)
    part = run(work / "load", work / "many.csv", env={**env, "RANK": "1", "WORLD_SIZE": "2"})
    assert "rank 1 of 2: 64 samples" in part


def test_header_alone(installed, tmp_path):
    """stoker.h needs no other header before it, in C and in C++."""
    source = tmp_path / "alone.c"
    source.write_text("#include <stoker.h>\nstruct stk_err e;\n")
    flags = [f"-I{installed}/include", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    run("cc", "-std=c17", "-pedantic", *flags, source)
    if shutil.which("clang"):
        run("clang", "-x", "c++", "-nostdinc++", *flags, source)


def test_command_runs_from_anywhere(installed):
    """The installed command needs neither libstoker.so nor a search path baked in."""
    for file in ("bin/stoker", "lib/libstoker.so"):
        dynamic = run("readelf", "-d", installed / file)
        assert "RUNPATH" not in dynamic and "RPATH" not in dynamic, file
    assert "libstoker" not in run("readelf", "-d", installed / "bin/stoker")
    version = run(installed / "bin/stoker", "--version", cwd="/")
    assert run("pkg-config", "--modversion", installed / "lib/pkgconfig/stoker.pc").strip() in version


def test_declared_is_exported(installed):
    """What the public header declares is there to link against, and nothing else is."""
    header = (installed / "include/stoker.h").read_text()
    lines = run("nm", "-D", "--defined-only", installed / "lib/libstoker.so").splitlines()
    names = {line.split()[-1].split("@")[0] for line in lines if " A " not in line}
    assert {n for n in names if not n.startswith("stk_") or f"{n}(" not in header} == set()
    assert header.count("STK_API ") - 1 == len(names)  # the macro's own definition


def test_man_pages(installed):
    """`man stoker` and `man stoker-COMMAND` work after make install, for every command."""
    pages = {p.name for p in (installed / "share/man/man1").iterdir()}
    assert {"stoker.1", "stoker-inspect.1", "stoker-pack.1", "stoker-verify.1", "stoker-load.1"} <= pages
    for page in pages:
        text = (installed / "share/man/man1" / page).read_text()
        assert ".SH" in text or ".Sh" in text
        if shutil.which("mandoc"):
            run("mandoc", "-Tlint", "-Werror", installed / "share/man/man1" / page)


def test_completion(installed):
    """The Tab key knows the commands after make install."""
    completion = installed / "share/bash-completion/completions/stoker"
    out = run("bash", "-c", f"source {completion}; complete -p stoker")
    assert "stoker" in out
    assert (installed / "share/zsh/site-functions/_stoker").read_text().startswith("#compdef stoker\n")
    assert "complete -c stoker" in (installed / "share/fish/vendor_completions.d/stoker.fish").read_text()


def test_destdir(installed, tmp_path):
    """A packager's DESTDIR gets the files; the prefix in stoker.pc stays the final one."""
    run("make", "install", *release_build(), "PREFIX=/usr", f"DESTDIR={tmp_path}",
        cwd=ROOT)
    assert (tmp_path / "usr/bin/stoker").exists()
    assert "prefix=/usr\n" in (tmp_path / "usr/lib/pkgconfig/stoker.pc").read_text()


def test_profile_finds_its_library(installed, tmp_path):
    """`stoker profile` works where it was installed, and where the whole prefix was moved to."""
    shutil.copytree(installed, tmp_path / "moved", symlinks=True)
    for i, prefix in enumerate((installed, tmp_path / "moved")):
        maps = run(prefix / "bin/stoker", "profile", "-q", "-o", tmp_path / f"p{i}", "--", "cat",
                   "/proc/self/maps", env={"LD_PRELOAD": ""})
        assert f"{prefix}/lib/stoker/libstoker-preload.so" in maps
        assert list((tmp_path / f"p{i}").glob("*.stklog"))
