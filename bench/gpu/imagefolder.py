#!/usr/bin/env python3
"""Trains ResNet-50 on a folder of pictures as most scripts do: ImageFolder, transforms, DataLoader.
bench/part_tune.py has `stoker tune --apply` patch it. Prints images per second as its last line.

    python imagefolder.py DATA [--synthetic] [--step 0.05]

--synthetic trains on one batch that is in memory: the limit. --step S stands in for a GPU: a step
takes S seconds instead of training a model.
"""

import argparse
import time

import torch
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def make_step(args, device):
    if args.step:
        return lambda x, y: time.sleep(args.step)
    net = models.resnet50().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        x = x.to(device, non_blocking=True, memory_format=torch.channels_last)
        y = y.to(device, non_blocking=True)
        with torch.autocast(device.type, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return step


def make_loader(args):
    transform = transforms.Compose([
        transforms.RandomResizedCrop(args.size), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    dataset = datasets.ImageFolder(args.data, transform=transform)
    return DataLoader(dataset, batch_size=args.batch, shuffle=True, num_workers=args.workers, drop_last=True,
                      pin_memory=torch.cuda.is_available())


def synthetic(args, device):
    x = torch.randn(args.batch, 3, args.size, args.size, device=device)
    y = torch.randint(0, 10, (args.batch,), device=device)
    while True:
        yield x, y


def epochs(loader):
    while True:
        yield from loader


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("data")
    p.add_argument("--synthetic", action="store_true")
    p.add_argument("--step", type=float, default=0.0, metavar="S")
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--steps", type=int, default=100, help="timed ones")
    p.add_argument("--skip", type=int, default=20, help="steps before the clock starts")
    args = p.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() and not args.step else "cpu")
    step = make_step(args, device)
    batches = iter(synthetic(args, device) if args.synthetic else epochs(make_loader(args)))
    start = time.monotonic()
    for n in range(args.skip + args.steps):
        if n == args.skip:
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.monotonic()
        step(*next(batches))
    if device.type == "cuda":
        torch.cuda.synchronize()
    print(args.steps * args.batch / (time.monotonic() - start))


if __name__ == "__main__":
    main()
