# SPDX-License-Identifier: Apache-2.0
"""A running job is ended from another shell, or its ranks get a signal: muster kill. Real processes throughout."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

MUSTER = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")
LIMIT_S = 60
UID = os.geteuid()
# Says which signals it gets. The first argument names those of rank 0, the second those of the others; SIGTERM ends it, after the
# seconds of the third.
PROGRAM = """\
import os, signal, sys, time
def say(text):
    os.write(1, f"{os.environ['RANK']} {text}\\n".encode())
def on(number, frame):
    say(signal.Signals(number).name)
    if number == signal.SIGTERM:
        time.sleep(float(sys.argv[3]))
        say("saved")
        sys.exit(0)
for name in sys.argv[1 if os.environ["RANK"] == "0" else 2].split():
    signal.signal(getattr(signal, name), on)
say("ready")
while True:
    time.sleep(0.1)  # pause() would wait for ever if the signal came just before it.
"""
# Ends by nothing but KILL.
STUBBORN = "trap '' TERM INT HUP QUIT; echo ready; while :; do sleep 600; done"


def muster(*arguments):
    return subprocess.run([MUSTER, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)


class Kill(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.report = os.path.join(self.folder.name, "report.json")
        self.jobs = 0

    def start(self, *flags, command, workers=2):
        """The job, whose workers have said that they are ready, and its name."""
        self.jobs += 1
        name = f"kill-{os.getpid()}-{self._testMethodName[-20:]}-{self.jobs}".replace(" ", "")
        job = subprocess.Popen([MUSTER, "run", "--nproc-per-node", str(workers), "--name", name, "--report", self.report, *flags,
                                "--no-python", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, job)
        for _ in range(workers):
            self.assertIn("ready", job.stdout.readline())
        # Workers may be ready before their launcher can be seen.
        deadline = time.monotonic() + LIMIT_S
        while all(card["pid"] != job.pid for card in json.loads(muster("ps", "--json").stdout)):
            self.assertLess(time.monotonic(), deadline, "the job is never seen")
        return job, name

    def trainer(self, *flags, first="SIGTERM SIGUSR1", others="SIGTERM SIGUSR1", saves_for=0, workers=2):
        return self.start(*flags, command=[sys.executable, "-c", PROGRAM, first, others, str(saves_for)], workers=workers)

    def end(self, job):
        if job.poll() is None:
            job.send_signal(signal.SIGCONT)
            job.kill()
        job.communicate(timeout=LIMIT_S)

    def ended(self, job):
        """Its exit code, what it had still printed, and its stderr."""
        out, err = job.communicate(timeout=LIMIT_S)
        return job.returncode, out, err

    def killed(self, *arguments, code=0):
        asked = muster("kill", *arguments)
        self.assertEqual(asked.returncode, code, asked)
        return asked

    def test_a_job_ends_as_by_a_signal_and_says_who_ended_it(self):
        job, name = self.trainer()
        asked = self.killed(name)
        by = rf"'muster kill' \(uid {UID}, process \d+\)"
        self.assertRegex(asked.stdout, rf"^job \S+ ended: exit code 143, interrupted by SIGTERM from {by}\n$")
        self.assertEqual(asked.stderr, "")
        code, out, err = self.ended(job)
        self.assertEqual(code, 143)
        self.assertEqual(sorted(out.splitlines()), ["0 SIGTERM", "0 saved", "1 SIGTERM", "1 saved"])
        self.assertRegex(err, rf"(?m)^muster: warning: {by} ends the job with SIGTERM$")
        self.assertRegex(err, rf"stopped: interrupted by SIGTERM from {by}\n")
        with open(self.report, encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual((report["outcome"], report["exit_code"]), ("interrupted", 143))
        self.assertRegex(report["cause"], by)
        self.assertIn("with exit code 143", muster("status", name).stdout)

    def test_another_stop_signal_has_its_own_code(self):
        job, name = self.trainer(first="SIGHUP", others="SIGHUP")
        asked = json.loads(self.killed(name, "--signal", "HUP", "--grace", "0.1", "--json").stdout)
        self.assertEqual((asked["schema"], asked["version"], asked["exit_code"]), ("muster.kill", 1, 129))
        self.assertIn("interrupted by SIGHUP from 'muster kill'", asked["cause"])
        self.assertEqual(self.ended(job)[0], 129)

    def test_at_once_nobody_is_waited_for(self):
        job, name = self.start("--shutdown-timeout", "600", command=["sh", "-c", STUBBORN])
        self.assertIn("'muster kill --now'", self.killed(name, "--now").stdout)
        code, _, err = self.ended(job)
        self.assertEqual(code, 143)
        self.assertIn("ends the job: killing all workers", err)
        self.assertNotIn("second Ctrl-C", err)
        self.assertIn("stopped by us, with KILL: ranks 0, 1", err)

    def test_a_grace_of_its_own_is_shorter_or_longer(self):
        job, name = self.start("--shutdown-timeout", "600", command=["sh", "-c", STUBBORN])
        self.assertIn("exit code 143", self.killed(name, "--grace", "0.2").stdout)
        self.assertIn("stopped by us, with KILL: ranks 0, 1", self.ended(job)[2])
        job, name = self.trainer("--shutdown-timeout", "0.1", saves_for=1.5)
        self.killed(name, "--grace", "25")
        self.assertEqual(sorted(self.ended(job)[1].splitlines()), ["0 SIGTERM", "0 saved", "1 SIGTERM", "1 saved"])

    def test_a_notice_reaches_those_that_handle_it_and_ends_nothing(self):
        job, name = self.trainer(others="SIGTERM")
        asked = self.killed(name, "--signal", "USR1")
        self.assertRegex(asked.stdout, r"^SIGUSR1 was passed on to rank 0 of job \S+; rank 1 does not handle it\n$")
        self.assertEqual(job.stdout.readline(), "0 SIGUSR1\n")
        nobody = self.killed(name, "--signal", "USR2", "--json", code=3)
        self.assertEqual([json.loads(nobody.stdout)[key] for key in ("got", "without", "no_answer_from")], [[], [0, 1], []])
        self.assertIsNone(job.poll())
        self.killed(name)
        self.assertIn("SIGUSR1 is passed on to the workers that handle it; the job goes on", self.ended(job)[2])

    def test_ranks_get_any_signal_and_their_failure_is_one_of_the_job(self):
        job, name = self.trainer(workers=3)
        asked = self.killed(name, "--rank", "1-2", "--signal", "USR1")
        self.assertRegex(asked.stdout, r"^SIGUSR1 was sent to ranks 1, 2 of job \S+\n$")
        self.assertEqual(sorted(job.stdout.readline() for _ in range(2)), ["1 SIGUSR1\n", "2 SIGUSR1\n"])
        absent = self.killed(name, "--rank", "1,7", "--signal", "KILL", code=2)
        self.assertRegex(absent.stderr, r"job \S+ has no rank 7 now")
        self.assertIsNone(job.poll())
        self.killed(name, "--rank", "1", "--signal", "9")
        code, out, err = self.ended(job)
        self.assertEqual(code, 137)
        self.assertEqual(sorted(out.splitlines()), ["0 SIGTERM", "0 saved", "2 SIGTERM", "2 saved"])
        self.assertRegex(err, r"failed: rank 1 on \S+: killed by SIGKILL\n")
        self.assertRegex(err, rf"note +'muster kill' \(uid {UID}, process \d+\) sends SIGKILL to rank 1\n")

    def test_a_rank_that_ends_is_started_again_by_the_rules_of_the_job(self):
        job, name = self.trainer("--max-restarts", "1")
        self.killed(name, "--rank", "0", "--signal", "KILL")
        lines = [job.stdout.readline() for _ in range(4)]
        self.assertEqual(sorted(line for line in lines if "ready" in line), ["0 ready\n", "1 ready\n"], lines)
        self.killed(name)
        self.assertIn("restart 1 of 1", self.ended(job)[2])

    def test_what_a_wrapper_waits_for_gets_the_signal_that_it_handles(self):
        command = " ".join(["'" + sys.executable + "'", '-c "$0"', "SIGUSR1", "SIGUSR1", "0"]) + "; exit $?"
        job, name = self.start(command=["sh", "-c", command, PROGRAM], workers=1)
        self.killed(name, "--rank", "0", "--signal", "USR1")
        self.assertEqual(job.stdout.readline(), "0 SIGUSR1\n")
        self.killed(name, "--rank", "0")
        self.assertEqual(self.ended(job)[0], 143)

    def test_wrong_signals_and_names_change_nothing(self):
        job, name = self.trainer()
        refused = self.killed(name, "--signal", "WINCH", code=2)
        self.assertIn("SIGWINCH says nothing to it: it ends at SIGHUP, SIGINT, SIGQUIT, SIGTERM, and passes on SIGUSR1, SIGUSR2", refused.stderr)
        self.killed(name, "--signal", "USR1", "--grace", "3", code=2)
        self.assertIn("no job 'no-such-job'", self.killed("no-such-job", code=1).stderr)
        for wrong in (("--now", "--rank", "0"), ("--grace", "x"), ("--signal", "NOPE"), ("--rank", "x"), ("one", "two")):
            self.killed(*wrong, code=2)
        self.assertIsNone(job.poll())
        self.assertEqual(muster("status", name).returncode, 0)

    def test_who_only_looks_at_a_job_sends_no_signal(self):
        job, name = self.trainer()
        (card,) = [card for card in json.loads(muster("ps", "--json").stdout) if card["name"] == name]
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(LIMIT_S)
            asked.connect(f"/tmp/muster-{UID}/{card['id']}/socket")
            asked.sendall(b'{"signal": 9, "ranks": [0, 1]}\n')
            self.assertIn('"rank":1', asked.makefile().readline())
        self.killed(name)
        self.assertEqual(self.ended(job)[0], 143)

    def test_a_stopped_launcher_does_not_answer_and_ends_the_job_later(self):
        job, name = self.trainer()
        job.send_signal(signal.SIGSTOP)
        self.assertIn("does not answer", self.killed(name, code=3).stderr)
        job.send_signal(signal.SIGCONT)
        self.assertEqual(self.ended(job)[0], 143)

    def test_a_launcher_that_is_killed_meanwhile_is_said(self):
        job, name = self.trainer("--shutdown-timeout", "1", saves_for=600)
        asked = subprocess.Popen([MUSTER, "kill", name, "--grace", "31"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2):
            self.assertRegex(job.stdout.readline(), "^[01] SIGTERM$")
        job.kill()
        out, err = asked.communicate(timeout=LIMIT_S)
        self.assertEqual((asked.returncode, out), (3, ""), err)
        # The order may have done its work before its answer has left.
        self.assertRegex(err, "its launcher (went without a word|hung up)")

    def test_several_wait_for_the_same_end(self):
        job, name = self.trainer(saves_for=1)
        waiting = [subprocess.Popen([MUSTER, "kill", name], stdout=subprocess.PIPE, text=True) for _ in range(6)]
        lines = [one.communicate(timeout=LIMIT_S)[0] for one in waiting]
        answered = [line for one, line in zip(waiting, lines) if one.returncode == 0]
        self.assertGreaterEqual(len(answered), 1, lines)
        self.assertEqual(len(set(answered)), 1, lines)
        self.assertTrue(re.match(r"job \S+ ended: exit code 143, ", answered[0]), lines)
        self.assertEqual(self.ended(job)[0], 143)


if __name__ == "__main__":
    unittest.main()
