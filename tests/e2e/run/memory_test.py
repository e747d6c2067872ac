# SPDX-License-Identifier: Apache-2.0
"""Whom the kernel has ended for memory, and who was killed by somebody."""

import json
import os
import sys
import tempfile
import unittest

from control_groups import control_group
from interop import MUSTER, run

MIB = 1 << 20
LIMIT = 160 * MIB
TOO_MUCH = "x = bytearray(400 << 20)"


class Memory(unittest.TestCase):
    def job(self, group, program, workers=2):
        """The report of a job in `group` whose workers run `program`, and what was said."""
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            result = run(group.entering([MUSTER, "run", "--nproc-per-node", workers, "--report", report, "--no-python",
                                         sys.executable, "-c", program]), check=False, timeout=100)
            with open(report, encoding="utf-8") as file:
                return json.load(file), result.stderr

    def test_a_worker_over_the_limit(self):
        with control_group("memory", limit_in_bytes=LIMIT) as group:
            report, said = self.job(group, f"import os, time\nif os.environ['RANK'] == '1': {TOO_MUCH}\nelse: time.sleep(600)")
            self.assertRegex(report["cause"], f"rank 1 on .*: killed by SIGKILL: over the memory limit of 160 MiB of cgroup '.*{group.name}' .peak 1")
            self.assertEqual(report["exit_code"], 137)
            self.assertIn("use less memory", said)
            self.assertEqual(report["nodes"][0]["notes"], [])

    def test_a_worker_in_a_group_of_its_own(self):
        with control_group("memory", limit_in_bytes=8 * LIMIT) as group:
            own = os.path.join(group.folder, "own")
            os.mkdir(own)
            try:
                with open(os.path.join(own, "memory.limit_in_bytes"), "w", encoding="ascii") as file:
                    file.write(str(LIMIT))
                report, _ = self.job(group, f"open('{own}/cgroup.procs', 'w').write('0')\n{TOO_MUCH}", workers=1)
            finally:
                os.rmdir(own)
            self.assertRegex(report["cause"], f"over the memory limit of 160 MiB of cgroup '.*{group.name}/own'")

    def test_a_helper_of_a_worker(self):
        program = f"""import os, subprocess, sys, time
if os.environ["RANK"] == "0": time.sleep(600)
subprocess.run([sys.executable, "-c", "{TOO_MUCH}"], check=True)"""
        with control_group("memory", limit_in_bytes=LIMIT) as group:
            report, said = self.job(group, program)
            self.assertRegex(report["cause"], "rank 1 on .*: exit code 1: a process of its own was killed, over the memory limit of 160 MiB")
            self.assertIn("use less memory", said)

    def test_a_helper_that_nobody_misses(self):
        program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', '{TOO_MUCH}'])"
        with control_group("memory", limit_in_bytes=LIMIT) as group:
            report, said = self.job(group, program, workers=1)
            self.assertEqual(report["outcome"], "succeeded")
            self.assertIn("a process in the control group of the workers was killed, over the memory limit of 160 MiB", said)
            self.assertEqual(len(report["nodes"][0]["notes"]), 1)

    def test_our_agent_over_the_limit(self):
        # The kernel takes the process with the highest score: no process has mapped the memory, which goes with the worker.
        program = ("import os\nfor pid, score in ((os.getppid(), 1000), ('self', 500)):\n"
                   "  with open(f'/proc/{pid}/oom_score_adj', 'w') as file: file.write(str(score))\n"
                   "file = os.memfd_create('much')\nfor _ in range(400): os.write(file, bytes(1 << 20))")
        with control_group("memory", limit_in_bytes=LIMIT) as group:
            report, _ = self.job(group, program, workers=1)
            self.assertEqual(report["exit_code"], 125, report["cause"])
            self.assertRegex(report["cause"], r"the agent process was lost \(killed by SIGKILL; since the job began the kernel has killed .* of its "
                             f"control group, over the memory limit of 160 MiB of cgroup '.*{group.name}' .peak 1")

    def test_a_signal_that_somebody_sent(self):
        with control_group("memory", limit_in_bytes=LIMIT) as group:
            report, said = self.job(group, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
            self.assertRegex(report["cause"], "killed by SIGKILL$")
            self.assertIn("somebody sent it: ", said)
            self.assertNotIn("out-of-memory", said)


if __name__ == "__main__":
    unittest.main()
