#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three training steps of every built-in network against PyTorch: the same parameters and batch before, the same losses,
parameters and running statistics after.

networks_test.py STEPS_PROGRAM"""
import os
import subprocess
import sys
import tempfile

from interop import TORCH_PYTHON, need_torch

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 3
RATE, MOMENTUM = 0.001, 0.9

# How far the changes of all parameters over the steps may be from those in double precision, as a share of their norm; f32 is
# allowed the rounding of Winograd's method, and that a value next to zero falls on the other side of a ReLU, which three
# steps enlarge. bf16 has 8 bits: it is allowed what PyTorch's own has, half as much again.
TOLERANCE_F32 = 5e-3


def main():
    need_torch()
    if "TORCH_SIDE" not in os.environ:
        # Threads that wait for each other sleep soon: beside other tests each would else spin for its time slice.
        environment = {"GOMP_SPINCOUNT": "1000", **os.environ, "TORCH_SIDE": "1"}
        return subprocess.run([TORCH_PYTHON, __file__, *sys.argv[1:]], env=environment, check=False).returncode
    for model, batch in (("small-cnn", 32), ("resnet18-imagenet-stem", 32), ("resnet18", 8), ("resnet50", 4), ("mlp", 32), ("mlp-8", 32),
                         ("vit-tiny", 16)):
        compare(model, batch, sys.argv[1])
    return 0


def compare(model, size, program):
    import numpy
    import torch
    from torch.nn import functional
    sys.path.insert(0, HERE)
    import models

    torch.manual_seed(1)
    torch.set_num_threads(2)
    start = models.make(model)
    images = torch.randn(size, 3, 32, 32).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (size,))
    names = subprocess.run([program, model], capture_output=True, check=True, timeout=60, text=True).stdout.split()
    theirs = {name for name in start.state_dict() if not name.endswith("num_batches_tracked")}
    assert theirs == set(names), f"{model}: the tensors have other names: {theirs ^ set(names)}"
    before = {name: start.state_dict()[name].clone() for name in names}

    def train_torch(precision):
        network = models.make(model)
        network.load_state_dict(start.state_dict())
        batch = images
        if precision == "f64":
            network, batch = network.double(), images.double()
        optimizer = torch.optim.SGD(network.parameters(), lr=RATE, momentum=MOMENTUM)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                logits = network(batch)
            loss = functional.cross_entropy(logits if precision == "f64" else logits.float(), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, network.state_dict()

    def train_ours(precision):
        with tempfile.NamedTemporaryFile() as file:
            for name in names:
                file.write(before[name].contiguous().numpy().tobytes())
            file.write(images.permute(0, 2, 3, 1).contiguous().numpy().tobytes())
            file.write(labels.to(torch.uint8).numpy().tobytes())
            file.flush()
            result = subprocess.run([program, model, precision, str(size), str(STEPS), str(RATE), str(MOMENTUM), file.name],
                                    capture_output=True, check=False, timeout=120)
        if b"no instructions for bf16" in result.stderr:
            return None, None
        assert result.returncode == 0, result.stderr
        values = torch.from_numpy(numpy.frombuffer(result.stdout, dtype=numpy.float32).copy())
        losses, values = values[:STEPS].tolist(), values[STEPS:]
        state = {}
        for name in names:
            count = before[name].numel()
            state[name], values = values[:count].reshape(before[name].shape), values[count:]
        assert values.numel() == 0, "parameters left over"
        return losses, state

    losses, truth = train_torch("f64")

    def distance(state):
        """Of all changes together: how far from the truth, as a share of how far that went."""
        apart = sum((state[name].double() - truth[name]).square().sum().item() for name in names)
        return (apart / sum((truth[name] - before[name]).square().sum().item() for name in names)) ** 0.5

    def worst(one):
        return max(abs(a - b) for a, b in zip(one, losses))

    for precision in ("f32", "bf16"):
        our_losses, our_state = train_ours(precision)
        if our_losses is None:
            print(f"{model} {precision}: no instructions for it here")
            continue
        torch_losses, torch_state = train_torch(precision)
        apart, torch_apart = distance(our_state), distance(torch_state)
        print(f"{model} {precision}: from double precision {apart:.1e} in the parameters and {worst(our_losses):.1e} in the "
              f"loss, PyTorch {torch_apart:.1e} and {worst(torch_losses):.1e}", flush=True)
        if precision == "f32":
            # A deep network and few images enlarge what is rounded: then PyTorch's own distance says how far is usual.
            assert worst(our_losses) < max(1e-3, 2 * worst(torch_losses)), f"the losses differ: {our_losses}, not {losses}"
            assert apart < max(TOLERANCE_F32, 1.5 * torch_apart), "the parameters differ"
        else:
            assert worst(our_losses) < 0.02 + 2 * worst(torch_losses), f"the losses differ: {our_losses}, not {losses}"
            assert apart < 1.5 * torch_apart + 0.01, "the parameters are further away than PyTorch's"


if __name__ == "__main__":
    sys.exit(main())
