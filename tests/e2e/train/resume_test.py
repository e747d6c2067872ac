#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs of muster-train that are killed go on from their checkpoints, and end with the bits of one that was never killed.

usage: resume_test.py [full_disk]
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile

from interop import MUSTER, TRAIN, clean_environment, skip

# Everything that a checkpoint has to hold: momentum, an average, crops by a generator, a schedule.
RUN = ["--model", "small-cnn", "--data", "synthetic:480", "--epochs", "4", "--global-batch", "16", "--checkpoint-every", "7",
       "--ema", "0.99", "--crop-padding", "4", "--flip", "--schedule", "cosine", "--log-every", "1", "--seed", "3"]
DEADLINE = 120
# A world of one makes no calls at which it could be killed. Its output goes to a pipe of one page, which we read by the line: it
# cannot come more than some 40 steps further than we have read, which is never its end.
PIPE_BYTES = 4096
started = []


class Job:
    """One job in a folder of its own; each worker writes its process id there. A fault strikes in the first round only."""

    def __init__(self, folder, ranks, *extra):
        self.folder, self.ranks, self.extra = folder, ranks, extra
        os.makedirs(folder)
        self.script = os.path.join(folder, "worker.sh")
        with open(self.script, "w", encoding="ascii") as file:
            file.write(f'echo $$ > "{folder}/pid.$RANK"\n'
                       'test "$TORCHELASTIC_RESTART_COUNT" = 0 || unset MUSTER_FAULT\nexec "$@"\n')

    def start(self, *launcher, **environment):
        process = subprocess.Popen(
            [MUSTER, "run", "--nproc-per-node", str(self.ranks), *launcher, "--no-python", "sh", self.script, TRAIN, *RUN,
             "--checkpoint-dir", os.path.join(self.folder, "checkpoints"), "--export", self.export, *self.extra],
            env=clean_environment(OMP_NUM_THREADS="1", **environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            bufsize=0, pipesize=PIPE_BYTES)
        started.append(process)
        return process

    def start_and_kill(self, first, last, victims, *launcher):
        """Kills these ranks in one of these steps, or some steps later; returns the job's process and its output until then."""
        if self.ranks == 1:
            process = self.start(*launcher)
            output = read_to(process, STEP, random.randint(first, last))
            self.kill(0)
            return process, output
        call = random.randint(first * self.calls, last * self.calls)
        process = self.start(*launcher, MUSTER_FAULT=",".join(f"kill@{rank}:all_reduce:{call}" for rank in victims))
        return process, read_to(process, r"MUSTER_FAULT: rank")

    @property
    def calls(self):
        """The all_reduces of one step."""
        return 4 if "--compress" in self.extra else 2

    @property
    def export(self):
        return os.path.join(self.folder, "weights.safetensors")

    def kill(self, rank):
        with open(os.path.join(self.folder, f"pid.{rank}"), encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGKILL)

    def end(self, process, before=""):
        output = before + process.communicate(timeout=DEADLINE)[0].decode()
        return process.returncode, output

    def checkpoints(self):
        folder = os.path.join(self.folder, "checkpoints")
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if re.fullmatch(r"\d+-step-\d+", name))

    def result(self):
        """Hashes of everything that the last checkpoint holds, its numbers, and the exported bytes."""
        with open(os.path.join(self.checkpoints()[-1], "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        with open(self.export, "rb") as file:
            return manifest["files"], manifest["scalars"], file.read()


STEP = r"epoch \d+/\d+  step \d+/"


def read_to(process, pattern, times=1):
    """The output up to the line that is the last of so many with this."""
    output = ""
    for line in process.stdout:
        output += line.decode()
        times -= bool(re.search(pattern, line.decode()))
        if times == 0:
            return output
    raise AssertionError(f"ended before '{pattern}' came:\n{output}")


def resumed_at(output):
    return [int(step) for step in re.findall(r"resumed from .*, step (\d+)", output)]


def certainly_complete(step):
    """The step of the newest checkpoint that a run which told of `step` must have: one is written beside the next steps,
    and is complete before the next one begins."""
    return 7 * ((step - 1) // 7) - 7


def never_killed(folder, ranks, *extra):
    job = Job(folder, ranks, *extra)
    code, output = job.end(job.start())
    assert code == 0 and not resumed_at(output), output
    return job.result()


def killed_and_restarted_by_muster(folder, ranks, expected, *extra):
    job = Job(folder, ranks, *extra)
    process, output = job.start_and_kill(15, 45, [random.randrange(ranks)], "--max-restarts", "1")
    step = len(re.findall(STEP, output))
    code, output = job.end(process, output)
    assert code == 0, output
    assert len(resumed_at(output)) == 1 and resumed_at(output)[0] >= certainly_complete(step), output
    assert job.result() == expected, f"killed at step {step}: other bits\n{output}"


def all_killed_and_started_again(folder, ranks, expected, *extra):
    job = Job(folder, ranks, *extra)
    for first, last in ((20, 30), (1, 10)):
        process, output = job.start_and_kill(first, last, range(ranks))
        process.kill()
        code, output = job.end(process, output)
        assert code != 0, output
    code, output = job.end(job.start())
    assert code == 0 and resumed_at(output)[0] >= 7, output
    assert job.result() == expected, f"other bits\n{output}"


def damaged(folder, ranks, expected):
    """The newest checkpoint is cut: it is skipped, and why is said."""
    job = Job(folder, ranks)
    process, output = job.start_and_kill(22, 22, [0])
    job.end(process, output)
    newest, before = job.checkpoints()[-1], job.checkpoints()[-2]
    os.truncate(os.path.join(newest, "state.safetensors"), 100)
    code, output = job.end(job.start())
    assert code == 0, output
    assert f"skipped checkpoint {newest}: " in output and "has 100 bytes" in output, output
    assert f"resumed from {before}" in output, output
    assert job.result() == expected, output


def full_disk(folder):
    """A disk that has room for one checkpoint: the run ends with a clear error, the first one stays, nothing partial is left."""
    mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs -o size=10m muster-test "$0" && "$@"', folder]
    environment = clean_environment(OMP_NUM_THREADS="1")
    probe = subprocess.run([*mounted, "true"], env=environment, capture_output=True, text=True, timeout=DEADLINE, check=False)
    if probe.returncode != 0:
        skip(f"no disk of our own can be mounted here: {probe.stderr.strip()}")
    job = subprocess.run([*mounted, "sh", "-c", '"$@"; code=$?; ls -A "$0"; exit $code', folder, TRAIN, *RUN, "--checkpoint-dir", folder],
                         env=environment, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert job.returncode == 1, job
    assert re.search(r"muster-train: rank 0: the checkpoint of step 14 was not written: .*No space left on device.*the last one is "
                     r".*/000001-step-7", job.stderr), job.stderr
    assert job.stdout.splitlines()[-2:] == [".lock", "000001-step-7"], job.stdout


def check_all(folder):
    def place(name):
        return os.path.join(folder, name)

    expected = {ranks: never_killed(place(f"never{ranks}"), ranks) for ranks in (1, 2)}
    for ranks in (1, 2):
        killed_and_restarted_by_muster(place(f"restarted{ranks}"), ranks, expected[ranks])
        all_killed_and_started_again(place(f"again{ranks}"), ranks, expected[ranks])
    damaged(place("damaged"), 1, expected[1])
    compress = ("--compress", "powersgd")  # which remembers something on each rank
    squeezed = never_killed(place("squeezed"), 2, *compress)
    killed_and_restarted_by_muster(place("squeezed_restarted"), 2, squeezed, *compress)


def main():
    if sys.argv[1:] == ["full_disk"]:
        with tempfile.TemporaryDirectory() as folder:
            return full_disk(folder)
    seed = random.randrange(1 << 32)
    print("seed", seed, flush=True)
    random.seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        try:
            check_all(folder)
        finally:
            for process in started:
                process.kill()
                process.wait(DEADLINE)


if __name__ == "__main__":
    sys.exit(main())
