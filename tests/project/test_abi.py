"""The C interface of the library: what it exports, and what its header is to other compilers."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import SANITIZER_ENV, STOKER

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADER = (ROOT / "include/stoker.h").read_text()
LIBRARY = STOKER.parent / "libstoker.so"


def run(*argv, **kw):
    done = subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **kw)
    assert done.returncode == 0, f"{argv}\n{done.stdout}"
    return done.stdout


def declared():
    return set(re.findall(r"STK_API [^;{]*?(stk_\w+)\(", HEADER))


@pytest.fixture(scope="module")
def library():
    if not LIBRARY.exists():
        pytest.skip(f"{LIBRARY} was not built: ninja -C {LIBRARY.parent} libstoker.so.1")
    return LIBRARY


def test_exports(library):
    """A program would not start any more, or could use what is not meant to stay."""
    lines = run("nm", "-D", "--defined-only", library).splitlines()
    exported = {line.split()[-1] for line in lines if " A " not in line}
    listed = re.findall(r"^    (stk_\w+);$", (ROOT / "src/libstoker.map").read_text(), re.M)
    assert {name.split("@@")[0] for name in exported} == set(listed) == declared()
    assert {name.split("@@")[1] for name in exported} == {"STOKER_1"}


def test_soname(library):
    """It follows the ABI: a new release must not ask for programs to be built again."""
    abi = re.search(r"#define STK_ABI (\d+)", HEADER).group(1)
    assert f"[libstoker.so.{abi}]" in run("readelf", "-d", library)


def test_every_function_states_its_rules():
    """A user would have to read the source to know which threads may call it."""
    untold = []
    text = re.sub(r"\n +\* ", " ", HEADER)
    for comment, code in re.findall(r"/\*(.*?)\*/\n((?:(?!/\*).)*)", text, re.S):
        names = re.findall(r"STK_API [^;{]*?(stk_\w+)\(", code)
        if names and not re.search(r"[Aa]ny thread|[Oo]ne at a time|[Ll]ast[.;]", comment):
            untold += names
    # Under the heading of the four that look at a sample; "the same for"; with comments of their own.
    assert set(untold) <= {"stk_sample_field", "stk_sample_get", "stk_dataset_slice", "stk_step_at",
                           "stk_epoch", "stk_epoch_at", "stk_dtype_name", "stk_kind_name",
                           "stk_sample_nfields", "stk_phase_begin", "stk_phase_end"}


@pytest.mark.parametrize("how", [("cc", "-std=c11"), ("cc", "-std=c2x"), ("c++", "-std=c++11"),
                                 ("c++", "-std=c++20"), ("clang", "-std=c17"),
                                 ("clang++", "-std=c++17", "-nostdinc++")], ids=" ".join)
def test_header(tmp_path, how):
    """Programs include the header as their first one, with every warning an error."""
    if not shutil.which(how[0]):
        pytest.skip(f"{how[0]} is not installed")
    plus = "++" in how[0]
    source = tmp_path / ("a.cc" if plus else "a.c")
    source.write_text("""#include <stoker.h>
int use(struct stk_dataset *ds, struct stk_loader **ld);
int use(struct stk_dataset *ds, struct stk_loader **ld)
{
    struct stk_loader_options o = %s;
    struct stk_loader_stats st;
    struct stk_rank r;
    o.batch = 8;
    int rc = stk_loader_open(ds, &o, ld, NULL);
    stk_loader_stats(*ld, &st);
    return rc ? rc : stk_rank_detect(&r, NULL);
}
""" % ("{}" if plus else "{0}"))
    run(*how, "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsyntax-only",
        f"-I{ROOT}/include", source)


def test_example(library, tmp_path):
    """The example program of packing, verifying and subsets, linked against the library."""
    flags = [f"-fsanitize={kind}" for lib, kind in (("libasan", "address"), ("libubsan", "undefined"),
                                                    ("libtsan", "thread"))
             if lib in run("readelf", "-d", library)]
    program = tmp_path / "program"
    run("cc", "-Wall", "-Wextra", "-Wconversion", "-Werror", *flags, f"-I{ROOT}/include",
        ROOT / "examples/split_and_pack.c", "-o", program, library, f"-Wl,-rpath,{library.parent}")
    (tmp_path / "people.csv").write_text("name,age\n" + "".join(f"p{i},{i}\n" for i in range(50)))
    out = run(program, tmp_path / "people.csv", tmp_path / "packed",
              env={**os.environ, **SANITIZER_ENV, "XDG_CACHE_HOME": str(tmp_path)})
    assert re.fullmatch(r"tfrecord: 50 samples, 0 problems\n"
                        r"45 to train with, 5 to test; [1-9]\d* bytes read\n", out)
