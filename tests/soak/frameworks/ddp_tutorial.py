# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel with a sampler and workers of the data loader, as PyTorch's tutorials have it."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Samples(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(8, generator=generator), torch.randn(1, generator=generator)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = Samples()
    sampler = DistributedSampler(data, seed=3)
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=2)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for samples, targets in loader:
            loss = torch.nn.functional.mse_loss(model(samples), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"RESULT rank {os.environ['RANK']} epoch {epoch} loss {loss.item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
