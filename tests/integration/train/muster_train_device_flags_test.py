#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every flag of muster-train on a device that is the host, on one rank and on two, beside --device cpu."""
import json
import os
import re
import tempfile

from interop import run_tests
from muster_train_device_test import compare, parameter_hash, train

TASK = ["--data", "synthetic:20", "--global-batch", "8"]
# Rows of flags that are tried together, behind TASK: what is given again here wins.
TRAINS = {
    "data": "--data synthetic:20 --crop-padding 2 --flip --normalization per-image --loader-threads 1 --prefetch 2 --threads 1",
    "model": "--model small-cnn --precision fp32 --label-smoothing 0.2 --ema 0.8 --seed 7 --log-every 1",
    "steps": "--epochs 2 --global-batch 4 --accumulate 2 --drop-last --max-steps 3 --check-every 1",
    "adam": "--optimizer adamw --lr 0.001 --beta1 0.8 --beta2 0.99 --epsilon 0.001 --weight-decay 0.1 --decay all",
    "falling": "--lr-per-256 0.5 --momentum 0.8 --nesterov --schedule step --lr-step-epochs 1 --lr-gamma 0.5 --epochs 2",
    "warm": "--schedule cosine --lr-min 0.001 --warmup-epochs 0.5 --warmup-start 0.2 --clip-norm 0.1",
    "one cycle": "--schedule one-cycle --lr-peak-share 0.4 --time-limit 1000",
    "plain": "--momentum 0 --ema 0.8 --epochs 2",  # the export is the average
    "buckets": "--bucket-mib 0.1 --first-bucket-mib 0.01 --no-graph",
    "fixed": "--deterministic-world --micro-batches 2",
    "bf16": "--compress bf16",
    "fp16": "--compress fp16",
    "powersgd": "--compress powersgd --powersgd-rank 1 --epochs 5",  # compresses from step 11 on
    "batch norm": "--model resnet18-imagenet-stem --sync-batch-norm --data synthetic:10 --max-steps 1 --lr 0.001 "
                  "--checkpoint-activations block",
}
# Rows that leave something, in their order; FOLDER is one for all of them.
LEAVES = [
    "--epochs 2 --checkpoint-dir FOLDER/keep --checkpoint-every 1 --keep 9 --export FOLDER/cuda-export --metrics FOLDER/metrics "
    "--metrics-every 1 --tensorboard FOLDER/events --profile FOLDER/trace.json",
    "--epochs 2 --checkpoint-dir FOLDER/keep --no-resume --max-steps 1",
    "--epochs 2 --resume-from FOLDER/keep/CHECKPOINT",
    "--epochs 1 --init-from FOLDER/cuda-export",
    "--eval-only --init-from FOLDER/cuda-export",
    "--config FOLDER/run.json",
]
BATCH_SIZE = "--batch-size 4 --max-steps 1"  # instead of --global-batch
ELSEWHERE = {"--device", "--help", "--dry-run", "--json"}
# Replicas and shards are kept on hosts: muster_train_forms_test.py.
NOT_ON_DEVICES = {"--parallel", "--replicas", "--unit-mb", "--prefetch-units", "--shard-within"}


def flags_of(row):
    return set(re.findall(r"(?<!\S)--[a-z0-9-]+", row))


def test_the_table_is_whole():
    known = set(re.findall(r"(?m)^ +(--[a-z0-9-]+)", train("--help").stdout)) | {"--help"}
    tried = set().union(*map(flags_of, [*TRAINS.values(), *LEAVES, BATCH_SIZE])) | ELSEWHERE | NOT_ON_DEVICES
    assert tried == known, (tried - known, known - tried)


def test_training():
    with tempfile.TemporaryDirectory() as folder:
        for name, row in TRAINS.items():
            for ranks in (1, 2):
                try:
                    # The precision that both have; a GPU's own would be bf16.
                    compare(folder, "--precision", "fp32", "--epochs", "1", *row.split(), ranks=ranks, task=TASK)
                except AssertionError as error:
                    raise AssertionError(f"{name} on {ranks} ranks: {error}") from error


def test_images_of_each_rank():
    for ranks in (1, 2):
        output = train("--data", "synthetic:20", *BATCH_SIZE.split(), "--device", "cuda", ranks=ranks).stdout
        assert "4 images per step and rank" in output and parameter_hash(output), output


def test_dry_run():
    """An estimate beside what a run has; this device does not say how much memory is free."""
    flags = ["--data", "synthetic:20", "--batch-size", "4", "--precision", "fp32", "--device", "cuda"]
    told = json.loads(train(*flags, "--dry-run", "--json").stdout)
    table = train(*flags, "--max-steps", "1").stdout.partition("memory of a rank:\n")[2]
    rows = {name: float(size) for name, size in re.findall(r"^  (\S[a-z ]+?) +(\d+\.\d) MB$", table, re.MULTILINE)}
    assert told["device"] == "cuda" and told["free_bytes"] == told["largest_batch"] == 0, told
    for row in ("parameters", "gradients", "optimizer state", "activations"):
        assert abs(told["bytes"][row.replace(" ", "_")] / 1e6 - rows[row]) < 0.06, (row, told, rows)


def test_what_is_left():
    for ranks in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as file:
                json.dump({"data": "synthetic:20", "global-batch": 8, "epochs": 1, "device": "cuda"}, file)
            for row in LEAVES:
                kept = os.path.join(folder, "keep")
                first = min(name for name in os.listdir(kept) if "-step-" in name) if os.path.isdir(kept) else ""
                flags = row.replace("FOLDER", folder).replace("CHECKPOINT", first).split()
                task = [] if "--config" in flags else [*TASK, "--device", "cuda"]
                output = train(*task, *flags, ranks=ranks).stdout
                assert "test accuracy" in output, output
                assert ("resumed from" in output) == ("--resume-from" in flags), output
            assert sorted(os.listdir(folder)) == ["cuda-export", "events", "keep", "metrics", "run.json", "trace.json"]


if __name__ == "__main__":
    run_tests(globals())
