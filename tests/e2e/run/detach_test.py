# SPDX-License-Identifier: Apache-2.0
"""A job without a terminal: muster run --detach, muster logs and muster attach. Real processes throughout."""

import json
import os
import re
import resource
import select
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

from processes import children, lives, marked, name_of, state, wait_until
from terminal import Terminal

MUSTER = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")
LIMIT_S = 60
# Says what comes through its folder: each line of the file "say", once; ends by SIGTERM or SIGINT, or where it is to.
PROGRAM = """\
import os, signal, sys, time
rank = os.environ["RANK"]
def say(text, fd=1):
    os.write(fd, (text + "\\n").encode())
def end(number, frame):
    say(f"saved {rank}")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
say(f"ready {rank}")
say(f"trouble {rank}", 2)
os.write(1, f"unfinished {rank}".encode())
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
say(f" and finished {rank}")
"""


def read_file(path):
    """Its text, or "" where it is not there yet."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


class DetachedJobs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.state = os.path.join(self.folder.name, "state")
        self.mark = f"detach-{os.getpid()}-{self._testMethodName}"
        self.environment = {**os.environ, "XDG_STATE_HOME": self.state, "MUSTER_TEST_MARK": self.mark}
        self.go = os.path.join(self.folder.name, "go")

    def muster(self, *arguments, code=0, **more):
        ran = subprocess.run([MUSTER, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
                             env=self.environment, check=False, **more)
        self.assertEqual(ran.returncode, code, ran)
        return ran

    def detach(self, *flags, command=None, workers=2, **more):
        """Starts a job; returns its id."""
        command = command or [sys.executable, "-c", PROGRAM, self.go]
        ran = self.muster("run", "--detach", "--nproc-per-node", str(workers), *flags, "--no-python", *command, **more)
        job = ran.stdout.strip()
        self.addCleanup(subprocess.run, [MUSTER, "kill", "--now", job], capture_output=True, check=False, timeout=LIMIT_S)
        return job

    def card(self, job):
        return next(card for card in json.loads(self.muster("ps", "--json").stdout) if card["id"] == job)

    def console_of(self, launcher):
        """Its console process, which may have its name a moment after the job runs."""
        (console,) = wait_until(lambda: children(launcher, "muster:console"), "the console process", LIMIT_S)
        return console

    def follow(self, *arguments):
        """What runs beside the test, its stdout as a pipe."""
        process = subprocess.Popen([MUSTER, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=self.environment)
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        return process

    def folder_of(self, job):
        return os.path.join(self.state, "muster", job)

    def records(self, job):
        return [json.loads(line) for line in self.muster("logs", job, "--json").stdout.splitlines()]

    def until_ended(self, job):
        """Waits for the last record; returns it."""
        return wait_until(lambda: next((one for one in self.records(job) if one["stream"] == "end"), None), "the end of the job", LIMIT_S)

    def until_nothing_is_left(self):
        wait_until(lambda: marked(self.mark) == [], "the end of every process", LIMIT_S)

    def until_recorded(self, job):
        """Waits until the job is known to have succeeded, which needs no console."""
        command = [MUSTER, "status", job]
        wait_until(lambda: "with exit code 0" in subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S).stdout,
                   "the end of the job", LIMIT_S)


class Detach(DetachedJobs):
    def test_it_runs_without_a_terminal_and_keeps_what_every_rank_prints(self):
        job = self.detach("--name", f"n-{os.getpid()}")
        card = self.card(job)
        launcher = card["pid"]
        self.assertEqual(os.getsid(launcher), launcher)
        self.assertEqual(os.readlink(f"/proc/{launcher}/fd/0"), "/dev/null")
        self.assertEqual(card["console"], self.folder_of(job))
        console = self.console_of(launcher)
        own = {os.readlink(f"/proc/{console}/fd/{fd}") for fd in os.listdir(f"/proc/{console}/fd")}
        self.assertLessEqual(sum(name.startswith("pipe:") for name in own), 2, own)
        self.assertFalse([name for name in own if name.startswith("socket:")], own)
        following = self.follow("logs", "-f", job)
        self.assertIn("unfinished 1", wait_until(lambda: self.muster("logs", job, "--rank", "1").stdout.count("unfinished") and
                                                 self.muster("logs", job, "--rank", "1").stdout, "the unfinished line"))
        os.kill(launcher, signal.SIGHUP)  # as at the end of a session
        with open(self.go, "w", encoding="utf-8"):
            pass
        out, err = following.communicate(timeout=LIMIT_S)
        self.assertEqual((following.returncode, err), (0, ""))
        for rank in range(2):
            for line in (f"ready {rank}", f"trouble {rank}"):
                self.assertEqual(out.count(f"[{rank}]: {line}\n"), 1, out)
            self.assertEqual(out.count(f" and finished {rank}\n"), 1, out)
        self.assertEqual(self.until_ended(job)["exit_code"], 0)
        only = self.muster("logs", job, "--rank", "1", "--round", "0").stdout
        self.assertNotRegex(only, r"(?m)ready 0|^muster")
        self.assertEqual(self.muster("logs", job, "--round", "1").stdout, "")
        self.assertEqual(self.muster("logs", job, "--since", "2030-01-01").stdout, "")
        self.assertRegex(self.muster("logs", job, "--since", "10m", "--timestamps").stdout,
                         r"(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \[0\]: ready 0$")
        trouble = next(one for one in self.records(job) if one.get("text") == "trouble 1")
        self.assertEqual([trouble[key] for key in ("stream", "rank", "round", "ends_line")], ["err", 1, 0, True])
        self.assertEqual(stat.S_IMODE(os.stat(self.folder_of(job)).st_mode), 0o700)
        for name in os.listdir(self.folder_of(job)):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.folder_of(job), name)).st_mode), 0o600, name)
        wait_until(lambda: not lives(console), "the end of the console process")

    def test_an_only_worker_has_its_rank_too_and_any_bytes_are_kept(self):
        job = self.detach(workers=1, command=["sh", "-c", r"printf 'a\tb\000\377\033[2J\n'; read line; echo end"])
        self.assertEqual(self.until_ended(job)["exit_code"], 0)
        shown = subprocess.run([MUSTER, "logs", job, "--rank", "0"], capture_output=True, env=self.environment, check=True,
                               timeout=LIMIT_S).stdout
        self.assertEqual(shown, b"a\tb\0\xff\x1b[2J\nend\n")
        terminal = Terminal(MUSTER, "logs", job, XDG_STATE_HOME=self.state)
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.end(), 0)
        self.assertIn("\\x00", terminal.text)

    def attached(self, job, *flags):
        terminal = Terminal(MUSTER, "attach", job, *flags, XDG_STATE_HOME=self.state)
        self.addCleanup(terminal.close)
        for rank in "01":
            terminal.until(rf"\[{rank}\]: ready {rank}")
        return terminal

    def test_attached_terminals_leave_or_end_the_job(self):
        job = self.detach()
        leaving, staying = self.attached(job), self.attached(job)
        os.write(leaving.master, b"\x1c")
        self.assertEqual(leaving.end(), 0)
        self.assertIn(f"job {job} goes on", leaving.text)
        self.assertTrue(leaving.echoes())
        again = self.attached(job)
        os.write(again.master, b"\x03")
        for terminal in (again, staying):
            self.assertEqual(terminal.end(), 130)
            for rank in range(2):
                self.assertIn(f"saved {rank}\r\n", terminal.text)
            self.assertIn("interrupted by SIGINT from 'muster kill'", terminal.text)
        self.assertTrue(again.echoes())
        self.assertEqual(self.until_ended(job)["exit_code"], 130)
        self.assertIn("has ended with exit code 130", self.muster("attach", job, code=3).stderr)

    def test_a_second_ctrl_c_ends_it_without_grace(self):
        job = self.detach("--shutdown-timeout", "600", command=["sh", "-c", "trap '' TERM INT; echo ready $RANK; while :; do sleep 600; done"])
        terminal = self.attached(job)
        os.write(terminal.master, b"\x03")
        terminal.until("ends the job with SIGINT")
        os.write(terminal.master, b"\x03")
        self.assertEqual(terminal.end(), 130)
        self.assertIn("stopped by us, with KILL: ranks 0, 1", terminal.text)

    def test_a_job_that_fails_before_its_workers_run_is_told_with_its_code(self):
        program = os.path.join(self.folder.name, "program")
        with open(program, "wb") as file:
            file.write(b"\x01\x02\x03 no program")
        os.chmod(program, 0o755)
        ran = self.muster("run", "--detach", "--no-python", program, code=126)
        self.assertEqual(ran.stdout, "")
        self.assertRegex(ran.stderr, r"(?m)^muster: error: \S*program failed: ")
        self.assertIn("has ended already, with exit code 126", ran.stderr)
        job = re.search(r"muster logs ([\w.-]+)", ran.stderr)[1]
        self.assertRegex(self.muster("logs", job).stdout, r"(?m)^muster: error: \S*program failed: ")

    def test_a_refused_start_leaves_nothing(self):
        self.muster("run", "--detach", "--nproc-per-node", "0", "--no-python", "true", code=2)
        self.muster("run", "--detach", "--stdin", "0", "--no-python", "true", code=2)
        self.assertFalse(os.path.exists(self.state))
        # The launcher itself finds out.
        self.environment["TMPDIR"] = os.path.join(self.folder.name, "absent", "below")
        with open(os.path.join(self.folder.name, "absent"), "w", encoding="utf-8"):
            pass
        ran = self.muster("run", "--detach", "--redirects", "3", "--no-python", "true", code=125)
        self.assertIn("the log directory", ran.stderr)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["absent"])
        self.environment["XDG_STATE_HOME"] = os.path.join(self.folder.name, "absent")
        self.assertIn("give --log-dir", self.muster("run", "--detach", "--no-python", "true", code=125).stderr)
        self.until_nothing_is_left()

    def test_it_outlives_its_console_process(self):
        job = self.detach()
        console = self.console_of(self.card(job)["pid"])
        wait_until(lambda: "ready 0" in self.muster("logs", job).stdout, "the first line")
        os.kill(console, signal.SIGKILL)
        wait_until(lambda: not lives(console), "the end of the console process")
        with open(self.go, "w", encoding="utf-8"):
            pass
        self.until_recorded(job)
        self.assertIn("[0]: ready 0\n", self.muster("logs", job).stdout)

    def test_nothing_is_left_when_its_launcher_is_killed(self):
        job = self.detach("--shutdown-timeout", "1")
        launcher = self.card(job)["pid"]
        console = self.console_of(launcher)
        ours = [pid for pid in marked(self.mark) if name_of(pid).startswith("muster")]
        self.assertIn(console, ours)
        following = self.follow("logs", "-f", job)
        os.kill(launcher, signal.SIGKILL)
        self.assertEqual(following.wait(LIMIT_S), 0)
        wait_until(lambda: [pid for pid in marked(self.mark) if pid != following.pid] == [], "the end of every process", LIMIT_S)
        self.assertIsNone(self.until_ended(job)["exit_code"])  # by its console alone

    def test_a_full_disk_holds_nobody_up(self):
        limit = 1 << 16

        def fill():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        command = ["sh", "-c", "i=0; while [ $i -lt 5000 ]; do echo $i of many lines that are printed; i=$((i+1)); done"]
        job = self.detach(command=command, workers=1, preexec_fn=fill)
        self.until_recorded(job)
        console = os.path.join(self.folder_of(job), "console.1.log")
        wait_until(lambda: os.path.getsize(console) == limit, "the console process to have written what there is room for", LIMIT_S)
        self.assertTrue(self.muster("logs", job).stdout.startswith("0 of many lines that are printed\n1 of"))

    @unittest.skipUnless("MUSTER_SILENT_DISK" in os.environ, "needs the library that makes a disk silent")
    def test_a_silent_disk_holds_nobody_up(self):
        self.environment["LD_PRELOAD"] = os.environ["MUSTER_SILENT_DISK"]
        # More than pipes and queues hold; its ranks then wait for the file that ends them.
        program = "import os, sys, time\nfor i in range(200000): print(i, 'x' * 50)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"
        job = self.detach(command=[sys.executable, "-c", program, self.go])
        card = self.card(job)
        console = self.console_of(card["pid"])
        with open(self.go, "w", encoding="utf-8"):
            pass
        self.until_recorded(job)
        wait_until(lambda: not lives(card["pid"]), "the end of the launcher", LIMIT_S)
        self.assertEqual(os.path.getsize(os.path.join(self.folder_of(job), "console.1.log")), 0)
        os.kill(console, signal.SIGKILL)  # it would wait for the disk for some seconds

    @unittest.skipUnless("MUSTER_SILENT_DISK" in os.environ, "needs the library that makes a disk silent")
    def test_a_folder_on_a_disk_that_does_not_answer_refuses_the_job(self):
        self.environment["LD_PRELOAD"] = os.environ["MUSTER_SILENT_DISK"]
        held = os.path.join(self.folder.name, "held")
        os.mkdir(held)
        self.environment["XDG_STATE_HOME"] = held
        ran = self.muster("run", "--detach", "--no-python", "true", code=125)
        self.assertIn(f"cannot be kept in {held}/muster: its file system has not answered for 3 s; give --log-dir", ran.stderr)
        self.assertEqual(os.listdir(held), [])
        self.until_nothing_is_left()
        logs = os.path.join(self.folder.name, "logs")
        self.muster("run", "--detach", "--log-dir", logs, "--no-python", "true")  # which asks nothing of the other one
        self.assertEqual(os.listdir(held), [])

    @unittest.skipUnless("MUSTER_SILENT_DISK" in os.environ, "needs the library that makes a disk silent")
    def test_a_folder_on_a_disk_that_does_not_answer_is_named_and_not_waited_for(self):
        held = os.path.join(self.folder.name, "held")
        self.environment["XDG_STATE_HOME"] = held
        job = self.detach()
        silent = "its file system has not answered for 3 s; see whether its server can be reached"
        self.environment["LD_PRELOAD"] = os.environ["MUSTER_SILENT_DISK"]
        for command in "logs", "attach":
            self.assertIn(f"the console of the job cannot be read in {held}/muster/{job}: {silent}", self.muster(command, job, code=125).stderr)
        self.assertIn(f"consoles of earlier jobs cannot be looked for in {held}/muster: {silent}", self.muster("logs", f"no-such-job-{os.getpid()}", code=125).stderr)
        if os.geteuid() == 0:  # with records of its own, as those of jobs beside this test are not to go
            private = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o mode=700 none /tmp/muster-0 && exec "$@"', "sh"]
            ran = subprocess.run([*private, MUSTER, "clean"], env=self.environment, capture_output=True, text=True, timeout=LIMIT_S, check=True)
            self.assertIn(f"warning: consoles of detached jobs are left in {held}/muster: {silent}", ran.stderr)
            self.assertIn("removed 0 records", ran.stdout)
        del self.environment["LD_PRELOAD"]
        self.muster("logs", job)

    def stop(self, pid):
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: state(pid) == "T", "that the process has got the signal")

    def test_a_console_process_that_is_stopped_goes_on(self):
        count = 100_000  # lines, more than pipes and queues hold
        program = ("import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
                   f"for i in range({count}): sys.stdout.write(f'{{i}}\\n')")
        job = self.detach(workers=1, command=[sys.executable, "-c", program, self.go])
        console = self.console_of(self.card(job)["pid"])
        os.kill(console, signal.SIGSTOP)
        with open(self.go, "w", encoding="utf-8"):
            pass
        self.until_recorded(job)
        self.assertEqual(self.until_ended(job)["exit_code"], 0)
        self.assertEqual(self.muster("logs", job, "--rank", "0").stdout, "".join(f"{i}\n" for i in range(count)))
        self.assertIn("muster: warning: the console process was stopped by a signal", self.muster("logs", job).stdout)

    def test_a_stopped_console_process_ends_with_its_job_when_the_launcher_is_killed(self):
        job = self.detach("--shutdown-timeout", "1")
        launcher = self.card(job)["pid"]
        console = self.console_of(launcher)
        self.stop(launcher)  # or it would let it go on
        self.stop(console)
        os.kill(launcher, signal.SIGKILL)
        self.until_nothing_is_left()
        self.assertIsNone(self.until_ended(job)["exit_code"])

    def test_no_line_of_a_flood_is_lost(self):
        count = 300_000
        job = self.detach(workers=1, command=[sys.executable, "-c", f"for i in range({count}): print(i)"])
        self.assertEqual(self.until_ended(job)["exit_code"], 0)
        self.assertEqual(self.muster("logs", job, "--rank", "0").stdout, "".join(f"{i}\n" for i in range(count)))

    def test_its_console_is_where_its_log_directory_is(self):
        logs = os.path.join(self.folder.name, "logs")
        job = self.detach("--log-dir", logs, "--tee", "1", command=["sh", "-c", "echo out $RANK"])
        folder = os.path.join(logs, job)
        wait_until(lambda: "\tend\t0\n" in read_file(os.path.join(folder, "console.1.log")), "the end of the job", LIMIT_S)
        self.assertFalse(os.path.exists(self.state))
        self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
        self.until_recorded(job)
        self.assertEqual(sorted(self.muster("logs", job, "--rank", "0,1").stdout.splitlines()), ["[0]: out 0", "[1]: out 1"])
        os.chmod(folder, 0o755)
        self.assertIn("not to be trusted", self.muster("logs", job, code=125).stderr)

    def test_the_files_of_other_jobs_are_shown_and_what_is_nowhere_is_said(self):
        logs = os.path.join(self.folder.name, "logs")
        name = f"files-{os.getpid()}"
        self.muster("run", "--name", name, "--log-dir", logs, "--redirects", "3", "--nproc-per-node", "2", "--no-python", "sh", "-c",
                    "echo out $RANK; echo err $RANK >&2")
        self.assertEqual(self.muster("logs", name).stdout, "[0]: out 0\n[0]: err 0\n[1]: out 1\n[1]: err 1\n")
        self.assertEqual(self.muster("logs", name, "--rank", "1").stdout, "[1]: out 1\n[1]: err 1\n")
        self.assertEqual(self.muster("logs", name, "-f", "--since", "10m").stdout, "[0]: out 0\n[0]: err 0\n[1]: out 1\n[1]: err 1\n")
        self.assertEqual(self.muster("logs", name, "--since", "2100-01-01").stdout, "")
        self.assertEqual(json.loads(self.muster("logs", name, "--json", "--rank", "1").stdout.splitlines()[1]),
                         {"time_ms": None, "round": 0, "rank": 1, "stream": "err", "ends_line": True, "text": "err 1"})
        self.assertIn(logs, self.muster("logs", name, "--timestamps", code=2).stderr)
        self.muster("run", "--name", name + "-none", "--no-python", "true")
        self.assertIn("--detach", self.muster("logs", name + "-none", code=3).stderr)
        self.muster("logs", "no-such-job", code=1)
        self.muster("logs", "--since", "yesterday", name + "-none", code=3)

    def test_the_files_of_another_job_are_followed_to_its_end(self):
        """Also where they are in a folder that goes with the job."""
        name = f"follow-{os.getpid()}"
        job = subprocess.Popen([MUSTER, "run", "--name", name, "--tee", "1", "--nproc-per-node", "2", "--no-python", sys.executable, "-c",
                                PROGRAM, self.go], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               env=self.environment)
        self.addCleanup(lambda: (job.kill(), job.communicate()))
        wait_until(lambda: subprocess.run([MUSTER, "logs", name], capture_output=True, text=True, check=False, timeout=LIMIT_S,
                                          env=self.environment).stdout.count("unfinished") == 2, "what both ranks print", LIMIT_S)
        following = self.follow("logs", "-f", name)
        # Then it has opened the files of both, which go with the job.
        shown = [following.stdout.readline()]
        while "[1]: ready 1\n" not in shown:
            shown.append(following.stdout.readline())
            self.assertTrue(shown[-1], shown)
        self.assertEqual(shown[0], "[0]: ready 0\n")
        with open(self.go, "w", encoding="utf-8"):
            pass
        job.communicate(timeout=LIMIT_S)
        out, err = following.communicate(timeout=LIMIT_S)
        out = "".join(shown) + out
        self.assertEqual((following.returncode, err, job.returncode), (0, "", 0))
        for rank in range(2):
            self.assertEqual(out.count(f" and finished {rank}\n"), 1, out)

    def test_a_reader_that_is_gone_is_an_error(self):
        job = self.detach()
        following = self.follow("logs", "-f", job)
        following.stdout.close()
        with open(self.go, "w", encoding="utf-8"):
            pass
        self.assertEqual(following.wait(LIMIT_S), 125)
        self.assertIn("stdout cannot be written", following.stderr.read())


class EndsAtOnce(DetachedJobs):
    """Rests on workers that get to their end within the 0.2 s from which on they are said to run, so it is measured alone."""

    def in_time(self, ended):
        if not ended:
            self.fail("too late: workers that end at once have lived for 0.2 s")

    def test_a_program_that_ends_at_once_is_told_with_its_code(self):
        for _ in range(3):
            ran = subprocess.run([MUSTER, "run", "--detach", "--nproc-per-node", "2", "--no-python", "sh", "-c", "echo no luck >&2; exit 3"],
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, env=self.environment, check=False)
            self.in_time(ran.returncode != 0)
            self.assertEqual((ran.returncode, ran.stdout), (3, ""), ran)
            self.assertIn("no luck", ran.stderr)
            self.assertIn("has ended already, with exit code 3", ran.stderr)
        # Its last round decides, whichever ranks have ended before.
        program = "[ $RANK = 0 ] && exit 0; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 4; while [ ! -e $0 ]; do sleep 0.01; done"
        job = self.detach("--max-restarts", "2", command=["sh", "-c", program, self.go])
        (node,) = json.loads(self.muster("status", job, "--json").stdout)["nodes"]
        self.in_time(node["restarts"] >= 2)

    def test_workers_do_not_steer_the_terminal_on_which_their_failure_is_told(self):
        master, terminal = os.openpty()
        self.addCleanup(os.close, master)
        ran = subprocess.run([MUSTER, "run", "--detach", "--no-python", "sh", "-c", r"printf 'bad\033]0;title\007luck\n'; exit 3"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal, timeout=LIMIT_S, env=self.environment, check=False)
        os.close(terminal)
        self.in_time(ran.returncode != 0)
        self.assertEqual(ran.returncode, 3)
        said = b""
        while select.select([master], [], [], 0)[0]:
            try:
                said += os.read(master, 65536)
            except OSError:  # all was read
                break
        self.assertIn(b"luck", said)
        self.assertNotIn(b"\x1b]", said)


if __name__ == "__main__":
    unittest.main()
