"""Where the batches come from: already on the GPU, from stoker, or from a torch DataLoader.

Each feed is an endless iterator of (images, labels) on the device; `host()` gives one epoch of it
on the host, to see what the feed can do when nothing waits for a GPU.
"""

import ctypes
import os

import torch

SIZE = 224


class Synthetic:
    """The limit: one batch that is there already."""

    name = "synthetic data on the GPU"

    def __init__(self, batch, classes, device):
        self.images = torch.randint(0, 256, (batch, SIZE, SIZE, 3), dtype=torch.uint8,
                                    device=device)
        self.labels = torch.randint(0, classes, (batch,), device=device)

    def __iter__(self):
        while True:
            yield self.images, self.labels


class Stoker:
    name = "stoker.torch.Loader"

    def __init__(self, packed, batch, device):
        self.packed, self.batch, self.device = packed, batch, device
        self.options = {"decode": f"image:{SIZE},crop=random,flip", "fields": ["data", "label"]}

    def __iter__(self):
        from stoker.torch import Loader
        loader = Loader(self.packed, self.batch, device=self.device, pin_memory=True,
                        **self.options)
        while True:
            for batch in loader:
                yield batch["data"], batch["label"]

    def host(self):
        from stoker.torch import Loader
        with Loader(self.packed, self.batch, **self.options) as loader:
            for batch in loader:
                yield batch["data"], batch["label"]


# ---- ImageFolder and DataLoader ----

def image_folder(tree, library):
    """(dataset, what decodes): torchvision's, or the nearest to it that this machine allows."""
    try:
        from torchvision import datasets, transforms
        return datasets.ImageFolder(tree, transforms.Compose([
            transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip(),
            transforms.PILToTensor()])), "torchvision ImageFolder, PIL"
    except (ImportError, RuntimeError):
        pass
    try:
        from PIL import Image
        return Folder(tree, lambda data: pil_crop(Image, data)), "own image folder, PIL"
    except ImportError:
        decoder = ctypes.CDLL(str(library))
        return Folder(tree, lambda data: plain_crop(decoder, data)), "own image folder, libjpeg"


def random_box(width, height):
    """torchvision's RandomResizedCrop."""
    for _ in range(10):
        area = width * height * float(torch.empty(1).uniform_(0.08, 1))
        ratio = float(torch.exp(torch.empty(1).uniform_(-0.2877, 0.2877)))
        w, h = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            x = int(torch.randint(0, width - w + 1, (1,)))
            y = int(torch.randint(0, height - h + 1, (1,)))
            return x, y, w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def pil_crop(image_module, data):
    import io
    image = image_module.open(io.BytesIO(data)).convert("RGB")
    x, y, w, h = random_box(*image.size)
    image = image.resize((SIZE, SIZE), image_module.BILINEAR, box=(x, y, x + w, y + h))
    if torch.rand(1) < 0.5:
        image = image.transpose(image_module.FLIP_LEFT_RIGHT)
    return torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(SIZE, SIZE, 3)


def plain_crop(decoder, data):
    out = torch.empty(4 << 20, dtype=torch.uint8)
    width, height = ctypes.c_int(), ctypes.c_int()
    if decoder.decode_rgb(data, ctypes.c_size_t(len(data)), ctypes.c_void_p(out.data_ptr()),
                          ctypes.c_size_t(out.numel()), ctypes.byref(width), ctypes.byref(height)):
        raise ValueError("not a JPEG")
    width, height = width.value, height.value
    image = out[:width * height * 3].view(height, width, 3)
    x, y, w, h = random_box(width, height)
    image = image[y:y + h, x:x + w].permute(2, 0, 1).unsqueeze(0).float()
    image = torch.nn.functional.interpolate(image, (SIZE, SIZE), mode="bilinear", antialias=True)
    image = image.squeeze(0).round().clamp(0, 255).to(torch.uint8)
    return image.flip(2) if torch.rand(1) < 0.5 else image


class Folder(torch.utils.data.Dataset):
    """Class directories of JPEGs."""

    def __init__(self, tree, crop):
        classes = sorted(os.listdir(tree))
        self.files = [(f"{tree}/{c}/{name}", label) for label, c in enumerate(classes)
                      for name in sorted(os.listdir(f"{tree}/{c}"))]
        self.crop = crop

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path, label = self.files[i]
        with open(path, "rb") as f:
            return self.crop(f.read()), label


class DataLoader:
    def __init__(self, tree, library, batch, device, workers):
        dataset, self.decoder = image_folder(tree, library)
        self.device, self.workers = device, workers
        self.name = f"{self.decoder}, DataLoader, {workers} workers"
        self.loader = torch.utils.data.DataLoader(
            dataset, batch, shuffle=True, num_workers=workers, drop_last=True,
            pin_memory=device.type == "cuda", persistent_workers=True)

    def host(self):
        return iter(self.loader)

    def __iter__(self):
        """Copies run on a stream of their own, one batch ahead: the same service stoker gives."""
        if self.device.type != "cuda":
            while True:
                yield from self.loader
        stream, ahead = torch.cuda.Stream(self.device), None
        while True:
            for images, labels in self.loader:
                with torch.cuda.stream(stream):
                    moved = [t.to(self.device, non_blocking=True) for t in (images, labels)]
                    event = stream.record_event()
                if ahead is not None:
                    yield self.show(*ahead)
                ahead = moved, event

    def show(self, moved, event):
        current = torch.cuda.current_stream(self.device)
        current.wait_event(event)
        for t in moved:
            t.record_stream(current)
        return moved
