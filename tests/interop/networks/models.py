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


class Bottleneck(nn.Module):
    """torchvision's, v1.5: the stride is that of the 3 x 3 convolution."""

    def __init__(self, inputs, channels, stride):
        super().__init__()
        outputs = 4 * channels
        self.conv1 = nn.Conv2d(inputs, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        past = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        x = functional.relu(self.bn2(self.conv2(x)), inplace=True)
        return functional.relu(self.bn3(self.conv3(x)) + past, inplace=True)


class ResNet(nn.Module):
    def __init__(self, block, depths, expansion, imagenet_stem, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False) if imagenet_stem else nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.pooled = imagenet_stem
        inputs = 64
        for number, depth in enumerate(depths, 1):
            channels = 32 << number
            blocks = []
            for i in range(depth):
                blocks.append(block(inputs, channels, 2 if number > 1 and i == 0 else 1))
                inputs = expansion * channels
            setattr(self, f"layer{number}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        if self.pooled:
            x = functional.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1))


def resnet18(imagenet_stem, classes=10):
    return ResNet(Block, (2, 2, 2, 2), 1, imagenet_stem, classes)


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


class Perceptron(nn.Module):
    """Linear layers with ReLU behind each, on the mean of the colours."""

    def __init__(self, *widths):
        super().__init__()
        self.depth = len(widths)
        for number, (inputs, outputs) in enumerate(zip((1024, *widths), widths), 1):
            setattr(self, f"fc{number}", nn.Linear(inputs, outputs))
        self.head = nn.Linear(widths[-1], 10)

    def forward(self, x):
        x = x.mean(1).flatten(1)
        for number in range(1, self.depth + 1):
            x = functional.relu(getattr(self, f"fc{number}")(x))
        return self.head(x)


class VitTiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_proj = nn.Conv2d(3, 192, 4, 4)
        self.positions = nn.Embedding(64, 192)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(192, 4, 768, dropout=0, activation="gelu", batch_first=True,
                                                                norm_first=True) for _ in range(6)])
        self.norm = nn.LayerNorm(192)
        self.head = nn.Linear(192, 10)

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


MODELS = {
    "small-cnn": SmallCnn,
    "resnet18": lambda: resnet18(False),
    "resnet18-imagenet-stem": lambda: resnet18(True),
    "resnet50": lambda: ResNet(Bottleneck, (3, 4, 6, 3), 4, False),
    "mlp": lambda: Perceptron(4096, 1024),
    "mlp-8": lambda: Perceptron(*[1024] * 8),
    "vit-tiny": VitTiny,
}


def make(name):
    """The network of that name, its maps in channels-last layout."""
    return MODELS[name]().to(memory_format=torch.channels_last)
