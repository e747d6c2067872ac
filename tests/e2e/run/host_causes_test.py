# SPDX-License-Identifier: Apache-2.0
"""What is wrong on the host is named where a job stands still or fails: a rank that the kernel holds, a full file system, a CPU quota."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from control_groups import control_group
from interop import MUSTER
from store_programs import WAITS_FOR_KEY

LIMIT_S = 90

# Rank 0 waits for its child of vfork() in the kernel, where only SIGKILL reaches it; the other for a key.
HELD = """
import ctypes, os, time
if os.environ["RANK"] == "0":
    ctypes.CDLL(None).vfork()
    time.sleep(1000)
""" + WAITS_FOR_KEY

# Fills a file system.
FILLS = """
import os
with open(os.environ["TMPDIR"] + "/file", "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
"""
FAILS = "raise RuntimeError('no room')\n"


class Causes(unittest.TestCase):
    def program(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def started(self, command, **more):
        environment = {**os.environ, "PYTHON_EXEC": sys.executable, **more}
        job = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.wait, LIMIT_S)
        self.addCleanup(job.kill)
        watch = threading.Timer(LIMIT_S, job.kill)
        watch.start()
        self.addCleanup(watch.cancel)
        return job

    def answer(self, name):
        """What `muster status` says once the job is there."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            status = subprocess.run([MUSTER, "status", name, "--json"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            if status.returncode == 0:
                return json.loads(status.stdout)
            time.sleep(0.1)
        self.fail("the job was not to be seen: " + status.stderr)

    def processes_in(self, group):
        with open(os.path.join(group.folder, "cgroup.procs"), encoding="ascii") as file:
            return file.read().split()

    def in_small_file_system(self, folder, *command):
        """The command where `folder` is a file system of 256 KiB that nobody else sees."""
        mount = 'mount --make-rprivate / && mount -t tmpfs -o size=256k none "$0" && exec "$@"'
        tried = subprocess.run(["unshare", "-m", "sh", "-c", mount, folder, "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest("a file system cannot be mounted here: " + tried.stderr)
        return ["unshare", "-m", "sh", "-c", mount, folder, *command]

    def test_a_rank_that_the_kernel_holds_is_named_with_the_function(self):
        name = f"held-{os.getpid()}"
        job = self.started([MUSTER, "run", "--rdzv-id", name, "--hang-timeout", "9", "--nproc-per-node", "2", self.program(HELD)])
        deadline = time.monotonic() + LIMIT_S
        worker = {}
        while not worker.get("held_in") and time.monotonic() < deadline:
            worker = (self.answer(name)["nodes"][0]["workers"] or [{}])[0]
            time.sleep(0.2)
        self.assertRegex(worker["does"], rf"^is held by the kernel in {re.escape(worker['held_in'])} since \d+ s$")
        self.assertRegex(worker["held_in"], r"^[a-z_0-9.]+$|^an unknown function$")
        self.assertEqual((worker["activity"], worker["wait"]), ("waits", "file"))
        text = subprocess.run([MUSTER, "status", name], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
        self.assertRegex(text, r"(?m)^0 .* is held by the kernel in ")
        line = next((line for line in job.stderr if "hung" in line), "nothing was said")
        self.assertRegex(line, rf"rank 0 on \S+ \(program.py:5\b.*\) may be hung: it is held by the kernel in {re.escape(worker['held_in'])} since \d+ s; "
                               r"rank 1 waits for the store's key 'epcoh'")
        job.send_signal(signal.SIGINT)
        job.send_signal(signal.SIGINT)

    def test_a_full_file_system_is_part_of_the_report_of_a_failure(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as small:
            path = os.path.join(folder, "report.json")
            command = self.in_small_file_system(small, MUSTER, "run", "--report", path, self.program(FILLS + FAILS))
            job = self.started(command, TMPDIR=small)
            rest = job.stderr.read()
            self.assertEqual(job.wait(LIMIT_S), 1, rest)
            self.assertRegex(rest, rf"(?m)^  host       \S+: the file system {re.escape(small)} is full \(0 B of 256 KiB are free\)$")
            self.assertRegex(rest, rf"(?m)^  next       the file system {re.escape(small)} is full on \S+: make room there")
            with open(path, encoding="utf-8") as file:
                # Where this test runs in a control group with a quota, that may be named beside it.
                (cause,) = [one for one in json.load(file)["nodes"][0]["host_causes"] if one["kind"] == "full_disk"]
        self.assertEqual(cause["text"], f"the file system {small} is full")

    def test_a_full_file_system_is_part_of_the_verdict_on_a_hang(self):
        with tempfile.TemporaryDirectory() as small:
            program = self.program(FILLS + WAITS_FOR_KEY)
            job = self.started(self.in_small_file_system(small, MUSTER, "run", "--hang-timeout", "8", program), TMPDIR=small)
            line = next((line for line in job.stderr if "hung" in line), "nothing was said")
            self.assertRegex(line, r"rank 0 on (\S+) \(program.py:\d+.*\) is hung: it waits for the store's key 'epcoh' since \d+ s, .*; "
                                   rf"on \1 the file system {re.escape(small)} is full(; |$)")
            job.send_signal(signal.SIGINT)
            rest = job.stderr.read()
            self.assertEqual(job.wait(LIMIT_S), 130, rest)
            self.assertRegex(rest, rf"(?m)^  host       \S+: the file system {re.escape(small)} is full")

    def test_processes_that_a_quota_holds_up_are_named_with_it(self):
        name = f"throttled-{os.getpid()}"
        with control_group("cpu", cfs_quota_us=20000) as group:
            job = self.started(group.entering([MUSTER, "run", "--rdzv-id", name, "--nproc-per-node", "2",
                                               self.program("while True: pass\n")]))
            try:
                deadline = time.monotonic() + LIMIT_S
                percent = 0
                # The first share is of a time in which the workers still started: on a busy machine they were not held up then.
                while percent <= 50 and time.monotonic() < deadline:
                    time.sleep(0.5)
                    for cause in self.answer(name)["nodes"][0]["host_causes"]:
                        if group.name in cause["text"]:
                            self.assertEqual(cause["kind"], "throttled")
                            self.assertRegex(cause["text"],
                                             rf"^processes are throttled by the control group \S*{re.escape(group.name)} to 0.2 CPUs$")
                            percent = int(re.fullmatch(r"in (\d+) % of the time", cause["detail"])[1])
                self.assertGreater(percent, 50, "two endless loops in a fifth of a processor")
            finally:
                group.write("cpu.cfs_quota_us", -1)
                job.send_signal(signal.SIGKILL)
                job.wait(LIMIT_S)
                deadline = time.monotonic() + LIMIT_S
                while self.processes_in(group) and time.monotonic() < deadline:
                    time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
