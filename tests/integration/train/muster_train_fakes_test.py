#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster-train --device cuda with the real plug-ins, as users start it, on the fakes of CUDA, cuDNN and NCCL (tests/fakes): what ranks
whose gradients go through NCCL leave, checkpoints, and GPUs that fail in a step."""
import contextlib
import json
import os
import re
import sys
import tempfile
import time

from interop import MUSTER, ROOT, TRAIN, run, run_tests
from muster_train_device_test import compare, parameter_hash, train

TASK = ["--data", "synthetic:40", "--global-batch", "8", "--crop-padding", "4", "--flip", "--lr", "0.02", "--seed", "5"]
CUDA = [*TASK, "--device", "cuda"]
# From the failure of a GPU to the end of the job: NCCL is revoked in at most 2 s, and the store carries the reason.
END_SECONDS = 20


@contextlib.contextmanager
def fakes(**variables):
    """The fakes for what is started inside, told `variables`; they must have had no rule to complain of."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        variables["FAKE_GPU_DIR"] = folder
        os.environ.update(variables)
        try:
            yield
        finally:
            for name in variables:
                del os.environ[name]
        broken = os.path.join(folder, "violations")
        assert not os.path.exists(broken), open(broken, encoding="utf-8").read()


def test_ranks_over_nccl_leave_what_one_rank_leaves():
    for model in ("small-cnn", "resnet18-imagenet-stem"):
        with fakes(FAKE_CUDA_SEED="1"):
            run([sys.executable, os.path.join(ROOT, "tests", "gpu", "compare_ranks.py"), model, 2])


def test_version_tells_what_is_found(_folder):
    """Libraries with their files, and the GPU; with a cuDNN for a newer CUDA than the driver's, why there is none."""
    def version(*flags):
        return run([TRAIN, "--version", *flags], MUSTER_PLUGIN_PATH=os.environ["MUSTER_TEST_DEVICE_PLUGIN"]).stdout

    with fakes(FAKE_CUDA_DRIVER="13000", FAKE_CUDNN_CUDART="12080"):
        said = version()
        assert re.search(r"^driver: for CUDA 13\.0 \(/.*/libcuda\.so\.1\)$", said, re.M), said
        assert re.search(r"^cuDNN: 9\..* for CUDA 12\.8 \(/.*/libcudnn\.so\.9\)$", said, re.M), said
        assert re.search(r"^NCCL: 2\..* \(/.*/libnccl\.so\.2\)$", said, re.M) and "GPU: Fake of a GPU\n" in said, said
    with fakes(FAKE_CUDA_DRIVER="12020", FAKE_CUDNN_CUDART="13000"):
        told = json.loads(version("--json"))
    assert told["schema"] == "muster.train-version" and told["gpu"] is None, told
    assert [library["version"] for library in told["libraries"]][0] == "12.2", told
    assert "cuDNN that was loaded is made for CUDA 13.0, and the driver is for CUDA 12.2; install" in told["reason_against"], told


def test_networks_are_those_of_the_processor(folder):
    with fakes(FAKE_CUDA_SEED="2"):
        compare(folder, "--model", "resnet18", "--lr", "0.0005", "--max-steps", "2", "--global-batch", "4", "--data", "synthetic:20",
                "--precision", "fp32", task=[])
        compare(folder, "--max-steps", "4", "--precision", "fp32", ranks=2, task=TASK)


def test_bits(folder):
    """The same in each run, after a restart, and in a deterministic world of one rank and of two."""
    keep = ["--checkpoint-dir", os.path.join(folder, "keep")]
    fixed = ["--deterministic-world", "--micro-batches", "4", "--max-steps", "3"]
    with fakes(FAKE_CUDA_SEED="3"):
        whole = train(*CUDA, "--epochs", "2", ranks=2).stdout
        assert "memory of the host" not in whole, whole
        first = train(*CUDA, "--epochs", "2", *keep, "--max-steps", "7", ranks=2).stdout
        rest = train(*CUDA, "--epochs", "2", *keep, ranks=2).stdout
        assert parameter_hash(first) != parameter_hash(whole), first
        assert "resumed from" in rest and parameter_hash(rest) == parameter_hash(whole), (rest, whole)
        again = train(*CUDA, "--epochs", "2", "--checkpoint-activations", "block", ranks=2).stdout
        assert parameter_hash(again) == parameter_hash(whole), (again, whole)
        hashes = {parameter_hash(train(*CUDA, *fixed, ranks=ranks).stdout) for ranks in (1, 2)}
        assert len(hashes) == 1, hashes


def test_fp16_goes_on_after_a_kill(folder):
    """On an old GPU, whose precision fp16 is, and the drivers of three CUDAs: two ranks over NCCL, of which one is killed; the job goes on from a
    checkpoint with the scale of its loss, and has the bits of a run that nothing happened to."""
    half = [*TASK, "--device", "cuda", "--optimizer", "adam", "--lr", "0.001", "--epochs", "2"]
    in_first_round = 'test "$TORCHELASTIC_RESTART_COUNT" = 0 || unset MUSTER_FAULT; exec "$@"'
    with fakes(FAKE_CUDA_CAPABILITY="75"):
        whole = train(*half, ranks=2).stdout
        assert ", fp16, " in whole, whole
    for cuda in ("12020", "12080", "13000"):
        keep = os.path.join(folder, cuda)
        with fakes(FAKE_CUDA_DRIVER=cuda, FAKE_CUDNN_CUDART=cuda, FAKE_CUDA_CAPABILITY="75"):
            said = run([MUSTER, "run", "--max-restarts", "1", "--nproc-per-node", "2", "--no-python", "sh", "-c", in_first_round, "sh", TRAIN, *half,
                        "--checkpoint-dir", keep, "--checkpoint-every", "1"], MUSTER_FAULT="kill@1:all_reduce:13", OMP_NUM_THREADS="1",
                       MUSTER_PLUGIN_PATH=os.environ["MUSTER_TEST_DEVICE_PLUGIN"])
        output = said.stdout + said.stderr
        assert "MUSTER_FAULT: rank 1" in output and "resumed from" in output, output
        assert parameter_hash(said.stdout) == parameter_hash(whole), (output, whole)
        newest = max(os.listdir(keep))
        with open(os.path.join(keep, newest, "manifest.json"), encoding="utf-8") as file:
            scalars = json.load(file)["scalars"]
        assert scalars["loss_scale"] >= 1 and scalars["loss_scale_steps"] + scalars["skipped_steps"] > 0, scalars
    with fakes(FAKE_CUDA_CAPABILITY="75"):
        said = train("--model", "resnet18", "--device", "cuda", "--precision", "fp16", "--data", "synthetic:20", "--global-batch", "4",
                     "--max-steps", "2", ranks=2).stdout
        assert ", fp16, " in said and "GPU Fake of a GPU" in said, said


def test_a_step_that_cannot_be_recorded(_folder):
    """Where one of two ranks cannot record a step, both go on without, and end with the same parameters."""
    with fakes():
        wanted = parameter_hash(train(*CUDA, "--epochs", "1", ranks=2).stdout)
    for place in ("capture#1", "end of capture#1", "graph#1"):
        with fakes(FAKE_CUDA_FAULT=f"2@{place}:1"):
            said = train(*CUDA, "--epochs", "1", ranks=2).stdout
        assert parameter_hash(said) == wanted, (place, said)
        assert said.count("steps are not recorded on the GPU, and so take longer: rank 1: ") == 1, (place, said)
    # Parts in which ranks do not call each other are another matter: those of the other rank are recorded.
    parts = [*CUDA, "--accumulate", "2", "--global-batch", "8", "--epochs", "1"]
    with fakes():
        wanted = parameter_hash(train(*parts, ranks=2).stdout)
    with fakes(FAKE_CUDA_FAULT="2@capture#1:1"):
        result = train(*parts, ranks=2)
    assert parameter_hash(result.stdout) == wanted, result
    assert "muster-train: rank 1: note: steps are not recorded on the GPU" in result.stderr, result


def check_failure(folder, fault, step, cause, advice, **variables):
    """Two ranks, of which GPU 1 fails: one line that names rank, step, cause and what to do; the job ends soon, because of that rank."""
    report = os.path.join(folder, "report.json")
    begin = time.monotonic()
    with fakes(FAKE_CUDA_FAULT=fault):
        result = run([MUSTER, "run", "--nproc-per-node", "2", "--report", report, "--no-python", TRAIN, *CUDA, "--epochs", "100"],
                     check=False, MUSTER_PLUGIN_PATH=os.environ["MUSTER_TEST_DEVICE_PLUGIN"], OMP_NUM_THREADS="1", **variables)
    seconds = time.monotonic() - begin
    said = re.findall(r"muster-train: (.*)", result.stderr)
    assert result.returncode == 1 and len(said) == 1, (fault, result)
    assert said[0].startswith(f"rank 1: step {step}: ") and cause in said[0] and advice in said[0], (fault, said)
    with open(report, encoding="utf-8") as file:
        root = json.load(file)["root_cause"]
    assert root["rank"] == 1 and said[0].removeprefix("rank 1: ") in root["error"]["message"], (fault, root)
    assert seconds < END_SECONDS, (fault, seconds, result)


def test_a_gpu_that_fails_in_a_step(folder):
    ecc, lost, full = (214, "uncorrectable ECC error"), (999, "unknown error"), (2, "out of memory")
    # The first step is made call by call, the second is recorded and launched, the others are launched.
    for (number, cause), place, step, advice, variables in (
            (ecc, "muster_cross_entropy#1", 1, "grep Xid", {}),
            (ecc, "muster_cross_entropy#4", 4, "grep Xid", {}),
            (ecc, "muster_cross_entropy#2", 2, "grep Xid", {"MUSTER_BACKEND": "shm"}),
            (lost, "muster_sgd_step#5", 3, "nvidia-smi", {}),  # of two buckets
            (full, "muster_cross_entropy#1", 1, "nvidia-smi", {}),
            (full, "graph#2", 2, "--batch-size", {})):  # the first is the trial
        check_failure(folder, f"{number}@{place}:1", step, f"CUDA error {number}, {cause}", advice, **variables)


if __name__ == "__main__":
    run_tests(globals())
