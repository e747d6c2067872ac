#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs whose input is wrong: one rank says what, where and what to do, the job ends with its code, and the last good checkpoint
stays."""
import os
import resource
import signal
import stat
import struct
import subprocess
import threading

from interop import MUSTER, TRAIN, absent, clean_environment, muster_run, run_tests, sanitized
from processes import children

RECORD = 3073


def job(*arguments, ranks=2):
    return muster_run(["--nproc-per-node", ranks, TRAIN, "--threads", "1", *arguments], check=False)


def require(result, text, code=1):
    """The job failed for this reason, which one rank said on one line and the launcher's report repeats."""
    said = [line for line in result.stderr.splitlines() if line.startswith("muster-train: ")]
    assert result.returncode == code and len(said) == 1 and text in said[0], (text, result)
    assert f"exit code  {code}" in result.stderr and "parameter hash" not in result.stdout, result
    return said[0]


def write(folder, **files):
    for name, content in files.items():
        with open(os.path.join(folder, name + ".bin"), "wb") as file:
            file.write(content)


def records(*labels):
    return b"".join(struct.pack("B", label) + bytes(RECORD - 1) for label in labels)


def checkpoints(folder):
    return sorted(name for name in os.listdir(folder) if name != ".lock")


def test_data(folder):
    require(job("--data", os.path.join(folder, "none")), "none does not exist; give the folder with")
    require(job("--data", folder), f"{folder} has none of data_batch_1.bin to data_batch_5.bin; give the folder with")
    write(folder, data_batch_1=records(1, 2, 3)[:-1], test_batch=records(1))
    require(job("--data", folder), "data_batch_1.bin (9218 bytes) is not a whole number of 3073-byte records")
    write(folder, data_batch_1=b"")
    require(job("--data", folder), "data_batch_1.bin (0 bytes) is empty; copy it again")
    write(folder, data_batch_1=records(1, 2, 3), data_batch_2=records(0, 9, 10, 3))
    require(job("--data", folder), "data_batch_2.bin: record 2 has label 10, labels go from 0 to 9")
    os.remove(os.path.join(folder, "data_batch_2.bin"))
    require(job("--data", folder, ranks=4), "4 ranks for 3 training images, so some would never have one; start fewer ranks")
    os.remove(os.path.join(folder, "test_batch.bin"))
    require(job("--data", folder), "test_batch.bin: No such file or directory; give the folder with")


def test_data_of_one_rank(folder):
    """As on hosts that have disks of their own: the rank that lacks its files says so, and ends the others."""
    write(folder, data_batch_1=records(1, 2, 3), test_batch=records(1))
    script = f'test "$RANK" = 1 && data=none || data={folder}; exec {TRAIN} --data $data'
    said = require(muster_run(["--nproc-per-node", "3", "--no-python", "sh", "-c", script], check=False), "none does not exist")
    assert said.startswith("muster-train: rank 1: "), said


def test_flags(_folder):
    for flags, text in ((["--batch-size", "0"], "--batch-size: '0' is outside of what is possible; give a whole number from 1 to 65536"),
                        (["--lr", "x"], "--lr: 'x' is not a number; give one from 0 to 1000"),
                        (["--batch-size", "99999999999"], "--batch-size: '99999999999' is outside of what is possible"), (["--modle", "x"], "did you mean '--model'?")):
        require(job("--data", "synthetic:64", *flags), text, code=2)
    require(job("--data", "synthetic:64", "--global-batch", "3"), "--global-batch 3 does not divide by 2 ranks; give a multiple")


def test_checkpoint_of_another_run(folder):
    task = ["--data", "synthetic:64", "--epochs", "1", "--checkpoint-dir", folder]
    assert job(*task).returncode == 0
    kept = checkpoints(folder)
    for flags, text in ((["--model", "resnet18-imagenet-stem"], "model small-cnn, this one has resnet18-imagenet-stem; give what it was made"),
                        (["--seed", "5"], "seed 0"), (["--optimizer", "adamw"], "optimizer sgd")):
        said = require(job(*task, *flags), f"000001-step-1 is of a run with {text}")
        assert said.startswith("muster-train: rank 0: ") and checkpoints(folder) == kept
    assert "resumed from" not in job(*task, "--no-resume").stdout


def test_diverged(folder):
    """A loss that is no number stops all ranks; the checkpoint before stays, even where only one is kept and each step has
    one."""
    task = ["--data", "synthetic:320", "--batch-size", "16", "--checkpoint-dir", folder, "--keep", "1"]
    assert job(*task, "--epochs", "1").returncode == 0
    kept = checkpoints(folder)
    assert kept == ["000001-step-10"], kept
    said = require(job(*task, "--epochs", "2", "--checkpoint-every", "1", "--lr", "1000"), "is no longer a number, first in layer ")
    rank = said.split()[2][:-1]
    assert said.startswith(f"muster-train: rank {rank}: step ") and f"the loss of rank {rank} is" in said, said
    failed = int(said.split("step ")[1].split(":")[0])
    # Of the step that made the loss what it is there must not be one.
    assert len(checkpoints(folder)) == 1 and int(checkpoints(folder)[0].split("-")[-1]) < failed - 1, (said, checkpoints(folder))


def test_places_that_cannot_be_written(folder):
    """What is written after the training is tried before it."""
    for flag, text in (("--export", f"--export: cannot make {absent()}/.writing-"),
                       ("--profile", f"cannot write the trace {absent()}/x: ")):
        result = job("--data", "synthetic:64", "--epochs", "1", flag, f"{absent()}/x")
        require(result, text)
        assert "epoch 1/1" not in result.stdout, result
    kept = os.path.join(folder, "trace")
    with open(kept, "w", encoding="ascii") as file:
        file.write("before")
    require(job("--data", "synthetic:64", "--profile", kept, "--export", folder), f"cannot write {folder}: Is a directory")
    with open(kept, encoding="ascii") as file:
        assert file.read() == "before"
    assert os.listdir(folder) == ["trace"], os.listdir(folder)


def test_outputs_that_are_no_files(folder):
    """A device or a pipe of that name stays what it is; what a symbolic link leads to is written, and the link stays."""
    pipe = os.path.join(folder, "pipe")
    os.mkfifo(pipe)
    for flag, path, text in (("--export", pipe, f"--export: cannot write {pipe}: Is a pipe; give the name of a file"),
                             ("--export", "/dev/null", "--export: cannot write /dev/null: Is a device; give"),
                             ("--profile", "/dev/null", "cannot write the trace /dev/null: Is a device; give"),
                             ("--metrics", pipe, f"cannot write metrics to {pipe}: nobody reads it; give")):
        result = job("--data", "synthetic:64", "--epochs", "1", flag, path)
        require(result, text)
        assert "epoch 1/1" not in result.stdout, result
    assert stat.S_ISFIFO(os.stat(pipe).st_mode) and stat.S_ISCHR(os.stat("/dev/null").st_mode)
    places = {flag: os.path.join(folder, flag[2:]) for flag in ("--export", "--profile", "--metrics")}
    for place in places.values():
        os.symlink(place + ".real", place)
    result = job("--data", "synthetic:64", "--epochs", "1", *(word for item in places.items() for word in item), ranks=1)
    assert result.returncode == 0, result
    for place in places.values():
        assert os.path.islink(place) and os.path.getsize(place + ".real") > 0, place


def test_out_of_memory(_folder):
    if sanitized():  # they take more room than there is
        return
    script = f'ulimit -v 1200000; exec {TRAIN} "$@"'
    task = ["--threads", "1", "--data", "synthetic:8000", "--model", "resnet18", "--batch-size", "4000"]
    for form, advice in (("ddp", "--parallel fsdp keeps a part of it on each rank"), ("fsdp", "a unit of it is too large, --prefetch-units 0")):
        said = require(muster_run(["--nproc-per-node", "2", "--no-python", "sh", "-c", script, "sh", *task, "--parallel", form], check=False),
                       " of it, and got no more for steps of --batch-size 4000; give a smaller one")
        assert " MB of it" in said and advice in said, said


def start_worker_script(folder):
    """A worker that writes down its process id, and gets an error in place of a signal where a file grows beyond its bound."""
    path = os.path.join(folder, "worker.sh")
    with open(path, "w", encoding="ascii") as file:
        file.write(f'trap "" XFSZ\necho $$ > {folder}/pid.$RANK\nexec {TRAIN} "$@"\n')
    return path


def test_silent_store(folder):
    """A store that no longer answers does not hold back why a rank failed: a bound on the size of files stands for a full disk."""
    place = os.path.join(folder, "checkpoints")
    task = ["--threads", "1", "--data", "synthetic:640", "--batch-size", "8", "--epochs", "1000", "--checkpoint-dir", place]
    with subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", "--no-python", "sh", start_worker_script(folder), *task],
                          env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        lines = iter(process.stdout)
        next(line for line in lines if line.startswith("epoch 1/"))
        store, = children(*children(process.pid), "muster:store")
        os.kill(store, signal.SIGSTOP)
        watchdog = threading.Timer(100, process.kill)  # less than a store's own deadline
        watchdog.start()
        try:
            with open(os.path.join(folder, "pid.0"), encoding="ascii") as file:
                resource.prlimit(int(file.read()), resource.RLIMIT_FSIZE, (100_000, 100_000))
            said = next((line for line in lines if "was not written: " in line), "")
        finally:
            os.kill(store, signal.SIGCONT)
            watchdog.cancel()
        process.communicate(timeout=60)
    assert said, "no reason within 100 s"


if __name__ == "__main__":
    run_tests(globals())
