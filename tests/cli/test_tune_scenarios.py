"""stoker tune finds the change that was planted: on virtual storage, where runs take exactly as long as a model says."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tune"))
from scenarios import SCENARIOS, found, write  # noqa: E402


def tuned(stoker, tmp_path, name, *options, budget="1h"):
    """The result of tune for a scenario; nothing is left beside its data."""
    plan, place = SCENARIOS[name], tmp_path / "storage"
    workload, data = tmp_path / "workload.yaml", place / "data"
    if not place.exists():
        place.mkdir()
        write(name, 1, data, workload)
        if "make" in plan:
            plan["make"](data, 1)
        else:
            stoker("bench", workload, "--data", data, "--generate-only")
    where = [] if "make" in plan else ["--data", data]
    result = stoker("tune", workload, *where, "--near", place, "--virtual-storage", plan["virtual"], "--budget", budget,
                    *options, "--json", "-").json()["result"]
    assert os.listdir(place) == ["data"]
    return result


def numbers(result):
    """What is measured, predicted and decided."""
    keys = ("id", "verdict", "epoch_s", "predicted_epoch_s", "times", "runs", "confirmed")
    return result["best"], result["seconds"], [[c[k] for k in keys] for c in result["candidates"]]


@pytest.mark.parametrize("name", [name for name, plan in SCENARIOS.items() if plan["virtual"]])
def test_the_planted_change_is_found(stoker, tmp_path, name):
    """A user follows the advice, and the job is as slow as before."""
    result = tuned(stoker, tmp_path, name)
    assert found(name, result), numbers(result)
    assert not result["budget_spent"]
    for c in result["candidates"][1:]:
        assert c["verdict"] in ("gain", "nothing", "dropped"), c  # there is no noise in which it could hide
        assert c["verdict"] != "gain" or c["confirmed"]
        if c["verdict"] == "gain" and len(c["changes"]) == 1 and c["changes"][0]["reader"] == "stoker":
            assert 0.8 < c["predicted_epoch_s"] / c["epoch_s"] < 1.25, c  # predicted and run by the same model


def test_it_is_exact(stoker, tmp_path):
    """A test that depends on who else is on the machine fails for nobody's fault."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, again = (numbers(tuned(stoker, tmp_path / place, "file-per-sample", "--only", "keep,pack")) for place in "ab")
    assert len(first[2]) > 3 and again == first


def test_the_budget_is_of_virtual_seconds(stoker, tmp_path):
    """A budget of an hour that passes in a second, and one of seconds that is kept to."""
    hour, short = (tuned(stoker, tmp_path, "small-requests", "--only", "request,threads", budget=budget)
                   for budget in ("1h", "15s"))
    assert 60 < hour["seconds"] < 3600
    assert 5 < short["seconds"] <= 15 and short["steps_per_run"] < hour["steps_per_run"]
    assert found("small-requests", short)
    why = {c["why"] for c in short["candidates"] if c["verdict"] == "skipped"}
    assert why and all("use a larger --budget" in w for w in why)
