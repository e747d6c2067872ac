# SPDX-License-Identifier: Apache-2.0
"""What another shell sees of a running job: muster ps, status, stacks. Real processes throughout."""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

MUSTER = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")
LIMIT_S = 30
FOLDER = f"/tmp/muster-{os.geteuid()}"
PROGRAM = """\
import os, sys, threading
held = threading.Lock()
held.acquire()
def hold():
    print("ready", flush=True)
    held.acquire()
def save():
    print("ready", flush=True)
    sys.stdin.read(1)
if os.environ["RANK"] == "1":
    save()
hold()
"""
# A worker of two steps, then a program that it has started.
PARENT = """\
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys\\ndef load(): print('ready', flush=True); sys.stdin.read(1)\\nload()"],
                         stdin=subprocess.PIPE)
def wait():
    child.wait()
wait()
"""
# Connects as whoever runs it, and says what it got.
STRANGER = """\
import socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(20)
    try:
        s.connect(sys.argv[1])
        s.sendall(b"{}\\n")
        print("got", s.recv(100))
    except OSError as error:
        print(type(error).__name__)
"""
NOBODY = 65534


def muster(*arguments, limit=LIMIT_S, **keywords):
    return subprocess.run([MUSTER, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit, check=False, **keywords)


class Inspect(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.program = os.path.join(self.folder.name, "looked_at.py")

    def start(self, *flags, workers=2, program=PROGRAM):
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(program)
        job = subprocess.Popen([MUSTER, "run", "--nproc-per-node", str(workers), *flags, self.program],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, PYTHON_EXEC=sys.executable))
        self.addCleanup(self.end, job)
        for _ in range(workers):
            self.assertEqual(job.stdout.readline(), "ready\n")
        return job

    def end(self, job):
        if job.poll() is None:
            job.send_signal(signal.SIGCONT)
            job.terminate()
        job.communicate(timeout=LIMIT_S)

    def card(self, job):
        cards = [card for card in json.loads(muster("ps", "--json").stdout) if card["pid"] == job.pid]
        self.assertEqual(len(cards), 1)
        return cards[0]

    def test_a_job_is_found_and_asked_what_its_ranks_do(self):
        job = self.start("--rdzv-id", f"of-{os.getpid()}")
        card = self.card(job)
        self.assertTrue(card["id"].startswith("looked_at-"), card)
        self.assertEqual((card["run_id"], card["nodes"], card["workers"]), (f"of-{os.getpid()}", 1, 2))
        self.assertIn(self.program, card["arguments"])
        self.assertIn(card["id"], muster("ps").stdout)
        for name in (card["id"], card["id"][:-2], card["run_id"]):
            asked = muster("status", name)
            self.assertEqual(asked.returncode, 0, asked.stderr)
            self.assertRegex(asked.stdout, r"(?m)^node \S+: works; round 0$")
            self.assertRegex(asked.stdout, r"(?m)^0 +\S+ +\d+ +\S+ s +\S+ \SiB +- +running +-$")
            self.assertRegex(asked.stdout, r"(?m)^1 +\S+ +\d+ +\S+ s +\S+ \SiB +- +running +-$")
        answer = json.loads(muster("status", card["id"], "--rank", "1", "--json").stdout)
        (worker,) = answer["nodes"][0]["workers"]
        self.assertEqual(worker["rank"], 1)
        self.assertGreater(worker["memory"], 1 << 20)
        self.assertEqual(answer["no_answer_from"], [])

    def test_stacks_name_the_line_of_each_rank(self):
        job = self.start()
        asked = muster("stacks", self.card(job)["id"])
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertRegex(asked.stdout, r"(?m)^rank 0: \S+looked_at\.py:6 hold <- ")
        self.assertRegex(asked.stdout, r"(?m)^rank 1: \S+looked_at\.py:9 save <- ")
        only = muster("stacks", self.card(job)["id"], "--rank", "1").stdout
        for command in ("status", "stacks"):
            absent = muster(command, self.card(job)["id"], "--rank", "1,7-9")
            self.assertEqual((absent.returncode, absent.stdout), (2, ""))
            self.assertRegex(absent.stderr, r"--rank: job \S+ has no rank 7-9 now; 'muster status \S+' lists its ranks")
        self.assertNotIn("hold", only)
        self.assertIn("save", only)
        pictures = [process for worker in json.loads(muster("stacks", self.card(job)["id"], "--json").stdout)["nodes"][0]["workers"] for process in worker["processes"]]
        self.assertEqual([[frame["function"] for frame in picture["stacks"]["threads"][-1]["frames"]][-1] for picture in pictures], ["<module>"] * 2)

    def test_helpers_are_the_programs_that_a_rank_has_started(self):
        card = self.card(self.start(workers=1, program=PARENT))
        self.assertNotIn("load", muster("stacks", card["id"]).stdout)
        both = muster("stacks", card["id"], "--helpers").stdout
        self.assertRegex(both, r"looked_at\.py:5 wait .*<- looked_at\.py:6 <module>")
        self.assertRegex(both, r"<string>:2 load <- <string>:3 <module>")

    def test_the_folder_is_for_nobody_else_and_goes_with_the_job(self):
        job = self.start()
        card = self.card(job)
        for path in (FOLDER, os.path.join(FOLDER, card["id"])):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o700)
        job.terminate()
        job.communicate(timeout=LIMIT_S)
        self.assertFalse(os.path.exists(os.path.join(FOLDER, card["id"])))
        gone = muster("status", card["id"])
        self.assertEqual(gone.returncode, 1, gone.stderr)

    def test_what_a_killed_launcher_left_is_removed(self):
        job = self.start()
        card = self.card(job)
        job.kill()
        job.communicate(timeout=LIMIT_S)
        self.assertTrue(os.path.exists(os.path.join(FOLDER, card["id"])))
        self.assertNotIn(card["id"], muster("ps").stdout)
        self.assertFalse(os.path.exists(os.path.join(FOLDER, card["id"])))

    def test_a_stopped_launcher_is_no_answer_in_time(self):
        job = self.start()
        card = self.card(job)
        job.send_signal(signal.SIGSTOP)
        since = time.monotonic()
        asked = muster("status", card["id"], limit=15)
        self.assertEqual(asked.returncode, 3, asked.stderr)
        self.assertIn("does not answer", asked.stderr)
        self.assertLess(time.monotonic() - since, 12)

    def test_a_stopped_agent_is_named(self):
        job = self.start()
        card = self.card(job)
        node = json.loads(muster("status", card["id"], "--json").stdout)["nodes"][0]
        os.kill(node["pid"], signal.SIGSTOP)
        try:
            asked = muster("status", card["id"], limit=15)
        finally:
            os.kill(node["pid"], signal.SIGCONT)
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertRegex(asked.stdout, r"(?m)^no answer for 3 s from \S+: partial, 0 of 1 node$")

    @unittest.skipUnless(os.geteuid() == 0, "becomes another user")
    def test_another_user_sees_nothing_and_is_refused(self):
        job = self.start()
        card = self.card(job)
        theirs = muster("ps", user=NOBODY, group=NOBODY, extra_groups=[])
        self.assertEqual(theirs.returncode, 0, theirs)
        self.assertNotIn(card["id"], theirs.stdout)
        self.assertEqual(muster("status", card["id"], user=NOBODY, group=NOBODY, extra_groups=[]).returncode, 1)
        folder = os.path.join(FOLDER, card["id"])
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        self.addCleanup(os.close, fd)

        def connect(path, **user):
            return subprocess.run([sys.executable, "-c", STRANGER, f"{path}/socket"], capture_output=True, text=True, timeout=LIMIT_S,
                                  check=True, pass_fds=[fd], **user).stdout

        # The folder keeps them out; where it does not, the launcher asks the kernel who they are.
        nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self.assertEqual(connect(folder, **nobody), "PermissionError\n")
        os.chmod(folder, 0o711)
        os.chmod(f"{folder}/socket", 0o777)
        self.assertIn(connect(f"/proc/self/fd/{fd}", **nobody), ("got b''\n", "ConnectionResetError\n", "BrokenPipeError\n"))
        self.assertRegex(connect(f"/proc/self/fd/{fd}"), r"^got b'\{")

    def test_a_job_runs_where_its_folder_cannot_be_made(self):
        # The executable may lie below the /tmp that is covered.
        script = 'exec 9<"$2"; mount -t tmpfs none /tmp && ln -s /nowhere "$1" && exec /proc/self/fd/9 run --no-python echo ran'
        ran = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", FOLDER, MUSTER], capture_output=True, text=True, timeout=LIMIT_S,
                             check=False, stdin=subprocess.DEVNULL)
        if "unshare" in ran.stderr:
            self.skipTest("no mount namespaces here")
        self.assertEqual((ran.returncode, ran.stdout), (0, "ran\n"), ran.stderr)
        self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)
        self.assertIn(f"muster ps and muster status will not show this job: {FOLDER} is no directory; remove it", ran.stderr)

    def test_wrong_names_and_flags(self):
        job = self.start()
        other = self.start()
        both = muster("status", "looked_at-")
        self.assertEqual(both.returncode, 2, both.stderr)
        self.assertIn(self.card(job)["id"], both.stderr)
        self.assertIn(self.card(other)["id"], both.stderr)
        unknown = muster("stacks", "no-such-job")
        self.assertEqual(unknown.returncode, 1, unknown.stderr)
        self.assertIn("no job 'no-such-job'", unknown.stderr)
        for wrong in (("status", "--rank", "x"), ("ps", "extra"), ("stacks", "--nothing")):
            self.assertEqual(muster(*wrong).returncode, 2, wrong)
        for command in ("ps", "status", "stacks"):
            self.assertIn(f"Usage: muster {command}", muster(command, "--help").stdout)


if __name__ == "__main__":
    unittest.main()
