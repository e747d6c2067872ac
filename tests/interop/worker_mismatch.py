# SPDX-License-Identifier: Apache-2.0
"""Rank 0 reduces a million floats and rank 1 two million, over Gloo: PyTorch's (argument "torch") or ours (the path of libmuster.so).

Prints "rank R returned FIRST LAST" with two elements of its result, or "rank R failed after S s: <text>", S seconds in the call.
"""
import ctypes
import os
import sys
import time

rank = int(os.environ["RANK"])
count = 1_000_000 * (rank + 1)


def by_torch():
    import datetime

    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
    tensor = torch.ones(count)
    begin = time.monotonic()
    try:
        dist.all_reduce(tensor)
        return f"returned {tensor[0].item()} {tensor[-1].item()}"
    except RuntimeError as error:
        return f"failed after {time.monotonic() - begin:.3f} s: {error}"


def by_muster(path):
    library = ctypes.CDLL(path)
    library.muster_error_text.restype = ctypes.c_char_p
    library.muster_error_text.argtypes = [ctypes.c_void_p]
    # Before the ranks meet: this takes a second, and twice as long for rank 1.
    data = (ctypes.c_float * count)(*([1.0] * count))
    world, group = ctypes.c_void_p(), ctypes.c_void_p()
    if library.muster_init(None, ctypes.byref(world)) != 0 or library.muster_group_world(world, ctypes.byref(group)) != 0:
        return f"failed: {library.muster_error_text(None).decode()}"
    float32, add = 5, 0
    begin = time.monotonic()
    if library.muster_all_reduce(group, data, data, ctypes.c_uint64(count), float32, add, None, None) != 0:
        return f"failed after {time.monotonic() - begin:.3f} s: {library.muster_error_text(None).decode()}"
    return f"returned {data[0]} {data[count - 1]}"


print(f"rank {rank} {by_torch() if sys.argv[1] == 'torch' else by_muster(sys.argv[1])}", flush=True)
os._exit(0)  # PyTorch's group does not survive its time-out
