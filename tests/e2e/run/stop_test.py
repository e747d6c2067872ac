# SPDX-License-Identifier: Apache-2.0
"""A stop goes from the top down: through whatever wraps it, a program is told once and can save while its helpers live; notices of
batch systems reach the programs that handle them, and end nothing."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from interop import TORCH_PYTHON
from processes import lives, name_of, tree, wait_until
from processes import read as read_process

MUSTER = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")
# That of the virtual environment first.
UV = shutil.which("uv", path=os.path.dirname(TORCH_PYTHON) + os.pathsep + os.environ["PATH"])
LIMIT_S = 60

# Starts a helper that ends at SIGTERM, says that it is ready, and saves at a stop signal if its helper lives still.
TRAINER = """
import os, signal, subprocess, sys, time
folder = sys.argv[1]
rank = os.environ.get("OUTER_RANK", os.environ["RANK"])
helper = subprocess.Popen(["sleep", "600"])
told = []
def save(number, frame):
    first = not told  # before the next line, so that of two signals at once one saves
    told.append(signal.Signals(number).name)
    if not first:
        return
    try:
        helper.wait(float(os.environ.get("PATIENCE", "0.05")))
        state = "helper gone"
    except subprocess.TimeoutExpired:
        state = "saved"
    with open(os.path.join(folder, "saved" + rank), "w") as file:
        file.write(state + " " + " ".join(told))
    os._exit(0)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, save)
with open(os.path.join(folder, "ready" + rank), "w") as file:
    file.write("%d %d" % (os.getpid(), helper.pid))
while True:
    time.sleep(0.1)  # pause() would wait for ever if the signal came just before it.
"""


def read(path):
    """Its text; empty if there is none."""
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        return file.read()


def is_resource_tracker(pid):
    """Whether it is one of Python's that has begun its work: it ignores SIGTERM then."""
    ignored = re.search(r"SigIgn:\s+(\w+)", read_process(pid, "status") or "SigIgn: 0")[1]
    return "resource_tracker" in read_process(pid, "cmdline") and bool(int(ignored, 16) >> (signal.SIGTERM - 1) & 1)


class Job:
    """A job of two workers that each run `argv`; `program` is what runs the trainer."""

    def __init__(self, folder, wrap, flags=(), **environment):
        self.folder = folder
        script = os.path.join(folder, "trainer.py")
        with open(os.path.join(folder, "background.py"), "w") as file:
            file.write(TRAINER.replace("(signal.SIGTERM, signal.SIGINT)", "(signal.SIGTERM,)"))
        with open(script, "w") as file:
            file.write(TRAINER)
        argv = wrap([sys.executable, script, folder])
        self.process = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", "--shutdown-timeout", "10", *flags, "--no-python", *argv],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        for rank in range(2):
            path = os.path.join(folder, "ready%d" % rank)
            wait_until(lambda path=path: os.path.exists(path) and os.path.getsize(path) > 3, "rank %d is ready" % rank)

    def pids(self, rank):
        with open(os.path.join(self.folder, "ready%d" % rank)) as file:
            return [int(word) for word in file.read().split()]

    def saved(self):
        texts = []
        for rank in range(2):
            path = os.path.join(self.folder, "saved%d" % rank)
            texts.append(read(path))
        return texts

    def end(self):
        out, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, out, err


def shell(text):
    return lambda argv: ["sh", "-c", text % " ".join(argv)]


def bash(text):
    return lambda argv: ["bash", "-c", text % " ".join(argv)]


def script_file(argv):
    path = argv[1].replace("trainer.py", "start.sh")
    with open(path, "w") as file:
        file.write("#!/bin/bash\nset -e\n%s\necho unreached\n" % " ".join(argv))
    os.chmod(path, 0o755)
    return [path]


def python_run(argv):
    return [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *argv]


WRAPPERS = {
    "nothing": lambda argv: argv,
    "sh -c": shell("%s; true"),
    "a pipeline": shell("%s | cat"),
    "two shells": shell("sh -c '%s; true'; true"),
    "a trap": bash("trap 'echo trapped' TERM INT; %s; true"),
    "a trap that passes it on": bash("trap 'kill -TERM $child; wait $child' TERM INT; %s & child=$!; wait $child; true"),
    "a script": script_file,
    "subprocess.run": python_run,
    "muster": lambda argv: ["sh", "-c", 'OUTER_RANK=$RANK exec "$@"', "-", MUSTER, "run", "--nproc-per-node", "1", "--no-python", *argv],
    "timeout": lambda argv: ["timeout", "--foreground", "60", *argv],
}


class StopSignals(unittest.TestCase):
    def saves(self, name, wrap):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(wrapper=name, signal=number.name), tempfile.TemporaryDirectory() as folder:
                job = Job(folder, wrap)
                job.process.send_signal(number)
                code, _, err = job.end()
                self.assertEqual(code, 128 + number, err)
                for text in job.saved():
                    self.assertTrue(text.startswith("saved SIG"), (text, err))
                for rank in range(2):
                    for pid in job.pids(rank):
                        self.assertFalse(lives(pid))

    def test_a_wrapped_trainer_is_told_and_saves_while_its_helpers_live(self):
        for name, wrap in WRAPPERS.items():
            self.saves(name, wrap)

    @unittest.skipIf(UV is None, "there is no uv (scripts/make_venv.sh installs it)")
    def test_below_uv_run_it_is_told_and_saves(self):
        # uv waits for no child in the kernel, and passes signals on by itself.
        with tempfile.TemporaryDirectory() as cache:
            command = [UV, "run", "--quiet", "--offline", "--no-project", "--no-config", "--cache-dir", cache, "--python"]
            self.saves("uv run", lambda argv: [*command, *argv])

    def test_a_program_in_the_background_of_a_script_saves_at_ctrl_c(self):
        # The shell starts it with SIGINT ignored, and its own end leaves it alone.
        with tempfile.TemporaryDirectory() as folder:
            job = Job(folder, lambda argv: ["bash", "-c", "%s & wait" % " ".join(argv).replace("trainer.py", "background.py")])
            job.process.send_signal(signal.SIGINT)
            job.end()
            self.assertEqual(job.saved(), ["saved SIGTERM"] * 2)

    def test_each_process_is_told_once(self):
        for name in ("nothing", "sh -c", "two shells"):
            with self.subTest(wrapper=name), tempfile.TemporaryDirectory() as folder:
                job = Job(folder, WRAPPERS[name])
                job.process.send_signal(signal.SIGTERM)
                job.end()
                self.assertEqual(job.saved(), ["saved SIGTERM"] * 2)

    def test_the_failure_of_another_rank_lets_a_trainer_save(self):
        with tempfile.TemporaryDirectory() as folder:
            job = Job(folder, lambda argv: ["sh", "-c", '[ $RANK = 0 ] || exec "$@"; "$@" & while [ ! -e %s/fail ]; do sleep 0.01; done; '
                                            'kill -KILL $!; exit 7' % folder, "-", *argv])
            with open(os.path.join(folder, "fail"), "w"):
                pass
            code, _, err = job.end()
            self.assertEqual(code, 7, err)
            self.assertEqual(job.saved()[1], "saved SIGTERM", err)

    def test_with_groups_as_the_target_helpers_are_told_too(self):
        with tempfile.TemporaryDirectory() as folder:
            job = Job(folder, WRAPPERS["nothing"], flags=("--stop-target", "group", "--shutdown-timeout", "50"), PATIENCE="40")
            job.process.send_signal(signal.SIGTERM)
            job.end()
            self.assertEqual(job.saved(), ["helper gone SIGTERM"] * 2)

    def test_what_cleans_up_after_a_killed_worker_has_time_for_it(self):
        # Python's resource tracker, a process beside the program, unlinks shared memory that the program could not.
        worker = ("import signal, sys\nfrom multiprocessing.shared_memory import SharedMemory\n"
                  "segment = SharedMemory(create=True, size=4096)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                  "print(segment.name, flush=True)\nwhile True: signal.pause()\n")
        process = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", "--shutdown-timeout", "0.3", "--no-python",
                                    sys.executable, "-c", worker],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        segments = [os.path.join("/dev/shm", process.stdout.readline().strip()) for _ in range(2)]
        for segment in segments:
            self.assertTrue(os.path.isfile(segment), segment)
        # One that still starts has not learned yet what it is to unlink.
        wait_until(lambda: sum(is_resource_tracker(pid) for pid in tree(process.pid)) == 2, "both resource trackers to run")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 143, err)
        self.assertIn("killing ranks 0, 1", err)
        self.assertEqual([segment for segment in segments if os.path.exists(segment)], [], err)
        self.assertNotIn("left running", err)

    def test_what_several_workers_say_of_their_interruption_has_their_ranks(self):
        worker = "trap 'echo out; echo interrupted >&2; exit 1' INT; echo before >&2; echo ready; while :; do sleep 0.02; done"
        process = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", "--no-python", "sh", "-c", worker],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
        lines = sorted(line for line in err.splitlines() if not line.startswith(("muster", "  ")))
        self.assertEqual(lines, ["[0]: interrupted", "[1]: interrupted", "before", "before"], err)
        self.assertEqual(out, "out\nout\n")

    def test_a_signal_is_handled_from_the_first_worker_on(self):
        with tempfile.TemporaryDirectory() as folder:
            # The launcher makes its event loop only when a worker, which it has not seen yet, has sent the signal.
            source, library, sent = (os.path.join(folder, name) for name in ("late.c", "late.so", "sent"))
            with open(source, "w") as file:
                file.write(LATE_EVENT_LOOP)
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=LIMIT_S)
            result = subprocess.run(["sh", "-c", 'export LAUNCHER=$$; exec "$@"', "-", MUSTER, "run", "--nproc-per-node", "1", "--no-python",
                                     "sh", "-c", 'unset LD_PRELOAD; kill -INT $LAUNCHER; : > "$SENT"; sleep 20'],
                                    stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
                                    env={**os.environ, "LD_PRELOAD": library, "SENT": sent})
            self.assertTrue(os.path.exists(sent))
            self.assertEqual(result.returncode, 130, result.stderr)
            self.assertIn("stopped: interrupted by SIGINT", result.stderr)

    def test_who_takes_long_to_end_is_named(self):
        process = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", "--shutdown-timeout", "50", "--no-python", "sh", "-c",
                                    "trap '' INT; echo ready; while :; do sleep 0.1; done"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said = next((line for line in process.stderr if "still run" in line), "nothing was said")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 130, err)
        left = re.search(r"ranks 0, 1 on \S+ still run; SIGKILL comes in (\d+) s \(--shutdown-timeout\), at once with a second Ctrl-C$", said)
        self.assertTrue(left and int(left[1]) <= 48, said)


# A library that holds the process $LAUNCHER back, when it makes its event loop, until the file $SENT is there; for 10 s at most.
LATE_EVENT_LOOP = r"""
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int epoll_create1(int flags) {
  for (int i = 0; i < 10000 && getpid() == atoi(getenv("LAUNCHER")) && access(getenv("SENT"), F_OK) != 0; ++i) usleep(1000);
  return (int)syscall(SYS_epoll_create1, flags);
}
"""

# Counts the notices that it gets; rank 1 handles none.
NOTED = """
import os, signal, sys
folder, rank = sys.argv[1], os.environ["RANK"]
def note(number, frame):
    with open(os.path.join(folder, "got" + rank), "a") as file:
        file.write(signal.Signals(number).name + " ")
if rank != "1":
    signal.signal(signal.SIGUSR1, note)
    signal.signal(signal.SIGUSR2, note)
with open(os.path.join(folder, "ready" + rank), "w") as file:
    file.write("%d" % os.getpid())
while not os.path.exists(os.path.join(folder, "end")):
    signal.sigtimedwait([signal.SIGURG], 0.02)
"""


class Notices(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        with open(self.path("noted.py"), "w") as file:
            file.write(NOTED)

    def path(self, name):
        return os.path.join(self.folder, name)

    def started(self, *flags, wrap="exec %s", **options):
        command = wrap % " ".join([sys.executable, self.path("noted.py"), self.folder])
        process = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", *flags, "--no-python", "sh", "-c", command],
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(process.kill)
        for rank in "01":
            wait_until(lambda rank=rank: os.path.exists(self.path("ready" + rank)) and os.path.getsize(self.path("ready" + rank)),
                       "rank %s is ready" % rank)
        return process

    def got(self, rank):
        return read(self.path("got%d" % rank)).split()

    def end(self, process):
        with open(self.path("end"), "w"):
            pass
        _, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, err

    def test_a_notice_reaches_who_handles_it_and_the_job_goes_on(self):
        for wrap in ("exec %s", "%s; true"):
            with self.subTest(wrap=wrap):
                process = self.started(wrap=wrap)
                process.send_signal(signal.SIGUSR1)
                wait_until(lambda: self.got(0), "rank 0 got the notice")
                process.send_signal(signal.SIGUSR1)
                wait_until(lambda: len(self.got(0)) == 2, "rank 0 got it again")
                code, err = self.end(process)
                self.assertEqual(code, 0, err)
                self.assertEqual(self.got(0), ["SIGUSR1"] * 2)
                self.assertEqual(self.got(1), [])
                self.assertIn("SIGUSR1 is passed on to the workers that handle it; the job goes on", err)
                self.assertEqual(len(re.findall(r"rank 1 on \S+ does not handle SIGUSR1 and did not get it", err)), 1, err)
                for name in os.listdir(self.folder):
                    if name != "noted.py":
                        os.unlink(self.path(name))

    def test_what_everybody_got_is_not_passed_on(self):
        process = self.started()
        ours = [pid for pid in tree(process.pid) if name_of(pid).startswith("muster")]
        self.assertEqual(len(ours), 4)
        for number in (signal.SIGPROF, signal.SIGALRM, signal.SIGXCPU):
            for pid in set(ours) - {process.pid}:
                os.kill(pid, number)
        # The launcher comes last, so that the agent has the notice when it hears of it. A launcher that a busy machine lets run 0.1 s
        # later has got a notice of its own (notices_test), which is why there are several tries.
        everybody = sorted(ours, key=lambda pid: pid == process.pid)
        for _ in range(5):
            before = len(self.got(0))
            for pid in [int(read(self.path("ready0"))), *everybody]:
                os.kill(pid, signal.SIGUSR1)
            wait_until(lambda before=before: len(self.got(0)) > before, "rank 0 got the notice")
            process.send_signal(signal.SIGUSR2)  # is passed on later than the one before would have been
            wait_until(lambda before=before: "SIGUSR2" in self.got(0)[before:], "rank 0 got the other notice")
            # Signals that are pending together may be heard in another order.
            noted = sorted(self.got(0)[before:])
            if noted == ["SIGUSR1", "SIGUSR2"]:
                break
            self.assertEqual(noted, ["SIGUSR1", "SIGUSR1", "SIGUSR2"])
        code, err = self.end(process)
        self.assertEqual(code, 0, err)
        self.assertEqual(noted, ["SIGUSR1", "SIGUSR2"])

    def test_a_signal_that_stops_the_job_is_no_notice(self):
        process = self.started("--signals-to-handle", "SIGUSR1", "--shutdown-timeout", "0.2")
        process.send_signal(signal.SIGUSR1)
        _, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 128 + signal.SIGUSR1, err)

    def test_without_forwarding_a_notice_is_ignored(self):
        process = self.started("--forward-signals", "none")
        process.send_signal(signal.SIGUSR1)
        code, err = self.end(process)
        self.assertEqual((code, self.got(0)), (0, []), err)

    def test_a_notice_that_was_ignored_at_our_start_stays_ignored(self):
        process = self.started(preexec_fn=lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN))
        process.send_signal(signal.SIGUSR1)
        code, err = self.end(process)
        self.assertEqual(code, 0, err)
        self.assertNotIn("SIGUSR1", err)

    def test_contradicting_flags_are_refused(self):
        result = subprocess.run([MUSTER, "run", "--forward-signals", "TERM", "true"], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(result.returncode, 2)
        self.assertIn("SIGTERM is no notice", result.stderr)
        result = subprocess.run([MUSTER, "run", "--forward-signals", "USR1", "--signals-to-handle", "USR1", "true"], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(result.returncode, 2)
        self.assertIn("SIGUSR1 stops the job", result.stderr)


if __name__ == "__main__":
    unittest.main()
