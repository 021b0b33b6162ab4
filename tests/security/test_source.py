"""Where the source makes, renames and removes files: in src/base/own*.c and nowhere else, so that
what holds there (exclusive, unguessable, through descriptors, never through a link) holds for all.
And where it lists folders: in src/base/dir.c, which knows the end of a folder from an error."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OWN = {"src/base/own.c", "src/base/own_file.c"}

# Calls that make, replace or remove something by a name, flags that make open() one of them, and
# functions of libraries that make a file.
CALLS = ("creat", "mkdir", "mkdirat", "mkdtemp", "mkstemp", "mkostemp", "mkstemps", "mkostemps", "mktemp",
         "tmpfile", "tmpnam", "tempnam", "freopen", "rename", "renameat", "renameat2", "unlink",
         "unlinkat", "rmdir", "remove", "link", "linkat", "symlink", "symlinkat", "mkfifo", "mkfifoat",
         "mknod", "mknodat", "truncate", "chmod", "fchmodat", "chown", "lchown", "fchownat",
         "mdb_env_open", "mdb_env_copy", "mdb_env_copy2")
FLAGS = ("O_CREAT", "O_TMPFILE", "O_TRUNC", "H5F_ACC_TRUNC", "H5F_ACC_EXCL", "H5F_ACC_RDWR")

LISTING = ("opendir", "fdopendir", "readdir", "readdir_r", "readdir64", "getdents64", "SYS_getdents64", "scandir",
           "scandirat", "fts_open", "fts_read", "ftw", "nftw", "glob")
LISTS = "src/base/dir.c"

# file: {call: why it is right there}
ALLOWED = {
    "src/bench/hdf5.c": {"H5F_ACC_TRUNC": "by stk_fd_path(), a file that stk_create_at() has made"},
    "src/base/confine.c": dict.fromkeys(("O_CREAT", "O_TMPFILE", "O_TRUNC"), "what the jail forbids"),
    "src/format/hdf5/write.c": {"H5F_ACC_TRUNC": "by stk_fd_path(), in a folder that is ours"},
    "src/format/lmdb.c": {"mdb_env_open": "to write by stk_fd_path(), else read only"},
}
# Runs in the user's program and must not use base.
FOREIGN = ("src/preload/",)


def code_of(path):
    """The text without comments; of strings only those stay that may be the mode of fopen()."""
    def shorter(m):
        return m[0] if re.fullmatch(r'"[rwaxbe+]{1,4}"', m[0]) else '""' if m[0][0] == '"' else " "
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', shorter, path.read_text(), flags=re.S)


def uses(path):
    """What of the above is in a file."""
    code = code_of(path)
    found = set(re.findall(r"(?<![\w.>])([A-Za-z]\w*)\s*\(", code)) & {*CALLS, *LISTING}
    found |= set(re.findall(r"\w+", code)) & {*FLAGS, "SYS_getdents64"}
    modes = re.findall(r'\bfopen\s*\([^;"]*"(\w[^"]*)"', code)
    return found | ({"fopen"} if any(set(m) & set("wax+") for m in modes) else set())


def sources():
    # In folders named code stands what is printed for others, who have no base/own.h.
    found = [p for p in sorted((ROOT / "src").rglob("*.[ch]")) if p.parent.name != "code"]
    assert len(found) > 300
    return {str(p.relative_to(ROOT)): p for p in found}


def test_files_are_made_in_one_place():
    """One forgotten O_TRUNC is enough: another user's link decides which file of ours is emptied."""
    wrong = []
    for name, path in sources().items():
        if name in OWN or name.startswith(FOREIGN):
            continue
        wrong += [f"{name}: {use}" for use in sorted(uses(path) - set(ALLOWED.get(name, {})) - set(LISTING))]
    assert not wrong, "not through base/own.h:\n" + "\n".join(wrong)


def test_folders_are_listed_in_one_place():
    """One forgotten errno is enough: a listing that failed reads as the end, and samples are lost."""
    wrong = [f"{name}: {use}" for name, path in sources().items()
             if name != LISTS and not name.startswith(FOREIGN) for use in sorted(uses(path) & set(LISTING))]
    assert not wrong, "not through base/dir.h:\n" + "\n".join(wrong)
    assert "SYS_getdents64" in uses(ROOT / LISTS)


def test_exceptions_are_used():
    """An exception that is no longer needed would let the next one in."""
    for name, calls in ALLOWED.items():
        assert set(calls) <= uses(ROOT / name), name


def test_what_cannot_be_looked_at_is_not_absent():
    """access() fails for a file that is there, too: stk_find_at() and stk_may_exist() tell them apart."""
    asks = [name for name, path in sources().items()
            if not name.startswith(FOREIGN) and re.search(r"\bF_OK\b", code_of(path))]
    assert not asks


@pytest.mark.parametrize("line, use", [
    ('FILE *f = fopen(path, "we");', "fopen"), ('f = fopen(p,\n "r+");', "fopen"),
    ("int fd = open(p,\n    O_WRONLY | O_CREAT, 0666);", "O_CREAT"), ("x = rename(a, b);", "rename"),
    ("while ((e = readdir(d)))", "readdir"), ("if (unlinkat(d, n, 0))", "unlinkat"), ("return mkdir (p, 0777);", "mkdir")])
def test_is_found(tmp_path, line, use):
    """A test that sees nothing passes."""
    (tmp_path / "x.c").write_text(line)
    assert uses(tmp_path / "x.c") == {use}


@pytest.mark.parametrize("line", [
    'FILE *f = fopen(path, "re");', 'say("call rename(a, b)");', "/* mkdir(p) */ x();",
    "p->rename(a);", "my_unlink(a);", "int fd = open(p, O_RDONLY | O_CLOEXEC);"])
def test_is_not_found(tmp_path, line):
    """One that cries wolf is switched off."""
    (tmp_path / "x.c").write_text(line)
    assert not uses(tmp_path / "x.c")
