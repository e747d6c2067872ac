# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program on Gloo that hangs with its control plane open.

All ranks stand in the same call of the same line, so that only the flight recorder tells which one the others wait for: rank 1 is in a
collective of a group with rank 2, which rank 2 never enters."""
import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.control_plane import worker_main

ODD = 1


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@worker_main()
def main():
    dist.init_process_group("gloo")
    pair = dist.new_group([1, 2], group_desc="pair")
    dist.all_reduce(torch.ones(4))
    say("ready")
    dist.all_reduce(torch.ones(4), group=pair if dist.get_rank() == ODD else None)  # other_group: odd
    say("done")


if __name__ == "__main__":
    main()
