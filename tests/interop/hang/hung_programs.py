# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program that hangs. usage: hung_programs.py NAME

Each rank prints "ready" and goes into the function NAME. A comment "# NAME: ..." marks the lines at which a rank of that program may
stand for good: "odd" is the rank that the others wait for, "first" and "second" are the two sides where neither is right."""
import datetime
import os
import re
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

ODD = 1


def meet():
    dist.all_reduce(torch.ones(4))  # all: others


def lock():
    mutex = threading.Lock()
    mutex.acquire()
    mutex.acquire()  # lock: odd


def sleep():
    time.sleep(1e6)  # sleep: odd


def python_loop():
    count = 0
    while True:  # python_loop: odd
        count += 1  # python_loop: odd


def c_loop():
    re.match(r"(a+)+$", "a" * 60 + "b")  # c_loop: odd


def skipped_collective():
    if dist.get_rank() != ODD:
        dist.barrier()  # skipped_collective: first
    dist.all_reduce(torch.ones(4))  # skipped_collective: odd second


def other_collective():
    if dist.get_rank() == ODD:
        dist.broadcast(torch.ones(4), 0)  # other_collective: odd second
    else:
        dist.all_gather([torch.ones(4) for _ in range(dist.get_world_size())], torch.ones(4))  # other_collective: first


def other_tag():
    if dist.get_rank() == 0:
        dist.send(torch.ones(4), dst=1, tag=5)  # other_tag: odd first
    elif dist.get_rank() == 1:
        dist.recv(torch.ones(4), src=0, tag=6)  # other_tag: odd second
    else:
        meet()


def store_key():
    if dist.get_rank() == 0:
        dist.distributed_c10d._get_default_store().set("epoch", "1")
    dist.barrier()
    if dist.get_rank() == ODD:
        dist.distributed_c10d._get_default_store().get("epcoh")  # store_key: odd
    meet()


def missing_in_group():
    if dist.get_rank() == ODD:
        dist.all_reduce(torch.ones(4))  # missing_in_group: odd second
    else:
        dist.new_group()  # missing_in_group: first


def missing_in_part():
    """As before, but most ranks are not in the group, and so go on."""
    if dist.get_rank() == ODD:
        dist.all_reduce(torch.ones(4))  # missing_in_part: odd
    else:
        dist.new_group([0, 1])  # missing_in_part: first


def waiting_call():
    """The others wait in a function that is none in Python."""
    if dist.get_rank() == ODD:
        time.sleep(1e6)  # waiting_call: odd
    dist.all_reduce(torch.ones(4), async_op=True).wait()


class Locked(Dataset):
    """A data set on which the process that loads it deadlocks."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        lock()


def loader_worker():
    for _ in DataLoader(Locked(), num_workers=1):  # loader_worker: odd
        pass


def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)  # stopped: odd


def silent_pipe():
    reading, _writing = os.pipe()
    os.read(reading, 1)  # silent_pipe: odd


# In these each rank has a part of its own; in the others the odd rank is in it, and the others wait for it.
ALL_RANKS = (skipped_collective, other_collective, other_tag, store_key, missing_in_group, missing_in_part, waiting_call)


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=10))
    meet()
    # One write: lines of ranks that share a pipe are not mixed.
    os.write(1, b"ready\n")
    action = globals()[sys.argv[1]]
    if action in ALL_RANKS or dist.get_rank() == ODD:
        action()
    meet()
    os.write(1, b"done\n")


if __name__ == "__main__":
    main()
