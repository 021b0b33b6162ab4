"""ResNet-50 (v1.5, as torchvision has it) in plain PyTorch, for machines without torchvision."""

import torch
from torch import nn


def convolution(inside, outside, size, stride=1):
    return nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        outside = 4 * width
        self.body = nn.Sequential(
            convolution(inside, width, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            convolution(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            convolution(width, outside, 1), nn.BatchNorm2d(outside))
        self.shortcut = nn.Identity() if stride == 1 and inside == outside else nn.Sequential(
            convolution(inside, outside, 1, stride), nn.BatchNorm2d(outside))

    def forward(self, x):
        return torch.relu_(self.body(x) + self.shortcut(x))


def plain_resnet50(classes):
    layers = [convolution(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))


def resnet50(classes):
    """(model, where it is from)."""
    try:
        import torchvision
        model = torchvision.models.resnet50(num_classes=classes)
        return model, f"torchvision {torchvision.__version__}"
    except (ImportError, RuntimeError):  # RuntimeError: it does not fit the torch that is there
        return plain_resnet50(classes), "plain PyTorch"


class Training:
    """A model, its optimizer, and one step of training on a batch of uint8 images."""

    def __init__(self, classes, device, compiled):
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
        self.device = device
        model, self.source = resnet50(classes)
        model = model.to(device, memory_format=torch.channels_last)
        self.model = torch.compile(model) if compiled else model
        self.loss = nn.CrossEntropyLoss().to(device)
        settings = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}
        try:
            self.optimizer = torch.optim.SGD(model.parameters(), fused=True, **settings)
        except (TypeError, RuntimeError):  # an older PyTorch
            self.optimizer = torch.optim.SGD(model.parameters(), **settings)
        self.mean = torch.tensor([123.675, 116.28, 103.53], device=device).view(1, 3, 1, 1)
        self.scale = 1 / torch.tensor([58.395, 57.12, 57.375], device=device).view(1, 3, 1, 1)

    def step(self, images, labels):
        """images: n x 224 x 224 x 3 (or n x 3 x 224 x 224) uint8, on the device."""
        if images.shape[-1] == 3:
            images = images.permute(0, 3, 1, 2)
        x = ((images.float() - self.mean) * self.scale).to(
            torch.bfloat16, memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = self.loss(self.model(x), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss
