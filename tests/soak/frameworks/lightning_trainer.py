# SPDX-License-Identifier: Apache-2.0
"""Lightning's Trainer by DistributedDataParallel."""
import sys

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch.utils.data import DataLoader, TensorDataset


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, _index):
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        print(f"RESULT rank {self.global_rank} step {self.global_step} loss {loss.item():.6f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main():
    seed_everything(0)
    generator = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(64, 8, generator=generator), torch.randn(64, 1, generator=generator))
    trainer = Trainer(accelerator="cpu", devices=2, num_nodes=1, strategy="ddp", max_epochs=1, logger=False, enable_progress_bar=False,
                      default_root_dir=sys.argv[1])
    trainer.fit(Model(), DataLoader(data, batch_size=8))


if __name__ == "__main__":
    main()
