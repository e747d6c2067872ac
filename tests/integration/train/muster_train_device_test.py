#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster-train --device cuda, whole: over the plug-in's table, with a plug-in whose device is the host. Beside --device cpu.

scripts/check_gpu.sh runs it with the real plug-in on one GPU, which two ranks then share: MUSTER_TEST_REAL_GPU is set."""
import json
import os
import re
import signal
import subprocess
import tempfile

from interop import MUSTER, TRAIN, absent, clean_environment, float_tensors, run, run_tests

PLUGIN = os.environ["MUSTER_TEST_DEVICE_PLUGIN"]
REAL = "MUSTER_TEST_REAL_GPU" in os.environ
GPU = "GPU " if REAL else "GPU the host"
# The last step of an epoch is smaller; everything that a checkpoint has to hold. A GPU's own precision would be bf16.
TRAIN_IMAGES, TEST_IMAGES = 20, 4
TASK = ["--data", f"synthetic:{TRAIN_IMAGES}", "--global-batch", "8", "--crop-padding", "4", "--flip", "--lr", "0.02",
        "--schedule", "cosine", "--seed", "5", "--ema", "0.9", "--nesterov", "--weight-decay", "0.01", "--label-smoothing", "0.1",
        "--clip-norm", "0.5", "--precision", "fp32"]


def train(*arguments, ranks=1, check=True, **environment):
    environment = {"MUSTER_PLUGIN_PATH": PLUGIN, "MUSTER_TEST_GPUS": str(ranks), "OMP_NUM_THREADS": "1", **environment}
    command = [TRAIN, *arguments]
    if ranks > 1:
        command = [MUSTER, "run", "--nproc-per-node", str(ranks), "--no-python", *command]
    return run(command, check=check, **environment)


def figures(output):
    """Loss and accuracies of each epoch, and of the test."""
    return [tuple(map(float, found)) for found in re.findall(r"loss (\S+)  train (\S+) %  test (\S+) %", output)]


def parameter_hash(output):
    return re.search(r"parameter hash ([0-9a-f]{16})", output).group(1)


def compare(folder, *arguments, ranks=1, task=TASK):
    """The same run on both; what they tell and what they leave is the same but for rounding."""
    left = {}
    for device in ("cpu", "cuda"):
        export = os.path.join(folder, device + ".safetensors")
        output = train(*task, *arguments, "--device", device, "--export", export, ranks=ranks).stdout
        left[device] = (figures(output), float_tensors(export), output)
    assert GPU in left["cuda"][2], left["cuda"][2]
    rows = {name: dict(re.findall(r"^  (\S[a-z ]*?) +(\d+\.\d+) ms", output, re.MULTILINE)) for name, (_, _, output) in left.items()}
    assert rows["cpu"].keys() == rows["cuda"].keys() and min(float(rows["cuda"][name]) for name in ("forward", "backward")) > 0, rows
    assert left["cpu"][0] and left["cpu"][1].keys() == left["cuda"][1].keys(), left
    assert len(left["cuda"][0]) == len(left["cpu"][0]), left
    for ours, theirs in zip(left["cuda"][0], left["cpu"][0]):
        assert abs(ours[0] - theirs[0]) < 0.002, left
        # Other rounding may tip the answer for one image; 0.1 is what the figures are rounded to.
        for mine, other, images in zip(ours[1:], theirs[1:], (TRAIN_IMAGES, TEST_IMAGES)):
            assert abs(mine - other) <= 100 / images + 0.1, left
    for name, values in left["cpu"][1].items():
        assert len(values) == len(left["cuda"][1][name]), name
        difference = max(abs(a - b) for a, b in zip(values, left["cuda"][1][name]))
        assert difference < 2e-4, (name, difference)
    return left["cuda"][2]


def test_a_run_is_that_of_the_processor():
    with tempfile.TemporaryDirectory() as folder:
        compare(folder, "--epochs", "2")
        compare(folder, "--epochs", "1", "--accumulate", "2", "--optimizer", "adamw", "--lr", "0.001", "--epsilon", "0.001")
        output = compare(folder, "--epochs", "1", "--accumulate", "2", "--check-every", "1", ranks=2)
        assert "through the memory of the host" in output, output
        for compression in ("bf16", "fp16"):
            compare(folder, "--epochs", "1", "--compress", compression, ranks=2)


def test_activations_that_are_computed_again():
    task = [*TASK, "--epochs", "1", "--device", "cuda"]
    hashes = {parameter_hash(train(*task, "--checkpoint-activations", word).stdout) for word in ("none", "block", "2")}
    assert len(hashes) == 1, hashes


def test_a_deterministic_world():
    """The bits of one rank, which are not the processor's."""
    task = [*TASK, "--epochs", "1", "--deterministic-world", "--micro-batches", "4", "--device", "cuda"]
    hashes = {parameter_hash(train(*task, ranks=ranks).stdout) for ranks in (1, 2, 4)}
    assert len(hashes) == 1, hashes
    with tempfile.TemporaryDirectory() as folder:
        compare(folder, "--epochs", "1", "--deterministic-world", "--micro-batches", "4", ranks=2)


def test_compression_remembers():
    """PowerSGD compresses from step 11 on; what it remembers goes into a checkpoint and back."""
    task = [*TASK, "--epochs", "6", "--compress", "powersgd", "--device", "cuda"]
    whole = train(*task, ranks=2).stdout
    assert parameter_hash(whole) != parameter_hash(train(*TASK, "--epochs", "6", "--device", "cuda", ranks=2).stdout)
    with tempfile.TemporaryDirectory() as folder:
        train(*task, "--max-steps", "14", "--checkpoint-dir", folder, ranks=2)
        rest = train(*task, "--checkpoint-dir", folder, ranks=2).stdout
    assert "resumed from" in rest and "starts anew" not in rest, rest
    assert parameter_hash(rest) == parameter_hash(whole)


def test_checkpoints():
    """Stopped and resumed ends with the bits of a run that was not; also from a run of the processor, and back."""
    with tempfile.TemporaryDirectory() as folder:
        keep = os.path.join(folder, "keep")
        metrics = os.path.join(folder, "metrics")
        whole = train(*TASK, "--epochs", "2", "--device", "cuda")
        first = train(*TASK, "--epochs", "2", "--device", "cuda", "--max-steps", "2", "--checkpoint-dir", keep)
        assert parameter_hash(first.stdout) != parameter_hash(whole.stdout)
        rest = train(*TASK, "--epochs", "2", "--device", "cuda", "--checkpoint-dir", keep, "--metrics", metrics, "--metrics-every", "1",
                     "--profile", os.path.join(folder, "trace.json"))
        assert "resumed from" in rest.stdout, rest.stdout
        assert parameter_hash(rest.stdout) == parameter_hash(whole.stdout)
        assert figures(rest.stdout)[-1] == figures(whole.stdout)[-1]
        with open(metrics, encoding="utf-8") as file:
            steps = [json.loads(line) for line in file if '"step"' in line and '"loss"' in line]
        assert steps and all(step.get("loss", 0) > 0 for step in steps), steps
        with open(os.path.join(folder, "trace.json"), encoding="utf-8") as file:
            assert any(event.get("name") == "forward" for event in json.load(file)["traceEvents"])
        # A checkpoint does not know where it was made.
        other = train(*TASK, "--epochs", "2", "--device", "cpu", "--resume-from",
                      os.path.join(keep, sorted(name for name in os.listdir(keep) if name.endswith("-step-2"))[0]))
        assert "resumed from" in other.stdout
        assert abs(figures(other.stdout)[-1][0] - figures(whole.stdout)[-1][0]) < 0.002
        scored = train(*TASK, "--device", "cuda", "--eval-only", "--checkpoint-dir", keep).stdout
        assert re.search(r"test accuracy \S+ %", scored).group() == re.search(r"test accuracy \S+ %", whole.stdout).group()


def test_told_to_stop():
    with tempfile.TemporaryDirectory() as folder:
        command = [TRAIN, *TASK, "--device", "cuda", "--epochs", "1000", "--log-every", "1", "--checkpoint-dir", folder]
        environment = clean_environment(OMP_NUM_THREADS="1", MUSTER_PLUGIN_PATH=PLUGIN)
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if "step 2" in line:
                    process.send_signal(signal.SIGTERM)
                    break
            output = process.stdout.read()
            assert process.wait(60) == -signal.SIGTERM, output
        assert "told to stop after step" in output and ", checkpoint " in output, output
        assert any("-step-" in name for name in os.listdir(folder)), os.listdir(folder)


def test_what_cannot_be():
    quick = ["--data", "synthetic:20", "--global-batch", "8", "--max-steps", "1"]
    result = train(*quick, "--lr", "1000", "--max-steps", "9", "--device", "cuda", check=False)
    assert result.returncode == 1 and "the loss of rank 0 is no longer a number" in result.stderr, result
    assert result.stderr.count("\n") == 1, result.stderr
    result = train(*quick, "--device", "cuda", check=False, MUSTER_PLUGIN_PATH=absent())
    assert result.returncode == 1 and f"there is no {absent()}/libmuster_cuda.so" in result.stderr, result
    assert "--device cpu" in result.stderr, result
    if not REAL:
        result = train(*quick, "--device", "cuda", ranks=2, check=False, MUSTER_TEST_GPUS="1")
        assert result.returncode != 0 and "there is no device 1" in result.stderr, result
        result = train(*quick, "--device", "cuda", "--precision", "tf32", check=False, MUSTER_TEST_OLD_GPU="1")
        assert result.returncode == 1 and "has no TF32 (compute capability 8.0 and later); use --precision fp32" in result.stderr, result
        result = train(*quick, "--device", "cuda", "--precision", "bf16", check=False, MUSTER_TEST_OLD_GPU="1")
        assert result.returncode == 1 and "has no bf16 (compute capability 8.0 and later); use --precision fp16" in result.stderr, result
    result = train(*quick, "--device", "cpu", "--precision", "fp16", check=False)
    assert result.returncode == 1 and "fp16 is a precision of GPUs" in result.stderr, result
    result = train(*quick, "--device", "cuda", "--deterministic-world", check=False, MUSTER_CUDA_AUTOTUNE="1")
    assert result.returncode == 1 and "unset MUSTER_CUDA_AUTOTUNE" in result.stderr, result
    # Without a GPU in sight nobody looks for the plug-in.
    if not os.path.exists("/dev/nvidiactl") and not os.path.exists("/dev/dxg"):
        result = train(*quick, MUSTER_PLUGIN_PATH=absent())
        assert "thread each" in result.stdout and result.stderr == "", result


def test_precision():
    quick = ["--data", "synthetic:20", "--global-batch", "8", "--device", "cuda"]
    for flags, said in (([], ", bf16, "), (["--precision", "auto"], ", bf16, "), (["--precision", "tf32"], ", tf32, "),
                        (["--precision", "fp32"], ", fp32, "), (["--precision", "fp16"], ", fp16, ")):
        assert said in train(*quick, *flags, "--max-steps", "1").stdout, flags
    if not REAL:
        assert ", fp16, " in train(*quick, "--max-steps", "1", MUSTER_TEST_OLD_GPU="1").stdout
    # A run that a processor began in its own precision does not change it by itself.
    with tempfile.TemporaryDirectory() as folder:
        train(*quick[:4], "--device", "cpu", "--max-steps", "1", "--checkpoint-dir", folder)
        result = train(*quick, "--max-steps", "2", "--checkpoint-dir", folder, check=False)
        assert result.returncode == 1 and "give --precision fp32 to go on in it" in result.stderr, result
        train(*quick, "--max-steps", "2", "--checkpoint-dir", folder, "--precision", "fp32")


if __name__ == "__main__":
    run_tests(globals())
