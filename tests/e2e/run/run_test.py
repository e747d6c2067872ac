# SPDX-License-Identifier: Apache-2.0
"""What a user sees of `muster run`: exit codes, the report, restarts, signals, streams. Real processes throughout."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from interop import free_port
from processes import children

MUSTER = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")
LIMIT_S = 60


def run(*arguments, shell=None, workers=2, env=None, stdin=subprocess.DEVNULL, **options):
    """Runs `muster run` with these flags, and the shell text `shell` as every worker."""
    command = [MUSTER, "run", "--nproc-per-node", str(workers), *arguments]
    if shell is not None:
        command += ["--no-python", "sh", "-c", shell]
    return subprocess.run(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=LIMIT_S, env=dict(os.environ, **(env or {})), **options)


class ExitCodes(unittest.TestCase):
    def test_the_job_exits_as_its_root_cause(self):
        for code in (0, 1, 2, 3, 126, 127, 255):
            self.assertEqual(run(shell="[ $RANK = 0 ] && exec sleep 600; exit %d" % code if code else "true").returncode, code)

    def test_a_deadly_signal_is_128_plus_its_number_and_named(self):
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS,
                       signal.SIGKILL, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGUSR1):
            result = run(shell="[ $RANK = 1 ] && kill -%d $$; exec sleep 600" % number)
            self.assertEqual(result.returncode, 128 + number, result.stderr)
            self.assertIn(signal.Signals(number).name, result.stderr)
            self.assertIn("rank 1", result.stderr)

    def test_workers_start_in_the_directory_given(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run("--wdir", folder, shell="pwd -P").stdout.split(), [os.path.realpath(folder)] * 2)


class Report(unittest.TestCase):
    def test_the_first_to_fail_is_the_root_cause_however_close_the_others_are(self):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            # Rank 1 fails as soon as the agent has taken rank 2's exit status (a process is there until then); one clock's
            # whole seconds could not tell them apart, and the order of ranks would name the wrong one.
            result = run("--report", report, workers=3, shell="""
                case $RANK in
                  0) exec sleep 600;;
                  2) echo cause >&2; echo $$ > %(f)s/pid; mkfifo %(f)s/fifo; read x < %(f)s/fifo; exit 7;;
                  1) while [ ! -p %(f)s/fifo ]; do sleep 0.01; done; trap '' TERM; read pid < %(f)s/pid; echo > %(f)s/fifo
                     while kill -0 $pid 2>/dev/null; do sleep 0.01; done; exit 8;;
                esac""" % {"f": folder})
            self.assertEqual(result.returncode, 7, result.stderr)
            text = result.stderr
            self.assertLess(text.index("rank 2"), text.index("rank 1"), text)
            self.assertIn("exit code 7", text)
            self.assertIn("cause", text)
            with open(report) as file:
                content = json.load(file)
            self.assertEqual([worker["rank"] for worker in content["nodes"][0]["workers"]], [0, 1, 2])
            self.assertEqual((content["root_cause"]["rank"], content["exit_code"]), (2, 7))

    def test_who_was_killed_is_the_root_cause_though_others_leave_before_it_has_ended(self):
        # To give the memory back takes the kernel longer than the others need to leave because of the loss.
        worker = """
import os, signal, sys
rank = os.environ["RANK"]
if rank == "0":
    memory = b"x" * (256 << 20)
    # Each opening waits for its reader, so nobody kills before the others can.
    pipes = [open(sys.argv[1] + other, "w") for other in "123"]
    for pipe in pipes:
        pipe.write(str(os.getpid()))
        pipe.close()
    signal.pause()
with open(sys.argv[1] + rank) as pipe:
    pid = pipe.read()  # nothing, if another rank has killed it before it could write
try:
    os.kill(int(pid or os.getpid()), 9 if pid else 0)
except ProcessLookupError:
    pass  # another rank has killed it, and it was reaped
os._exit(3)
"""
        # Where the others get their turn too late, rank 0 has ended before them.
        for _ in range(20):
            with tempfile.TemporaryDirectory() as folder:
                pipe = os.path.join(folder, "pid")
                for rank in "123":
                    os.mkfifo(pipe + rank)
                result = run("--no-python", sys.executable, "-c", worker, pipe, workers=4)
            self.assertEqual(result.returncode, 128 + signal.SIGKILL, result.stderr)
            self.assertRegex(result.stderr, r"rank 0 on \S+: killed by SIGKILL")
            if result.stderr.count(" (exit code 3)") == 3:  # and none of them after a signal of ours
                break
        else:
            self.fail("the others never left first\n" + result.stderr)

    def test_a_limit_of_cpu_time_is_named(self):
        result = run(shell="[ $RANK = 0 ] && exec sleep 600; while :; do :; done",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (1, 9)))
        self.assertEqual(result.returncode, 128 + signal.SIGXCPU, result.stderr)
        self.assertIn("it used up its limit of 1 s of CPU time", result.stderr)

    def test_a_stopped_worker_hears_that_it_is_to_end(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("--shutdown-timeout", "1000", shell="""
                case $RANK in
                  0) trap 'echo told; exit 0' TERM; echo $$ > %(f)s/new; mv %(f)s/new %(f)s/pid; kill -STOP $$; sleep 60 & wait;;
                  1) until [ -e %(f)s/pid ] && grep -q 'State:.T' /proc/$(cat %(f)s/pid)/status; do sleep 0.01; done; exit 3;;
                esac""" % {"f": folder})
            self.assertEqual((result.returncode, result.stdout), (3, "told\n"), result.stderr)

    def test_the_error_file_is_shown_and_copied(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "copy.json")
            content = {"message": {"message": "ValueError: no luck",
                                   "extraInfo": {"py_callstack": "Traceback: line 17 of train.py", "timestamp": "1700000000"}}}
            result = run(env={"TORCHELASTIC_ERROR_FILE": copy},
                         shell="[ $RANK = 0 ] && exec sleep 600; cat > $TORCHELASTIC_ERROR_FILE <<'X'\n%s\nX\nexit 5" % json.dumps(content))
            self.assertEqual(result.returncode, 5, result.stderr)
            self.assertIn("line 17 of train.py", result.stderr)
            with open(copy) as file:
                copied = json.load(file)
            self.assertEqual(copied["message"]["message"], "ValueError: no luck")
            self.assertEqual(copied["message"]["errorCode"], 5)


class Restarts(unittest.TestCase):
    def test_all_workers_restart_and_know_it(self):
        # Rank 1 fails when rank 0 has said what is expected of it.
        with tempfile.TemporaryDirectory() as folder:
            result = run("--max-restarts", "2", "--restart-policy", "torchrun", shell="""
                echo r$RANK.$TORCHELASTIC_RESTART_COUNT
                [ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0
                said=%s/$TORCHELASTIC_RESTART_COUNT
                [ $RANK = 0 ] && { touch $said; exec sleep 600; }
                while [ ! -e $said ]; do sleep 0.01; done
                exit 9""" % folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.split()
        for restart in range(3):
            for rank in range(2):
                self.assertIn("r%d.%d" % (rank, restart), lines)

    def test_every_round_has_a_fresh_store_and_a_fixed_port_stays(self):
        worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "store_worker.py")
        for fixed in (False, True):
            port = free_port()
            flags = ["--rdzv-backend", "static", "--master-addr", "127.0.0.1", "--master-port", str(port)] if fixed else []
            result = run(*flags, "--max-restarts", "1", "--no-python", sys.executable, worker)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            ports = {line.split()[1] for line in result.stdout.splitlines() if line.startswith("port ")}
            self.assertEqual(ports == {str(port)}, fixed, result.stdout)


class Signals(unittest.TestCase):
    def started(self, *flags, shell, **options):
        process = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", *flags, "--no-python", "sh", "-c", shell],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        ready = [process.stdout.readline() for _ in range(2)]
        self.assertEqual(sorted(ready), ["ready\n", "ready\n"])
        return process

    def test_the_workers_get_the_signal_that_we_got(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            name = signal.Signals(number).name[3:]
            process = self.started(shell="trap 'echo got %s; exit 0' %s; echo ready; while :; do sleep 0.05; done" % (name, name))
            process.send_signal(number)
            out, err = process.communicate(timeout=LIMIT_S)
            self.assertEqual(out, ("got %s\n" % name) * 2, err)
            self.assertEqual(process.returncode, 128 + number)

    def test_a_process_of_ours_that_alone_is_told_to_stop_is_named(self):
        own_code = "trap 'exit 5' TERM HUP; echo ready; while :; do sleep 0.05; done"
        for name, number, shell in (("guardian", signal.SIGHUP, "echo ready; exec sleep 1000"), ("agent", signal.SIGTERM, own_code),
                                    ("guardian", signal.SIGTERM, own_code)):
            process = self.started(shell=shell)
            guardian, = children(process.pid, "muster:guardian")
            told = guardian if name == "guardian" else children(guardian, "muster:agent")[0]
            os.kill(told, number)
            _, err = process.communicate(timeout=LIMIT_S)
            self.assertEqual(process.returncode, 125, err)
            self.assertRegex(err, f"the {name} process of .* was told to stop by {number.name}; to end a job, signal its 'muster run'")
            self.assertNotIn("failed by itself", err)
            if shell == own_code:
                self.assertIn(f"(exit code 5 after our {number.name})", err)

    def failed_with_a_helper_left(self, code, *flags):
        """A job whose rank 1 fails when rank 0 is ready; what rank 1 has left takes its grace, in which the deadline passes."""
        with tempfile.TemporaryDirectory() as folder:
            zero, helper = os.path.join(folder, "zero"), os.path.join(folder, "helper")
            begin = time.monotonic()
            process = self.started("--timeout", "8", "--shutdown-timeout", "9", *flags,
                                   shell=f"if [ $RANK = 0 ]; then echo ready; : >{zero}; exec sleep 1000; fi; "
                                         f"until [ -e {zero} ]; do sleep 0.01; done; echo ready; "
                                         f"(trap '' TERM; : >{helper}; exec sleep 1000) & until [ -e {helper} ]; do sleep 0.01; done; "
                                         f"exit {code}")
            _, err = process.communicate(timeout=LIMIT_S)
        self.assertGreater(time.monotonic() - begin, 8, "the deadline did not pass while the helper had its grace")
        self.assertEqual(process.returncode, code, err)
        return err

    def test_a_deadline_that_passes_after_a_failure_changes_no_exit_code(self):
        self.assertIn("rank 1 on", self.failed_with_a_helper_left(7))

    def test_a_deadline_that_passes_after_a_failure_without_a_restart_changes_no_exit_code(self):
        """Restarts are left, but no restart makes a program that is not found appear."""
        self.failed_with_a_helper_left(127, "--max-restarts", "3")

    def test_a_signal_that_was_ignored_at_our_start_stays_ignored(self):
        process = self.started(shell="echo ready; sleep 0.4; echo done",
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual((process.returncode, out, err), (0, "done\ndone\n", ""))

    def test_a_script_is_told_once_what_its_background_ignores(self):
        script = [shutil.which("dash") or "sh", "-c", '"$@" & wait $!', "sh", MUSTER, "run", "--nproc-per-node", "2", "--no-python", "true"]
        said = subprocess.run(script, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=True).stderr
        self.assertEqual(said.count("\n"), 1, said)
        self.assertRegex(said, "^muster: note: SIGINT and SIGQUIT were ignored when .*; send SIGTERM, or ")

    def test_an_ignored_signal_that_is_named_is_handled(self):
        process = self.started("--signals-to-handle", "SIGHUP", shell="echo ready; exec sleep 600",
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 129)

    def test_children_that_the_launcher_had_before_are_not_ours_to_kill(self):
        # exec replaces the shell: its background child becomes the launcher's.
        script = 'sleep 77 & echo $!; exec "%s" run --nproc-per-node 2 --no-python true' % MUSTER
        process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
        child = int(process.stdout.readline())
        self.assertEqual(process.wait(timeout=LIMIT_S), 0)
        os.kill(child, signal.SIGKILL)  # raises if it is gone


class Streams(unittest.TestCase):

    def test_a_job_with_closed_descriptors_runs(self):
        # The worker lists its descriptors: the three, and the one that ls opens.
        with tempfile.TemporaryDirectory() as folder:
            script = '"%s" run --nproc-per-node 2 --no-python sh -c "ls /proc/self/fd > %s/\$RANK" <&- >&- 2>&-' % (MUSTER, folder)
            self.assertEqual(subprocess.run(["bash", "-c", script], timeout=LIMIT_S).returncode, 0)
            for rank in "01":
                with open(os.path.join(folder, rank)) as file:
                    self.assertEqual(file.read().split(), ["0", "1", "2", "3"])


def limited(kind, soft, hard=None):
    """As `preexec_fn`: a limit of resources for the job. Without `hard`, that limit stays."""
    return lambda: resource.setrlimit(kind, (soft, resource.getrlimit(kind)[1] if hard is None else hard))


class Limits(unittest.TestCase):
    def test_many_workers_do_not_need_a_high_soft_limit_of_open_files(self):
        result = run(workers=24, shell="ulimit -Sn", preexec_fn=limited(resource.RLIMIT_NOFILE, 64))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split(), ["64"] * 24)  # workers keep the limit that the user has

    def test_a_log_that_reaches_the_limit_of_file_sizes_is_cut_and_the_job_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("--log-dir", folder, "--redirects", "3", shell="trap '' XFSZ; seq 1 2000; exit 0",
                         preexec_fn=limited(resource.RLIMIT_FSIZE, 1024, 1024))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("log truncated", result.stderr)
            self.assertIn("ulimit -f", result.stderr)
            logs = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names if name == "stdout.log"]
            self.assertEqual([os.path.getsize(log) for log in logs], [1024, 1024])

    def test_a_console_file_at_the_limit_of_file_sizes_ends_none_of_us(self):
        with tempfile.TemporaryFile() as file:
            result = subprocess.run([MUSTER, "run", "--nproc-per-node", "2", "--no-python", "sh", "-c",
                                     "echo out; echo err >&2; exit 3"], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                    timeout=LIMIT_S, preexec_fn=limited(resource.RLIMIT_FSIZE, 0, 0))
        self.assertEqual(result.returncode, 3)

    def test_a_limit_of_cpu_time_is_named(self):
        result = run(workers=1, shell="while :; do :; done", preexec_fn=limited(resource.RLIMIT_CPU, 1, 1))
        self.assertEqual(result.returncode, 137, result.stderr)
        self.assertIn("its limit of 1 s of CPU time", result.stderr)
        self.assertNotIn("memory", result.stderr)


class ProcessFiles(unittest.TestCase):
    """Without a /proc of its own PID namespace nothing that workers leave behind could be found."""

    def refused(self, preparation, flags):
        if subprocess.run(["unshare", *flags, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("PID namespaces are not allowed here")
        with tempfile.TemporaryDirectory() as folder:
            command = preparation + 'exec "$0" run --nproc-per-node 2 --no-python touch "$1/ran"'
            result = subprocess.run(["unshare", *flags, "sh", "-c", command, MUSTER, folder], stdin=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
            self.assertEqual(result.returncode, 125, result.stderr)
            self.assertIn("mount -t proc", result.stderr)
            self.assertEqual(os.listdir(folder), [])
        return result.stderr

    def test_another_namespaces_proc_is_refused(self):
        self.assertIn("another PID namespace", self.refused("", ["-r", "--pid", "--fork"]))

    def test_no_proc_is_refused(self):
        self.assertIn("not mounted", self.refused("mount -t tmpfs none /proc && ", ["-r", "--pid", "--fork", "--mount"]))


class Watchdog(unittest.TestCase):
    """The agent's side of PyTorch's timers; with PyTorch itself: interop_watchdog."""
    # set_timer PID NAME: a timer of that process whose time is over.
    SET = """set_timer() {
               printf '{"version": 1, "pid": %d, "scope_id": "%s", "expiration_time": 1, "signal": 9}\\n' $1 "$2" \\
                 > "$TORCHELASTIC_TIMER_FILE"
             }
             child_is_ended() { sleep 600 & set_timer $! "$1"; wait $!; }
             """

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def job(self, shell, *arguments, **variables):
        return run(*arguments, shell=self.SET + shell,
                   env={"TMPDIR": self.folder, "TORCHELASTIC_ENABLE_FILE_TIMER": "1", **variables})

    def test_a_worker_whose_timer_expired_is_killed_and_named(self):
        result = self.job("[ $RANK = 1 ] && set_timer $$ epoch; exec sleep 600")
        self.assertEqual(result.returncode, 137, result.stderr)
        self.assertRegex(result.stderr, "rank 1 on .*: killed by SIGKILL: the watchdog timer 'epoch' of rank 1 expired after 0.0 s")
        self.assertNotIn("out-of-memory", result.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_timer_of_a_workers_child_ends_the_child(self):
        result = self.job("[ $RANK = 1 ] && { child_is_ended loader; exit 5; }; exec sleep 600")
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertRegex(result.stderr, r"exit code 5: the watchdog timer 'loader' of rank 1 \(its process \d+\) expired")

    def test_no_process_outside_the_job_is_touched(self):
        with subprocess.Popen(["sleep", "600"]) as stranger:
            # Requests are taken in their order, so the first has been taken when the child is ended.
            result = self.job(f"set_timer {stranger.pid} stranger; set_timer $PPID agent; child_is_ended later; true")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIsNone(stranger.poll())
            stranger.kill()

    def test_the_user_may_name_the_pipe(self):
        path = os.path.join(self.folder, "timers")
        os.mkfifo(path)  # as an agent that was killed leaves it
        result = self.job('[ "$TORCHELASTIC_TIMER_FILE" = "$NAMED" ] && child_is_ended x; true', TORCHELASTIC_TIMER_FILE=path, NAMED=path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("'x' of rank", result.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_pipe_that_another_job_reads_is_left_to_it(self):
        path = os.path.join(self.folder, "timers")
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        result = self.job('[ "$TORCHELASTIC_TIMER_FILE" != "$NAMED" ] && child_is_ended x', TORCHELASTIC_TIMER_FILE=path, NAMED=path)
        self.assertIn("'x' of rank", result.stderr)
        self.assertEqual(os.listdir(self.folder), ["timers"])

    def test_a_file_where_the_pipe_should_be_is_said_and_kept(self):
        path = os.path.join(self.folder, "data")
        with open(path, "w", encoding="ascii") as file:
            file.write("kept")
        result = self.job("true", TORCHELASTIC_TIMER_FILE=path)
        self.assertEqual(result.returncode, 126, result.stderr)
        self.assertIn(f"'{path}' exists and is no pipe", result.stderr)
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "kept")

    def test_without_the_variable_there_is_no_pipe(self):
        self.assertEqual(self.job('[ -z "$TORCHELASTIC_TIMER_FILE" ]', TORCHELASTIC_ENABLE_FILE_TIMER="0").returncode, 0)


class Address(unittest.TestCase):
    def test_the_store_can_be_at_another_address_of_this_machine(self):
        addresses = [line.split()[3].split("/")[0] for line in
                     subprocess.run(["ip", "-o", "-4", "address"], stdout=subprocess.PIPE, text=True).stdout.splitlines()]
        other = [address for address in addresses if not address.startswith("127.")] or ["127.0.0.2"]
        worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "store_worker.py")
        result = run("--master-addr", other[0], "--max-restarts", "1", "--no-python", sys.executable, worker)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


class Errors(unittest.TestCase):

    def test_a_busy_port_is_named_with_its_holder(self):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            held.listen()
            port = held.getsockname()[1]
            result = run("--rdzv-backend", "static", "--master-port", str(port), shell="true")
        self.assertEqual(result.returncode, 125, result.stderr)
        self.assertIn(str(port), result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
