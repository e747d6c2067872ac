# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed with ZeRO-1 on processors."""
import os

import deepspeed
import torch

CONFIG = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True}


def main():
    deepspeed.init_distributed(dist_backend="gloo")
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.01), config=CONFIG)
    rank = int(os.environ["RANK"])
    for step in range(5):
        samples = torch.randn(8, 8, generator=torch.Generator().manual_seed(10 * step + rank))
        loss = engine(samples).square().mean()
        engine.backward(loss)
        engine.step()
        print(f"RESULT rank {rank} step {step} loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
