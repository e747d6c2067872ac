# SPDX-License-Identifier: Apache-2.0
"""PyTorch's all_reduce over Gloo, as measure.hpp does it. Arguments: BUDGET_MS all_reduce:BYTES...

Started by a launcher that sets torchrun's variables.
"""
import sys
import time

import torch
import torch.distributed as dist


def measure(nbytes, budget_us):
    data = torch.zeros(max(1, nbytes // 4))
    fills = nbytes >= 1 << 20
    for _ in range(1 if fills else 5):
        dist.all_reduce(data)
    trials = 1 if fills else 5
    start = time.perf_counter()
    for _ in range(trials):
        dist.all_reduce(data)
    estimate = torch.tensor([(time.perf_counter() - start) * 1e6 / trials])
    dist.all_reduce(estimate)
    each = max(0.05, float(estimate) / dist.get_world_size())
    times = []
    for _ in range(min(1001, max(5, int(budget_us / each)))):
        if fills:
            data.zero_()
            dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(data)
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2] * 1e6


def main():
    torch.set_num_threads(1)
    start = time.perf_counter()
    dist.init_process_group("gloo")
    took = torch.tensor([(time.perf_counter() - start) * 1e6])
    cases = [word.split(":") for word in sys.argv[2:]]
    if not cases:
        dist.all_reduce(took)
        if dist.get_rank() == 0:
            print(f"torch init {dist.get_world_size()} {float(took) / dist.get_world_size():.1f}", flush=True)
    for op, nbytes in cases:
        if op == "all_reduce":
            median = measure(int(nbytes), float(sys.argv[1]) * 1000)
            if dist.get_rank() == 0:
                print(f"torch {op} {nbytes} {median:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
