# SPDX-License-Identifier: Apache-2.0
"""A healthy PyTorch program, one rank of which is slow. usage: slow_programs.py NAME SECONDS [PATH]

Each rank prints "ready"; the slow one is in the function NAME for SECONDS, or until it is told to go on; the others wait for it. Each
prints "done" then. PATH is a file that the test has its part in."""
import asyncio
import datetime
import os
import pdb
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

SECONDS = float(sys.argv[2])
PATH = sys.argv[3] if len(sys.argv) > 3 else ""
SLOW = 0


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def c_computation():
    """Calls into C that give nothing back before their end; the first takes about all of the time, as a short one tells."""
    end = time.monotonic() + SECONDS
    modulus, bits = (1 << 4096) - 159, 4096
    begin = time.process_time()
    pow(3, (1 << bits) - 1, modulus)
    bits = int(bits * SECONDS / (time.process_time() - begin))
    while time.monotonic() < end:
        pow(3, (1 << bits) - 1, modulus)
        bits //= 4


def compilation():
    """A child computes, and this process waits for it."""
    subprocess.run([sys.executable, "-c", f"import time\nend = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end: pass"],
                   check=True)


def checkpoint():
    """One write, which the kernel returns from when all of it is taken: the test reads the other end of the pipe at PATH."""
    with open(PATH, "wb", buffering=0) as file:
        left = memoryview(bytes(8 << 20))
        while left:
            left = left[file.write(left):]


def evaluation():
    spin(SECONDS)


def debugger():
    pdb.set_trace()


def idle_server():
    """It serves one client, whom the test sends."""
    async def serve():
        served = asyncio.Event()

        async def answer(_reader, writer):
            writer.close()
            served.set()

        async with await asyncio.start_unix_server(answer, PATH):
            await served.wait()

    asyncio.run(serve())


class Slow(Dataset):
    """What takes long until the first item is there."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        spin(SECONDS)
        return index


def loader_warm_up():
    for _ in DataLoader(Slow(), num_workers=2):
        pass


def polling():
    """Looks for a file that the test makes."""
    while not os.path.exists(PATH):
        time.sleep(0.5)


def long_step():
    """Two steps in which nothing is printed; between them the ranks meet."""
    for _ in range(2):
        end = time.monotonic() + SECONDS
        weights = torch.randn(256, 256, requires_grad=True)
        while time.monotonic() < end:
            (weights @ weights).sum().backward()
        dist.all_reduce(torch.ones(4))


def notebook():
    """A kernel: it waits for cells on its standard input and runs them."""
    cells = {"go_on": True}
    while cells["go_on"]:
        exec(input(), cells)  # what a kernel is for


# What each rank does; in the others the slow rank alone.
ALL_RANKS = (long_step,)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=10))
    dist.barrier()
    # One write: lines of ranks that share a pipe are not mixed.
    os.write(1, b"ready\n")
    action = globals()[sys.argv[1]]
    if action in ALL_RANKS or dist.get_rank() == SLOW:
        action()
    dist.barrier()
    os.write(1, b"done\n")
    dist.destroy_process_group()
    # On the way out PyTorch 2.15 aborts now and then, under torchrun, too: a thread of its own is not joined.
    os._exit(0)


if __name__ == "__main__":
    main()
