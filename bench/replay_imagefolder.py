"""PyTorch's ImageFolder example: pictures in folders of classes, decoded by the workers of a DataLoader.

    replay_imagefolder.py --make FOLDER PICTURES
    replay_imagefolder.py FOLDER WORKERS EPOCHS
"""

import os
import sys
import time

import numpy
from PIL import Image

STEP_S = 0.01


def make(folder, pictures):
    draw = numpy.random.default_rng(1)
    for i in range(pictures):
        os.makedirs(f"{folder}/class{i % 10}", exist_ok=True)
        side = int(draw.integers(180, 480))
        noise = draw.integers(0, 255, (side // 2, side // 2, 3), dtype=numpy.uint8)
        Image.fromarray(noise).resize((side, side)).save(f"{folder}/class{i % 10}/{i:06}.jpg", quality=85)


def train(folder, workers, epochs):
    import torch

    class ImageFolder(torch.utils.data.Dataset):
        def __init__(self, root):
            classes = sorted(e.name for e in os.scandir(root) if e.is_dir())
            self.samples = [(os.path.join(root, name, file), label) for label, name in enumerate(classes)
                            for file in sorted(os.listdir(os.path.join(root, name)))]

        def __len__(self):
            return len(self.samples)

        def __getitem__(self, i):
            path, label = self.samples[i]
            with open(path, "rb") as f:
                picture = Image.open(f).convert("RGB")
            pixels = numpy.asarray(picture.resize((224, 224)))
            return torch.from_numpy(pixels.copy()).permute(2, 0, 1), label

    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(ImageFolder(folder), batch_size=16, shuffle=True, num_workers=workers)
    for _ in range(epochs):
        for _ in loader:
            time.sleep(STEP_S)


if __name__ == "__main__":
    if sys.argv[1] == "--make":
        make(sys.argv[2], int(sys.argv[3]))
    else:
        train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
