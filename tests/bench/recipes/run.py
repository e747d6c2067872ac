#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the recipes of docs/training.md reach on CIFAR-10, beside PyTorch with the same recipe, and where the time of its first
example goes. Prints Markdown.

usage: run.py --bin DIR --torch-python FILE [--data DIR] [--seeds N] [--only MODEL] [--epochs N]

About twenty minutes with all epochs.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.environ.get("MUSTER_TEST_CIFAR10", os.path.join(HERE, "..", "..", "..", "..", "shared", "data", "cifar-10-batches-bin"))
AUGMENTED = ["--crop-padding", "4", "--flip", "--normalization", "per-image", "--schedule", "cosine", "--warmup-epochs", "1",
             "--nesterov", "--global-batch", "128"]
RECIPES = {
    "resnet18-imagenet-stem": ["--model", "resnet18-imagenet-stem", "--epochs", "12", "--lr", "0.05", "--weight-decay", "5e-4",
                               *AUGMENTED],
    "small-cnn": ["--model", "small-cnn", "--epochs", "8", "--lr", "0.05", "--weight-decay", "5e-4", *AUGMENTED],
}
# The example to start from, without its weights, which change no time.
EXAMPLE = ["--model", "resnet18-imagenet-stem", "--crop-padding", "4", "--flip", "--normalization", "per-image", "--lr", "0.1",
           "--momentum", "0.9", "--weight-decay", "1e-4", "--global-batch", "768", "--epochs", "4"]
SEEDS = {"resnet18-imagenet-stem": 2, "small-cnn": 2}  # the first takes some seven minutes a seed
GOAL = -2.0  # points below PyTorch


def output_of(command):
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("RANK", "WORLD_SIZE", "OMP_NUM_THREADS")}
    result = subprocess.run([str(word) for word in command], env=environment, timeout=3600, capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{command}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def reached(command):
    """Test accuracy in percent, and seconds from start to end."""
    start = time.monotonic()
    found = re.search(r"^test accuracy (\S+) %$", output_of(command), re.MULTILINE)
    figure = float(found[1]), time.monotonic() - start
    print(f"{figure[0]:.1f} % in {figure[1]:.0f} s: {' '.join(map(str, command))}", file=sys.stderr, flush=True)
    return figure


def text_of(figures):
    accuracies = [accuracy for accuracy, _ in figures]
    spread = f" ({min(accuracies):.1f} to {max(accuracies):.1f})" if len(accuracies) > 1 else ""
    return f"{statistics.mean(accuracies):.1f} %{spread} | {statistics.median(seconds for _, seconds in figures):.0f} s"


def seconds_of_epochs(output):
    """The shortest of all epochs but the first, which warms up."""
    return min(float(seconds) for seconds in re.findall(r"^epoch \d+/\d+  loss .* (\S+) s$", output, re.MULTILINE)[1:])


def print_example(ours, theirs, data):
    output = output_of([*ours, *EXAMPLE, "--data", data, "--log-every", 20])
    parts = {name: (float(ms), percent) for name, ms, percent in
             re.findall(r"^  (\w[\w ]*?)  +(\S+) ms +(\S+) %$", output, re.MULTILINE)}
    images = re.search(r"(\d+) (?:of 50,000 )?training images", output)[1]
    step = parts.pop("step")[0] / 1000
    between = float(re.search(r"between steps +(\S+) ms", output)[1]) / 1000
    torch = seconds_of_epochs(output_of([*theirs, *EXAMPLE, "--data", data])) if theirs else None
    print(f"\nThe example to start from, {images} images, 768 a step: {seconds_of_epochs(output):.1f} s an epoch, {step:.3f} s a batch, and "
          f"{100 * between / (step + between):.2f} % of the time outside of the batches (a PyTorch script on two T4 GPUs: 32.47 s an epoch, "
          f"0.10 s a batch, 80 % outside). PyTorch here: {f'{torch:.1f} s an epoch' if torch else 'not measured'}. Where a batch goes:\n")
    print(f"| {' | '.join(parts)} |\n{'|---' * len(parts)}|\n| {' | '.join(f'{percent} %' for _, percent in parts.values())} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--torch-python", required=True)
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--seeds", type=int, help="for both recipes")
    parser.add_argument("--only", choices=tuple(RECIPES))
    parser.add_argument("--epochs", type=int, help="fewer than the recipes have: for a trial")
    options = parser.parse_args()
    if not os.path.exists(os.path.join(options.data, "data_batch_1.bin")):
        print(f"no CIFAR-10 in {options.data}; set MUSTER_TEST_CIFAR10", file=sys.stderr)
        return 1
    ours = [os.path.join(options.bin, "muster"), "run", "--nproc-per-node", "2", os.path.join(options.bin, "muster-train")]
    theirs = [options.torch_python, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", "2",
              os.path.join(HERE, "torch_recipe.py"), "--threads", "1"]
    has_torch = os.access(options.torch_python, os.X_OK)
    print("Test accuracy and time of whole runs, both on 2 ranks x 1 thread, PyTorch (channels-last) with DistributedDataParallel; "
          "mean over the seeds, taken in turn.\n")
    print("| recipe | Muster | | PyTorch | | goal: at most 2 points below |\n|---|---|---|---|---|---|")
    for name, recipe in RECIPES.items():
        if options.only not in (None, name):
            continue
        figures, peers = [], []
        for seed in range(options.seeds or SEEDS[name]):
            common = [*recipe, "--data", options.data, "--seed", seed]
            if options.epochs:
                common[common.index("--epochs") + 1] = options.epochs
            figures.append(reached([*ours, *common]))
            if has_torch:
                peers.append(reached([*theirs, *common]))
        if not peers:
            print(f"| {name} | {text_of(figures)} | - | - | not measured |")
            continue
        difference = statistics.mean(a for a, _ in figures) - statistics.mean(a for a, _ in peers)
        verdict = "met" if difference >= GOAL else "**missed**"
        print(f"| {name}, {len(figures)} seed{'s' if len(figures) > 1 else ''} | {text_of(figures)} | {text_of(peers)} | {difference:+.1f}: {verdict} |", flush=True)
    if options.only is None:
        print_example(ours, theirs if has_torch else None, options.data)
    print("\nRecipes: " + "; ".join(f"`{' '.join(recipe)}`" for recipe in RECIPES.values()) + ".")
    return 0


if __name__ == "__main__":
    sys.exit(main())
