#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MUSTER_STOP_FILE appears before workers are told to end, says why, and is gone with the job. usage: stop_file_test.py <SDK worker>"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from interop import MUSTER, clean_environment, free_port
from processes import children, wait_until

LIMIT_S = 60

# Waits for the file without looking at signals, then writes what it read. The handler notes whether the file was there before the
# signal. In the round and rank of its arguments it fails as soon as every other worker has said that it is there.
WORKER = """
import os, signal, sys, time
folder, failing = sys.argv[1], sys.argv[2:]
rank, attempt, path = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["MUSTER_STOP_FILE"]
name = os.path.join(folder, rank + "." + attempt)
def write(what, text):
    with open(name + ".new", "w") as file:
        file.write(text)
    os.rename(name + ".new", name + what)
early = []
signal.signal(signal.SIGTERM, lambda number, frame: early.append(os.path.exists(path)))
signal.signal(signal.SIGINT, lambda number, frame: early.append(os.path.exists(path)))
write(".ready", path + " " + str(os.path.exists(path)))
if failing == [rank, attempt]:
    others = [str(other) + "." + attempt + ".ready" for other in range(int(os.environ["WORLD_SIZE"]))]
    while any(not os.path.exists(os.path.join(folder, other)) for other in others):
        time.sleep(0.002)
    sys.exit(5)
if failing and attempt != failing[1]:
    sys.exit(0)
while not os.path.exists(path):
    time.sleep(0.002)
with open(path) as file:
    text = file.read()
while not early:
    time.sleep(0.002)
write(".told", str(early[0]) + " " + text)
sys.exit(0)
"""


class StopFile(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder, self.temporary = os.path.join(scratch.name, "seen"), os.path.join(scratch.name, "tmp")
        os.mkdir(self.folder)
        os.mkdir(self.temporary)
        self.script = os.path.join(scratch.name, "worker.py")
        with open(self.script, "w", encoding="ascii") as file:
            file.write(WORKER)

    def start(self, *flags, failing=()):
        process = subprocess.Popen([MUSTER, "run", "--shutdown-timeout", "10", *flags, "--no-python", sys.executable, self.script,
                                    self.folder, *failing], env=clean_environment(TMPDIR=self.temporary), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait, LIMIT_S)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def seen(self, what):
        path = os.path.join(self.folder, what)
        if not os.path.exists(path):
            return None
        with open(path, encoding="ascii") as file:
            return file.read()

    def ready(self, *names):
        for name in names:
            wait_until(lambda name=name: self.seen(name + ".ready"), name + " is ready")
            path, there = self.seen(name + ".ready").split()
            self.assertEqual(there, "False")
            self.assertEqual(os.stat(os.path.dirname(path)).st_mode & 0o777, 0o700)
            self.assertTrue(path.startswith(self.temporary + "/"), path)

    def told(self, name):
        before_the_signal, text = self.seen(name + ".told").split(" ", 1)
        self.assertEqual(before_the_signal, "True")
        self.assertEqual(text.count("\n"), 1)
        return json.loads(text)

    def ends(self, *processes, code):
        for process in processes:
            _, err = process.communicate(timeout=LIMIT_S)
            self.assertEqual(process.returncode, code, err)
        self.assertEqual([name for name in os.listdir(self.temporary) if name.startswith("muster_stop_")], [])

    def test_a_killed_launcher_leaves_no_folder(self):
        process = self.start("--nproc-per-node", "2")
        self.ready("0.0", "1.0")
        self.assertTrue([name for name in os.listdir(self.temporary) if not name.startswith("muster_stop_")])
        process.kill()
        wait_until(lambda: not os.listdir(self.temporary), f"the folders of the job in {self.temporary} are gone")

    def test_a_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name):
                process = self.start("--nproc-per-node", "2")
                self.ready("0.0", "1.0")
                process.send_signal(number)
                self.ends(process, code=128 + number)
                for rank in ("0.0", "1.0"):
                    self.assertEqual(self.told(rank), {"reason": number.name, "grace_s": 10.0})
                for name in os.listdir(self.folder):
                    os.unlink(os.path.join(self.folder, name))

    def test_the_timeout(self):
        process = self.start("--nproc-per-node", "1", "--timeout", "10")
        self.ends(process, code=124)
        self.assertEqual(self.told("0.0"), {"reason": "timeout", "grace_s": 10.0})

    def test_a_failure_and_a_round_after_it(self):
        process = self.start("--nproc-per-node", "2", "--max-restarts", "1", failing=("1", "0"))
        self.ends(process, code=0)
        self.assertEqual(self.told("0.0"), {"reason": "failure of rank 1", "grace_s": 10.0})
        # The second round has begun without the file.
        for name in ("0.1", "1.1"):
            self.assertEqual(self.seen(name + ".ready").split()[1], "False")

    def test_a_failure_on_another_node(self):
        flags = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}",
                 "--rdzv-id", "stop-file", "--insecure-no-secret"]
        nodes = [self.start(*flags, failing=("1", "0")) for _ in range(2)]
        self.ends(*nodes, code=5)
        self.assertEqual(self.told("0.0"), {"reason": "failure of rank 1", "grace_s": 10.0})

    def test_the_agent_is_killed(self):
        process = self.start("--nproc-per-node", "1")
        self.ready("0.0")
        guardian, = children(process.pid, "muster:guardian")
        agent, = children(guardian, "muster:agent")
        os.kill(agent, signal.SIGKILL)
        self.ends(process, code=125)
        self.assertIsNone(self.seen("0.0.told"))

    def test_no_temporary_directory(self):
        result = subprocess.run([MUSTER, "run", "--no-python", "sh", "-c", 'echo "got <$MUSTER_STOP_FILE>"'], capture_output=True, text=True,
                                env=clean_environment(TMPDIR=self.script, MUSTER_STOP_FILE="/outer"),
                                timeout=LIMIT_S, check=False)
        self.assertEqual((result.returncode, result.stdout), (0, "got <>\n"), result.stderr)

    def test_ranks_of_the_sdk_agree(self):
        with subprocess.Popen([MUSTER, "run", "--nproc-per-node", "3", "--no-python", SDK_WORKER], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=clean_environment()) as process:
            self.addCleanup(process.kill)
            self.assertIn("all run", process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 143, err)
        steps = re.findall(r"rank \d saves after step (\d+)", out)
        self.assertEqual((len(steps), len(set(steps))), (3, 1), out + err)


if __name__ == "__main__":
    SDK_WORKER = sys.argv.pop(1)
    unittest.main()
