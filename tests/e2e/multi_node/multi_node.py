# SPDX-License-Identifier: Apache-2.0
"""What the tests of jobs on many hosts share: a `muster run` on hosts of the test bed."""
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback

import interop
from hosts import LAUNCHER, Hosts, need_hosts
from interop import TRAIN, check
from promise import CLOCK, PATIENCE_S, kept, promise, promised
from side_by_side import CASE_S, run_side_by_side

MUSTER = interop.MUSTER
PLUGINS = os.path.join(os.path.dirname(os.path.dirname(MUSTER)), "lib", "muster")
# Ours keep the names that they give themselves.
GUARDIAN, AGENT, STORE = "muster:guardian", "muster:agent", "muster:store"
READY = "echo ready $RANK of $WORLD_SIZE on $(hostname)"
SLEEPER = ["bash", "-c", f"{READY}; exec sleep 1000"]
STUBBORN = ["bash", "-c", f"trap '' TERM INT HUP; {READY}; while true; do sleep 1000; done"]


# Files of tests, the cache that PyTorch keeps, and what a launcher that was killed leaves until somebody looks for jobs.
PROGRAMS_OWN = re.compile(r"/muster-test|/tmp/torchinductor_|/tmp/muster-\d+/")
STOP_FILE = re.compile(r"/muster_stop_[0-9a-f]{8}-[0-9]+-[0-9.]+-[0-9a-f]{16}/stop(\.new)?$")


class Job:
    """A `muster run` on one of the hosts. What it prints goes to memory, so nobody has to read along."""

    def __init__(self, hosts, *flags, worker=None, at=None, on=LAUNCHER, env=None, python=False, out=None, patient=True,
                 terminal=False):
        """`at`: the value of -H; all hosts with one worker each if neither it nor -H is given. `out`: a descriptor for
        stdout. `patient`: logins may be slow, as on a busy machine. `terminal`: it runs in one."""
        self.hosts, self.on = hosts, on
        if at is None and "-H" not in flags and "--nnodes" not in flags:
            at = ",".join(hosts.names)
        self.report_path = f"/tmp/muster-test-report-{os.urandom(4).hex()}.json"
        patience = ["--login-timeout", "60"] if patient and (at or "-H" in flags) else []
        command = [MUSTER, "run", *(["-H", at] if at else []), *patience, *flags, "--report", self.report_path,
                   *([] if python else ["--no-python"]), *(worker or SLEEPER)]
        self.files = {name: os.memfd_create(name) for name in ("out", "err")}
        if terminal:
            command = [*hosts.TERMINAL, *command]
        self.begin = time.monotonic()
        self.process = hosts.popen(on, command, stdout=out or self.files["out"], stderr=self.files["err"],
                                   env={"MUSTER_PLUGIN_PATH": PLUGINS, **(env or {})},
                                   stdin=subprocess.PIPE if terminal else subprocess.DEVNULL)

    def text(self, name):
        size = os.fstat(self.files[name]).st_size
        return os.pread(self.files[name], size, 0).decode(errors="replace")

    @property
    def out(self):
        return self.text("out")

    @property
    def err(self):
        return self.text("err")

    def shown(self):
        return f"--- exit code {self.process.poll()}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    def wait_for(self, pattern, *, name="out", count=1, timeout=60):
        deadline = time.monotonic() + timeout
        while len(re.findall(pattern, self.text(name))) < count:
            if self.process.poll() is not None and len(re.findall(pattern, self.text(name))) < count:
                raise AssertionError(f"the job ended before {count} of '{pattern}' came\n{self.shown()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {count} of '{pattern}' within {timeout} s\n{self.shown()}")
            time.sleep(0.005)

    def ready(self, count):
        """Waits until so many workers run."""
        self.wait_for(r"ready \d+", count=count)
        return self

    def end(self, timeout=PATIENCE_S):
        """Waits for the launcher; returns its exit code."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"the job did not end within {timeout} s\n{self.shown()}") from None

    def ended(self, since, timeout=PATIENCE_S):
        """The same; returns the seconds since then."""
        self.end(timeout)
        return time.monotonic() - since

    def send(self, number):
        """Returns the moment."""
        begin = time.monotonic()
        self.process.send_signal(number)
        return begin

    def report(self):
        return json.loads(self.hosts.read(self.on, self.report_path))

    def type(self, keys):
        """In the terminal that it runs in."""
        self.process.stdin.write(keys.encode())
        self.process.stdin.flush()

    def pids(self, host, comm):
        """Pids, as seen on the host, of the processes with this name."""
        return [p["pid"] for p in self.hosts.processes(host) if p["comm"] == comm]

    def hit(self, host, comm, number=signal.SIGKILL):
        """Signals the one process with this name on a host; returns the moment."""
        pids = self.pids(host, comm)
        check(pids, f"no {comm} on {host}: {self.hosts.processes(host)}", self.shown())
        # A child that it has just forked still has its name; none is older than its parent.
        begin = time.monotonic()
        self.hosts.signal(host, min(pids), number)
        return begin

    def expect(self, code, *words, names=("out", "err")):
        """Its end: the exit code, and what the texts must say (regular expressions, all of them)."""
        self.end()
        text = "".join(self.text(name) for name in names)
        check(self.process.returncode in ([code] if isinstance(code, int) else code),
              f"exit code {self.process.returncode}, not {code}", self.shown())
        for word in words:
            check(re.search(word, text), f"nothing says '{word}'", self.shown())

    def expect_clean(self, code, *words, directories=False):
        """The same, and that nothing is left."""
        self.expect(code, *words)
        self.nothing_left(directories=directories)

    def nothing_left(self, timeout=PATIENCE_S, directories=False):
        """No process on any host, and no file in /tmp or /dev/shm but those of tests. With `directories`, empty ones may be
        left, as by a guardian and an agent who were both killed, and their stop file."""
        left = self.hosts.leftovers(timeout=timeout)
        check(not left, f"left behind: {left}", self.shown())
        for host in self.hosts.hosts.values():
            if host.pid is not None:
                files = [f for f in self.hosts.files(host.name) if not PROGRAMS_OWN.search(f) and not (directories and (f.endswith("/") or STOP_FILE.search(f)))]
                check(not files, f"files left on {host.name}: {files}", self.shown())


def main(timed=(), untimed=(), parallel=3, untimed_parallel=None, limit_s=CASE_S):
    """Runs these functions side by side; with "timed" or "untimed" as the argument, only those which measure times or which do not;
    with names as arguments, only those, here."""
    chosen = {"timed": timed, "untimed": untimed}.get("".join(sys.argv[1:]))
    by_name = {case.__name__: case for case in chosen or (*timed, *untimed)}
    if len(sys.argv) > 1 and chosen is None:
        for name in sys.argv[1:]:
            try:
                by_name[name]()
            except AssertionError:
                traceback.print_exc()
                sys.exit(1)
        return
    need_hosts()
    run_side_by_side(by_name, untimed_parallel if chosen is untimed and untimed_parallel else parallel, limit_s)


__all__ = ["AGENT", "CLOCK", "GUARDIAN", "Hosts", "Job", "LAUNCHER", "MUSTER", "PATIENCE_S", "SLEEPER", "STORE", "STUBBORN", "TRAIN",
           "check", "kept", "main", "promise", "promised"]
