"""What a site installs for all users (examples/site): module files, the Spack recipe, the central settings."""

import re

from conftest import ROOT

SITE = ROOT / "examples/site"


def module_paths(name, pattern):
    """{variable: parts} that a module file adds to."""
    found = {}
    for variable, part in re.findall(pattern, (SITE / name).read_text(), re.M):
        found.setdefault(variable, []).append(part)
    return found


def test_module_files_set_the_same_and_keep_the_pages_of_the_system():
    """After `module load stoker`, `man ls` would find nothing: MANPATH without an empty part replaces the default."""
    lua = module_paths("stoker.lua", r'^\w+pend_path\("(\w+)", (?:pathJoin\(prefix, )?"([^"]*)"')
    tcl = module_paths("stoker.tcl", r"^\w+pend-path (\w+) (?:\$prefix/|\{\})([^ ;\n]*)")
    assert lua == tcl == {"PATH": ["bin"], "MANPATH": ["share/man", ""], "PKG_CONFIG_PATH": ["lib/pkgconfig"],
                          "PYTHONPATH": ["python"]}


def test_the_recipe_asks_for_what_the_build_needs():
    """`spack install` would fail at its first step, or build what a variant has switched off."""
    recipe, build = (SITE / "package.py").read_text(), (ROOT / "meson.build").read_text()
    assert f'meson@{re.search(r"meson_version: .>=([0-9.]+)", build).group(1)}:' in recipe
    options = re.findall(r"^option\('(\w+)'", (ROOT / "meson_options.txt").read_text(), re.M)
    assert set(re.findall(r"-D(\w+)=", recipe)) == set(re.findall(r'variant\("(\w+)"', recipe)) <= set(options)


def test_the_central_settings_are_read(stoker):
    """A site would set defaults that no command uses."""
    settings = stoker("formats", "--json", "-", env={"STOKER_SITE_CONFIG": SITE / "stoker.conf"}).json()["settings"]
    assert settings["progress-every"]["from"] == "site" and settings["progress-every"]["value"] == 60
