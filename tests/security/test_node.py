"""The two users that the other tests here rely on are really two: else those would prove nothing."""

import stat

from conftest import until


def test_two_users(node):
    """Attack tests with one user would pass whatever stoker does."""
    path, text = node.victim.secret()
    assert node.victim.run("cat", path).out == text
    assert node.attacker.run("cat", path, rc=1).out == ""
    assert node.attacker.run("id", "-u").out.strip() != node.victim.run("id", "-u").out.strip()


def test_shared_folder_is_writable_by_both(node):
    """A planted link needs a folder that both may write."""
    node.attacker.shell("ln -s /etc/passwd planted", cwd=node.shared)
    node.victim.shell("rm planted", cwd=node.shared)
    node.victim.shell("touch mine", cwd=node.tmp)
    node.attacker.shell("rm -f mine", cwd=node.tmp, rc=1)
    assert stat.S_IMODE(node.shared.stat().st_mode) == 0o2775


def test_stoker_runs_as_either(node):
    """The binary under test must be within reach of users who do not own the checkout."""
    assert "samples 15" in " ".join(node.victim.stoker("inspect", node.data).out.split())
    node.attacker.stoker("inspect", node.data)


def test_swaps_happen(node):
    """A race that is never run is never lost."""
    node.attacker.shell("echo 1 >a; echo 2 >b")
    a, b = node.attacker.home / "a", node.attacker.home / "b"
    with node.attacker.swapping(a, b) as swaps:
        until(lambda: swaps.count() > 1000)
    assert {a.read_text(), b.read_text()} == {"1\n", "2\n"}
