# SPDX-License-Identifier: Apache-2.0
"""A recipe of docs/training.md in PyTorch, written as its users write it: whole-batch augmentation, SGD, a cosine with warm-up; under
torchrun DistributedDataParallel over Gloo, each rank with its part of every batch.

torch_recipe.py --model NAME --data DIR [--epochs N] [--global-batch N] [--lr X] [--weight-decay X] [--warmup-epochs X] ...
"""
import argparse
import glob
import os
import sys
import time

import torch
from torch.nn import functional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "interop", "networks"))
import cifar10
import models


def prepared(pixels, options, generator=None):
    """Cropped and flipped where there is a generator, normalized, channels last."""
    if generator is not None and options.crop_padding:
        p = options.crop_padding
        padded = functional.pad(pixels, (p, p, p, p))
        down, right = (torch.randint(0, 2 * p + 1, (len(pixels),), generator=generator) for _ in range(2))
        pixels = torch.stack([image[:, y:y + 32, x:x + 32] for image, y, x in zip(padded, down.tolist(), right.tolist())])
    if generator is not None and options.flip:
        mask = torch.rand(len(pixels), generator=generator) < 0.5
        pixels = torch.where(mask[:, None, None, None], pixels.flip(3), pixels)
    return cifar10.normalized(pixels, options.normalization)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--global-batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.04)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=0)
    parser.add_argument("--nesterov", action="store_true")
    parser.add_argument("--schedule", choices=("constant", "cosine"), default="constant")
    parser.add_argument("--warmup-epochs", type=float, default=0)
    parser.add_argument("--crop-padding", type=int, default=0)
    parser.add_argument("--flip", action="store_true")
    parser.add_argument("--normalization", choices=tuple(cifar10.DEVIATION), default="dataset")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
    images, labels = cifar10.load(sorted(glob.glob(os.path.join(options.data, "data_batch_*.bin"))))
    test_images, test_labels = cifar10.load([os.path.join(options.data, "test_batch.bin")])
    network = models.make(options.model)
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d) and module.bias is None:
            torch.nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    weights = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    optimizer = torch.optim.SGD([{"params": weights, "weight_decay": options.weight_decay},
                                 {"params": others, "weight_decay": 0.0}], lr=options.lr, momentum=options.momentum,
                                nesterov=options.nesterov)
    steps = -(-len(labels) // options.global_batch)
    warmup = round(options.warmup_epochs * steps)
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    if options.schedule == "cosine":
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * steps - warmup)
    if warmup:
        first = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=warmup)
        schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [first, schedule], milestones=[warmup])
    model = torch.nn.parallel.DistributedDataParallel(network) if ranks > 1 else network
    generator = torch.Generator().manual_seed(options.seed)
    crops = torch.Generator().manual_seed(1000 * options.seed + rank)
    seconds = []
    for epoch in range(options.epochs):
        network.train()
        start, total = time.monotonic(), 0.0
        for batch in torch.randperm(len(labels), generator=generator).split(options.global_batch):
            batch = batch.tensor_split(ranks)[rank]
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(prepared(images[batch], options, crops)), labels[batch])
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        seconds.append(time.monotonic() - start)
        if rank > 0:
            continue
        print(f"epoch {epoch + 1}/{options.epochs}  loss {total * ranks / len(labels):.3f}  {seconds[-1]:.1f} s", flush=True)
    network.eval()
    if rank == 0:
        with torch.no_grad():
            correct = sum((network(prepared(x, options)).argmax(1) == y).sum().item()
                          for x, y in zip(test_images.split(500), test_labels.split(500)))
        print(f"test accuracy {100 * correct / len(test_labels):.1f} %", flush=True)
    # PyTorch 2.15 now and then aborts while its interpreter shuts down ("terminate called without an active exception"), which would end
    # the measurement with it.
    torch.distributed.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
