# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10's binary files as tensors, and what its images are normalized by; docs/training.md says where the numbers are from."""
import numpy
import torch

MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = {"dataset": (0.2470, 0.2435, 0.2616), "per-image": (0.2023, 0.1994, 0.2010)}


def load(files):
    """Pixels as bytes (images, 3, 32, 32), and labels."""
    records = numpy.concatenate([numpy.fromfile(file, dtype=numpy.uint8).reshape(-1, 3073) for file in files])
    return torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(records[:, 0].astype(numpy.int64))


def normalized(pixels, normalization="dataset"):
    """Channels last."""
    mean, deviation = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, DEVIATION[normalization]))
    return ((pixels.float() / 255 - mean) / deviation).contiguous(memory_format=torch.channels_last)
