"""MosaicML Streaming: MDS shards in a local folder, its own shuffle (py1e)."""

import torch_batches
from samples import BATCH

NAME = "MosaicML Streaming"
NEEDS = ["torch", "torchvision"]
# The package asks for every cloud's client and a torch with CUDA; a local folder needs only these.
PIP_NO_DEPS = ["mosaicml-streaming==0.13.0"]
PIP = ["transformers==4.49.0", "catalogue==2.0.10", "zstd==1.5.7.2", "python-snappy==0.7.3",
       "Brotli", "xxhash==4.1.0", "boto3==1.44.0", "tqdm", "matplotlib"]


def version():
    import streaming
    return f"mosaicml-streaming {streaming.__version__}, {torch_batches.version()}"


def write(samples, folder):
    from streaming import MDSWriter
    with MDSWriter(out=f"{folder}/mds", columns={"x": "bytes"}) as out:
        for sample in samples:
            out.write({"x": sample})


def variants(_which, _order):
    return [{"workers": n} for n in torch_batches.worker_counts()]


def epochs(folder, which, order, workers):
    import streaming
    from streaming.base.util import clean_stale_shared_memory

    class Bytes(streaming.StreamingDataset):
        def __getitem__(self, at):
            return super().__getitem__(at)["x"]

    clean_stale_shared_memory()
    data = Bytes(local=f"{folder}/mds", shuffle=order == "shuffled", batch_size=BATCH,
                 num_canonical_nodes=1)
    return torch_batches.epochs(torch_batches.loader_of(data, which, workers))
