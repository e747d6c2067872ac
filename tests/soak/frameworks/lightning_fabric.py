# SPDX-License-Identifier: Apache-2.0
"""Lightning Fabric by DistributedDataParallel, and the sum of all weights at the end."""
import torch
from lightning.fabric import Fabric


def main():
    fabric = Fabric(accelerator="cpu", devices=2, num_nodes=1, strategy="ddp")
    fabric.launch()
    fabric.seed_everything(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.05))
    for step in range(5):
        samples = torch.randn(16, 8, generator=torch.Generator().manual_seed(10 * step + fabric.global_rank))
        loss = model(samples).square().mean()
        optimizer.zero_grad()
        fabric.backward(loss)
        optimizer.step()
    total = sum(parameter.double().sum().item() for parameter in model.parameters())
    print(f"RESULT rank {fabric.global_rank} of {fabric.world_size} weights {total:.6f}", flush=True)


if __name__ == "__main__":
    main()
