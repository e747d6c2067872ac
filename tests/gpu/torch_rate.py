#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images a second of PyTorch on a GPU: channels last, bf16, fused SGD, images that are on the GPU already.

usage: torch_rate.py MODEL BATCH MODE    MODE is eager, or one of torch.compile's: default, max-autotune (which replays CUDA graphs)
Prints one row of a table; exits 77 where there is no PyTorch, it sees no GPU, or the machine lacks what torch.compile compiles with.
"""
import importlib.util
import os
import re
import statistics
import sys
import sysconfig
import time

ROUNDS, ROUND_SECONDS = 5, 1.0


def make_step(torch, name, batch, mode):
    """A whole training step of a network, compiled unless the mode is eager, as a function."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop/networks/models.py")
    spec = importlib.util.spec_from_file_location("models", path)
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    model = models.make(name).cuda().to(memory_format=torch.channels_last)
    network = model if mode == "eager" else torch.compile(model, mode=mode)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=True)
    images = torch.randn(batch, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()

    return step


def lacking(error, header):
    """What the machine lacks of what torch.compile compiles with, if that is what an error of its first step says, else "".

    The C compiler writes of a missing `header`, Python.h, to stderr; the error may say no more than that the compiler has failed."""
    text = str(error)
    line = next((line.strip() for line in text.splitlines() if re.search(r"\bC(\+\+)? compiler", line)), "")
    if line:
        return line
    if "Python.h" in text or ("returned non-zero exit status" in text and not os.path.exists(header)):
        return f"there is no {header}"
    return ""


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

    try:
        step()
    except Exception as error:  # each part of torch.compile has its own kinds
        reason = "" if mode == "eager" else lacking(error, os.path.join(sysconfig.get_paths()["include"], "Python.h"))
        if not reason:
            raise
        print(f"skipped: torch.compile: {reason}")
        return 77
    seconds_of(20)  # it is compiled for good, and its graphs are recorded
    count = max(10, round(ROUND_SECONDS / (seconds_of(20) / 20)))
    rate = statistics.median(count * batch / seconds_of(count) for _ in range(ROUNDS))
    print(f"| {name} | {batch} | PyTorch {torch.__version__}, {mode} | {rate:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
