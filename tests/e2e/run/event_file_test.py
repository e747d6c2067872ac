# SPDX-License-Identifier: Apache-2.0
"""What happens to a job is told in its event file, as docs/operations.md promises, and what its time went into in its report."""
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from event_file import events_of, kinds_of

MUSTER = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")
LIMIT_S = 60
ONCE = 'if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ] && [ "$RANK" = 1 ]; then echo ValueError: no luck >&2; exit 3; fi'
HOLDS = """\
import os, signal, sys, threading
held = threading.Lock()
held.acquire()
sys.stdout.write(f"ready {os.getpid()} {os.environ['RANK']}\\n")
sys.stdout.flush()
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGSTOP)
    sys.exit(0)
held.acquire()
"""


class EventFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(self.folder, "events.jsonl")

    def run_job(self, *flags, workers=2, program=("true",)):
        return subprocess.run([MUSTER, "run", "--nproc-per-node", str(workers), *flags, "--no-python", *program],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def events(self, path=None):
        with open(path or self.file, encoding="utf-8") as file:
            return events_of(file.read())

    def wait_for(self, kind):
        deadline = time.monotonic() + LIMIT_S
        while True:
            if os.path.exists(self.file):
                with open(self.file, encoding="utf-8") as file:
                    text = file.read()
                found = [event for event in events_of(text[:text.rfind("\n") + 1]) if event["kind"] == kind]
                if found:
                    return found[0]
            self.assertLess(time.monotonic(), deadline, f"no {kind}")
            time.sleep(0.01)

    def test_a_restart_is_told_with_its_cause_and_what_it_cost(self):
        report_file = os.path.join(self.folder, "report.json")
        ended = self.run_job("--event-file", self.file, "--name", "night", "--report", report_file, "--max-restarts", "1", "--tee", "2",
                             program=("sh", "-c", ONCE))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        events = self.events()
        round_of = ["round_begin", "node_begin"]
        self.assertEqual(kinds_of(events, "worker_end"),
                         ["job_start", *round_of, "failure", "restart", *round_of, "job_end"])
        self.assertEqual({event["name"] for event in events}, {"night"})
        failure, restart = (next(event for event in events if event["kind"] == kind) for kind in ("failure", "restart"))
        self.assertEqual((failure["round"], failure["rank"], failure["exit_code"]), (0, 1, 3))
        self.assertEqual(failure["error_line"], "ValueError: no luck")
        self.assertEqual((restart["cause"], restart["rank"], restart["restarts"]), ("node_failed", 1, 1))
        ends = [(event["round"], event["rank"], event["exit_code"]) for event in events if event["kind"] == "worker_end"]
        self.assertEqual(sorted(ends)[-2:], [(1, 0, 0), (1, 1, 0)])
        self.assertIn((0, 1, 3), ends)
        self.assertEqual((events[-1]["outcome"], events[-1]["exit_code"]), ("succeeded", 0))
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)
        with open(report_file, encoding="utf-8") as file:
            report = json.load(file)
        spent = report["time"]
        self.assertTrue(spent["recompute_is_at_most"], spent)
        self.assertGreater(spent["recompute_ms"], 0, spent)
        whole = sum(value for name, value in spent.items() if name.endswith("_ms"))
        self.assertLessEqual(abs(whole - report["duration_ms"]), 10, report)  # each part is rounded

    def test_a_hang_is_told_and_taken_back_and_so_is_who_ends_the_job(self):
        program = os.path.join(self.folder, "holds.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(HOLDS)
        job = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", "--hang-timeout", "2", "--event-file", self.file,
                                "--shutdown-timeout", "1", program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=dict(os.environ, PYTHON_EXEC=sys.executable))
        try:
            pids = {}
            for _ in range(2):
                _, pid, rank = job.stdout.readline().split()
                pids[int(rank)] = int(pid)
            hang = self.wait_for("hang")
            self.assertEqual((hang["level"], hang["culprits"]), ("is_hung", [1]))
            self.assertGreaterEqual(hang["still_ms"], 2000)
            status = [MUSTER, "status", hang["job"], "--json"]
            answer = json.loads(subprocess.run(status, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout)
            self.assertEqual(answer["hang"]["culprits"], [1])
            self.assertGreaterEqual(answer["time"]["detect_ms"], 2000)
            os.kill(pids[1], signal.SIGCONT)
            self.wait_for("moves_again")
            shown = subprocess.run([MUSTER, "status", hang["job"]], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
            self.assertRegex(shown, r"(?m)^useful: \d+ % of \d+ s")
            subprocess.run([MUSTER, "kill", hang["job"]], capture_output=True, timeout=LIMIT_S, check=False)
        finally:
            job.terminate()
            job.communicate(timeout=LIMIT_S)
        events = self.events()
        stop = next(event for event in events if event["kind"] == "stop")
        self.assertIn("muster kill", stop["by"])
        self.assertEqual((stop["signal"], stop["kill"]), ("SIGTERM", False))
        self.assertEqual((events[-1]["kind"], events[-1]["outcome"], events[-1]["exit_code"]), ("job_end", "interrupted", 143))

    def test_what_others_have_appended_stays(self):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("theirs\n")
        self.run_job("--event-file", self.file)
        with open(self.file, encoding="utf-8") as file:
            first, rest = file.read().split("\n", 1)
        self.assertEqual(first, "theirs")
        self.assertEqual(kinds_of(events_of(rest))[-1], "job_end")

    def test_a_file_that_takes_nothing_costs_lines_and_not_the_job(self):
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        for place, why in (("/dev/full", "No space left on device"), (fifo, "nobody reads it")):
            ended = self.run_job("--event-file", place)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertRegex(ended.stderr, rf"--event-file={place}: \d+ lines were lost \({why}\)")

    def test_a_reader_that_stops_reading_does_not_keep_the_job_from_its_end(self):
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, writer)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            pass
        ended = self.run_job("--event-file", fifo)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stderr, r"lines were lost \(it takes nothing for a while\)")

    def test_a_place_that_cannot_be_written_is_refused(self):
        for place in (self.folder, os.path.join(self.folder, "no", "file")):
            ended = self.run_job("--event-file", place)
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertIn("--event-file=", ended.stderr)


if __name__ == "__main__":
    unittest.main()
