#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images a second of PyTorch on a GPU: channels last, bf16, torch.compile, fused SGD, images that are on the GPU already.

usage: torch_rate.py MODEL BATCH MODE    MODE is one of torch.compile's: default, max-autotune (which replays CUDA graphs)
Prints one row of a table; exits 77 where there is no PyTorch or it sees no GPU.
"""
import importlib.util
import os
import statistics
import sys
import time

ROUNDS, ROUND_SECONDS = 5, 1.0


def make_step(torch, name, batch, mode):
    """A whole training step of a compiled network, as a function."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop/networks/models.py")
    spec = importlib.util.spec_from_file_location("models", path)
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    model = models.make(name).cuda().to(memory_format=torch.channels_last)
    compiled = torch.compile(model, mode=mode)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=True)
    images = torch.randn(batch, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(compiled(images), labels)
        loss.backward()
        optimizer.step()

    return step


def main():
    try:
        import torch
    except ImportError:
        print("skipped: there is no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU")
        return 77
    name, batch, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.backends.cudnn.benchmark = True
    step = make_step(torch, name, batch, mode)

    def seconds_of(count):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    seconds_of(20)  # it is compiled, and its graphs are recorded
    count = max(10, round(ROUND_SECONDS / (seconds_of(20) / 20)))
    rate = statistics.median(count * batch / seconds_of(count) for _ in range(ROUNDS))
    print(f"| {name} | {batch} | PyTorch {torch.__version__}, {mode} | {rate:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
