# SPDX-License-Identifier: Apache-2.0
"""When a failed job is started again, how soon, and what the report says of it (--restart-policy)."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from processes import lives, tree, wait_until
from promise import CLOCK, kept
from run_test import LIMIT_S, MUSTER, run


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def decisions_in(path):
    """The report, and of each decision: another round follows, restarts, delay."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    return report, [(one["again"], one["restarts"], one["delay_ms"]) for one in report["decisions"]]


class RestartPolicy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.rounds = os.path.join(folder.name, "rounds")
        self.report = os.path.join(folder.name, "report.json")

    def said_until_the_third_restart(self, process):
        said = ""
        while "restart 3 of 5" not in said:
            line = process.stderr.readline()
            self.assertTrue(line, said)
            said += line
        return said

    def test_each_restart_waits_longer_and_an_interrupt_ends_the_wait(self):
        fails = f"[ $RANK = 0 ] && exec sleep 60; date +%s.%N >> {self.rounds}; exit 3"

        def once():
            pathlib.Path(self.rounds).write_text("", encoding="ascii")
            process = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", "--max-restarts", "5", "--report", self.report,
                                        "--no-python", "sh", "-c", fails],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            said = self.said_until_the_third_restart(process)
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=LIMIT_S)
            took.append(time.monotonic() - begin)
            self.assertEqual(process.returncode, 130, said + rest)
            return said

        took = []
        said = [once() for _ in range(3)][-1]
        kept("Ctrl-C while the next round is waited for", 0.1, took)  # the round would begin after 2 s
        self.assertIn("failed (exit code 3); restarting all workers (restart 1 of 5)\n", said)
        self.assertIn("failed (exit code 3); restarting all workers in 1 s (restart 2 of 5)\n", said)
        self.assertIn("failed (exit code 3); restarting all workers in 2 s (restart 3 of 5)\n", said)
        first, second, third = (float(line) for line in lines_of(self.rounds))
        self.assertLess(second - first, 1)
        self.assertGreaterEqual(third - second, 1)
        report, decisions = decisions_in(self.report)
        self.assertEqual((report["outcome"], report["restart_policy"], report["nodes"][0]["restarts"]), ("interrupted", "backoff", 2))
        self.assertEqual(decisions, [(True, 1, 0), (True, 2, 1000), (True, 3, 2000)])

    def test_what_cannot_be_executed_is_started_again_by_torchrun_s_policy_only(self):
        for code in (126, 127):
            for policy, rounds in (("backoff", 1), ("torchrun", 3)):
                result = run("--max-restarts", "2", "--report", self.report, workers=1, env={"PET_RESTART_POLICY": policy},
                             shell=f"echo x >> {self.rounds}; exit {code}")
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertEqual(len(lines_of(self.rounds)), rounds, result.stderr)
                os.remove(self.rounds)
                self.assertEqual(f"0 of 2 used; no restart: exit code {code}" in result.stderr, policy == "backoff", result.stderr)
                _, decisions = decisions_in(self.report)
                self.assertEqual(decisions, [(True, 1, 0), (True, 2, 0), (False, 2, 0)] if rounds == 3 else [(False, 0, 0)])

    def test_the_deadline_ends_the_wait_before_a_restart(self):
        begin = time.monotonic()
        result = run("--max-restarts", "5", "--timeout", "2", "--report", self.report,
                     shell=f"[ $RANK = 0 ] && exec sleep 60; echo x >> {self.rounds}; exit 3")
        took = time.monotonic() - begin
        self.assertEqual(result.returncode, 124, result.stderr)
        # The third failure comes after 1 s and the next round would begin 2 s after that.
        self.assertEqual(len(lines_of(self.rounds)), 3, result.stderr)
        kept("--timeout while the next round is waited for", 0.1, [took], clock=2, one_try=CLOCK)
        self.assertEqual(decisions_in(self.report)[1], [(True, 1, 0), (True, 2, 1000), (True, 3, 2000)])

    def test_nothing_is_left_of_a_job_whose_launcher_is_killed_before_a_restart(self):
        fails = f"[ $RANK = 0 ] && exec sleep 60; echo x >> {self.rounds}; exit 3"
        took = []
        for _ in range(3):
            with subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", "--max-restarts", "5", "--no-python", "sh", "-c", fails],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
                self.said_until_the_third_restart(process)
                ours = tree(process.pid)[1:]
                self.assertEqual(len(ours), 3, "guardian, agent and store are there, and no worker")
                process.kill()
                since = time.monotonic()
                wait_until(lambda: not any(lives(pid) for pid in ours), "the end of the job before its next round")  # pylint: disable=cell-var-from-loop
                took.append(time.monotonic() - since)
        self.assertEqual(len(lines_of(self.rounds)), 9)
        kept("the launcher is killed while the next round is waited for", 0.1, took)

    def test_three_failures_for_the_same_reason_are_enough_where_progress_is_asked_for(self):
        # The number differs in every round.
        result = run("--max-restarts", "9", "--restart-policy", "progress", "--report", self.report, shell="""
            [ $RANK = 0 ] && exec sleep 60
            printf '{"message": "RuntimeError: no device %s"}' $$ > "$TORCHELASTIC_ERROR_FILE"
            exit 3""")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertRegex(result.stderr, r"2 of 9 used; no restart: 3 rounds in a row failed with exit code 3 and "
                                        r"'RuntimeError: no device \d+', each within 30 s and without a step")
        report, decisions = decisions_in(self.report)
        self.assertEqual(decisions, [(True, 1, 0), (True, 2, 1000), (False, 2, 0)])
        self.assertEqual((report["restart_policy"], report["decisions"][2]["round"]), ("progress", 2))
        self.assertRegex(report["decisions"][2]["cause"], r"^rank 1 on .* failed \(exit code 3\)$")

    def test_the_reason_may_stand_in_what_a_worker_printed_last(self):
        # The worker has ended before anybody can have looked at what it printed.
        prints = r"""import os; os.write(2, b"ValueError: no luck\n" + b" indented\n" * 15); os._exit(3)"""
        result = run("--max-restarts", "9", "--restart-policy", "progress",
                     shell=f"[ $RANK = 0 ] && exec sleep 60; exec python3 -c '{prints}'")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("failed with exit code 3 and 'ValueError: no luck', each within 30 s", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
