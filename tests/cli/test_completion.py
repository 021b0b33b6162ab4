"""`stoker completion`: the Tab key in bash, zsh and fish."""

import os
import pty
import re
import select
import shutil
import subprocess

import pytest

from conftest import STOKER, clean_env


def offered(stoker, *words):
    """What stoker says the last word may become, without the descriptions."""
    return [line.split("\t")[0] for line in stoker("completion", "bash", "--", *words).out.splitlines()]


def needs(shell):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")


def on_path(tmp_path):
    """An environment in which the program is called `stoker`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/stoker").symlink_to(STOKER)
    return clean_env({"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": tmp_path, "ZDOTDIR": tmp_path,
                        "XDG_CONFIG_HOME": tmp_path, "TERM": "dumb"})


@pytest.mark.parametrize("words, want", [
    (["ver"], ["verify", "version"]),
    (["--"], ["--help", "--version"]),
    (["pack", "--shard"], ["--shard-size", "--shards"]),
    (["pack", "--label-from", "d"], ["dir"]),
    (["pack", "--format", "tf"], ["tfrecord"]),
    (["pack", "--format=tf"], ["--format=tfrecord"]),
    (["pack", "--format", "=", "tf"], ["tfrecord"]),
    (["pack", "--format", "="], None),
    (["pack", "--on-error", ""], ["stop", "skip"]),
    (["pack", "--label-from", "c"], ["csv:", ":nospace"]),
    (["pack", "--label-from", "csv", ":", "x"], [":files"]),
    (["verify", "--jobs", ""], []),
    (["verify", "--json", ""], [":files"]),
    (["advise", "--only", "many"], ["many-small-files"]),
    (["job", "--sort", "w"], ["waited"]),
    (["job", "--state", "failed,out"], ["failed,out-of-memory"]),
    (["profile", "--", "py"], [":commands"]),
    (["profile", "--", "python3", "t"], [":files"]),
    (["help", "pa"], ["pack"]),
    (["completion", ""], ["bash", "zsh", "fish"]),
    (["inspect", ""], [":files"]),
    (["nothing", ""], []),
])
def test_what_fits_is_offered(stoker, words, want):
    """Completion that offers wrong words is worse than none."""
    said = offered(stoker, *words)
    assert set(said) == set(want) if want is not None else "tfrecord" in said


def test_every_value_is_accepted(stoker):
    """A value that is offered and then refused."""
    for value in offered(stoker, "advise", "--only", ""):
        assert "there is no rule" not in stoker("advise", "nothing", "--only", value, rc=None).err
    for option in ("--sort", "--state"):
        for value in offered(stoker, "job", option, ""):
            assert f"{option}:" not in stoker("job", "--me", option, value, rc=None, env={"PATH": "/nowhere"}).err
    for value in offered(stoker, "pack", "--format", ""):
        assert "--format" not in stoker("pack", "nothing", "dst", "--format", value, rc=None).err


def test_other_shells_are_refused(stoker):
    assert "bash, zsh or fish" in stoker("completion", "tcsh", rc=2).err


def test_bash(stoker, tmp_path):
    def complete(*words):
        quoted = " ".join(f"'{word}'" for word in ("stoker", *words))
        code = (f"{stoker('completion', 'bash').out}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _stoker; "
                'printf "%s\\n" "${COMPREPLY[@]}"')
        out = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True, env=env, cwd=tmp_path)
        return out.stdout.split("\n")[:-1]
    env = on_path(tmp_path)
    (tmp_path / "a file").touch()
    assert complete("ver") == ["verify", "version"]
    assert complete("pack", "--format", "=", "tf") == ["tfrecord"]
    assert complete("inspect", "a") == ["a file"]
    assert "bash" in complete("profile", "--", "bas")


def test_fish(stoker, tmp_path):
    def complete(line):
        code = f"{stoker('completion', 'fish').out}\ncomplete -C '{line}'"
        out = subprocess.run(["fish", "-c", code], capture_output=True, text=True, check=True, env=env, cwd=tmp_path)
        return [tuple(said.split("\t")) for said in out.stdout.splitlines()]
    needs("fish")
    env = on_path(tmp_path)
    (tmp_path / "a file").touch()
    assert [word for word, _ in complete("stoker ver")] == ["verify", "version"]
    assert "tfrecord" in [said[0] for said in complete("stoker pack --format ")]
    assert "--format=tfrecord" in [said[0] for said in complete("stoker pack --format=tf")]
    assert "a file" in [said[0].replace("\\", "") for said in complete("stoker inspect a")]


class Terminal:
    """A program with a terminal, and what it has printed."""

    def __init__(self, argv, env, cwd):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(argv[0], argv, env)
        self.text = ""

    def type(self, keys, until):
        """Types keys, and waits until the pattern is on the screen: what came after the keys."""
        begin = len(self.text)
        os.write(self.fd, keys.encode())
        while not re.search(until, self.text[begin:]):
            ready, _, _ = select.select([self.fd], [], [], 120)
            assert ready, f"{until!r} was not printed: {self.text[begin:]!r}"
            self.text += os.read(self.fd, 4096).decode("utf-8", "replace")
        return self.text[begin:]

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def test_zsh(stoker, tmp_path):
    needs("zsh")
    env = on_path(tmp_path)
    (tmp_path / "_stoker").write_text(stoker("completion", "zsh").out)
    zsh = Terminal(["zsh", "-f", "-i"], env, tmp_path)
    try:
        zsh.type(f"fpath=({tmp_path} $fpath); autoload -U compinit; compinit -D -u; print rea''dy\n", "ready")
        zsh.type("stoker advise --only many\t", "many-small-files")
        zsh.type("\x15stoker pack --format=tf\t", "--format=tfrecord")
        assert "check" in zsh.type("\x15stoker ver\t\t", r"verify +-- .*[\s\S]*version +-- ")
    finally:
        zsh.close()
