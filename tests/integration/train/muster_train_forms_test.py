#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster-train --parallel from outside: the bits of ddp over Gloo, restarts in other forms, metrics, and what is refused."""
import json
import os
import re

from interop import MUSTER, TRAIN, run, run_tests

TASK = ["--data", "synthetic:45", "--batch-size", "8", "--epochs", "2", "--clip-norm", "0.5"]
FORMS = ["zero1", "zero2", "fsdp", "fsdp --unit-mb 1 --prefetch-units 2"]


def train(*arguments, ranks=2, check=True, **environment):
    return run([MUSTER, "run", "-n", str(ranks), TRAIN, *arguments], check=check, OMP_NUM_THREADS="1", **environment)


def parameter_hash(output):
    return re.search(r"^parameter hash ([0-9a-f]{16})$", output, re.MULTILINE)[1]


def test_bits_over_gloo():
    expected = parameter_hash(train(*TASK, MUSTER_BACKEND="gloo").stdout)
    for form in FORMS:
        assert parameter_hash(train(*TASK, "--parallel", *form.split(), MUSTER_BACKEND="gloo").stdout) == expected, form


def test_restarts(folder):
    """In another form each time, up to one rank, which has no shards."""
    keep = ["--checkpoint-dir", os.path.join(folder, "keep")]
    whole = train(*TASK).stdout
    for form, steps in (("fsdp", 2), ("zero1", 4), ("zero2", 6)):
        output = train(*TASK, *keep, "--parallel", form, "--max-steps", str(steps)).stdout
    assert "resumed from" in output and parameter_hash(output) == parameter_hash(whole), (output, whole)
    weights = os.path.join(folder, "weights")
    alone = train(*TASK, *keep, "--parallel", "fsdp", "--export", weights, ranks=1).stdout
    assert parameter_hash(alone) == parameter_hash(whole) and os.path.getsize(weights) > 2_000_000, alone


def test_metrics(folder):
    """What a rank sends and keeps, by form."""
    found = {}
    for form in ("ddp", "fsdp"):
        path = os.path.join(folder, form)
        train(*TASK, "--model", "mlp-8", "--max-steps", "1", "--parallel", form, "--metrics", path)
        with open(path, encoding="utf-8") as file:
            lines = {line["event"]: line for line in map(json.loads, file)}
        found[form] = lines["memory"] | {"payload": lines["step"]["payload_bytes"]}
    assert found["ddp"]["parameters"] > 1.3 * found["fsdp"]["parameters"], found
    assert found["ddp"]["optimizer_state"] > 1.9 * found["fsdp"]["optimizer_state"], found
    assert 1.49 < found["fsdp"]["payload"] / found["ddp"]["payload"] < 1.51, found


def test_refused():
    for arguments, text in ((["--compress", "bf16"], "--parallel fsdp cannot have --compress bf16"),
                            (["--deterministic-world", "--global-batch", "16"], "cannot have --deterministic-world"),
                            (["--device", "cuda"], "cannot have --device cuda")):
        result = run([TRAIN, "--data", "synthetic:45", "--parallel", "fsdp", *arguments], check=False)
        assert result.returncode == 2 and text in result.stderr and result.stdout == "", result
    result = run([TRAIN, "--data", "synthetic:45", "--parallel", "zero4"], check=False)
    assert result.returncode == 2 and "--parallel" in result.stderr and "zero2" in result.stderr, result
    script = f'exec {TRAIN} {" ".join(TASK)} --parallel $([ $RANK = 0 ] && echo zero1 || echo fsdp)'
    result = run([MUSTER, "run", "-n", "2", "sh", "-c", script], check=False)
    assert "rank 0 has --parallel zero1, rank 1 has --parallel fsdp" in result.stderr, result.stderr


def test_a_run_that_diverges_says_so():
    for form in ("ddp", "fsdp"):
        result = train("--data", "synthetic:200", "--batch-size", "8", "--lr", "1000", "--parallel", form, check=False)
        assert result.returncode == 1 and "no longer a number" in result.stderr, result.stderr


if __name__ == "__main__":
    run_tests(globals())
