# SPDX-License-Identifier: Apache-2.0
"""Stacks of machine code of a running job: muster stacks --native. The ranks go on, and end as they would have."""

import json
import os
import signal
import subprocess
import time
import unittest

import inspect_test
from inspect_test import LIMIT_S, MUSTER, PARENT, muster
from processes import state


class NativeStacks(unittest.TestCase):
    setUp, start, end, card, until_shown = (getattr(inspect_test.Inspect, name) for name in ("setUp", "start", "end", "card", "until_shown"))

    def test_native_stacks_name_functions_of_all_threads_and_the_job_goes_on(self):
        job = self.start()
        card = self.card(job)
        self.until_shown(r"(?m)^rank 0: \S+looked_at\.py:6 hold <- (.*\n)+rank 1: \S+looked_at\.py:9 save <- ", "stacks", card["id"])
        asked = muster("stacks", card["id"], "--native")
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertRegex(asked.stdout, r"(?m)^rank 0: \S+looked_at\.py:6 hold <- ")
        self.assertIn("--native stops each thread while its registers and stack are copied: ", asked.stdout)
        if "libdw1" in asked.stdout:
            self.assertIn(": none was stopped this time", asked.stdout)
            self.skipTest("there is no libdw here")
        self.assertRegex(asked.stdout, r"(?m)^--native .*: \d+\.\d+ ms at most this time$")
        self.assertRegex(asked.stdout, r"(?m)^rank 1, main thread \(\S+\), machine code:\n  #0  \S*read\S* \(\S+\+0x[0-9a-f]+\)")
        for _ in range(20):
            answer = json.loads(muster("stacks", card["id"], "--native", "--json").stdout)
        workers = answer["nodes"][0]["workers"]
        for worker in workers:
            (process,) = worker["processes"]
            self.assertEqual((process["native_error"], process["native"][0]["tid"]), ("", worker["pid"]))
            self.assertGreater(process["native_longest_stop_us"], 0)
            self.assertTrue(any(frame["module"].startswith("libc") for frame in process["native"][0]["frames"]), process)
            self.until(lambda pid=worker["pid"]: state(pid) == "S")
        self.assertNotIn("native", json.loads(muster("stacks", card["id"], "--json").stdout)["nodes"][0]["workers"][0]["processes"][0])
        os.kill(workers[1]["pid"], signal.SIGKILL)
        job.communicate(timeout=LIMIT_S)
        self.assertEqual(job.returncode, 137)

    def test_a_worker_that_ends_while_its_native_stacks_are_read_keeps_its_exit_code(self):
        job = self.start(workers=1, program="import os, sys\nsys.stdout.write('ready\\n')\nsys.stdout.flush()\nsys.stdin.read(1)\nos._exit(7)\n")
        card = self.card(job)
        asks = [subprocess.Popen([MUSTER, "stacks", card["id"], "--native"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(4)]
        job.stdin.close()
        job.stdin = None
        for ask in asks:
            ask.wait(timeout=LIMIT_S)
        job.communicate(timeout=LIMIT_S)
        self.assertEqual(job.returncode, 7)

    def test_native_stacks_of_helpers_are_of_any_program(self):
        card = self.card(self.start(workers=1, program=PARENT))
        both = json.loads(muster("stacks", card["id"], "--native", "--helpers", "--json").stdout)["nodes"][0]["workers"][0]["processes"]
        self.assertEqual(len(both), 2)
        self.assertTrue(all("native" in process for process in both), both)

    def test_no_rank_stays_stopped_when_its_agent_is_killed_while_it_reads(self):
        for _ in range(5):
            job = self.start()
            card = self.card(job)
            node = json.loads(muster("status", card["id"], "--json").stdout)["nodes"][0]
            ask = subprocess.Popen([MUSTER, "stacks", card["id"], "--native"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.until(lambda: len(os.listdir(f"/proc/{node['pid']}/task")) > 1 or ask.poll() is not None)
            os.kill(node["pid"], signal.SIGKILL)
            ask.wait(timeout=LIMIT_S)
            job.communicate(timeout=LIMIT_S)
            for worker in node["workers"]:
                self.until(lambda pid=worker["pid"]: not os.path.exists(f"/proc/{pid}"))

    def until(self, holds):
        deadline = time.monotonic() + LIMIT_S
        while not holds():
            self.assertLess(time.monotonic(), deadline)


if __name__ == "__main__":
    unittest.main()
