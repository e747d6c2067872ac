# SPDX-License-Identifier: Apache-2.0
"""A worker whose rank 1 raises inside a function that PyTorch's @record watches."""
import os

from torch.distributed.elastic.multiprocessing.errors import record


def load_shard(name):
    raise ValueError(f"shard {name} has a bad checksum")


@record
def main():
    if os.environ["RANK"] == "1":
        load_shard("train-00017")


if __name__ == "__main__":
    main()
