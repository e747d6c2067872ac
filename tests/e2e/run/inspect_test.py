# SPDX-License-Identifier: Apache-2.0
"""What another shell sees of a running job: muster ps, status, stacks. Real processes throughout."""

import fcntl
import json
import os
import re
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from terminal import Terminal

MUSTER = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")
LIMIT_S = 60
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
# Fails once, then waits.
SECOND_TRY = """\
import os, sys
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(3)
print("ready", flush=True)
sys.stdin.read(1)
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


def muster(*arguments, **keywords):
    return subprocess.run([MUSTER, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False, **keywords)


ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


class Inspect(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.program = os.path.join(self.folder.name, "looked_at.py")

    def start(self, *flags, workers=2, program=PROGRAM, **environment):
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(program)
        job = subprocess.Popen([MUSTER, "run", "--nproc-per-node", str(workers), *flags, self.program],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, PYTHON_EXEC=sys.executable, **environment))
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
        """Of the job, whose workers may be ready before its launcher can be seen."""
        deadline = time.monotonic() + LIMIT_S
        while not (cards := [card for card in json.loads(muster("ps", "--json").stdout) if card["pid"] == job.pid]):
            self.assertLess(time.monotonic(), deadline, "the job is never seen")
        self.assertEqual(len(cards), 1)
        return cards[0]

    def until_shown(self, pattern, *arguments):
        """What the command shows once that is in it: a rank that has said "ready" has not got to its next line yet."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            asked = muster(*arguments)
            self.assertEqual(asked.returncode, 0, asked.stderr)
            if re.search(pattern, asked.stdout):
                return asked.stdout
            self.assertLess(time.monotonic(), deadline, asked.stdout)

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
            self.assertRegex(asked.stdout, r"(?m)^0 +\d+ +\S+ s +\S+ \SiB +\d+ s +(moves|waits for .*)$")
            self.assertRegex(asked.stdout, r"(?m)^1 +\d+ +\S+ s +\S+ \SiB +\d+ s +(moves|waits for .*)$")
        answer = json.loads(muster("status", card["id"], "--rank", "1", "--json").stdout)
        (worker,) = answer["nodes"][0]["workers"]
        self.assertEqual(worker["rank"], 1)
        self.assertGreater(worker["memory"], 1 << 20)
        self.assertEqual(answer["no_answer_from"], [])

    def test_each_rank_is_shown_as_its_agent_sees_it(self):
        card = self.card(self.start("--hang-timeout", "0.6", CUDA_VISIBLE_DEVICES="5,7"))
        deadline = time.monotonic() + LIMIT_S
        kinds = []
        # What the kernel tells of a rank may be known before its stack is.
        while kinds != [("waits", "lock", "looked_at.py:6 in hold"), ("waits", "file", "looked_at.py:9 in save")]:
            self.assertLess(time.monotonic(), deadline, kinds)
            workers = json.loads(muster("status", card["id"], "--json").stdout)["nodes"][0]["workers"]
            kinds = [(worker["activity"], worker["wait"], worker["place"]) for worker in workers]
        self.assertRegex(workers[0]["does"], r"^waits for a lock or an event since \d+ s$")
        self.assertRegex(workers[1]["does"], r"^waits for a file, a pipe or a socket since \d+ s$")
        for worker in workers:
            self.assertEqual(worker["gpu"], "5,7")
            self.assertTrue(0 <= worker["output_ms"] < LIMIT_S * 1000, worker)
            self.assertLessEqual(worker["since_ms"], worker["still_ms"])
        self.until_shown(r"(?m)^RANK  PID +CPU +MEMORY +GPU  OUTPUT  NOW\n0 .* 5,7  \d+ s +waits for a lock .* \(looked_at.py:6 in hold\)$",
                         "status", card["id"])

    def test_nothing_is_said_of_ranks_that_are_not_watched(self):
        card = self.card(self.start("--hang-timeout", "0"))
        (worker, _) = json.loads(muster("status", card["id"], "--json").stdout)["nodes"][0]["workers"]
        self.assertEqual((worker["does"], worker["state"]), ("", "running"))
        self.assertRegex(muster("status", card["id"]).stdout, r"(?m)^0 .* running$")

    def test_why_the_workers_were_restarted_is_said(self):
        card = self.card(self.start("--max-restarts", "2", workers=1, program=SECOND_TRY))
        shown = muster("status", card["id"]).stdout
        self.assertRegex(shown, r"(?m)^round 0 ended: rank 0 on \S+ failed \(exit code 3\); restarting all workers.*\(restart 1 of 2\)$")
        (ended,) = json.loads(muster("status", card["id"], "--json").stdout)["nodes"][0]["ended_rounds"]
        self.assertEqual(ended["round"], 0)

    def watch(self, *words, **environment):
        terminal = Terminal(MUSTER, "status", "--watch", "0.2", *words, **environment)
        self.addCleanup(terminal.close)
        terminal.until(r"NOW\x1b.*;1H1 +\d")
        return terminal

    def test_a_watch_changes_what_has_changed_and_gives_the_terminal_back(self):
        card = self.card(self.start())
        (stopped,) = (worker["pid"] for worker in json.loads(muster("status", card["id"], "--rank", "1", "--json").stdout)["nodes"][0]["workers"])
        terminal = self.watch(card["id"])
        self.assertTrue(terminal.text.startswith(ENTER), terminal.text)
        self.assertFalse(terminal.echoes())
        os.kill(stopped, signal.SIGSTOP)
        try:
            # A row of the table alone, in red.
            terminal.until(r"\x1b\[\d+;1H\x1b\[1;31m1 +\d+ [^\x1b]*stopped by a signal[^\x1b]*\x1b\[0m\x1b\[K")
        finally:
            os.kill(stopped, signal.SIGCONT)
        self.assertEqual(terminal.text.count("\x1b[2J"), 1, terminal.text)
        os.write(terminal.master, b"\x03")
        self.assertEqual(terminal.end(), 0, terminal.text)
        self.assertTrue(terminal.text.endswith(LEAVE), terminal.text)
        self.assertTrue(terminal.echoes())

    def test_a_watch_ends_with_sigterm_and_has_no_colours_where_none_are_wanted(self):
        terminal = self.watch(self.card(self.start())["id"], NO_COLOR="1")
        terminal.process.terminate()
        self.assertEqual(terminal.end(), 0, terminal.text)
        self.assertTrue(terminal.text.endswith(LEAVE), terminal.text)
        self.assertNotRegex(terminal.text, r"\x1b\[[0-9;]*m(?<!\x1b\[0m)")

    def test_a_watch_fits_its_terminal_whenever_that_changes(self):
        terminal = self.watch(self.card(self.start())["id"])
        fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 4, 30, 0, 0))
        os.kill(terminal.process.pid, signal.SIGWINCH)
        shown = terminal.until(r"\x1b\[2J.*\x1b\[2J.*\.\.\. 2 ranks")
        for line in re.findall(r"H(?:\x1b\[[0-9;]*m)?([^\x1b]*)", shown[shown.rindex("\x1b[2J"):]):
            self.assertLess(len(line), 30)

    def test_a_watch_leaves_the_last_picture_when_the_job_has_ended(self):
        job = self.start()
        card = self.card(job)
        terminal = self.watch(card["id"])
        job.terminate()
        self.assertEqual(terminal.end(), 0, terminal.text)
        left = terminal.text[terminal.text.rindex(LEAVE):]
        self.assertRegex(left, rf"(?s)RANK.*\r\njob {card['id']} has ended\r\n$")
        self.assertTrue(terminal.echoes())

    def test_a_watch_without_a_terminal_prints_one_picture_after_the_other(self):
        job = self.start()
        card = self.card(job)

        def watch(*flags):
            process = subprocess.Popen([MUSTER, "status", card["id"], "--watch", "0.1", *flags], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.communicate, timeout=LIMIT_S)
            self.addCleanup(process.kill)
            return process

        texts, lines = watch(), watch("--json")
        first = f"{card['id']}: {self.program}, "
        self.assertTrue(texts.stdout.readline().startswith(first))
        for line in texts.stdout:
            if line == "\n":
                break
        self.assertTrue(texts.stdout.readline().startswith(first))
        texts.send_signal(signal.SIGINT)
        rest, trouble = texts.communicate(timeout=LIMIT_S)
        self.assertEqual((texts.returncode, trouble), (0, ""))
        self.assertNotIn("\x1b", rest)
        for _ in range(2):
            self.assertEqual(json.loads(lines.stdout.readline())["job"]["id"], card["id"])
        job.terminate()
        rest, trouble = lines.communicate(timeout=LIMIT_S)
        self.assertEqual(lines.returncode, 0, trouble)
        for line in rest.splitlines():
            json.loads(line)

    def test_stacks_name_the_line_of_each_rank(self):
        job = self.start()
        self.until_shown(r"(?m)^rank 0: \S+looked_at\.py:6 hold <- (.*\n)+rank 1: \S+looked_at\.py:9 save <- ", "stacks", self.card(job)["id"])
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
        both = self.until_shown(r"looked_at\.py:5 wait .*<- looked_at\.py:6 <module>", "stacks", card["id"], "--helpers")
        self.assertRegex(both, r"<string>:2 load <- <string>:3 <module>")

    def test_the_folder_is_for_nobody_else_and_goes_with_the_job(self):
        job = self.start()
        card = self.card(job)
        for path in (FOLDER, os.path.join(FOLDER, card["id"])):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o700)
        job.terminate()
        job.communicate(timeout=LIMIT_S)
        self.assertFalse(os.path.exists(os.path.join(FOLDER, card["id"])))
        gone = muster("stacks", card["id"])
        self.assertEqual(gone.returncode, 3, gone.stderr)

    def test_a_job_that_has_ended_is_known_for_a_while(self):
        name = f"ended-{os.getpid()}"
        with tempfile.NamedTemporaryFile() as report:
            job = self.start("--name", name, "--report", report.name)
            card = self.card(job)
            job.terminate()
            job.communicate(timeout=LIMIT_S)
        for text in (card["id"], name):
            said = muster("status", text)
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertRegex(said.stdout, rf"^{card['id']} \({name}\): \S+looked_at\.py, ended \d+ s ago, after \d+ s, with exit code 143\n"
                                          rf"cause   interrupted by SIGTERM\nreport  {report.name}\nCPU     \S+ s\n"
                                          r"memory  \S+ \SiB at most, of its largest process\n$")
        ended = json.loads(muster("status", name, "--json").stdout)
        self.assertEqual((ended["job"]["id"], ended["nodes"], ended["ended"]["exit_code"]), (card["id"], [], 143))
        self.assertGreater(ended["ended"]["memory_peak"], 1 << 20)
        self.assertNotIn(card["id"], muster("ps").stdout)
        listed = muster("ps", "-a").stdout
        self.assertRegex(listed, r"^JOB +NAME +STATE +AGE ")
        self.assertRegex(listed, rf"(?m)^{card['id']} +{name} +ended \(143\) \d+ s ago +\d+ s ")
        self.assertIn(card["id"], [one["id"] for one in json.loads(muster("ps", "--all", "--json").stdout) if "ended" in one])
        for command in ("stacks", "kill"):
            late = muster(command, name)
            self.assertEqual(late.returncode, 3, late.stderr)
            self.assertIn(f"job {card['id']} has ended with exit code 143; 'muster status {card['id']}' says how", late.stderr)
        # A job that runs goes before one that has ended.
        again = self.card(self.start("--name", name))
        self.assertIn(again["id"], muster("status", name).stdout)

    @unittest.skipUnless(os.geteuid() == 0, "has a /tmp of its own")
    def test_clean_removes_what_ended_jobs_have_left(self):
        script = """mount -t tmpfs none /tmp || exit 99
            until_seen() { until [ "$(/proc/self/fd/9 ps --json | grep -o '"start_time":' | wc -l)" = "$1" ]; do sleep 0.05; done; }
            /proc/self/fd/9 run --no-python true
            /proc/self/fd/9 run --no-python sleep 1000 & killed=$!; until_seen 1
            /proc/self/fd/9 run --no-python sleep 1000 & until_seen 2
            kill -9 $killed; wait $killed
            /proc/self/fd/9 clean; /proc/self/fd/9 ps -a --json; /proc/self/fd/9 clean
            /proc/self/fd/9 kill --now; ls /tmp/muster-0/ended | wc -l; /proc/self/fd/9 clean
            ! test -e /tmp/muster-0 || echo left"""
        ran = subprocess.run(["unshare", "-m", "sh", "-c", f"exec 9<'{MUSTER}'; {script}"], capture_output=True, text=True, timeout=LIMIT_S,
                             check=False, stdin=subprocess.DEVNULL)
        if ran.returncode == 99 or "unshare" in ran.stderr:
            self.skipTest("no mount namespaces here")
        said = ran.stdout.splitlines()
        self.assertEqual(said[0], "removed 1 record of jobs that have ended, and 1 folder of jobs whose processes were killed", ran)
        self.assertIn('"pid":', said[2])
        self.assertNotIn('"ended"', ran.stdout)
        self.assertEqual(said[4], "removed 0 records of jobs that have ended, and 0 folders of jobs whose processes were killed", ran)
        self.assertIn("ended: exit code 143", said[5])
        self.assertEqual(said[6:], ["1", "removed 1 record of jobs that have ended, and 0 folders of jobs whose processes were killed"],
                         ran)

    def test_what_a_killed_launcher_left_is_removed(self):
        job = self.start()
        card = self.card(job)
        # Once it is killed, whoever lists jobs removes the folder, also another test.
        self.assertTrue(os.path.exists(os.path.join(FOLDER, card["id"])))
        job.kill()
        job.communicate(timeout=LIMIT_S)
        self.assertNotIn(card["id"], muster("ps").stdout)
        self.assertFalse(os.path.exists(os.path.join(FOLDER, card["id"])))

    def test_a_stopped_launcher_is_no_answer_in_time(self):
        job = self.start()
        card = self.card(job)
        job.send_signal(signal.SIGSTOP)
        asked = muster("status", card["id"])
        self.assertEqual(asked.returncode, 3, asked.stderr)
        self.assertIn("does not answer", asked.stderr)

    def test_a_stopped_agent_is_named(self):
        job = self.start()
        card = self.card(job)
        node = json.loads(muster("status", card["id"], "--json").stdout)["nodes"][0]
        os.kill(node["pid"], signal.SIGSTOP)
        try:
            asked = muster("status", card["id"])
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

    def test_a_job_has_the_name_that_it_was_given(self):
        name = f"named-{os.getpid()}"
        first = self.card(self.start("--name", name))
        self.assertEqual(first["name"], name)
        shown = muster("ps").stdout
        self.assertRegex(shown, r"^JOB +NAME +AGE ")
        self.assertRegex(shown, rf"(?m)^{first['id']} +{name} +\d+ s ")
        for text in (name, name[:-1]):
            asked = muster("status", text)
            self.assertEqual(asked.returncode, 0, asked.stderr)
            self.assertTrue(asked.stdout.startswith(f"{first['id']} ({name}): "), asked.stdout)
        second = self.card(self.start("--name", name))
        both = muster("status", name)
        self.assertEqual(both.returncode, 2, both.stderr)
        for card in (first, second):
            self.assertIn(f"{card['id']} ({name})", both.stderr)
        # The name of one job may be the --rdzv-id of another.
        third = self.card(self.start("--rdzv-id", name + "-x"))
        fourth = self.card(self.start("--name", name + "-x"))
        self.assertIn(fourth["id"], muster("status", name + "-x").stdout)
        self.assertIn(third["id"], muster("status", third["id"]).stdout)
        for wrong in ("", "a b", "-x", "x" * 65, "a/b"):
            refused = muster("run", f"--name={wrong}", "--no-python", "true")
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn(f"--name={wrong} is no name of a job", refused.stderr)

    def test_wrong_names_and_flags(self):
        job = self.start()
        other = self.start()
        ids = [self.card(one)["id"] for one in (job, other)]
        both = muster("status", "looked_at-")
        self.assertEqual(both.returncode, 2, both.stderr)
        for one in ids:
            self.assertIn(one, both.stderr)
        unknown = muster("stacks", "no-such-job")
        self.assertEqual(unknown.returncode, 1, unknown.stderr)
        self.assertIn("no job 'no-such-job'", unknown.stderr)
        for wrong in (("status", "--rank", "x"), ("ps", "extra"), ("stacks", "--nothing")):
            self.assertEqual(muster(*wrong).returncode, 2, wrong)
        for command in ("ps", "status", "stacks", "clean"):
            self.assertIn(f"Usage: muster {command}", muster(command, "--help").stdout)


if __name__ == "__main__":
    unittest.main()
