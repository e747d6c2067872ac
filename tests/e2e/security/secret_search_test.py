# SPDX-License-Identifier: Apache-2.0
"""The keys of a job on several hosts are nowhere where somebody else could find them: not in a command line, an environment, a
log, a report, a file, what is printed, or a core dump. Nothing listens on all addresses. Looked for during the whole job and
after it."""
import base64
import contextlib
import hashlib
import hmac
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

from host_keeper import SHARED
from hosts import LAUNCHER, Hosts, need_hosts
from interop import MUSTER, check

LIMIT_S = 60
KEY_BYTES = 32
# In place of ssh. What goes to the hosts, the keys among it, goes into a file that only this test looks into, as well.
CLIENT = "/tmp/client/ssh"
CLIENT_TEXT = f'#!/bin/bash\nexec /usr/bin/ssh "$@" < <(exec tee "{os.path.dirname(CLIENT)}/sent.$$" 2>/dev/null)\n'
WORKER = ["bash", "-c", "echo ready $RANK, core dumps $(ulimit -S -c); exec sleep 1000"]
LOGS = f"{SHARED}/logs"


def forms(secret):
    """Raw, hexadecimal, and what is sure of base64 in the middle of something, for each of its three alignments."""
    return [secret, secret.hex().encode(), secret.hex().upper().encode(),
            *(base64.b64encode(b"\0" * shift + secret)[4:40] for shift in range(3)),
            *(base64.urlsafe_b64encode(b"\0" * shift + secret)[4:40] for shift in range(3))]


def derived(secret, identity):
    """HKDF-SHA256 with no salt: one block."""
    key = hmac.digest(bytes(32), secret, hashlib.sha256)
    return hmac.digest(key, identity.encode() + b"\1", hashlib.sha256)


class Watch(threading.Thread):
    """Keeps all that the processes of all hosts show, until it is stopped."""

    def __init__(self, hosts):
        super().__init__(daemon=True)
        self.hosts = hosts
        self.seen = {}
        self.wildcards = set()
        self.names = set()
        self.names_of = {}
        self.core_limits = {}
        self.error = None
        self.stopping = threading.Event()
        self.looks = 0

    def run(self):
        try:
            while not self.stopping.wait(0.02):
                for name in self.hosts.hosts:
                    self.look(name)
                self.looks += 1
        except Exception as error:  # shown by the thread that waits for us
            self.error = error

    def look(self, name):
        proc = self.hosts.path(name, "/proc")
        for pid in filter(str.isdigit, os.listdir(proc)):
            for item in ("cmdline", "environ", "comm", "limits"):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                    with open(f"{proc}/{pid}/{item}", "rb") as file:
                        self.keep(name, pid, item, file.read())
        self.wildcards.update((name, *listener) for listener in self.hosts.wildcard_listeners(name))

    def keep(self, name, pid, item, data):
        if item in ("cmdline", "environ"):
            # Of one process they can change, by exec for one.
            self.seen.setdefault((name, pid, item), set()).add(data)
        elif item == "comm":
            self.comm = data.decode().strip()
            self.names.add(self.comm)
            self.names_of.setdefault((name, pid), set()).add(self.comm)
        elif self.comm.startswith("muster:"):
            self.core_limits[name, pid, self.comm] = re.search(rb"Max core file size\s+(\S+)", data)[1]

    def see_all(self):
        """Waits until everything that is there now has been seen."""
        enough = self.looks + 2
        while self.looks < enough and self.is_alive():
            time.sleep(0.01)

    def stop(self):
        self.stopping.set()
        self.join()
        if self.error:
            raise self.error


class Job:
    def __init__(self, hosts, on, *flags):
        self.hosts, self.on = hosts, on
        self.file = tempfile.TemporaryFile()
        command = [MUSTER, "run", *flags, "--no-python", *WORKER]
        self.process = hosts.popen(on, command, stdout=self.file, stderr=self.file, cwd="/tmp", env={"LOGLEVEL": "DEBUG"})

    def text(self):
        return os.pread(self.file.fileno(), 1 << 24, 0)

    def shown(self):
        return f"{self.on}, exit code {self.process.poll()}:\n{self.text().decode(errors='replace')}"

    def wait_for(self, pattern):
        deadline = time.monotonic() + LIMIT_S
        while not (found := re.findall(pattern, self.text())):
            check(self.process.poll() is None and time.monotonic() < deadline, f"no {pattern}", self.shown())
            time.sleep(0.01)
        return found

    def end(self, number=None):
        if number:
            self.process.send_signal(number)
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"not done after {LIMIT_S} s\n{self.shown()}") from None


def files(hosts, ignore):
    """(where, content) of what is in the hosts' private places and in the shared one."""
    for name, host in hosts.hosts.items():
        for path in hosts.files(name, "/tmp", "/dev/shm", "/run", host.home):
            real = hosts.path(name, path)
            if os.path.isfile(real) and path not in ignore and not path.startswith(os.path.dirname(CLIENT)):
                with open(real, "rb") as file:
                    yield f"{name}:{path}", file.read()


def search(hosts, watch, jobs, secrets, ignore=()):
    wanted = [form for secret in secrets for form in forms(secret)]
    haystack = [(f"{name}: {item} of process {pid}", b"\n".join(versions)) for (name, pid, item), versions in watch.seen.items()]
    haystack += files(hosts, ignore)
    haystack += [(f"what the launcher on {job.on} printed", job.text()) for job in jobs]
    found = sorted(where for where, content in haystack if any(form in content for form in wanted))
    check(not found, f"a key is in {found}")
    return haystack


def check_search_finds(hosts, watch, jobs, secret):
    """The search itself: it must find a key where one is."""
    for form in forms(secret):
        hosts.write(LAUNCHER, "/tmp/planted", "")
        with open(hosts.path(LAUNCHER, "/tmp/planted"), "wb") as file:
            file.write(b"x" + form + b"y")
        try:
            search(hosts, watch, jobs, [secret], ignore=[])
        except AssertionError as error:
            check("/tmp/planted" in str(error), "the planted key was not found", str(error))
        else:
            check(False, "the planted key was not found")
    os.unlink(hosts.path(LAUNCHER, "/tmp/planted"))


def keys_that_were_sent(hosts):
    """By the key frames on the way to the hosts."""
    keys = set()
    for path in hosts.files(LAUNCHER, os.path.dirname(CLIENT)):
        if "sent." not in path:
            continue
        with open(hosts.path(LAUNCHER, path), "rb") as file:
            sent = file.read()
        for frame in re.finditer(rb"key (\d)\n", sent):
            for i in range(int(frame[1])):
                keys.add(sent[frame.end() + i * KEY_BYTES:frame.end() + (i + 1) * KEY_BYTES])
    return keys


def check_watched(watch, names):
    check(names <= watch.names, f"only these processes were seen: {watch.names}")
    check(not watch.wildcards, f"listens on all addresses: {watch.wildcards}")
    dumping = {process: limit for process, limit in watch.core_limits.items() if limit != b"0"}
    # At its very beginning a process has not yet got that far; it has no key then. Between fork and exec a worker has our name, but
    # its own limit already.
    workers = {process for process, names in watch.names_of.items() if any(not name.startswith("muster") for name in names)}
    check(all(process[2] == "muster:guardian" or process[:2] in workers for process in dumping),
          f"processes that may leave a core dump: {dumping}")


def check_no_core_dump(hosts, job):
    said = job.text()
    check(b"core dumped" not in said, "there was a core dump", job.shown())
    for name in hosts.hosts:
        left = [path for path in hosts.files(name) if os.path.basename(path).startswith("core")]
        check(not left, f"core dumps on {name}: {left}")


def started_through_ssh():
    """The keys are in no file; that the coordinator has them in its memory is seen by its doing."""
    with Hosts(2) as hosts:
        hosts.write(LAUNCHER, CLIENT, CLIENT_TEXT, 0o755)
        watch = Watch(hosts)
        watch.start()
        flags = ["-H", "n00,n01", "--ssh-command", CLIENT, "--log-dir", LOGS, "--tee", "3", "--report", f"{SHARED}/report.json"]
        plan = hosts.run(LAUNCHER, [MUSTER, "run", "--dry-run", *flags, "--no-python", *WORKER])
        job = Job(hosts, LAUNCHER, *flags)
        limits = job.wait_for(rb"ready 0, core dumps (\w+)") + job.wait_for(rb"ready 1, core dumps (\w+)")
        check(limits == [b"unlimited"] * 2, f"the workers' limit on core dumps is {limits}, not what it was", job.shown())
        watch.see_all()
        agent, = [p["pid"] for p in hosts.processes("n01") if p["comm"] == "muster:agent"]
        hosts.signal("n01", agent, signal.SIGABRT)
        job.end()
        check(job.process.returncode == 125, "an agent's death is another failure", job.shown())
        watch.stop()
        secrets = keys_that_were_sent(hosts)
        check(len(secrets) == 3, f"{len(secrets)} keys were sent instead of one for each node and the job's own")
        everything = search(hosts, watch, [job], secrets)
        check(not any(form in (plan.stdout + plan.stderr).encode() for secret in secrets for form in forms(secret)), "in the plan")
        for expected in ("stdout.log", "report.json", "environ of process"):
            check(any(expected in where for where, _ in everything), f"nothing called {expected} was searched")
        check_search_finds(hosts, watch, [job], min(secrets))
        check_watched(watch, {"muster:agent", "muster:guardian", "muster:store", "sleep", "ssh"})
        check_no_core_dump(hosts, job)


def launcher_leaves_no_core_dump():
    """It draws the job's secret. Its death by a signal that dumps is seen by its parent, which is this test."""
    with Hosts(1) as hosts:
        control = hosts.popen("n00", ["sleep", "1000"], cwd="/tmp")
        control.send_signal(signal.SIGABRT)
        code = os.waitid(os.P_PID, control.pid, os.WEXITED | os.WNOWAIT).si_code
        if code != os.CLD_DUMPED:
            print("no core dumps on this machine: its control is not one")
            return
        job = Job(hosts, LAUNCHER, "-H", "n00")
        job.wait_for(rb"ready 0")
        job.process.send_signal(signal.SIGABRT)
        check(os.waitid(os.P_PID, job.process.pid, os.WEXITED | os.WNOWAIT).si_code == os.CLD_KILLED, "the launcher dumped core")
        left = hosts.leftovers(timeout=LIMIT_S)
        check(not left, f"left behind: {left}")


def started_on_each_host():
    """The one place of the key is its file."""
    with Hosts(2, shared_home=True) as hosts:
        secret = os.urandom(KEY_BYTES)
        path = "~/keys/key"
        hosts.write("n00", path, secret.hex() + "\n", 0o600)
        path = path.replace("~", hosts.hosts["n00"].home)
        watch = Watch(hosts)
        watch.start()
        flags = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-id", "J", "--rdzv-endpoint", "n00:29400", "--secret-file", path,
                 "--tee", "3"]
        plan = hosts.run("n00", [MUSTER, "run", "--dry-run", *flags, "--no-python", *WORKER])
        jobs = [Job(hosts, name, *flags, "--log-dir", f"{LOGS}-{name}", "--report", f"{SHARED}/{name}.json") for name in hosts.names]
        for job in jobs:
            job.wait_for(rb"ready \d, core dumps unlimited")
        watch.see_all()
        for job in jobs:
            job.end(signal.SIGTERM)
        watch.stop()
        secrets = [secret, derived(secret, "v1/launcher/J//0")]
        search(hosts, watch, jobs, secrets, ignore=[path])
        check(not any(form in (plan.stdout + plan.stderr).encode() for s in secrets for form in forms(s)), "in the plan")
        check_watched(watch, {"muster:agent", "muster:guardian", "muster:store", "sleep"})


# Says which muster processes of this user its other processes may look into, and reads its own status file.
LOOKER = r"""
for p in /proc/[0-9]*; do
  name=$(cat $p/comm 2>/dev/null)
  case $name in muster*) ;; *) continue ;; esac
  [ "$(grep ^Uid: $p/status | cut -f2)" = "$(id -u)" ] || continue
  if cat $p/environ >/dev/null 2>&1 && ls $p/fd/ >/dev/null 2>&1; then echo "open $name"; else echo "closed $name"; fi
done
IFS=: read -r pid fd inode <<END
$MUSTER_STATUS
END
echo "status $(head -c 64 /proc/$pid/fd/$fd | wc -c), core dumps $(ulimit -S -c)"
"""


def of_an_ordinary_user():
    """Without root's rights, the processes with keys are closed to the user's others, and workers still reach what they need."""
    with Hosts(1) as hosts:
        nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
        hosts.run("n00", ["install", "-d", "-o", "65534", "-g", "65534", "/tmp/home"])
        flags = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-id", "J", "--rdzv-endpoint", "127.0.0.1:29400", "--no-python"]
        with tempfile.TemporaryFile() as out:
            jobs = [hosts.popen("n00", [*nobody, MUSTER, "run", *flags, "sh", "-c", LOOKER], cwd="/tmp", stdout=out,
                                stderr=out, env={"HOME": "/tmp/home"}) for _ in range(2)]
            codes = [job.wait(LIMIT_S) for job in jobs]
            text = os.pread(out.fileno(), 1 << 20, 0).decode()
        check(codes == [0, 0], f"exit codes {codes}", text)
        seen = set(re.findall(r"^(?:open|closed) .*", text, re.M))
        wanted = {"closed muster", "closed muster:guardian", "closed muster:store", "open muster:agent"}
        check(seen == wanted, f"{seen}, not {wanted}", text)
        check(text.count("status 64, core dumps unlimited") == 2, "the workers miss something that they had", text)


CASES = {case.__name__: case for case in (started_through_ssh, launcher_leaves_no_core_dump, started_on_each_host,
                                        of_an_ordinary_user)}


def main():
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard != resource.RLIM_INFINITY:
        print("skipped: the hard limit on core dumps is not unlimited")
        return 77
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    need_hosts()
    for name in sys.argv[1:] or CASES:
        begin = time.monotonic()
        CASES[name]()
        print(f"ok {time.monotonic() - begin:6.2f} s  {name}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
