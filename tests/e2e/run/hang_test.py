# SPDX-License-Identifier: Apache-2.0
"""A rank that the others wait for is named when no rank has moved for --hang-timeout. usage: hang_test.py <worker>"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from interop import MUSTER
from processes import wait_until
from store_programs import WAITS_FOR_KEY

WORKER = sys.argv.pop()
LIMIT_S = 60


def stopped_below(pid):
    """The processes below this one that are stopped."""
    found, parents = [], {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry)] = int(fields[1])
        if fields[0] == "T":
            found.append(int(entry))

    def is_below(process):
        while process in parents and process != pid:
            process = parents[process]
        return process == pid

    return [process for process in found if is_below(process)]


# Its rank 0 spins as a program does that waits for a GPU; the others sleep.
SPINNER = """
import os, time
open(os.environ["PIDS"] + os.environ["RANK"], "w").write(str(os.getpid()))
while os.environ["RANK"] == "0":
    pass
time.sleep(1000)
"""


class NcclPort(threading.Thread):
    """Answers as NCCL's RAS does: the process of rank 0 has launched a collective more than that of rank 1. If the job moves, each answer
    has more of them, and another rank is ahead."""

    def __init__(self, pids, moves=False):
        super().__init__(daemon=True)
        self.pids, self.moves, self.launched, self.leader = pids, moves, 4, 0
        self.answers = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"

    def rank(self, number):
        path = self.pids + str(number)
        # It may be asked before the rank has written its file, or while it writes.
        wait_until(lambda: os.path.exists(path) and os.path.getsize(path), f"rank {number} to run", LIMIT_S)
        with open(path, encoding="ascii") as file:
            return {"rank": number, "host": "127.0.0.1", "pid": int(file.read()),
                    "collective_counts": {"AllReduce": self.launched + (self.leader == number)}}

    def answer(self, connection):
        question = b""
        while b"verbose status\n" not in question:
            question += connection.recv(4096) or b"verbose status\n"
        answer = {"communicators": [{"hash": "0x1", "ranks": [self.rank(0), self.rank(1)]}]}
        connection.sendall(b"OK\nOK\n" + json.dumps(answer).encode())

    def run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            try:
                with connection:
                    self.answer(connection)
            except OSError:  # who asked has not waited for it
                continue
            self.answers += 1
            if self.moves:
                self.launched, self.leader = self.launched + 7, 1 - self.leader


class Hangs(unittest.TestCase):
    def started(self, *arguments, fault="", **more):
        environment = {**os.environ, "MUSTER_FAULT": fault, "MUSTER_REPORT_AFTER": "0", "PYTHON_EXEC": sys.executable, **more}
        job = subprocess.Popen([MUSTER, "run", *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.wait, LIMIT_S)
        self.addCleanup(job.kill)
        watch = threading.Timer(LIMIT_S, job.kill)
        watch.start()
        self.addCleanup(watch.cancel)
        return job

    def first_line(self, job):
        """The first that says who is hung: on a busy machine one that says who may be, before all is known, comes before it."""
        return next((line for line in job.stderr if re.search("(is|are) hung", line)), "nothing was said")

    def program(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_the_first_line_names_the_key_that_nobody_sets(self):
        # Half of that is time for the store to say who waits for what.
        job = self.started("--hang-timeout", "6", self.program(WAITS_FOR_KEY))
        self.assertRegex(next((line for line in job.stderr if "hung" in line), "nothing was said"),
                         r"rank 0 on \S+ \(program.py:7\b.*\) is hung: it waits for the store's key 'epcoh' since \d+ s, "
                         r"which nobody has set; 'epoch' exists$")
        self.assertEqual(job.stderr.readline(), "muster: warning: agent:   rank 0: program.py:7 <module>\n")
        job.terminate()

    def test_status_says_who_is_hung_and_since_when(self):
        name = f"hung-{os.getpid()}"
        job = self.started("--rdzv-id", name, "--hang-timeout", "2", self.program(WAITS_FOR_KEY))
        said = self.first_line(job).removeprefix("muster: warning: agent: ").rstrip()

        def status(*flags):
            return subprocess.run([MUSTER, "status", name, *flags], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout

        text = status()
        self.assertRegex(text.splitlines()[1], re.escape(said) + r" \(said \d+ s ago\)$")
        self.assertRegex(text, r"(?m)^0 .* waits for the store's key 'epcoh' since \d+ s \(program.py:7 in <module>\)$")
        answer = json.loads(status("--json"))
        self.assertEqual((answer["hang"]["level"], answer["hang"]["text"]), ("is_hung", said))
        (worker,) = answer["nodes"][0]["workers"]
        self.assertEqual((worker["activity"], worker["wait"], worker["place"]), ("waits", "store_key", "program.py:7 in <module>"))
        job.terminate()

    def test_a_rank_that_waits_for_a_gpu_counts_as_waiting_where_nccl_says_so(self):
        program = self.program(SPINNER)
        pids = os.path.join(os.path.dirname(program), "rank")
        port = NcclPort(pids)
        self.addCleanup(port.socket.close)
        port.start()
        job = self.started("--nproc-per-node", "2", "--hang-timeout", "6", program, NCCL_RAS_ADDR=port.address, PIDS=pids)
        self.assertRegex(self.first_line(job),
                         r"^muster: warning: agent: rank 1 on \S+ \(program.py:6 in <module>\) is hung: it sleeps since \d+ s; "
                         r"rank 0 waits for all_reduce #5 since \d+ s$")

    def test_the_report_says_why_a_job_stood_still_that_was_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            job = self.started("--hang-timeout", "0.5", "--report", path, self.program(WAITS_FOR_KEY))
            said = self.first_line(job).removeprefix("muster: warning: agent: ").rstrip()
            job.send_signal(signal.SIGINT)
            lines = job.stderr.read().splitlines()
            self.assertEqual(job.wait(LIMIT_S), 130, lines)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        headline = next(i for i, line in enumerate(lines) if line.endswith("interrupted by SIGINT"))
        self.assertTrue(lines[headline + 1].startswith(f"  hang       {said} (said "), lines)
        self.assertEqual((report["hang"]["level"], report["hang"]["text"], report["hang"]["moved_ms"]), ("is_hung", said, -1))
        (stack,) = report["hang"]["stacks"]
        self.assertEqual((stack["ranks"], [frame["line"] for frame in stack["frames"]]), ([0], [7]))

    def test_the_report_of_timeout_says_it_too(self):
        job = self.started("--hang-timeout", "0.5", "--timeout", "15", self.program(WAITS_FOR_KEY))
        rest = job.stderr.read()
        self.assertEqual(job.wait(LIMIT_S), 124, rest)
        self.assertRegex(rest, r"(?m)\(--timeout\)\n  hang       rank 0 on .*'epcoh'")

    def test_a_hung_job_is_restarted_if_that_is_asked_for_and_ended_when_no_restart_is_left(self):
        once = 'import os, sys\nif os.environ["TORCHELASTIC_RESTART_COUNT"] == "1": sys.exit(0)\n' + WAITS_FOR_KEY
        flags = "--hang-timeout", "0.5", "--on-hang", "restart", "--max-restarts", "1"
        job = self.started(*flags, self.program(once))
        rest = job.stderr.read()
        self.assertEqual(job.wait(LIMIT_S), 0, rest)
        self.assertRegex(rest, r"round 0 ended: rank 0 .* is hung: .*'epcoh'.*; restarting all workers \(restart 1 of 1\)")
        job = self.started(*flags, self.program(WAITS_FOR_KEY))
        rest = job.stderr.read()
        self.assertEqual(job.wait(LIMIT_S), 1, rest)
        self.assertRegex(rest, r"program.py failed: rank 0 .* is hung")
        self.assertIn("1 of 1 used", rest)

    def test_a_hung_job_ends_if_that_is_asked_for(self):
        job = self.started("--hang-timeout", "0.5", "--on-hang", "abort", "--max-restarts", "5", self.program(WAITS_FOR_KEY))
        rest = job.stderr.read()
        self.assertEqual(job.wait(LIMIT_S), 1, rest)
        self.assertRegex(rest, r"(?m)^muster: error: .*program.py failed: rank 0 on .* is hung: .*'epcoh'")
        self.assertIn("0 of 5 used; no restart: a job that is hung ends (--on-hang abort)", rest)

    def test_ranks_that_launch_one_collective_after_another_are_well(self):
        program = self.program("import os, time\nopen(os.environ['PIDS'] + os.environ['RANK'], 'w').write(str(os.getpid()))\n"
                               "end = time.time() + 10\nwhile time.time() < end: pass\n")
        pids = os.path.join(os.path.dirname(program), "rank")
        port = NcclPort(pids, moves=True)
        self.addCleanup(port.socket.close)
        port.start()
        job = self.started("--nproc-per-node", "2", "--hang-timeout", "4", "--on-hang", "abort", program, NCCL_RAS_ADDR=port.address, PIDS=pids)
        rest = job.stderr.read()
        self.assertEqual(job.wait(LIMIT_S), 0, rest)
        self.assertNotIn("hung", rest)
        self.assertGreater(port.answers, 1)

    def test_a_stopped_rank_is_named_and_the_job_goes_on_with_it(self):
        job = self.started("--nproc-per-node", "3", "--hang-timeout", "3", WORKER, fault="stop@1:all_reduce:2")
        line = self.first_line(job)
        self.assertRegex(line, r"^muster: warning: agent: rank 1 on \S+ is hung: it is stopped by a signal since \d+ s; "
                               r"ranks 0, 2 wait for all_reduce #2 of group 'world' since \d+ s$")
        (stopped,) = stopped_below(job.pid)
        os.kill(stopped, signal.SIGCONT)
        rest = job.stderr.read()
        self.assertEqual(job.wait(LIMIT_S), 0, rest)
        self.assertIsNone(re.search("is hung|may be hung", rest), rest)


if __name__ == "__main__":
    unittest.main()
