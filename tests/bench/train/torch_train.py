# SPDX-License-Identifier: Apache-2.0
"""The network, batch and optimizer of muster-train in PyTorch, on random images; prints images/s of each epoch.

torch_train.py --model NAME --precision fp32|bf16 --threads N --batch-size N --images N --epochs N [--layout nchw|channels_last]
    [--form ddp|fsdp2] [--optimizer sgd|adamw]
With RANK and WORLD_SIZE set: DistributedDataParallel or FSDP2 over Gloo, each rank on its share. Nothing but the training steps is
timed; images lie in memory as the network reads them, so that PyTorch is spared what muster-train does from bytes.
"""
import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "interop", "networks"))
import models  # noqa: E402


def sharded(network):
    """FSDP2 as its users write it: each layer or block is a unit, and what is left is one."""
    from torch.distributed.fsdp import fully_shard
    for child in network.children():
        for unit in child if isinstance(child, (torch.nn.Sequential, torch.nn.ModuleList)) else [child]:
            # What is read and not called stays with the whole.
            if any(True for _ in unit.parameters()) and not isinstance(unit, torch.nn.Embedding):
                fully_shard(unit)
    return fully_shard(network)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--images", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--form", choices=("ddp", "fsdp2"), default="ddp")
    parser.add_argument("--optimizer", choices=("sgd", "adamw"), default="sgd")
    parser.add_argument("--layout", choices=("nchw", "channels_last"), default="channels_last")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    layout = torch.channels_last if options.layout == "channels_last" else torch.contiguous_format

    torch.manual_seed(0)
    network = models.make(options.model).to(memory_format=layout)
    if world > 1:
        dist.init_process_group("gloo")
        network = sharded(network) if options.form == "fsdp2" else DistributedDataParallel(network, gradient_as_bucket_view=True)
    shape = (32, 32, 3) if layout is torch.channels_last else (3, 32, 32)
    order = (0, 3, 1, 2) if layout is torch.channels_last else (0, 1, 2, 3)
    images = torch.randn(options.images // world, *shape)
    labels = torch.randint(0, 10, (options.images // world,))
    if options.optimizer == "adamw":
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.001, fused=True)
    else:
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, fused=True)
    for _ in range(options.epochs):
        start = time.perf_counter()
        for batch in torch.randperm(len(labels)).split(options.batch_size):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
                loss = functional.cross_entropy(network(images[batch].permute(order)), labels[batch])
            loss.backward()
            optimizer.step()
        if int(os.environ.get("RANK", "0")) == 0:
            print(f"{options.images / (time.perf_counter() - start):.0f} images/s", flush=True)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
