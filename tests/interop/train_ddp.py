# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training script of the usual shape. It knows nothing of its launcher: torchrun and `muster run` start it alike.

train_ddp.py --data DIR --checkpoint FILE [--epochs N] [--images N] [--batch-size N]
"""
import argparse
import hashlib
import os

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

RECORD_BYTES = 1 + 3 * 32 * 32


class Block(nn.Module):
    """ResNet's basic block."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18 with the stem for 32x32 images."""

    def __init__(self, classes=10):
        super().__init__()
        layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        channels = 64
        for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            layers += [Block(channels, outputs, stride), Block(outputs, outputs, 1)]
            channels = outputs
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(self.features(x))


def load_cifar10(path, images):
    records = numpy.fromfile(path, dtype=numpy.uint8).reshape(-1, RECORD_BYTES)[:images]
    pixels = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).astype(numpy.float32) / 255 - 0.5)
    return TensorDataset(pixels, torch.from_numpy(records[:, 0].astype(numpy.int64)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=16)
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    model = DistributedDataParallel(ResNet18())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    dataset = load_cifar10(os.path.join(arguments.data, "data_batch_1.bin"), arguments.images)
    sampler = DistributedSampler(dataset, seed=1)
    loader = DataLoader(dataset, batch_size=arguments.batch_size, sampler=sampler)

    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        print(f"rank {rank}: epoch {epoch}: loss {loss.item():.4f}", flush=True)

    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    digest = hashlib.sha256(flat.numpy().tobytes()).hexdigest()
    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, digest)
    if len(set(digests)) != 1:
        raise RuntimeError(f"the ranks hold different parameters: {digests}")
    if rank == 0:
        state = model.module.state_dict()
        torch.save({"model": state, "epoch": arguments.epochs}, arguments.checkpoint)
        saved = hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in state.values())).hexdigest()
        print(f"parameters {digest}, with statistics {saved}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
