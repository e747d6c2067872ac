#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training speed of the built-in networks beside PyTorch. Prints Markdown.

usage: run.py --bin DIR --torch-python FILE [--rounds N] [--models NAME,...] [--precisions fp32,bf16] [--share X]
"""
import argparse
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 128  # of all processes together
# Images of an epoch, epochs (the first warms up and is not counted), and ours against PyTorch's goal. An epoch takes half a second
# to five, and a whole table about seven minutes.
MODELS = {"resnet18": (256, 2, 1.2), "resnet18-imagenet-stem": (640, 4, 1.3), "small-cnn": (3840, 4, 1.3)}
LAYOUTS = {"1 x 2 threads": (1, 2), "2 x 1 thread": (2, 1)}
EXPOSED_GOAL = 2  # percent of a step


class Unsupported(Exception):
    pass


def run(command):
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "OMP_NUM_THREADS")}
    result = subprocess.run([str(word) for word in command], env=environment, timeout=600, capture_output=True, text=True,
                            check=False)
    if "no instructions for bf16" in result.stderr:
        raise Unsupported
    if result.returncode != 0:
        raise RuntimeError(f"{command}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def images_per_second(output, epochs):
    """Rates of all epochs but the first."""
    rates = [float(rate) for rate in re.findall(r"^(?:epoch \d+/\d+  loss .*  )?(\d+) images/s", output, re.MULTILINE)]
    if len(rates) != epochs:
        raise RuntimeError(f"{len(rates)} epochs in\n{output}")
    return rates[1:]


class Bench:
    def __init__(self, options):
        self.options = options
        self.torch = os.access(options.torch_python, os.X_OK)
        if not self.torch:
            print(f"no PyTorch at {options.torch_python}", file=sys.stderr)

    def images(self, model):
        """Whole batches, so that every step has as many."""
        return max(1, int(MODELS[model][0] * self.options.share / BATCH)) * BATCH

    def launcher(self, processes):
        """Two processes are started by whichever launcher there is; it takes no part in the rates."""
        if processes == 1:
            return []
        muster = os.path.join(self.options.bin, "muster")
        if os.path.exists(muster):
            return [muster, "run", "--nproc-per-node", processes]
        return [os.path.join(os.path.dirname(self.options.torch_python), "torchrun"), "--no-python", "--nproc-per-node", processes]

    def ours(self, model, precision, processes, threads, batch=BATCH):
        """Images a second of each epoch, and the share of a step that waits for communication, in percent."""
        epochs = MODELS[model][1]
        output = run([*self.launcher(processes), os.path.join(self.options.bin, "muster-train"), "--model", model, "--precision",
                      precision, "--data", f"synthetic:{self.images(model)}", "--epochs", epochs, "--batch-size",
                      batch // processes, "--threads", threads, "--lr", "0.01"])
        exposed = re.search(r"^ *exposed communication .* ([\d.]+) %", output, re.MULTILINE)
        return images_per_second(output, epochs), float(exposed[1]) if exposed else 0.0

    def theirs(self, model, precision, processes, threads):
        epochs = MODELS[model][1]
        return images_per_second(run([
            *self.launcher(processes), self.options.torch_python, "-W", "ignore", os.path.join(HERE, "torch_train.py"), "--model",
            model, "--precision", precision, "--images", self.images(model), "--epochs", epochs, "--batch-size",
            BATCH // processes, "--threads", threads]), epochs)

    def ceiling(self, model, precision):
        return float(run([os.path.join(self.options.bin, "conv_ceiling"), model, precision, BATCH, 2]).split()[0])


def verdict(met, goal):
    return f"{goal}: {'met' if met else '**missed**'}"


def measure(bench, model, precision):
    """Best epochs over all rounds, taken in turn: {layout: (ours, exposed, theirs or None)}, one rank of one thread, ceiling."""
    figures = {name: ([], [], []) for name in LAYOUTS}
    single, ceiling = [], []
    for _ in range(bench.options.rounds):
        for name, (processes, threads) in LAYOUTS.items():
            rates, exposed = bench.ours(model, precision, processes, threads)
            figures[name][0].extend(rates)
            figures[name][1].append(exposed)
            if bench.torch:
                figures[name][2].extend(bench.theirs(model, precision, processes, threads))
        # As many images a step as each of two ranks has.
        single.extend(bench.ours(model, precision, 1, 1, BATCH // 2)[0])
        ceiling.append(bench.ceiling(model, precision))
    rows = {name: (max(ours), statistics.median(exposed), max(theirs) if theirs else None)
            for name, (ours, exposed, theirs) in figures.items()}
    return rows, max(single), max(ceiling)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--torch-python", required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--share", type=float, default=1.0, help="of the images of an epoch: for a trial")
    options = parser.parse_args()
    bench = Bench(options)
    print(f"Images/s of the built-in networks, {BATCH} images per step over all processes, best epoch of {options.rounds} runs each, "
          "taken in turn (what else runs on a machine only ever makes an epoch slower). PyTorch: channels-last, fused SGD, bf16 by "
          "autocast, DistributedDataParallel over Gloo. Ceiling: nothing but oneDNN's direct convolutions, 2 threads; Winograd's "
          f"method lets fp32 pass it. 1 to 2 ranks: against twice one rank of one thread with {BATCH // 2} images a step.\n")
    print("| network | precision | processes | Muster | PyTorch | ratio | goal | ceiling | exposed communication | 1 to 2 ranks |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for model in options.models.split(","):
        goal = MODELS[model][2]
        for precision in options.precisions.split(","):
            try:
                rows, single, ceiling = measure(bench, model, precision)
            except Unsupported:
                print(f"| {model} | {precision} | - | no instructions for it | - | - | - | - | - | - |")
                continue
            for name, (ours, exposed, theirs) in rows.items():
                peer = f"{theirs:.0f} | {ours / theirs:.2f} | {verdict(ours / theirs >= goal, f'>= {goal}')}" if theirs else "- | - | -"
                pair = LAYOUTS[name][0] == 2
                waits = f"{exposed:.1f} %, {verdict(exposed <= EXPOSED_GOAL, f'<= {EXPOSED_GOAL}')}" if pair else "-"
                scaling = f"{100 * ours / (2 * single):.0f} %" if pair else "-"
                print(f"| {model} | {precision} | {name} | {ours:.0f} | {peer} | {ceiling:.0f} | {waits} | {scaling} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
