# SPDX-License-Identifier: Apache-2.0
"""The built-in networks in PyTorch, with the names of torchvision (which need not be installed)."""
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        past = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return functional.relu(self.bn2(self.conv2(x)) + past, inplace=True)


class ResNet18(nn.Module):
    def __init__(self, imagenet_stem, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False) if imagenet_stem else nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.pooled = imagenet_stem
        channels = 64
        for number, outputs in enumerate((64, 128, 256, 512), 1):
            stride = 1 if number == 1 else 2
            setattr(self, f"layer{number}", nn.Sequential(Block(channels, outputs, stride), Block(outputs, outputs, 1)))
            channels = outputs
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        if self.pooled:
            x = functional.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1))


class SmallCnn(nn.Module):
    """The columns of fc1.weight are in the order height, width, channels, as muster stores images."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(4096, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        return self.fc2(functional.relu(self.fc1(x.permute(0, 2, 3, 1).flatten(1))))


def make(name):
    """The network of that name, its maps in channels-last layout."""
    network = SmallCnn() if name == "small-cnn" else ResNet18(name == "resnet18-imagenet-stem")
    return network.to(memory_format=torch.channels_last)
