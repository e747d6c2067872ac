# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training script of the usual shape, small enough for eight processes on two cores. It knows only env://."""
import hashlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 10, 256  # of all ranks together


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        inputs, labels = torch.randn(BATCH, 64, generator=data), torch.randint(10, (BATCH,), generator=data)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[rank::world]), labels[rank::world]).backward()
        optimizer.step()
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    digest = hashlib.sha256(flat.numpy().tobytes()).hexdigest()
    digests = [None] * world
    dist.all_gather_object(digests, digest)
    if len(set(digests)) != 1:
        raise RuntimeError(f"the ranks hold different parameters: {digests}")
    if rank == 0:
        print(f"{flat.numel()} parameters {digest} after {STEPS} steps of {world} ranks", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    # On the way out PyTorch 2.15 aborts now and then, under torchrun, too: a thread of its own is not joined.
    os._exit(0)


if __name__ == "__main__":
    main()
