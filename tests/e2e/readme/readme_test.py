#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What README.md and the pages that it begins with show is true: commands are accepted and print what is shown, scripts exist. That links
lead somewhere is checked by scripts/check_tree.py."""
import json
import os
import re
import select
import shlex
import subprocess
import sys
import tempfile
import time
import unittest

import interop

LIMIT_S = 60


def blocks_of(page):
    """The blocks of a page that name no language."""
    with open(os.path.join(interop.ROOT, page), encoding="utf-8") as file:
        return [text for language, text in re.findall(r"^```(\w*)\n(.*?)^```", file.read(), re.S | re.M) if not language]


def commands_of(page):
    return [line.removeprefix("$ ").split("  #")[0].strip() for block in blocks_of(page) for line in block.splitlines()]


# Programs that do what the examples are about, in one order: who prints before which other one fails is chance.
PROGRAMS = {
    "pair.py": """
import os, signal, sys, time
rank = os.environ["RANK"]
print(f"rank {rank}: loading")
open(f"{sys.argv[0]}.{rank}", "w").close()
while rank == "0" or not os.path.exists(f"{sys.argv[0]}.0"):
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGSEGV)
""",
    "shards.py": """
import os, sys, time
rank, round = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
if round == "0" and rank in "23":
    time.sleep(1000)
print(f"rank {rank} of {os.environ['WORLD_SIZE']}, round {round}")
open(f"{sys.argv[0]}.{rank}", "w").close()
if round == "0" and rank == "1":
    while not os.path.exists(f"{sys.argv[0]}.0"):
        time.sleep(0.01)
    sys.exit("cannot read shard 17")
while round == "0":
    time.sleep(1)
""",
}
# A program of PyTorch that hangs. What is shown is what it gets with the real one; here others with the names of PyTorch's functions wait.
HANGS = """import torch
import torch.distributed as dist


def step(gradients):
    dist.all_reduce(gradients)


def evaluate():
    dist.barrier()


dist.init_process_group("gloo")
gradients = torch.ones(10)
if dist.get_rank() == 0:
    evaluate()
step(gradients)
"""
TORCH = {
    "__init__.py": "def ones(count):\n    return [1.0] * count\n",
    "distributed/__init__.py": "from .distributed_c10d import *\n",
    "distributed/distributed_c10d.py": """
import os

def init_process_group(backend):
    global nobody
    nobody = os.pipe()

def get_rank():
    return int(os.environ["RANK"])

def all_reduce(tensor):
    os.read(nobody[0], 1)

def barrier():
    os.read(nobody[0], 1)
""",
}


def jobs_shown(page):
    """(command, lines that it prints, exit code or None) of each block that shows a job to its end, and its output."""
    for block in blocks_of(page):
        lines = block.splitlines()
        if lines[0].startswith("$ muster run ") and "$ muster status" not in lines:
            end = next((i for i, line in enumerate(lines) if line == "$ echo $?"), len(lines))
            yield lines[0].removeprefix("$ muster "), lines[1:end], int(lines[end + 1]) if end < len(lines) else None


def neutral(lines):
    """Without the order of lines of different processes, the names of hosts, the numbers of processes and when a job ran."""
    hosts = ["vm", re.escape(os.uname().nodename), re.escape(os.uname().nodename.split(".")[0])]
    text = "\n".join(sorted(line.rstrip() for line in lines))
    text = re.sub(r"[\d.]+ s, from [-\d: +]+ to [-\d: +]+$", "N s, from THEN to THEN", text, flags=re.MULTILINE)
    return re.sub(r"\b(on|node) (%s)\b" % "|".join(hosts), r"\1 HOST", re.sub(r"pid \d+", "pid N", text))


def whole(lines):
    """Lines as they are printed: on the page a long one goes on after an indent."""
    return re.sub(r"\n    (?=\S)", " ", "\n".join(lines)).splitlines()


def timeless(lines):
    """As `neutral`, and without times, memory, ids of jobs and the widths of columns, which follow from them."""
    text = re.sub(r"\b\d+ min \d+ s\b|\b[\d.]+ m?s\b", "T", re.sub(r"at least |at most |\b\d+ %", "", neutral(lines)))
    return re.sub(r" +", " ", re.sub(r"\btrain-[0-9a-f]{6}\b", "JOB", re.sub(r"(?m)^(\d+ +)\d+( +T +)[\d.]+ MiB", r"\1PID\2M", text)))


def write_files(folder, files):
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.write(text)


def first_lines(stream, count):
    """The first lines that come, without waiting for more than LIMIT_S for all of them."""
    end, got = time.monotonic() + LIMIT_S, b""
    while got.count(b"\n") < count:
        ready, _, _ = select.select([stream], [], [], max(0, end - time.monotonic()))
        more = os.read(stream.fileno(), 65536) if ready else b""
        interop.check(more, f"{count} lines were awaited", got.decode())
        got += more
    return got.decode().splitlines()[:count]


class Readme(unittest.TestCase):
    maxDiff = None

    def test_examples_print_what_is_shown(self):
        shown = [*jobs_shown("README.md"), *jobs_shown("docs/torchrun.md")]
        self.assertEqual([shlex.split(command)[-1] for command, _, _ in shown], list(PROGRAMS))
        for command, lines, code in shown:
            with tempfile.TemporaryDirectory() as folder:
                *words, program = shlex.split(command)
                write_files(folder, {program: PROGRAMS[program]})
                # No core file: with one, the advice is another.
                result = interop.run(["bash", "-c", 'ulimit -c 0; exec "$@"', "bash", interop.MUSTER, *words, program], check=False,
                                     cwd=folder, OMP_NUM_THREADS="1")
            printed = neutral((result.stdout + result.stderr).splitlines())
            self.assertEqual(printed, neutral(lines), result.stderr)
            said = re.search(r"(?m)^  exit code +(\d+)", result.stderr)
            self.assertEqual(result.returncode, int(said[1]) if code is None else code)

    def test_a_job_that_hangs_is_told_as_shown(self):
        lines = next(block.splitlines() for block in blocks_of("README.md") if "$ muster status\n" in block)
        middle = lines.index("$ muster status")
        said, status = whole(lines[1:middle]), whole(lines[middle + 1:])
        with tempfile.TemporaryDirectory() as folder:
            write_files(folder, {"train.py": HANGS, **{f"site-packages/torch/{name}": text for name, text in TORCH.items()}})
            job = subprocess.Popen([interop.MUSTER, *shlex.split(lines[0])[2:]], cwd=folder, stderr=subprocess.PIPE,
                                   env=interop.clean_environment(PYTHON_EXEC=sys.executable, PYTHONPATH=os.path.join(folder, "site-packages")))
            try:
                self.assertEqual(timeless(first_lines(job.stderr, len(said))), timeless(said))
                jobs = json.loads(interop.run([interop.MUSTER, "ps", "--json"]).stdout)
                found = next(one["id"] for one in jobs if one["pid"] == job.pid)
                printed = interop.run([interop.MUSTER, "status", found]).stdout.splitlines()
                self.assertEqual(timeless(printed), timeless(status))
            finally:
                job.terminate()
                job.wait(LIMIT_S)
                job.stderr.close()

    def test_every_run_command_is_a_valid_job(self):
        commands = [line for page in ("README.md", "docs/frameworks.md") for line in commands_of(page) if line.startswith("muster run ")]
        self.assertGreater(len(commands), 10)
        with tempfile.TemporaryDirectory() as folder:
            for command in commands:
                words = shlex.split(command)[2:]
                write_files(folder, {word: "" for word in words if word.endswith(".py")})
                words = [os.path.join(os.path.dirname(interop.MUSTER), word.removeprefix("build/release/bin/"))
                         if word.startswith("build/release/bin/") else word for word in words]
                words = ["1" if word == "gpu" else word for word in words]
                result = interop.run([interop.MUSTER, "run", "--dry-run", *words], cwd=folder)
                self.assertIsInstance(json.loads(result.stdout), dict, command)

    def test_every_script_exists_and_explains_itself(self):
        scripts = {script for page in ("README.md", "docs/install.md", "docs/hacking.md") for line in commands_of(page)
                   for script in re.findall(r"(?:^|&& )(scripts/\S+)", line)}
        self.assertLessEqual({"scripts/quickstart.sh", "scripts/test.sh", "scripts/lint.sh", "scripts/bench.sh", "scripts/package.sh"}, scripts)
        for script in scripts:
            result = interop.run([os.path.join(interop.ROOT, script), "--help"])
            self.assertIn(script, result.stdout)

    def test_the_name_of_the_distribution(self):
        """The plain name is that of somebody else's package."""
        for page in ("README.md", *(os.path.join("docs", name) for name in os.listdir(os.path.join(interop.ROOT, "docs")) if name.endswith(".md"))):
            with open(os.path.join(interop.ROOT, page), encoding="utf-8") as file:
                self.assertNotRegex(file.read(), r"pip3? install (-\S+ )*muster(?![-_\w])", page)


if __name__ == "__main__":
    unittest.main()
