# SPDX-License-Identifier: Apache-2.0
"""What muster-train --model small-cnn does, in PyTorch: the same network, first parameters, order of images and steps.

recipe.py --data DIR [--epochs N] [--batch-size N] [--lr X] [--momentum X] [--seed N] [--threads N]

The batch size is that of all ranks together. The random numbers are Philox4x32-10, as rendezvous/base/philox.hpp says.
"""
import argparse
import glob
import os
import sys

import numpy
import torch
from torch.nn import functional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "networks"))
import cifar10
import models

PARAMETER_STREAMS = 0x4E << 56
EPOCH_STREAMS = 0x5A << 56


def philox(seed, stream, words):
    """The first `words` words of a stream, as 64-bit numbers."""
    mask = numpy.uint64(0xFFFFFFFF)
    shift = numpy.uint64(32)
    blocks = (words + 3) // 4
    counter = [numpy.arange(blocks, dtype=numpy.uint64), numpy.zeros(blocks, numpy.uint64),
               numpy.full(blocks, stream & 0xFFFFFFFF, numpy.uint64), numpy.full(blocks, stream >> 32, numpy.uint64)]
    low, high = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a = counter[0] * numpy.uint64(0xD2511F53)
        b = counter[2] * numpy.uint64(0xCD9E8D57)
        counter = [(b >> shift) ^ counter[1] ^ numpy.uint64(low), b & mask,
                   (a >> shift) ^ counter[3] ^ numpy.uint64(high), a & mask]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return numpy.stack(counter, axis=1).reshape(-1)[:words]


def permutation(count, seed, epoch):
    words = iter(philox(seed, EPOCH_STREAMS | epoch, 2 * count + 1000).tolist())
    order = list(range(count))
    for bound in range(count, 1, -1):
        product = next(words) * bound
        while product & 0xFFFFFFFF < (2**32 - bound) % bound:
            product = next(words) * bound
        other = product >> 32
        order[bound - 1], order[other] = order[other], order[bound - 1]
    return order


def initialize(network, seed):
    inputs = (27, 27, 288, 288, 4096, 4096, 128, 128)
    for i, parameter in enumerate(network.parameters()):
        words = philox(seed, PARAMETER_STREAMS | i, parameter.numel()) >> numpy.uint64(8)
        values = (numpy.float32(2) * (words.astype(numpy.float32) * numpy.float32(2**-24)) - numpy.float32(1)) * (
            numpy.float32(1) / numpy.sqrt(numpy.float32(inputs[i])))
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(values).reshape(parameter.shape))


def load(files):
    pixels, labels = cifar10.load(files)
    return cifar10.normalized(pixels), labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    images, labels = load(sorted(glob.glob(os.path.join(options.data, "data_batch_*.bin"))))
    test_images, test_labels = load([os.path.join(options.data, "test_batch.bin")])
    network = models.make("small-cnn")
    initialize(network, options.seed)
    optimizer = torch.optim.SGD(network.parameters(), lr=options.lr, momentum=options.momentum)
    for epoch in range(options.epochs):
        order = torch.tensor(permutation(len(labels), options.seed, epoch))
        total = 0.0
        for batch in order.split(options.batch_size):
            optimizer.zero_grad()
            loss = functional.cross_entropy(network(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        print(f"epoch {epoch + 1}/{options.epochs}  loss {total / len(labels):.3f}", flush=True)
    with torch.no_grad():
        correct = sum((network(x).argmax(1) == y).sum().item()
                      for x, y in zip(test_images.split(500), test_labels.split(500)))
    print(f"test accuracy {100 * correct / len(test_labels):.1f} %")


if __name__ == "__main__":
    main()
