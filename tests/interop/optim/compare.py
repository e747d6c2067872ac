#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our optimizers and schedules against PyTorch's on the same numbers, to the stated rounding."""
import os
import subprocess
import sys

from interop import MUSTER, TORCH_PYTHON, need_torch

TRACE = os.path.join(os.path.dirname(os.path.dirname(MUSTER)), "tests", "optim_trace")
# Largest difference of a value of size 1 after 50 steps of rate 0.01: a few roundings of 6e-8 a step.
VALUE_TOLERANCE = 1e-6
RATE_TOLERANCE = 1e-7  # of the highest rate; a float holds 6e-8
COUNT, DECAYING, STEPS, EMA = 1000, 600, 50, 0.9


def trace(*words, data=b""):
    return subprocess.run([TRACE, *(str(word) for word in words)], input=data, check=True, capture_output=True,
                          timeout=60).stdout


def compare_optimizers(numpy, torch):
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    generator = numpy.random.default_rng(5)
    numbers = generator.uniform(-1, 1, (STEPS + 1, COUNT)).astype(numpy.float32)
    cases = [("sgd", 0.9, 0, 5e-4), ("sgd", 0.9, 1, 5e-4), ("sgd", 0, 0, 1e-2), ("adam", 0, 0, 1e-2),
             ("adamw", 0, 0, 1e-2)]
    for kind, momentum, nesterov, decay in cases:
        raw = trace("optimizer", kind, momentum, nesterov, decay, 0.01, DECAYING, STEPS, EMA, data=numbers.tobytes())
        ours = numpy.frombuffer(raw, numpy.float32).reshape(STEPS + 1, COUNT)
        model = torch.nn.ParameterList([torch.nn.Parameter(torch.from_numpy(part.copy()))
                                        for part in (numbers[0, :DECAYING], numbers[0, DECAYING:])])
        groups = [{"params": [model[0]], "weight_decay": decay}, {"params": [model[1]], "weight_decay": 0.0}]
        make = {"sgd": lambda: torch.optim.SGD(groups, lr=0.01, momentum=momentum, nesterov=bool(nesterov)),
                "adam": lambda: torch.optim.Adam(groups, lr=0.01),
                "adamw": lambda: torch.optim.AdamW(groups, lr=0.01)}
        optimizer = make[kind]()
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(EMA))
        worst = 0.0
        for step in range(STEPS):
            model[0].grad = torch.from_numpy(numbers[step + 1, :DECAYING].copy())
            model[1].grad = torch.from_numpy(numbers[step + 1, DECAYING:].copy())
            optimizer.step()
            average.update_parameters(model)
            theirs = torch.cat([p.detach() for p in model]).numpy()
            worst = max(worst, float(abs(theirs - ours[step]).max()))
        mean = torch.cat([p.detach() for p in average.module]).numpy()
        mean_worst = float(abs(mean - ours[STEPS]).max())
        print(f"{kind} momentum {momentum} nesterov {nesterov} decay {decay}: {worst:.1e}, average {mean_worst:.1e}")
        assert worst < VALUE_TOLERANCE and mean_worst < VALUE_TOLERANCE, kind


def compare_schedules(torch):
    from torch.optim import lr_scheduler as schedulers
    rate, total = 0.8, 200

    def with_warmup(optimizer, main, steps, start):
        first = schedulers.LinearLR(optimizer, start_factor=start, total_iters=steps)
        return schedulers.SequentialLR(optimizer, [first, main(optimizer)], milestones=[steps])

    cases = {
        ("constant", rate, total, 1, 0.1, 0, 0, 0.1): lambda o: schedulers.ConstantLR(o, factor=1.0),
        ("step", rate, total, 60, 0.1, 0, 0, 0.1): lambda o: schedulers.StepLR(o, 60, 0.1),
        ("cosine", rate, total, 1, 0.1, 0.01, 0, 0.1): lambda o: schedulers.CosineAnnealingLR(o, total, 0.01),
        ("one-cycle", rate, total, 1, 0.1, 0, 0, 0.1):
            lambda o: schedulers.OneCycleLR(o, rate, total_steps=total, cycle_momentum=False),
        ("cosine", rate, total, 1, 0.1, 0, 20, 0.25):
            lambda o: with_warmup(o, lambda p: schedulers.CosineAnnealingLR(p, total - 20), 20, 0.25),
        ("constant", rate, total, 1, 0.1, 0, 20, 0.5):
            lambda o: schedulers.LinearLR(o, start_factor=0.5, total_iters=20),
    }
    for words, make in cases.items():
        ours = [float(line) for line in trace("schedule", *words).split()]
        parameter = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([parameter], lr=rate)
        schedule = make(optimizer)
        theirs = []
        for _ in range(total):
            theirs.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        worst = max(abs(a - b) for a, b in zip(ours, theirs)) / rate
        print(f"schedule {' '.join(str(word) for word in words)}: {worst:.1e} of the highest rate")
        assert len(ours) == total and worst < RATE_TOLERANCE, words


def main():
    if "--inside" not in sys.argv:
        need_torch()
        return subprocess.run([TORCH_PYTHON, "-W", "ignore", __file__, "--inside"], check=False, timeout=380).returncode
    import numpy
    import torch
    torch.set_num_threads(1)
    compare_optimizers(numpy, torch)
    compare_schedules(torch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
