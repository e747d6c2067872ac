#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that were started with different options, images or processors; runs that go on from a checkpoint of another kind of run."""
import os
import re
import struct
import sys

from interop import TRAIN, muster_run, run_tests

RECORD = 3073
THREADS = "1" if "--one-thread" in sys.argv else "2"
TASK = ["--data", "synthetic:64", "--max-steps", "2", "--batch-size", "16"]


def job(*arguments, ranks=2, **environment):
    return muster_run(["--nproc-per-node", ranks, TRAIN, *arguments], check=False, **environment)


def job_of_two(first, second, *common, before=""):
    """Rank 1 gets other flags than rank 0; `before` is shell for rank 1."""
    script = f'test "$RANK" = 0 && set -- "$@" {first}; test "$RANK" = 1 && {{ {before or ":"}; set -- "$@" {second}; }}; ' \
             'exec "$@"'
    return muster_run(["--nproc-per-node", "2", "--no-python", "sh", "-c", script, "sh", TRAIN, *common], check=False)


def require(result, text):
    """One rank said it on one line, and nobody trained."""
    said = [line for line in result.stderr.splitlines() if line.startswith("muster-train: ")]
    assert result.returncode == 1 and len(said) == 1 and text in said[0], (text, result)
    assert "parameter hash" not in result.stdout, result.stdout


def test_options_of_ranks(_folder):
    for first, second, text in (("--lr 0.1", "--lr 0.2", "rank 0 has --lr 0.1, rank 1 has --lr 0.2"),
                                ("", "--sync-batch-norm", "rank 0 has --sync-batch-norm (off), rank 1 has --sync-batch-norm (on)"),
                                ("--seed 1", "", "rank 0 has --seed 1, rank 1 has --seed 0"),
                                ("", "--precision auto", "rank 0 has --precision default, rank 1 has --precision auto"),
                                ("", "--time-limit 5", "has --time-limit 0, rank 1 has --time-limit 5"),
                                ("", "--export x", "rank 0 has --export (not given), rank 1 has --export (given)"),
                                ("", "--data synthetic:96", "rank 0 has images with hash ")):
        require(job_of_two(first, second, *TASK), text)
    # Where bits are not to depend on the world, they must not depend on threads.
    require(job_of_two("--threads 1", "--threads 2", *TASK[:2], "--deterministic-world", "--global-batch", "16"),
            "rank 0 has --threads 1 and --deterministic-world, rank 1 has --threads 2 and")


def test_what_ranks_may_have_of_their_own(_folder):
    result = job_of_two("--lr 0.1 --flip --threads 1", f"--lr 1e-1 --flip=true --threads {THREADS} --loader-threads 0 --log-every 1", *TASK)
    assert result.returncode == 0 and "parameter hash" in result.stdout, result
    said = re.search(r"^note: rank 0 computes with \S+ on 1 thread, rank 1 with \S+ on 2 threads: bits depend", result.stdout,
                     re.MULTILINE)
    assert bool(said) == (THREADS == "2"), result.stdout


def test_precision_of_all(_folder):
    """Where one rank's processor has no bf16, no rank computes in it."""
    result = job_of_two("", "", *TASK, "--precision", "auto", before="export ONEDNN_MAX_CPU_ISA=AVX2")
    assert result.returncode == 0 and ", fp32, sgd" in result.stdout, result


def write_images(folder, label):
    os.makedirs(folder, exist_ok=True)
    for name, count in (("data_batch_1", 64), ("test_batch", 8)):
        with open(os.path.join(folder, name + ".bin"), "wb") as file:
            file.write(b"".join(struct.pack("B", (label + i) % 10) + bytes([i % 251]) * (RECORD - 1) for i in range(count)))


def test_checkpoint_of_other_images(folder):
    """As many as before, other labels."""
    data, place = os.path.join(folder, "data"), os.path.join(folder, "checkpoints")
    write_images(data, 0)
    task = ["--data", data, "--checkpoint-dir", place, "--batch-size", "16"]
    assert job(*task, "--max-steps", "1").returncode == 0
    write_images(data, 1)
    require(job(*task), "000001-step-1 is of a run with other images (hash ")
    write_images(data, 0)
    assert "resumed from" in job(*task, "--max-steps", "2").stdout


def test_checkpoint_of_another_computation(folder):
    """What changes the bits is said; a precision that nobody chose must not change."""
    task = [*TASK[:2], "--batch-size", "16", "--checkpoint-dir", folder]
    assert job(*task, "--max-steps", "1", "--threads", "1").returncode == 0
    result = job(*task, "--max-steps", "2", "--threads", THREADS, "--flip", "--crop-padding", "4", ONEDNN_MAX_CPU_ISA="SSE41")
    assert result.returncode == 0, result
    changed = ["threads 1, this run has 2"] if THREADS == "2" else []
    for text in (*changed, "flips off, this run has on", "crop padding 0, this run has 4"):
        assert f"the checkpoint was made with {text}" in result.stdout, result.stdout
    assert re.search("was made with instructions .*, this run has sse41", result.stdout), result.stdout
    if ", bf16, " not in job(*TASK, "--precision", "auto").stdout:
        return  # this machine has no bf16 to choose
    result = job(*task, "--precision", "auto")
    assert result.returncode == 1 and "is of a run in fp32, and this machine's own choice is bf16; give --precision fp32" \
        in result.stderr, result
    result = job(*task, "--max-steps", "3", "--precision", "bf16")
    assert result.returncode == 0 and "with precision fp32, this run has bf16" in result.stdout, result


if __name__ == "__main__":
    run_tests(globals())
