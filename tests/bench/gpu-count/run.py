#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a step asks of a GPU, counted without one: launches, bytes and operations. Prints Markdown.

usage: run.py --bin DIR [--torch-python FILE]
"""
import argparse
import os
import re
import subprocess

NETWORKS = (("resnet18", 768), ("resnet18-imagenet-stem", 768), ("vit-tiny", 768))
PRECISIONS = ("bf16", "f16", "f32")
# What calls are for, by their names; the first that fits.
KINDS = (
    ("convolutions and products", r"convolution|product"),
    ("packing of weights and gradients", r"pack_weights|unpack_gradient"),
    ("optimizer, norm, average", r"sgd_step|adam_step|square_sums|clip_factor|move_average"),
    ("numbers of a step", r"set_|add_score"),
    ("maps and rows", r""),
)


def count(options, network, batch, precision):
    command = [os.path.join(options.bin, "gpu_count"), network, str(batch), precision]
    output = subprocess.run(command, timeout=300, capture_output=True, text=True, check=True).stdout
    kinds = {kind: [0, 0.0, 0.0] for kind, _ in KINDS}
    for line in output.splitlines():
        name, calls, bytes_moved, operations = line.split("\t")
        kind = next(kind for kind, pattern in KINDS if re.match(pattern, name))
        for place, figure in enumerate((int(calls), float(bytes_moved), float(operations))):
            kinds[kind][place] += figure
    return kinds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--torch-python")
    options = parser.parse_args()
    print("A step of one rank with SGD and momentum: each call is a launch; bytes are what has to be read and written once, operations those of "
          "convolutions and products. Counted on a device that computes nothing (`gpu_count`); nothing of it is a time.\n")
    print("| network, images | computed in | calls | of them packing | MB an image | of them maps and rows | GFLOP an image |\n|---|---|---|---|---|---|---|")
    for network, batch in NETWORKS:
        for precision in PRECISIONS:
            kinds = count(options, network, batch, precision)
            calls, moved, operations = (sum(figures[place] for figures in kinds.values()) for place in range(3))
            maps = kinds["maps and rows"][1]
            print(f"| {network}, {batch} | {precision} | {calls} | {kinds['packing of weights and gradients'][0]} | {moved / batch / 1e6:.2f} | "
                  f"{maps / batch / 1e6:.2f} | {operations / batch / 1e9:.2f} |")


if __name__ == "__main__":
    main()
