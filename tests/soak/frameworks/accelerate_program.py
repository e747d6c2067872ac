# SPDX-License-Identifier: Apache-2.0
"""accelerate: model, optimizer and data by prepare(), losses by gather()."""
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    model = torch.nn.Linear(8, 1)
    data = TensorDataset(torch.randn(64, 8, generator=torch.Generator().manual_seed(1)), torch.randn(64, 1, generator=torch.Generator().manual_seed(2)))
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05), DataLoader(data, batch_size=8))
    for step, (samples, targets) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(samples), targets)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        losses = accelerator.gather(loss.detach().reshape(1))
        accelerator.print(f"RESULT {accelerator.num_processes} processes, step {step} losses {[round(one.item(), 6) for one in losses]}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
