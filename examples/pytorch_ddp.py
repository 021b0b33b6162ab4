#!/usr/bin/env python3
"""Data-parallel training that can be stopped and resumed, also with another number of processes.

    python -m torch.distributed.run --nproc_per_node 2 pytorch_ddp.py DATASET CHECKPOINT
    srun python pytorch_ddp.py DATASET CHECKPOINT                   # see ddp.sbatch

DATASET has a field of numbers ("x") and a label. Every rank gets its own part of the data and as
many steps as the others, whatever the number of samples is: uneven parts cannot hang the job. At
SIGUSR1 (Slurm's warning before the time limit) all ranks stop at the same step, rank 0 saves, and
the exit status is 3; started again, training goes on with the next batch.
"""

import argparse
import os
import signal
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import stoker.torch

STOPPED = 3


def join():
    """The process group, by what torchrun or srun says."""
    me = stoker.rank()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, rank=me.rank, world_size=me.world)
    if torch.cuda.is_available():
        torch.cuda.set_device(me.local_rank)
        return torch.device("cuda", me.local_rank)
    return torch.device("cpu")


class Warned:
    """Whether any rank was told to stop: all of them learn it at the same step."""

    def __init__(self, device, stop_after):
        self.flag = torch.zeros(1, device=device)
        self.left = stop_after
        signal.signal(signal.SIGUSR1, lambda *_: self.flag.fill_(1))

    def agreed(self):
        self.left = None if self.left is None else self.left - 1
        if self.left == 0:
            self.flag.fill_(1)
        shared = self.flag.clone()
        dist.all_reduce(shared, dist.ReduceOp.MAX)
        return bool(shared.item())


def step(net, optimizer, batch):
    """Samples that only fill up a last batch (repeats) do not count."""
    weight = (~batch.repeats).float().to(batch["x"].device)
    loss = F.cross_entropy(net(batch["x"].float().flatten(1)), batch["label"], reduction="none")
    loss = (loss * weight).sum() / weight.sum().clamp(min=1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item(), int(weight.sum())


def train(args, device):
    loader = stoker.torch.Loader(args.dataset, batch=args.batch, seed=1, last="pad", device=device,
                                 epochs=args.epochs)
    first = next(iter(stoker.Dataset(args.dataset)))
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(first["x"].size, 64), torch.nn.ReLU(),
                              torch.nn.Linear(64, args.classes)).to(device)
    net = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    if os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint, map_location=device)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
    warned = Warned(device, args.stop_after)
    while loader.epoch < args.epochs:
        epoch, samples, loss = loader.epoch, 0, float("nan")
        for batch in loader:
            loss, count = step(net, optimizer, batch)
            samples += count
            if warned.agreed():
                report(epoch, samples, loss, device)
                save(args.checkpoint, net, optimizer, loader)
                return STOPPED
        report(epoch, samples, loss, device)
    return 0


def report(epoch, samples, loss, device):
    total = torch.tensor(samples, device=device)
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(f"epoch {epoch}: {int(total)} samples, loss {loss:.3f}", flush=True)


def save(path, net, optimizer, loader):
    """The states of all ranks are of the same step: that of one is enough."""
    if dist.get_rank() == 0:
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(),
                    "loader": loader.state_dict()}, path + ".new")
        os.replace(path + ".new", path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dataset")
    p.add_argument("checkpoint")
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--classes", type=int, default=10)
    p.add_argument("--stop-after", type=int, help="steps; as if the signal had come then")
    args = p.parse_args()
    device = join()
    status = train(args, device)
    dist.barrier()
    dist.destroy_process_group()
    return status


if __name__ == "__main__":
    sys.exit(main())
