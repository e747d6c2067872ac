#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster run with several ranks of muster-train, whose gradients go through NCCL, leaves the parameters of one rank.

usage: compare_ranks.py MODEL RANKS [--share-gpu] [--device cpu]

--share-gpu: all ranks use the first GPU, each with an NCCL_HOSTID of its own, so that NCCL takes them for hosts. --device cpu tries the
comparison where there is no GPU: the gradients then go through memory of the host.

Each tensor may differ by SHARE of how far the training moved it. Both runs have the same images, first parameters and steps, so what
differs is the order of sums in 32-bit floats. Gradients of one rank alone would differ by about half.
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile

from interop import MUSTER, TRAIN, clean_environment, float_tensors

SHARE = 0.02
# What is nearly zero may move by nothing but rounding.
LAST_BITS = 1e-6
TASK = ["--epochs", "1", "--seed", "5", "--precision", "fp32", "--crop-padding", "4", "--flip"]
# So low a rate leaves the parameters where they begin.
STAY = "1e-30"


def steps_of(model):
    """Rate, and flags of the steps; those after the first are recorded ones. Batch norm makes differences a hundred times larger with each
    step (measured on CPUs at a rate of 0.02: 3e-5, 3e-3, after four steps 0.2), so networks with it make few and small ones."""
    if model == "small-cnn":
        return "0.02", ["--data", "synthetic:256", "--global-batch", "64", "--max-steps", "4"]
    # Each rank would have statistics of its own.
    return "0.0005", ["--data", "synthetic:40", "--global-batch", "16", "--max-steps", "2", "--sync-batch-norm"]


def length(values):
    return math.sqrt(math.fsum(value * value for value in values))


def distance(one, other):
    assert len(one) == len(other), (len(one), len(other))
    return length([a - b for a, b in zip(one, other)])


def differences(first, one, many):
    """Each tensor that several ranks moved elsewhere than one rank did, and the largest share of all."""
    found, largest = [], 0.0
    if not one.keys() == many.keys() == first.keys() or not one:
        return [f"other tensors: {sorted(one.keys() ^ many.keys())}"], math.inf
    for name, values in one.items():
        off = distance(values, many[name])
        # Running statistics move at any rate.
        moved = length(values) if "running_" in name else distance(values, first[name])
        allowed = SHARE * moved + LAST_BITS * length(values)
        largest = max(largest, off / moved if moved > 0 else 0.0)
        if not off <= allowed:
            found.append(f"{name} is off by {off:.3e} and moved by {moved:.3e}: {allowed:.3e} is allowed")
    return found, largest


def train(rate, options, ranks, export):
    """One run to its end; what it wrote."""
    command = [TRAIN, *TASK, *steps_of(options.model)[1], "--model", options.model, "--device", options.device, "--export", export, "--lr", rate]
    environment = {"LOGLEVEL": "INFO"}
    if ranks > 1:
        launch = [MUSTER, "run", "--nproc-per-node", str(ranks), "--no-python", "--shutdown-timeout", "2"]
        if options.device == "cuda":
            environment["MUSTER_BACKEND"] = "nccl"
        if options.share_gpu:
            environment["CUDA_VISIBLE_DEVICES"] = "0"
            launch += ["sh", "-c", 'export NCCL_HOSTID="muster-rank-$RANK" && exec "$@"', "sh"]
        command = launch + command
    result = subprocess.run(command, env=clean_environment(**environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False)
    print(result.stdout, end="", flush=True)
    if result.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)} ended with {result.returncode}")
    return result.stdout


def check_way(output, options):
    """Whether the gradients went through NCCL, by what the program says of it."""
    if options.device == "cuda" and ("muster: backend nccl:" not in output or "GPU " not in output or "memory of the host" in output):
        sys.exit("FAILED: the gradients did not go through NCCL")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("ranks", type=int)
    parser.add_argument("--share-gpu", action="store_true")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = parser.parse_args()
    left = {}
    with tempfile.TemporaryDirectory() as folder:
        rate = steps_of(options.model)[0]
        for name, chosen, ranks in (("first", STAY, 1), ("one", rate, 1), ("many", rate, options.ranks)):
            path = os.path.join(folder, name + ".safetensors")
            output = train(chosen, options, ranks, path)
            if ranks > 1:
                check_way(output, options)
            left[name] = float_tensors(path)
    found, largest = differences(left["first"], left["one"], left["many"])
    print("\n".join(found))
    print(f"{options.model}, {options.ranks} ranks beside one: off by at most {largest:.1e} of what the training moved, {SHARE} is allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
