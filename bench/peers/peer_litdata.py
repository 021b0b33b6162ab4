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
ITEMS = 1000  # samples that one call of optimize()'s function gives: calls are what takes time


def version():
    import importlib.metadata
    import litdata  # noqa: F401
    return "litdata " + importlib.metadata.version("litdata") + ", " + torch_batches.version()


class Make:
    """Picklable, since optimize() calls it in another process."""

    def __init__(self, samples):
        self.which, self.count = samples.which, len(samples)

    def __call__(self, first):
        samples = Samples(self.which, self.count)
        for i in range(first, min(first + ITEMS, self.count)):
            yield {"x": samples[i]}


def write(samples, folder):
    import litdata
    litdata.optimize(fn=Make(samples), inputs=list(range(0, len(samples), ITEMS)),
                     num_workers=1, output_dir=f"{folder}/lit", chunk_bytes=CHUNK)


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
