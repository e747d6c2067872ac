#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What README.md shows is true: its commands are accepted and print what is shown, its links lead somewhere, its scripts exist."""
import json
import os
import re
import shlex
import tempfile
import unittest

import interop

with open(os.path.join(interop.ROOT, "README.md"), encoding="utf-8") as file:
    README = file.read()
BLOCKS = [text for language, text in re.findall(r"^```(\w*)\n(.*?)^```", README, re.S | re.M) if not language]
LINES = [line.removeprefix("$ ").split("  #")[0].strip() for block in BLOCKS for line in block.splitlines()]


# Programs that do what the examples are about, in one order: who prints before which other one fails is chance.
PROGRAMS = {
    "train.py": """
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
    "pair.py": """
import os, signal, sys, time
rank = os.environ["RANK"]
print(f"rank {rank}: loading")
open(f"{sys.argv[0]}.{rank}", "w").close()
while rank == "0" or not os.path.exists(f"{sys.argv[0]}.0"):
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGSEGV)
""",
}


def examples():
    """(command, lines that it prints, exit code or None) of each block that shows a job and its output."""
    for block in BLOCKS:
        lines = block.splitlines()
        if lines[0].startswith("$ muster run "):
            end = next((i for i, line in enumerate(lines) if line == "$ echo $?"), len(lines))
            yield lines[0].removeprefix("$ muster "), lines[1:end], int(lines[end + 1]) if end < len(lines) else None


def neutral(lines, hosts):
    """Without the order of lines of different processes, the names of hosts, the numbers of processes and when a job ran."""
    text = "\n".join(sorted(line.rstrip() for line in lines))
    text = re.sub(r"[\d.]+ s, from [-\d: +]+ to [-\d: +]+$", "N s, from THEN to THEN", text, flags=re.MULTILINE)
    return re.sub(r"\bon (%s)\b" % "|".join(hosts), "on HOST", re.sub(r"pid \d+", "pid N", text))


class Readme(unittest.TestCase):
    maxDiff = None

    def test_examples_print_what_is_shown(self):
        shown = list(examples())
        self.assertEqual([shlex.split(command)[-1] for command, _, _ in shown], list(PROGRAMS))
        for command, lines, code in shown:
            with tempfile.TemporaryDirectory() as folder:
                *words, program = shlex.split(command)
                path = os.path.join(folder, program)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(PROGRAMS[program])
                # No core file: with one, the advice is another.
                result = interop.run(["bash", "-c", 'ulimit -c 0; exec "$@"', "bash", interop.MUSTER, *words, program], check=False,
                                     cwd=folder, OMP_NUM_THREADS="1")
            hosts = ["vm", re.escape(os.uname().nodename), re.escape(os.uname().nodename.split(".")[0])]
            printed = neutral((result.stdout + result.stderr).splitlines(), hosts)
            self.assertEqual(printed, neutral(lines, hosts), result.stderr)
            said = re.search(r"(?m)^  exit code +(\d+)", result.stderr)
            self.assertEqual(result.returncode, int(said[1]) if code is None else code)

    def test_every_run_command_is_a_valid_job(self):
        commands = [line for line in LINES if re.match(r"(build/release/bin/)?muster run ", line)]
        self.assertGreater(len(commands), 3)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("train.py", "pair.py"):
                with open(os.path.join(folder, name), "w", encoding="utf-8"):
                    pass
            for command in commands:
                words = shlex.split(command)[command.split().index("run") + 1:]
                words = [os.path.join(os.path.dirname(interop.MUSTER), word.removeprefix("build/release/bin/"))
                         if word.startswith("build/release/bin/") else word for word in words]
                words = ["1" if word == "gpu" else os.path.join(folder, word) if word in ("train.py", "pair.py") else word
                         for word in words]
                result = interop.run([interop.MUSTER, "run", "--dry-run", *words])
                self.assertIsInstance(json.loads(result.stdout), dict, command)

    def test_every_script_exists_and_explains_itself(self):
        scripts = {line.split()[0] for line in LINES if line.startswith("scripts/")}
        self.assertLessEqual({"scripts/quickstart.sh", "scripts/test.sh", "scripts/lint.sh", "scripts/bench.sh"}, scripts)
        for script in scripts:
            result = interop.run([os.path.join(interop.ROOT, script), "--help"])
            self.assertIn(script, result.stdout)

    def test_every_link_leads_somewhere(self):
        links = re.findall(r"\]\(([^)#]+)\)", README)
        self.assertGreater(len(links), 4)
        for link in links:
            self.assertTrue(os.path.exists(os.path.join(interop.ROOT, link)), link)


if __name__ == "__main__":
    unittest.main()
