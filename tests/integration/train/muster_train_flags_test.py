#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Command lines and configuration files of muster-train that cannot be meant, and what it says about them."""
import json
import os
import re
import sys

from interop import MUSTER, TRAIN, run, run_tests

DATA = ["--data", "synthetic:64"]


def train(*arguments):
    return run([TRAIN, *arguments], check=False, timeout=60, OMP_NUM_THREADS="1")


def refused(text, *arguments):
    result = train(*arguments)
    assert result.returncode == 2 and text in result.stderr and result.stderr.count("\n") == 1, (text, arguments, result)


def test_numbers_that_are_none(_folder):
    help_text = train("--help").stdout
    flags = [flag for flag, value in re.findall(r"(--[a-z0-9-]+) X=(\S+)", help_text) if re.match(r"-?[0-9.e-]+$", value)]
    assert {"--lr", "--clip-norm", "--bucket-mib", "--time-limit", "--ema", "--label-smoothing"} <= set(flags), flags
    for flag in flags:
        for word in ("nan", "inf"):
            refused(flag, *DATA, flag, word)
    refused("is no finite number", *DATA, "--clip-norm", "nan")
    refused("--seed: -1 is below 0", *DATA, "--seed", "-1")
    refused("--powersgd-rank: '65' is outside of what is possible; give a whole number from 1 to 64", *DATA, "--powersgd-rank", "65")
    for word in ("0", "-1", "all", "1.5"):
        refused("give none, block, sqrt or a number from 1", *DATA, "--checkpoint-activations", word)
    refused('--checkpoint-activations: network "small-cnn" cannot be cut into 5 segments; give a number from 1 to 4', *DATA,
            "--checkpoint-activations", "5")
    for flag in flags:
        for word in ("1,", "2 3", "0x10", " 1", "1e", ""):
            refused(flag, *DATA, f"{flag}={word}")
    refused("--loader-threads: 010 is no whole number", *DATA, "--loader-threads", "010")
    refused("--warmup-start: -0.5 is neither a share nor -1", *DATA, "--warmup-start", "-0.5")


def test_flags_that_are_neither_on_nor_off(folder):
    groups = re.findall(r"^  (--[a-z0-9-]+)$", train("--help").stdout, re.MULTILINE)
    flags = [flag for flag in groups if flag != "--help"]
    assert {"--flip", "--drop-last", "--nesterov", "--no-resume", "--eval-only", "--json"} <= set(flags), flags
    for flag in flags:
        for word in ("1.5", "-3", "1,", "2 3", "2", "maybe"):
            refused(f"{flag}: {word} is neither true nor false", *DATA, f"{flag}={word}")
    # Absent, in each spelling: neither a contradiction nor a note.
    for word in ("false", "0", "no", "off"):
        result = train(*DATA, "--max-steps", "0", "--epochs", "1", "--eval-only=" + word, "--no-resume=" + word, "--nesterov=" + word,
                       "--optimizer", "adam", "--export", os.path.join(folder, "x"), "--dry-run")
        assert result.returncode == 0 and "has no effect" not in result.stdout, result


def test_values_that_are_missing(folder):
    place = os.path.join(folder, "checkpoints")
    refused("--checkpoint-dir needs a value, and --no-resume looks like the next flag", *DATA, "--checkpoint-dir", "--no-resume")
    refused("--checkpoint-dir= has no value", *DATA, "--checkpoint-dir=", "--no-resume")
    refused("there is no --conf, did you mean '--config'?", "--conf", "run.json")
    assert not os.path.exists(place) and not os.path.exists("--no-resume")


def test_contradictions(folder):
    place = os.path.join(folder, "checkpoints")
    for one, other in ((["--lr", "0.1"], ["--lr-per-256", "0.1"]), (["--batch-size", "8"], ["--global-batch", "8"]),
                       (["--init-from", "a"], ["--resume-from", "b"]), (["--export", "a"], ["--eval-only"])):
        refused(f"{one[0]} and {other[0]} exclude each other", *DATA, *one, *other)
    for flags in (["--checkpoint-every", "5"], ["--keep", "2"], ["--no-resume"]):
        refused(f"{flags[0]} needs --checkpoint-dir", *DATA, *flags)
    refused("--deterministic-world needs --global-batch", *DATA, "--deterministic-world", "--batch-size", "8")
    assert not os.path.exists(place)
    # What is given as its absence contradicts nothing.
    result = train(*DATA, "--max-steps", "1", "--batch-size", "8", "--global-batch", "0", "--lr", "0.1", "--lr-per-256", "0")
    assert result.returncode == 0 and "note: " not in result.stdout, result


def test_flags_without_effect(_folder):
    result = train(*DATA, "--max-steps", "1", "--optimizer", "adamw", "--momentum", "0.5", "--nesterov", "--lr-min", "0.01",
                   "--powersgd-rank", "3", "--micro-batches", "4", "--metrics-every", "2", "--beta1", "0.8")
    assert result.returncode == 0, result
    notes = [line for line in result.stdout.splitlines() if line.startswith("note: ")]
    assert notes == ["note: --nesterov has no effect with --optimizer adamw", "note: --momentum has no effect with --optimizer adamw",
                     "note: --lr-min has no effect with --schedule constant",
                     "note: --powersgd-rank has no effect with --compress none",
                     "note: --micro-batches has no effect without --deterministic-world",
                     "note: --metrics-every has no effect without --metrics or --tensorboard"], notes


def test_few_images_for_batch_norm(_folder):
    def notes(model, *arguments):
        result = train("--data", "synthetic:16", "--max-steps", "1", "--model", model, *arguments)
        assert result.returncode == 0, result
        return [line for line in result.stdout.splitlines() if line.startswith("note: ")]

    few = "note: batch norm takes its statistics from 4 images at a time; below 8 they are poor: give a larger --batch-size"
    assert notes("resnet18-imagenet-stem", "--batch-size", "4") == [few]
    assert notes("resnet18-imagenet-stem", "--batch-size", "8") == []
    two = ["run", "--nproc-per-node", "2", "--no-python", TRAIN, "--data", "synthetic:16", "--max-steps", "1", "--model", "resnet18-imagenet-stem",
           "--batch-size", "4"]
    assert few + ", or --sync-batch-norm\n" in run([MUSTER, *two], timeout=60).stdout
    assert "note: batch norm" not in run([MUSTER, *two, "--sync-batch-norm"], timeout=60).stdout
    assert notes("small-cnn", "--batch-size", "4") == []


def test_config_files(folder):
    path = os.path.join(folder, "run.json")

    def config(content):
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return ["--config", path]

    refused("is no file", "--config", folder)
    refused("cannot read --config", "--config", os.path.join(folder, "none"))
    refused("is larger than a MiB", *config(" " * (1 << 20) + "{}"))
    refused('"checkpoint-dir" is empty; give a value, or leave it out', *config('{"no-resume": false, "checkpoint-dir": ""}'))
    refused('has "lr" twice', *config('{"data": "synthetic:64", "lr": 0.1, "lr": 0.2}'))
    for name in ("help", "config"):
        refused(f'"{name}" belongs on the command line', *config(json.dumps({name: False})))
    result = train(*config('{"data": "synthetic:64", "max-steps": 1.0, "batch-size": 8.0, "warmup-start": -1.0, "lr": 1.0e-3}'))
    assert result.returncode == 0 and "8 images per step and rank" in result.stdout and "at rate 0.001 " in result.stdout, result


def test_bucket_sizes(folder):
    trace = os.path.join(folder, "trace.json")

    def sums(mebibytes):
        """How many calls sum the gradients of a step."""
        run([MUSTER, "run", "--nproc-per-node", "2", "--no-python", TRAIN, *DATA, "--max-steps", "1", "--first-bucket-mib",
             mebibytes, "--profile", trace], timeout=60)
        with open(trace, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        return sum(event["name"] == "all_reduce" and event["ph"] == "X" for event in events) // 2

    assert [sums("0.01"), sums("1"), sums("100")] == [3, 2, 1]
    refused("--first-bucket-mib: '0' is outside of what is possible; give a number from 0.001 to 4096", *DATA, "--first-bucket-mib", "0")


def test_seed_of_compression(folder):
    """PowerSGD draws its first factors from the seed of the run, which a checkpoint names beside the run's own."""
    run([TRAIN, *DATA, "--max-steps", "1", "--compress", "powersgd", "--seed", "11", "--checkpoint-dir", folder], timeout=60)
    with open(os.path.join(folder, "000001-step-1", "manifest.json"), encoding="utf-8") as file:
        scalars = json.load(file)["scalars"]
    assert scalars["seed"] == "11" and ", seed 11, " in scalars["hook"], scalars


def test_precision(_folder):
    """Processors without instructions for bf16: oneDNN is told that this is one."""
    plain = {"OMP_NUM_THREADS": "1", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    result = run([TRAIN, *DATA, "--precision", "bf16"], check=False, timeout=60, **plain)
    assert result.returncode == 1 and "no instructions for bf16 (AVX512-BF16 or AMX); use fp32" in result.stderr, result
    result = run([TRAIN, *DATA, "--precision", "tf32"], check=False, timeout=60, OMP_NUM_THREADS="1")
    assert result.returncode == 1 and "tf32 is a precision of GPUs" in result.stderr, result
    result = run([TRAIN, *DATA, "--max-steps", "1"], timeout=60, OMP_NUM_THREADS="1")
    assert ", fp32, sgd" in result.stdout, result
    result = run([TRAIN, *DATA, "--precision", "auto", "--max-steps", "1"], timeout=60, **plain)
    assert ", fp32, sgd" in result.stdout, result


def test_threads(_folder):
    """The processors that a process may use, divided among the ranks that may use the same ones."""
    mine = sorted(os.sched_getaffinity(0))

    def threads_in(output):
        return int(re.search(r" (\d+) threads? each", output)[1])

    assert threads_in(run([TRAIN, *DATA, "--max-steps", "1"]).stdout) == len(mine)
    bound = run(["taskset", "-c", mine[-1], TRAIN, *DATA, "--max-steps", "1"])
    assert threads_in(bound.stdout) == 1, bound
    # A launcher's one thread is taken; where it leaves processors idle, that is said.
    job = [MUSTER, "run", "--nproc-per-node", "2", "--no-python", TRAIN, *DATA, "--max-steps", "1"]
    told = run(job).stdout
    assert threads_in(told) == 1 and ("leaves processors idle; --threads" in told) == (len(mine) >= 4), told
    assert threads_in(run(["env", "-u", "OMP_NUM_THREADS", *job[:5], "env", "-u", "OMP_NUM_THREADS", *job[5:]]).stdout) == \
        max(1, len(mine) // 2)


if __name__ == "__main__":
    run_tests(globals(), without="threads" if "--one-thread" in sys.argv else "")
