# SPDX-License-Identifier: Apache-2.0
"""A worker that adds up rank + 1 over all ranks with Gloo, twice, and says so. Runs on PyTorch 1.13 as well.

worker_all_reduce.py [--fail-rank R]    that rank ends with exit code 3 between the two, in the first round only
"""
import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--fail-rank", type=int, default=-1)
arguments = parser.parse_args()


def total():
    tensor = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(tensor)
    return int(tensor.item())


dist.init_process_group("gloo")
round_number = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
first = total()
if round_number == 0 and dist.get_rank() == arguments.fail_rank:
    os._exit(3)  # sys.exit() would tear Gloo's threads down, and PyTorch sometimes aborts in that
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
model(torch.ones(2, 4)).sum().backward()
second = total()
print(f"torch {torch.__version__} rank {dist.get_rank()} of {dist.get_world_size()} round {round_number}: {first} {second}",
      flush=True)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # here, too: where processors are scarce it aborts even after that
