#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images a second of PyTorch on a GPU: ResNet-18, channels last, bf16, torch.compile, images already on the GPU.

usage: torch_rate.py MODEL BATCH    prints one row of a table; exits 77 where PyTorch sees no GPU
"""
import importlib.util
import os
import statistics
import sys
import time


def main():
    try:
        import torch
    except ImportError:
        print("skipped: there is no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU")
        return 77
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop/networks/models.py")
    spec = importlib.util.spec_from_file_location("models", path)
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    name, batch = sys.argv[1], int(sys.argv[2])
    torch.backends.cudnn.benchmark = True
    model = models.make(name).cuda().to(memory_format=torch.channels_last)
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=True)
    images = torch.randn(batch, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(compiled(images), labels)
        loss.backward()
        optimizer.step()

    for _ in range(20):
        step()
    rates = []
    count = max(10, 50000 // batch)
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        rates.append(count * batch / (time.perf_counter() - begin))
    print(f"| {name} | {batch} | PyTorch {torch.__version__}, compiled | {statistics.median(rates):.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
