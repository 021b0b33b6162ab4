"""LitData: chunks written by its optimize(), read by its StreamingDataLoader."""

import torch_batches
from samples import Samples

NAME = "LitData"
NEEDS = ["torch"]
# 0.2.47 is the last one that runs with torch below 2.3, which is what Debian 12 has.
PIP_NO_DEPS = ["litdata==0.2.47"]
PIP = ["lightning-utilities==0.15.3", "boto3==1.44.0", "filelock", "obstore==0.12.1",
       "tifffile==2026.3.3", "requests"]

CHUNK = "64MB"


def version():
    import importlib.metadata
    import litdata  # noqa: F401
    return "litdata " + importlib.metadata.version("litdata") + ", " + torch_batches.version()


class Make:
    """Picklable, since optimize() calls it in another process."""

    def __init__(self, samples):
        self.which, self.count, self.samples = samples.which, len(samples), None

    def __call__(self, i):
        if self.samples is None:
            self.samples = Samples(self.which, self.count)
        return {"x": self.samples[i]}


def write(samples, folder):
    import litdata
    litdata.optimize(fn=Make(samples), inputs=list(range(len(samples))), num_workers=1,
                     output_dir=f"{folder}/lit", chunk_bytes=CHUNK)


def variants(_which, _order):
    return [{"workers": n} for n in torch_batches.worker_counts() if n > 0]  # 0 asks for torch 2


def epochs(folder, which, order, workers):
    import litdata
    data = litdata.StreamingDataset(f"{folder}/lit", shuffle=order == "shuffled")
    inner = torch_batches.collate(which, workers)
    loader = torch_batches.loader_of(data, which, workers, make=litdata.StreamingDataLoader)
    loader.collate_fn = Values(inner)
    return torch_batches.epochs(loader)


class Values:
    def __init__(self, inner):
        self.inner = inner

    def __call__(self, samples):
        return self.inner([s["x"] for s in samples])
