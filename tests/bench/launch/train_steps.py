#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training by DistributedDataParallel on Gloo whose rank 0 prints the median milliseconds of a step.

usage: torchrun or muster run train_steps.py [STEPS]"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WARM_UP = 50


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.randn(128, 512), torch.randint(10, (128,))
    took = []
    for step in range(WARM_UP + steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if step >= WARM_UP:
            took.append(time.perf_counter() - begin)
    if dist.get_rank() == 0:
        print(f"{statistics.median(took) * 1000:.4f}", flush=True)
    dist.destroy_process_group()
    os._exit(0)  # PyTorch aborts at exit now and then


if __name__ == "__main__":
    main()
