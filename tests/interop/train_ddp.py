# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training script of the usual shape. It knows nothing of its launcher: torchrun and `muster run` start it alike.

train_ddp.py --data DIR --checkpoint FILE [--epochs N] [--images N] [--batch-size N]
"""
import argparse
import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks"))
import cifar10  # noqa: E402
import models  # noqa: E402


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
    model = DistributedDataParallel(models.resnet18(False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pixels, labels = cifar10.load([os.path.join(arguments.data, "data_batch_1.bin")])
    dataset = TensorDataset(cifar10.normalized(pixels[:arguments.images]), labels[:arguments.images])
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
