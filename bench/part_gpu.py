"""gpu: ResNet-50 fed by stoker, where there is a GPU; bench/gpu/resnet50.py is the whole of it."""

import json
import subprocess
import sys

from common import BUILD, ROOT

SCRIPT = ROOT / "bench/gpu/resnet50.py"


def run(bench, python):
    probe = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 3)"
    if subprocess.run([python, "-c", probe], stderr=subprocess.DEVNULL).returncode != 0:
        print("gpu: not measured: no CUDA device here, or no PyTorch that can use it; run"
              " bench/gpu/resnet50.py where there is one\n")
        return
    more = ["--images", "3000", "--steps", "20", "--rounds", "2"] if bench.quick else []
    out = bench.fresh("gpu")
    argv = [python, SCRIPT, "--build", BUILD, "--dir", bench.dir, "--out", out, *more]
    done = subprocess.run(argv)
    if done.returncode != 0:
        sys.exit("bench: resnet50.py failed")
    result = json.loads((out / "resnet50.json").read_text())
    share = result["stoker_share_of_limit"]
    bench.claim("gpu: ResNet-50 at least 97 % of synthetic data", f"{share:.1%}", share >= 0.97)
    bench.results["gpu"] = result
    bench.forget("gpu")
