"""WebDataset: tar shards, read in order or with its shard and buffer shuffle."""

import glob

import torch_batches
from samples import BATCH

NAME = "WebDataset"
NEEDS = ["torch"]
PIP = ["webdataset==1.0.2"]

SHARDS = 16  # no fewer than workers


def version():
    import webdataset
    return f"webdataset {webdataset.__version__}, {torch_batches.version()}"


def write(samples, folder):
    import webdataset
    each = -(-len(samples) // SHARDS)
    with webdataset.ShardWriter(f"{folder}/shard-%05d.tar", maxcount=each, maxsize=1 << 40,
                                verbose=0) as out:
        for i, sample in enumerate(samples):
            out.write({"__key__": f"{i:08d}", "bin": sample})


def variants(_which, _order):
    return [{"workers": n} for n in torch_batches.worker_counts()]


def epochs(folder, which, order, workers):
    import webdataset
    shards = sorted(glob.glob(f"{folder}/*.tar"))
    shuffled = order == "shuffled"
    data = webdataset.WebDataset(shards, shardshuffle=SHARDS if shuffled else False)
    if shuffled:
        data = data.shuffle(1000)  # its documentation's number
    data = data.to_tuple("bin").map(first)
    data = data.batched(BATCH, collation_fn=torch_batches.collate(which, workers))
    loader = webdataset.WebLoader(data, batch_size=None, num_workers=workers,
                                  persistent_workers=workers > 0)
    return torch_batches.epochs(loader)


def first(fields):
    return fields[0]
