# SPDX-License-Identifier: Apache-2.0
"""@record: rank 1 raises, which ends the job; its error file has the traceback."""
import os

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    dist.init_process_group("gloo")
    dist.barrier()
    print(f"RESULT rank {os.environ['RANK']} was there", flush=True)
    dist.barrier()
    if os.environ["RANK"] == "1":
        raise ValueError("the data of rank 1 is bad")
    dist.barrier()


if __name__ == "__main__":
    main()
