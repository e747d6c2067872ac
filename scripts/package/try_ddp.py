# SPDX-License-Identifier: Apache-2.0
"""A PyTorch script that saves each step and begins again where it was; rank 1 of its first round fails after three. Run by
scripts/package.sh --check under `muster run --max-restarts 1`.

usage: try_ddp.py CHECKPOINT
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, FAILS_AFTER = 6, 3


def main(checkpoint):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    begin = 0
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint)
        begin = state["step"]
        model.load_state_dict(state["model"])
    for step in range(begin, STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.randint(10, (32,))).backward()
        optimizer.step()
        if rank == 0:
            torch.save({"step": step + 1, "model": model.state_dict()}, checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)
        dist.barrier()
        if attempt == 0 and rank == 1 and step + 1 == FAILS_AFTER:
            raise RuntimeError("rank 1 fails, as it shall")
    if rank == 0:
        print(f"PyTorch {torch.__version__}: {STEPS} steps on {dist.get_world_size()} ranks, the last {STEPS - begin} in attempt {attempt}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    # On the way out PyTorch 2.15 aborts now and then, under torchrun, too: a thread of its own is not joined.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
