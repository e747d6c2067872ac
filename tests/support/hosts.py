# SPDX-License-Identifier: Apache-2.0
"""Hosts for tests, made out of namespaces of this machine.

    with Hosts(4) as hosts:                       # n00 to n03, and "login", from which jobs are started
        hosts.run("login", ["ssh", "n00", "hostname"])
        with hosts.cut("n00", "n01"):
            ...

Each host has its own network (veth to a bridge), host name, processes, /tmp, /dev/shm, /run, /proc, home, /etc/hosts and, but for
"login", an sshd with throw-away keys. Everything else on the disk is shared. Nothing touches the network of this machine, and
nothing is left when the test ends or is killed: see host_keeper.py. host_faults.py has what can go wrong between hosts,
host_ssh.py what can go wrong with an sshd.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import interop
import namespaces as ns
from host_faults import Faults
from host_keeper import SHARED, below
from host_ssh import Ssh, make_keys

LAUNCHER = "login"
TOOLS = ("ip", "nft", "ss", "tc", "ssh", "sshd", "ssh-keygen")
INSIDE = ns.CLONE_NEWNET | ns.CLONE_NEWNS | ns.CLONE_NEWUTS | ns.CLONE_NEWIPC
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Unavailable(Exception):
    """This machine does not let us make hosts."""


def need_hosts():
    """Skips the test where hosts cannot be made."""
    try:
        with Hosts(1):
            pass
    except Unavailable as error:
        interop.skip(str(error))


class Host:
    def __init__(self, index, name, home, family):
        self.name, self.home, self.index = name, home, index
        self.ipv4, self.ipv6 = f"10.87.{index // 200}.{10 + index % 200}", f"fd87::{0x10 + index:x}"
        self.address = self.ipv6 if family == 6 else self.ipv4
        self.port = f"port{index}"  # its end on the bridge
        self.pid = None
        self.pidfd = None


class Hosts(Faults, Ssh):
    """`names` instead of n00...; `family` is the addresses that names resolve to (4, 6); `shared_home` gives all hosts one home
    folder, as a network file system does; `own_name_local` puts a host's own name on 127.0.1.1 there, as Debian does;
    `sshd` False starts none; `roots` has the folder with the whole system of a host that shall not see this machine's
    (it needs iproute2 and openssh-server), and below it this machine's folders `binds`: {there: here}. Of a host that is
    down, commands fail."""

    def __init__(self, count=2, *, names=None, family=4, shared_home=False, own_name_local=False, sshd=True, keep=(), roots=None, binds=None):
        names = list(names) if names else [f"n{i:02}" for i in range(count)]
        self.names = names
        homes = {name: f"{SHARED}/home/{'all' if shared_home else name}" for name in [LAUNCHER, *names]}
        self.hosts = {name: Host(i, name, homes[name], family) for i, name in enumerate([LAUNCHER, *names])}
        self.own_name_local = own_name_local
        kept = [interop.ROOT, os.path.dirname(interop.MUSTER), os.path.dirname(os.path.realpath(interop.TORCH_PYTHON)),
                os.path.realpath(interop.CIFAR10), *map(os.path.realpath, keep)]
        self.keep = [path for path in kept if os.path.exists(path)]
        self.sshd_wanted = sshd
        self.roots, self.binds = roots or {}, binds or {}
        self.keeper = self.keeper_fd = None
        self.rules = {}
        self.servers = {}
        self.children = {}  # by host, so that they can be reaped when it dies
        self.keys = {}

    def __enter__(self):
        missing = [tool for tool in TOOLS if shutil.which(tool, path=SEARCH_PATH) is None]
        if os.geteuid() != 0:
            raise Unavailable("hosts made of namespaces need root")
        if missing:
            raise Unavailable(f"hosts made of namespaces need {', '.join(missing)}; scripts/install_deps.sh test installs them")
        try:
            self.keys = make_keys()
            self.start_keeper()
            if self.sshd_wanted:
                for name in self.names:
                    self.start_sshd(name, wait=False)
                for name in self.names:
                    self.wait_for_sshd(name)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def start_keeper(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "host_keeper.py")
        self.keeper = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       start_new_session=True, env={**os.environ, "PATH": SEARCH_PATH})
        try:
            pids = self.ask(self.specification())["pids"]
        except RuntimeError as error:
            raise Unavailable(f"no hosts out of namespaces on this machine: {error}") from error
        self.keeper_fd = os.pidfd_open(self.keeper.pid)
        self.adopt(pids)
        self.apply_rules()
        for host in self.hosts.values():
            self.write_client_files(host)

    def specification(self):
        files, hosts = {}, []
        with open("/etc/passwd", encoding="utf-8") as file:
            users = file.read().splitlines()
        for host in self.hosts.values():
            # ssh and sshd go by the user's entry, not by HOME; a locked root could not log in.
            root = f"root:x:0:0:root:{host.home}:/bin/bash"
            files[f"etc/{host.name}/passwd"] = "\n".join([root, *(u for u in users if not u.startswith("root:"))]) + "\n"
            files[f"etc/{host.name}/hosts"] = self.hosts_file(host)
            etc = {f"etc/{host.name}/passwd": "/etc/passwd", f"etc/{host.name}/hosts": "/etc/hosts",
                   "etc/shadow": "/etc/shadow", "etc/resolv.conf": "/etc/resolv.conf"}
            hosts.append({"name": host.name, "ipv4": host.ipv4, "ipv6": host.ipv6, "port": host.port, "home": host.home,
                          "etc": etc, "root": self.roots.get(host.name), "binds": self.binds})
        files["etc/shadow"] = "root:*:1:0:99999:7:::\n"
        files["etc/resolv.conf"] = "# nobody answers here\n"
        return {"hosts": hosts, "files": files, "keep": sorted(set(self.keep))}

    def hosts_file(self, of):
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
        for host in self.hosts.values():
            local = self.own_name_local and host is of
            lines += [f"{'127.0.1.1' if local else host.address} {host.name}", f"{host.ipv4} {host.name}-v4",
                      f"{host.ipv6} {host.name}-v6"]
        return "\n".join(lines) + "\n"

    def ask(self, order):
        """One order to the keeper, and its answer."""
        try:
            self.keeper.stdin.write(json.dumps(order).encode() + b"\n")
            self.keeper.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.keeper.stdout.readline()
        reply = json.loads(line) if line else {"error": f"the keeper ended with {self.keeper.wait()}"}
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def adopt(self, pids):
        for name, pid in pids.items():
            self.hosts[name].pid, self.hosts[name].pidfd = pid, os.pidfd_open(pid)

    def forget(self, host):
        """After the end of its process 1, which takes all others there with it."""
        if host.pidfd is not None:
            os.close(host.pidfd)
        host.pid = host.pidfd = None
        for child in self.children.pop(host.name, []):
            child.wait()

    def close(self):
        """Ends all hosts; returns when nothing of them is left."""
        if self.keeper is None:
            return
        self.keeper.stdin.close()
        for host in self.hosts.values():
            self.forget(host)
        try:
            self.keeper.wait(30)
        except subprocess.TimeoutExpired:
            self.keeper.kill()
            self.keeper.wait()
        self.keeper.stdout.close()
        if self.keeper_fd is not None:
            os.close(self.keeper_fd)
        self.keeper = self.keeper_fd = None

    # -- running things there ------------------------------------------------------------------------------------------

    # Before a command: it runs in a terminal, in which our end of its stdin types. Ends with its code as a shell shows it.
    TERMINAL = ("python3", "-c", "import os, pty, sys\ncode = os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:]))\n"
                                 "sys.exit(code if code >= 0 else 128 - code)")

    def environment(self, name, **extra):
        """What a user who has logged in there would see."""
        base = {key: value for key, value in interop.clean_environment().items()
                if not key.startswith(("SSH_", "XDG_", "SUDO_", "SLURM_")) and key not in ("TMPDIR", "DISPLAY", "MAIL", "HOSTNAME", "OLDPWD")}
        return {**base, "HOME": self.hosts[name].home, "USER": "root", "LOGNAME": "root", "PATH": SEARCH_PATH,
                **extra}

    def popen(self, name, argv, *, cwd=interop.ROOT, env=None, **keywords):
        """subprocess.Popen on a host: the process is our own child, its pid is ours. `env` is added to the host's."""
        host = self.hosts[name]
        if host.pidfd is None:
            raise RuntimeError(f"host {name} is down")

        def enter():
            ns.setns(host.pidfd, INSIDE)
            os.chdir(cwd)

        keywords = {"stdin": subprocess.DEVNULL, "start_new_session": True, **keywords}
        with ns.children_in(host.pidfd):
            process = subprocess.Popen([str(word) for word in argv], preexec_fn=enter,
                                       env=self.environment(name, **(env or {})), **keywords)
        alive = [child for child in self.children.get(name, []) if child.returncode is None]
        self.children[name] = [*alive, process]
        return process

    def run(self, name, argv, *, timeout=60, check=True, input=None, **keywords):
        """Runs a command on a host to its end; with `check`, a failure raises and shows the output."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        if input is not None:
            pipes["stdin"] = subprocess.PIPE
        process = self.popen(name, argv, **{**pipes, **keywords})
        try:
            out, err = process.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{name}: {' '.join(map(str, argv))}: not done after {timeout} s\n{out}\n{err}") from None
        if check and process.returncode != 0:
            raise AssertionError(f"{name}: {' '.join(map(str, argv))}\nexit code {process.returncode}\n{out}\n{err}")
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def path(self, name, path):
        """Where this process finds a file of a host; ~ is the home there."""
        path = path.replace("~", self.hosts[name].home, 1) if path.startswith("~") else path
        return f"/proc/{self.hosts[name].pid}/root{path}"

    def write(self, name, path, text, mode=0o644):
        path = self.path(name, path)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def read(self, name, path):
        with open(self.path(name, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    # -- hosts that go and come ----------------------------------------------------------------------------------------

    def kill_host(self, name, silent=True):
        """All processes there die at once; the others hear nothing of it (a power cut), or, not silent, what the kernel says."""
        if silent:
            self.switch(["ip", "link", "set", self.hosts[name].port, "down"])
        self.ask(["kill", [name]])
        self.servers.pop(name, None)
        self.forget(self.hosts[name])
        self.ask(["reap", [name]])

    def restart_host(self, name):
        """As after a boot: empty /tmp, /run and shared memory, other processes, the same addresses and home."""
        if self.hosts[name].pid is not None:
            self.kill_host(name)
        self.adopt(self.ask(["start", [name]])["pids"])
        if self.sshd_wanted and name in self.names:
            self.start_sshd(name)

    # -- looking at them -----------------------------------------------------------------------------------------------

    def processes(self, name):
        """What runs there besides process 1, sshd and the dead: [{pid, comm, state, command}], pid as seen there."""
        found = []
        root = self.path(name, "/proc")
        for entry in os.listdir(root):
            if not entry.isdigit() or entry == "1":
                continue
            try:
                with open(f"{root}/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    comm, _, rest = file.read().partition("(")[2].rpartition(")")
                with open(f"{root}/{entry}/cmdline", encoding="utf-8", errors="replace") as file:
                    command = file.read().replace("\0", " ").strip()
            except (FileNotFoundError, ProcessLookupError):
                continue
            state = rest.split()[0]
            if comm not in ("sshd", "sshd-session", "sshd-auth") and state not in "ZX":
                found.append({"pid": int(entry), "comm": comm, "state": state, "command": command})
        return found

    def leftovers(self, names=None, timeout=10):
        """{host: processes} of what still runs after `timeout`; returns at once when there is nothing."""
        deadline = time.monotonic() + timeout
        while True:
            left = {name: self.processes(name) for name in names or self.hosts if self.hosts[name].pid is not None}
            left = {name: processes for name, processes in left.items() if processes}
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.02)

    def signal(self, name, pid, number=signal.SIGKILL):
        """Signals a process by the pid that it has there."""
        self.run(name, ["/bin/kill", f"-{int(number)}", str(pid)])

    def files(self, name, *folders):
        """Every file and, with a / at the end, every directory below these folders of a host (those private to it, if none
        is named), but not what all hosts see of the machine there: this project may stand below /tmp."""
        found = []
        for top in folders or ("/tmp", "/dev/shm"):
            kept = [path for path in self.keep if path != top and below(path, top)]
            for folder, inner, names in os.walk(self.path(name, top)):
                here = folder[len(self.path(name, "")):]
                inner[:] = [one for one in inner if os.path.join(here, one) not in kept]
                found += [os.path.join(here, one) for one in names]
                found += [os.path.join(here, one) + "/" for one in inner
                          if not any(below(path, os.path.join(here, one)) for path in kept)]
        return sorted(found)
