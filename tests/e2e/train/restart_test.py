#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that are killed, stopped and restarted end with the parameters of one that was left alone, bit for bit."""
import json
import os
import re
import signal
import subprocess
import sys
import time

from interop import MUSTER, TRAIN, clean_environment, muster_run, run_tests
from processes import state, wait_until

JOB = ["--nproc-per-node", "2"]
# A batch norm network, so that running statistics are part of it: 8 steps of 32.
BATCH_NORM = [TRAIN, "--data", "synthetic:128", "--model", "resnet18-imagenet-stem", "--epochs", "2", "--batch-size", "16",
              "--log-every", "1"]
MIDDLE_OF_BATCH_NORM = 12  # all_reduces until then, of the four or so of a step


def outcome(result):
    return re.search(r"^test accuracy .*\nparameter hash \S+$", result.stdout, re.MULTILINE)[0]


def resumed_steps(text):
    return [int(step) for step in re.findall(r"^resumed from \S+: epoch \d+, step (\d+)$", text, re.MULTILINE)]


def worker_script(folder):
    """It leaves the process id of each rank in that folder, and becomes the program in its arguments."""
    path = os.path.join(folder, "worker.sh")
    with open(path, "w", encoding="ascii") as file:
        file.write(f'echo $$ > "{folder}/pid.$RANK"\nexec "$@"\n')
    return path


def process_of(folder, rank):
    with open(f"{folder}/pid.{rank}", encoding="ascii") as file:
        return int(file.read())


def told_to_stop(folder, command):
    """Starts a job, of which rank 1 holds still in the middle, and tells it to stop: its output and exit code.

    The launcher sends SIGCONT behind SIGTERM: so it is told while it trains, however late we are."""
    with subprocess.Popen([MUSTER, "run", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=clean_environment(MUSTER_FAULT=f"stop@1:all_reduce:{MIDDLE_OF_BATCH_NORM}")) as job:
        try:
            text = ""
            for printed in job.stdout:
                text += printed
                if "MUSTER_FAULT: rank 1" in printed:
                    wait_until(lambda: state(process_of(folder, 1)) == "T", "a rank that stops itself")
                    job.send_signal(signal.SIGTERM)
                    break
            text += job.communicate(timeout=120)[0]
        finally:
            job.kill()  # nothing, where it has ended
    return text, job.returncode


def test_preempted(folder):
    """SIGTERM: a checkpoint of the step under way, then the end; the next start goes on from there."""
    wanted = outcome(muster_run([*JOB, *BATCH_NORM]))
    command = [*JOB, "--no-python", "sh", worker_script(folder), *BATCH_NORM, "--checkpoint-dir", folder + "/checkpoints"]
    text, code = told_to_stop(folder, command)
    assert code == 143, (code, text)
    stopped = int(re.search(r"^told to stop after step (\d+), checkpoint \S+$", text, re.MULTILINE)[1])
    assert 0 < stopped < 8, text
    again = muster_run(command)
    assert resumed_steps(again.stdout) == [stopped], again.stdout
    assert outcome(again) == wanted, again.stdout
    # There is nothing left to train, so a third start only says how it ended.
    third = muster_run(command)
    assert outcome(third) == wanted and "step 1/" not in third.stdout, third.stdout


# Runs the program in its arguments, and keeps the stop signal from it: it sleeps beside it instead of waiting for it, ends as it does.
DEAF_WRAPPER = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda number, frame: None)
program = subprocess.Popen(sys.argv[1:])
while program.poll() is None:
    time.sleep(0.01)
print(f"the program ended with {program.returncode}", flush=True)
sys.exit(program.returncode if program.returncode >= 0 else 128 - program.returncode)
"""


def test_only_the_notice_comes(folder):
    """Below a wrapper that does not pass the signal on, the ranks read MUSTER_STOP_FILE: the same checkpoint, and the same end."""
    wrapper = folder + "/wrapper.py"
    with open(wrapper, "w", encoding="ascii") as file:
        file.write(DEAF_WRAPPER)
    task = [TRAIN, "--data", "synthetic:2000", "--model", "small-cnn", "--epochs", "90000", "--batch-size", "64", "--log-every", "1",
            "--checkpoint-dir", folder + "/checkpoints"]
    with subprocess.Popen([MUSTER, "run", *JOB, "--no-python", sys.executable, wrapper, *task], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env=clean_environment()) as job:
        text = ""
        try:
            for printed in job.stdout:
                if "step 1/" in printed:
                    job.send_signal(signal.SIGTERM)
                    break
            text += job.communicate(timeout=120)[0]
        finally:
            job.kill()  # nothing, where it has ended
    assert job.returncode == 143, (job.returncode, text)
    assert text.count("the program ended with -15") == 2, text
    assert len(re.findall(r"^told to stop after step \d+, checkpoint \S+$", text, re.MULTILINE)) == 1, text


def signalled(folder, *, launcher, times):
    """A job of which each worker gets SIGTERM `times` times before it can have stopped, and perhaps the launcher, too, which
    passes it on: it writes one checkpoint and ends, and goes on from there. It holds still for us, and has many more steps to go."""
    task = [TRAIN, "--data", "synthetic:2000", "--model", "resnet18-imagenet-stem", "--epochs", "900", "--batch-size", "64",
            "--log-every", "1", "--checkpoint-dir", folder + "/checkpoints", "--profile", folder + "/trace"]
    with subprocess.Popen([MUSTER, "run", *JOB, "--no-python", "sh", worker_script(folder), *task], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          env=clean_environment(MUSTER_FAULT=f"delay:2000@1:all_reduce:{MIDDLE_OF_BATCH_NORM}")) as job:
        text = ""
        for printed in job.stdout:
            text += printed
            if "MUSTER_FAULT: rank 1" in printed:
                break
        for _ in range(times):
            for rank in (0, 1):
                os.kill(process_of(folder, rank), signal.SIGTERM)
            time.sleep(0.05)  # so that they are two signals
        if launcher:
            job.send_signal(signal.SIGTERM)
        text += job.communicate(timeout=120)[0]
    stopped = re.findall(r"^told to stop after step (\d+), checkpoint \S+$", text, re.MULTILINE)
    assert job.returncode == 143 and len(stopped) == 1, (job.returncode, text)
    with open(folder + "/trace", encoding="utf-8") as file:  # what the steps took is known after a stop, too
        steps = [event for event in json.load(file)["traceEvents"] if event["name"] == "forward"]
    assert len(steps) == 2 * int(stopped[0]), (steps, text)
    again = muster_run([*JOB, *task, "--max-steps", stopped[0]])
    assert resumed_steps(again.stdout) == [int(stopped[0])], (text, again)


def test_every_process_is_signalled(folder):
    """As by a scheduler that signals all processes of a job, of which the launcher passes its own on."""
    signalled(folder, launcher=True, times=1)


def test_only_workers_are_signalled(folder):
    """No rank ends before the checkpoint is written: it would look like one that failed, and end the writer."""
    signalled(folder, launcher=False, times=2)


def test_other_world_size(folder):
    """Half of an epoch on two ranks, the rest on one: each image once, and with a deterministic world the same bits."""
    fixed = ["--global-batch", "48", "--deterministic-world"]
    task = [TRAIN, "--data", "synthetic:480", "--epochs", "1", *fixed]
    wanted = outcome(muster_run(["--nproc-per-node", "1", *task]))
    muster_run([*JOB, *task, "--checkpoint-dir", folder, "--max-steps", "5"])
    rest = muster_run(["--nproc-per-node", "1", *task, "--checkpoint-dir", folder])
    assert resumed_steps(rest.stdout) == [5], rest.stdout
    assert outcome(rest) == wanted, rest.stdout
    for ranks in (4, 8):
        assert outcome(muster_run(["--nproc-per-node", ranks, *task])) == wanted, ranks


if __name__ == "__main__":
    run_tests(globals())
