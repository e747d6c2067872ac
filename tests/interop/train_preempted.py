# SPDX-License-Identifier: Apache-2.0
"""A training script as users write it: Gloo, data loader workers, and a save by each rank when it is told to stop."""

import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

LOADERS = 4
folder = sys.argv[1]
stop = False


def on_stop(number, frame):
    global stop
    stop = True


class Numbers(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return torch.full((16,), float(index))


def main():
    rank = int(os.environ["RANK"])
    signal.signal(signal.SIGTERM, on_stop)
    dist.init_process_group("gloo")
    step = 0
    try:
        for batch in DataLoader(Numbers(), batch_size=4, num_workers=LOADERS):
            dist.all_reduce(batch)
            step += 1
            # Each loader worker has told a batch: one that begins when its trainer has ended takes its new parent for it, and stays.
            if step == LOADERS + 1:
                open(os.path.join(folder, f"ready{rank}"), "w").close()
                if rank == 1 and os.path.exists(os.path.join(folder, "fail")):
                    os._exit(9)
            if stop:
                break
    except RuntimeError as error:
        # The other rank may have left in the step before, or have failed.
        print(f"rank {rank}: {error}", file=sys.stderr)
        signal.sigtimedwait([signal.SIGURG], 0 if stop else 5)
        if not stop:
            raise
    torch.save({"step": step}, os.path.join(folder, f"saved{rank}.pt"))
    os._exit(0)


if __name__ == "__main__":
    main()
