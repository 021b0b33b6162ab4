"""tune: one command tunes a ResNet-50 script over ImageFolder, and its patch is applied: how close does
the script come to training on synthetic data? Without a GPU a sleep of known length stands in for it."""

import json
import os
import shutil
import subprocess
import sys

from common import BUILD, ROOT, STOKER, median, table, timed

sys.path.insert(0, str(ROOT / "bench/gpu"))
from resnet50 import make_jpegs  # noqa: E402

SCRIPT = ROOT / "bench/gpu/imagefolder.py"


def has_gpu(python):
    probe = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 3)"
    return subprocess.run([python, "-c", probe], stderr=subprocess.DEVNULL).returncode == 0


def settings(gpu, quick):
    """(pictures, words for the script): with a stand-in, steps that one core can feed, just."""
    if gpu:
        return (3000 if quick else 20000), []
    return 400, ["--step", "0.4", "--batch", "16", "--steps", "10", "--skip", "5", "--workers", "1"]


def images_per_s(python, script, words):
    env = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    done = subprocess.run([python, script, *words], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return float(done.stdout.split()[-1])


def tune(python, script, words, folder, budget):
    """The seconds it took, and the result. The patch is beside the script."""
    said = folder / "tune.json"
    env = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    argv = [STOKER, "tune", "--budget", budget, "--apply", folder / "packed", "--json", said, "--",
            python, script, *words]
    done = subprocess.run([str(a) for a in argv], env=env, capture_output=True, text=True)
    print(done.stdout, flush=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(said.read_text())["result"]


def run(bench, python):
    gpu = has_gpu(python)
    pictures, more = settings(gpu, bench.quick)
    library, tree, folder = map(bench.fresh, ("jpeg.so", "jpegs", "tuned"))
    folder.mkdir()
    timed(["cc", "-O2", "-shared", "-fPIC", "-o", library, ROOT / "bench/gpu/jpeg.c", "-ljpeg"])
    make_jpegs(library, tree, pictures, 10)
    script = folder / SCRIPT.name
    shutil.copy(SCRIPT, script)
    words = [str(tree), *more]
    result = tune(python, script, words, folder, "2m" if bench.quick else "4m")
    patched = folder / "patched.py"
    timed(["patch", "-s", "-o", patched, script, script.with_name(script.name + ".stoker.diff")])
    rates = {"synthetic data": [], "as it was": [], "patched": []}
    for _ in range(bench.repeats):
        rates["synthetic data"].append(images_per_s(python, script, [*words, "--synthetic"]))
        rates["as it was"].append(images_per_s(python, script, words))
        rates["patched"].append(images_per_s(python, patched, words))
    limit = median(rates["synthetic data"])
    rows = [[name, f"{median(r):,.0f}", f"{median(r) / limit:.1%}"] for name, r in rates.items()]
    table(["ResNet-50" if gpu else "a sleep instead of ResNet-50", "images/s", "of synthetic"], rows)
    share = median(rates["patched"]) / limit
    what = "tune: a patched ResNet-50 script at least 97 % of synthetic data" + ("" if gpu else " (stand-in)")
    bench.claim(what, f"{share:.1%}", share >= 0.97)
    bench.results["tune"] = {"gpu": gpu, "rates": rates, "best": result["best"], "seconds": result["seconds"]}
    for name in ("jpeg.so", "jpegs", "tuned"):
        bench.forget(name)
