#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The forms of data parallelism: memory of each rank, what a step sends, speed, beside PyTorch's DDP and FSDP2. Prints Markdown.

usage: run.py --bin DIR --torch-python FILE [--rounds N] [--models NAME,...] [--ranks 2,4] [--share X]

Writes the rows for scripts/plot.py --bench to ../results/parallel.json beside the programs' folder, too.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "support"))
import rank_peaks  # noqa: E402

BATCH = 64  # of all ranks together
# Images of an epoch, and ours against PyTorch's goal. Three epochs, the first of which warms up and is not counted.
MODELS = {"resnet18": (192, 1.5), "mlp-8": (4096, 1.2), "vit-tiny": (512, 1.2)}
EPOCHS = 3
FORMS = ("ddp", "zero1", "zero2", "fsdp")
PEERS = {"ddp": "ddp", "fsdp": "fsdp2"}
KINDS = ("parameters", "gradients", "optimizer_state", "activations", "workspace", "data")


class Bench:
    def __init__(self, options):
        self.options = options
        self.torch = os.access(options.torch_python, os.X_OK)
        if not self.torch:
            print(f"no PyTorch at {options.torch_python}", file=sys.stderr)

    def images(self, model):
        return max(2, int(MODELS[model][0] * self.options.share / BATCH)) * BATCH

    def job(self, ranks, command):
        """Runs a job whose ranks each tell their peak: the output, and the peaks in bytes (rank_peaks.Peak.own)."""
        with tempfile.TemporaryDirectory() as folder:
            words = [os.path.join(self.options.bin, "muster"), "run", "--nproc-per-node", ranks, *rank_peaks.measured(folder), *command]
            environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")} | {"OMP_NUM_THREADS": "1"}
            result = subprocess.run([str(word) for word in words], env=environment, timeout=900, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                raise RuntimeError(f"{words}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
            return result.stdout, [peak.own for peak in rank_peaks.read(folder, ranks)]

    def ours(self, model, form, ranks):
        with tempfile.TemporaryDirectory() as folder:
            metrics = os.path.join(folder, "metrics")
            output, peaks = self.job(ranks, [
                os.path.join(self.options.bin, "muster-train"), "--model", model, "--precision", "fp32", "--data",
                f"synthetic:{self.images(model)}", "--epochs", EPOCHS, "--batch-size", BATCH // ranks, "--threads", 1, "--lr", "0.001",
                "--optimizer", "adamw", "--parallel", form, "--metrics", metrics, "--metrics-every", 1])
            with open(metrics, encoding="utf-8") as file:
                events = {line["event"]: line for line in map(json.loads, file)}
        return {"rate": max(rates_of(output)), "peaks": peaks, "memory": {kind: events["memory"][kind] for kind in KINDS},
                "payload": events["step"]["payload_bytes"]}

    def theirs(self, model, form, ranks):
        """At its best: channels last or not, which FSDP2 does not have."""
        best = None
        for layout in ("nchw",) if form == "fsdp" else ("nchw", "channels_last"):
            output, peaks = self.job(ranks, [
                self.options.torch_python, "-W", "ignore", os.path.join(HERE, "..", "train", "torch_train.py"), "--model", model, "--images",
                self.images(model), "--epochs", EPOCHS, "--batch-size", BATCH // ranks, "--threads", 1, "--layout", layout, "--form",
                PEERS[form], "--optimizer", "adamw"])
            found = {"rate": max(rates_of(output)), "peaks": peaks}
            if best is None or found["rate"] > best["rate"]:
                best = found
        return best


def rates_of(output):
    """Images a second of all epochs but the first."""
    rates = [float(rate) for rate in re.findall(r"^(?:epoch \d+/\d+  loss .*  )?(\d+) images/s", output, re.MULTILINE)]
    if len(rates) != EPOCHS:
        raise RuntimeError(f"{len(rates)} epochs in\n{output}")
    return rates[1:]


def best_of(rounds):
    """The fastest, with the smallest peaks."""
    best = max(rounds, key=lambda found: found["rate"])
    return best | {"peaks": [min(peaks) for peaks in zip(*(found["peaks"] for found in rounds))]}


def megabytes(count):
    return f"{count / 1e6:.1f}"


def row_of(model, form, ranks, ours, theirs):
    peer = "- | - | -"
    if theirs:
        goal, ratio = MODELS[model][1], ours["rate"] / theirs["rate"]
        peer = f"{theirs['rate']:.0f} | {ratio:.2f} (>= {goal}: {'met' if ratio >= goal else '**missed**'}) | {megabytes(max(theirs['peaks']))}"
    kinds = " | ".join(megabytes(ours["memory"][kind]) for kind in KINDS[:4])
    return (f"| {model} | {form} | {ranks} | {kinds} | {megabytes(min(ours['peaks']))} to {megabytes(max(ours['peaks']))} | "
            f"{megabytes(ours['payload'])} | {ours['rate']:.0f} | {peer} |")


def write_rows(options, rows):
    """What there is so far, for a run that is ended early."""
    folder = os.path.join(options.bin, "..", "..", "results")
    if os.path.isdir(folder):
        with open(os.path.join(folder, "parallel.json"), "w", encoding="utf-8") as file:
            json.dump({"rows": rows}, file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--torch-python", required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--share", type=float, default=1.0, help="of the images of an epoch: for a trial")
    options = parser.parse_args()
    bench = Bench(options)
    print(f"fp32, AdamW, {BATCH} images a step over all ranks of one thread each, best epoch and smallest peaks of {options.rounds} runs, "
          "taken in turn. MB of a rank by kind, and the peaks of the ranks' processes from the least to the most: without the pages of files, and "
          "of what n processes share the n-th part. Payload: MB that a rank has to send in a step. PyTorch: DistributedDataParallel, "
          "channels-last or not, whichever is faster, and FSDP2 (`fully_shard` of each layer or block; it takes no channels-last), over Gloo.\n")
    print("| network | form | ranks | parameters | gradients | optimizer | activations | peak | payload | images/s | PyTorch | ratio | its peak |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    rows = []
    for model in options.models.split(","):
        for ranks in map(int, options.ranks.split(",")):
            ours, theirs = {form: [] for form in FORMS}, {form: [] for form in PEERS}
            for _ in range(options.rounds):
                for form in FORMS:
                    ours[form].append(bench.ours(model, form, ranks))
                    if bench.torch and form in PEERS:
                        theirs[form].append(bench.theirs(model, form, ranks))
            for form in FORMS:
                found = best_of(ours[form])
                print(row_of(model, form, ranks, found, best_of(theirs[form]) if theirs.get(form) else None), flush=True)
                rows.append({"network": model, "form": form, "ranks": ranks, "images_per_second": found["rate"],
                             "memory": {kind.replace("_", " "): size for kind, size in found["memory"].items() if size}})
            write_rows(options, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
