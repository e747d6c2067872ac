#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster-train --dry-run: its estimate of memory beside what processes take, and what it refuses."""
import json
import os
import re

from interop import TRAIN, run, run_tests

CPU = ["--device", "cpu", "--threads", "1"]


def train(*arguments, **environment):
    return run([TRAIN, *arguments], check=False, timeout=120, OMP_NUM_THREADS="1", **environment)


def estimate(*arguments, **environment):
    result = train(*arguments, "--dry-run", "--json", **environment)
    assert result.returncode == 0, result
    answer = json.loads(result.stdout)
    assert answer["schema"] == "muster.memory" and answer["version"] == 1, answer
    parts = [size for kind, size in answer["bytes"].items() if kind != "total"]
    assert answer["bytes"]["total"] == sum(parts), answer
    return answer


def megabytes(text, row):
    return float(re.search(rf"^  {row} +([\d.]+) MB$", text, re.MULTILINE)[1])


# Pages of the program's own file that a run touches first: how many of them the kernel has mapped before depends on how the file came
# into its cache.
OWN_FILE_MB = 2


def test_estimates_beside_processes(folder):
    """Within 10 % (vit-tiny: 15 % below) of the most that the process had, less what it had before it made anything, and OWN_FILE_MB."""
    for model, sizes in (("small-cnn", (16, 64)), ("mlp-8", (16, 64)), ("vit-tiny", (24, 48)), ("resnet18", (8, 16))):
        for size in sizes:
            # One step of a whole batch and one of what is left; the same for the test images.
            flags = [*CPU, "--model", model, "--data", f"synthetic:{size * 5 // 4 + 10}", "--batch-size", str(size), "--epochs", "1"]
            if size == 64:
                flags += ["--checkpoint-dir", os.path.join(folder, model)]
            answer = estimate(*flags)
            result = train(*flags)
            assert result.returncode == 0, result
            taken = megabytes(result.stdout, "peak of the process") - megabytes(result.stdout, "process before the run")
            ratio = answer["bytes"]["total"] / 1e6 / taken
            least = 0.85 * (taken - OWN_FILE_MB) / taken
            print(f"{model}, {size} images: {ratio:.3f} of the process")
            assert least < ratio < 1.1, (model, size, ratio, answer["bytes"], result.stdout)
            layers = sum(layer["bytes"] for layer in answer["activations"])
            assert layers <= answer["bytes"]["activations"], answer
            assert 1 <= answer["largest_batch"] <= size * 5 // 4 + 10 and answer["free_bytes"] > 0, answer


def test_options(_folder):
    flags = [*CPU, "--data", "synthetic:1000", "--batch-size", "20"]
    plain = estimate(*flags)["bytes"]
    adam = estimate(*flags, "--optimizer", "adam", "--ema", "0.9", "--accumulate", "2")["bytes"]
    assert plain["average"] == plain["waiting_gradients"] == plain["other_replicas"] == 0, plain
    assert adam["optimizer_state"] == 2 * plain["optimizer_state"], (plain, adam)
    assert adam["average"] == adam["waiting_gradients"] == adam["gradients"] == plain["gradients"], (plain, adam)
    replicas = estimate(*flags, "--parallel", "dp", "--replicas", "2")
    assert replicas["form"] == "dp" and replicas["bytes"]["other_replicas"] > 2 * 4 * 545098, replicas
    assert replicas["bytes"]["activations"] < plain["activations"], (plain, replicas)
    two = estimate(*flags[:4], "--data", "synthetic:1000", "--global-batch", "40", MUSTER_RANK="0", MUSTER_WORLD_SIZE="2")
    assert two["ranks"] == 2 and two["batch_size"] == 20 and two["bytes"]["activations"] == plain["activations"], two
    # The others of a job say nothing.
    other = train(*flags, "--dry-run", MUSTER_RANK="1", MUSTER_WORLD_SIZE="2")
    assert other.returncode == 0 and other.stdout == "", other
    text = train(*flags, "--dry-run").stdout
    assert re.search(r"^largest batch that fits into [\d.]+ MB of free memory: 1000$", text, re.MULTILINE), text
    assert megabytes(text, "total") == round(plain["total"] / 1e6, 1) and "conv2" in text and "nothing was trained" in text, text


def test_bad_input(folder):
    for text, flags in (("--json needs --dry-run", ["--data", "synthetic:64", "--json"]),
                        ("synthetic:N with N from 10", ["--data", "synthetic:3", "--dry-run"]),
                        ("has none of data_batch_1.bin", ["--data", folder, "--dry-run"]),
                        ("--global-batch 9 does not divide by 1 ranks x 2", ["--data", "synthetic:64", "--dry-run", "--global-batch",
                                                                             "9", "--accumulate", "2"]),
                        ("decay", ["--data", "synthetic:64", "--dry-run", "--weight-decay", "-1"])):
        result = train(*CPU, *flags)
        assert result.returncode == 2 and text in result.stderr and result.stderr.count("\n") == 1, (text, result)


def test_shards_within_hosts(_folder):
    """A rank of four, two of which are here, takes what one of two takes."""
    flags = [*CPU, "--data", "synthetic:64", "--batch-size", "2", "--model", "mlp-8", "--parallel", "fsdp"]
    job = {"MUSTER_RANK": "0", "MUSTER_WORLD_SIZE": "4"}
    of_copies = estimate(*flags, "--shard-within", "host", **job, MUSTER_LOCAL_WORLD_SIZE="2")["bytes"]
    of_two = estimate(*flags, MUSTER_RANK="0", MUSTER_WORLD_SIZE="2")["bytes"]
    for kind in ("parameters", "gradients", "optimizer_state"):
        assert of_copies[kind] == of_two[kind] > estimate(*flags, **job)["bytes"][kind], (kind, of_copies, of_two)
    for text, environment in (("which nothing tells; start it by muster run", job),
                              ("this one has 3 of 4; start them so, or give --shard-within all", job | {"MUSTER_LOCAL_WORLD_SIZE": "3"})):
        result = train(*flags, "--shard-within", "host", "--dry-run", **environment)
        assert result.returncode == 2 and text in result.stderr and result.stderr.count("\n") == 1, (text, result)


def test_what_replicas_refuse(_folder):
    flags = ["--data", "synthetic:64", "--parallel", "dp"]
    for text, more in (("--parallel dp computes on processors, not on several GPUs", ["--device", "cuda"]),
                       ("--sync-batch-norm cannot be had with --parallel dp", ["--sync-batch-norm"]),
                       ("--deterministic-world cannot be had", ["--deterministic-world", "--global-batch", "8"]),
                       ("--replicas", ["--replicas", "65"])):
        result = train(*flags, *more)
        assert result.returncode == 2 and text in result.stderr and result.stderr.count("\n") == 1, (text, result)
    result = train(*flags, RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="1", LOCAL_RANK="0", LOCAL_WORLD_SIZE="2")
    assert result.returncode == 2 and "one process with replicas, and this job has 2 ranks" in result.stderr, result


def test_what_replicas_tell(folder):
    metrics = f"{folder}/metrics.jsonl"
    result = train(*CPU, "--data", "synthetic:40", "--epochs", "1", "--batch-size", "10", "--parallel", "dp", "--replicas", "3",
                   "--metrics", metrics)
    assert result.returncode == 0 and "3 replicas in this process, a step:" in result.stdout, result
    assert "exposed communication" in result.stdout and "other replicas" in result.stdout, result.stdout
    with open(metrics, encoding="utf-8") as lines:
        events = {event["event"]: event for event in map(json.loads, lines)}
    parameters = 4 * events["start"]["parameters"]
    told = events["replicas"]
    assert told["replicas"] == events["start"]["replicas"] == 3, events
    assert told["parameter_bytes_out"] == told["gradient_bytes_in"] == 2 * parameters, told
    assert told["first_bytes"] > told["other_bytes"] > 2 * parameters and told["copying_ms"] > 0 < told["adding_ms"], told


if __name__ == "__main__":
    run_tests(globals())
