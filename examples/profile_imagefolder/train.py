#!/usr/bin/env python3
"""Trains on a folder of pictures, one folder a class: first as nearly everybody writes it, then as
`stoker advise` says.

    python train.py --make 2000 pictures       # some pictures to try it with
    stoker profile -o before -- python train.py pictures
    stoker advise before                       # says what to change, with the command
    stoker pack pictures pictures-packed --format tfrecord --shuffle 1   # that command
    stoker profile -o after -- python train.py --packed pictures-packed
    stoker advise after
"""

import argparse
import os
import pathlib
import time

import torch
import torch.nn.functional as F

SIDE, BATCH = 32, 16


class ImageFolder(torch.utils.data.Dataset):
    """A file is opened, read and decoded whenever its picture is asked for."""

    def __init__(self, root):
        self.classes = sorted(e.name for e in os.scandir(root) if e.is_dir())
        self.files = [(os.path.join(root, name, file), label)
                      for label, name in enumerate(self.classes)
                      for file in sorted(os.listdir(os.path.join(root, name)))]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        import numpy as np
        from PIL import Image
        path, label = self.files[i]
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB").resize((SIDE, SIDE)))
        return torch.from_numpy(pixels.copy()).permute(2, 0, 1), label


def from_folder(root, workers):
    """The naive way: worker processes, a file a sample."""
    data = torch.utils.data.DataLoader(ImageFolder(root), batch_size=BATCH, shuffle=True,
                                       num_workers=workers)
    return lambda: data


def from_packed(root):
    """The advised way: large reads of few files, decoded by threads of this process."""
    import stoker.torch
    loader = stoker.torch.Loader(root, batch=BATCH, decode=f"image:{SIDE},layout=nchw")
    return lambda: ((batch["data"], batch["label"]) for batch in loader)


def train(batches, epochs, step_s):
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, stride=2), torch.nn.ReLU(),
                              torch.nn.Flatten(), torch.nn.Linear(8 * 14 * 14, 10))
    optimizer = torch.optim.Adam(net.parameters())
    for epoch in range(epochs):
        start, samples, loss = time.monotonic(), 0, torch.zeros(())
        for x, y in batches():
            loss = F.cross_entropy(net(x.float() / 128 - 1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(step_s)  # a larger model
            samples += len(y)
        seconds = time.monotonic() - start
        print(f"epoch {epoch}: {samples} pictures in {seconds:.2f} s, loss {loss.item():.2f}",
              flush=True)


def make(root, count):
    """Pictures of 10 classes, each of its own colour, about 20 KB."""
    import numpy as np
    from PIL import Image
    random = np.random.default_rng(1)
    for i in range(count):
        label = i % 10
        colour = np.array([15 * label, 80, 150 - 15 * label])
        pixels = random.integers(0, 100, (100, 100, 3)) + colour
        folder = pathlib.Path(root) / f"class{label}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype("uint8")).save(folder / f"{i:05d}.jpg", quality=95)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("data")
    p.add_argument("--packed", action="store_true", help="read a dataset that stoker packed")
    p.add_argument("--make", type=int, nargs="?", const=2000, metavar="N", help="make N pictures")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--step", type=float, default=0.0, metavar="S", help="seconds of computing more")
    args = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    if args.make:
        return make(args.data, args.make)
    batches = from_packed(args.data) if args.packed else from_folder(args.data, args.workers)
    train(batches, args.epochs, args.step)


if __name__ == "__main__":
    main()
