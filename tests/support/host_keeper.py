# SPDX-License-Identifier: Apache-2.0
"""The process behind hosts.py: makes hosts out of namespaces and holds them until its caller is gone.

Started by hosts.py, and spoken to in JSON lines on stdin and stdout. Everything it makes lives in namespaces whose only
holders are its own children: when it ends, in whatever way, the kernel takes all away, mounts and files included.
"""
import contextlib
import json
import os
import select
import signal
import subprocess

import namespaces as ns

SHARED = "/run/bed"  # the same folder on all hosts, as a network file system would be; all else below /run is a host's own
PRIVATE = {"/tmp": "mode=1777,size=256m", "/dev/shm": "mode=1777,size=1g", "/run": "mode=755,size=64m"}


def below(path, folder):
    return path == folder or path.startswith(folder + "/")


class Keeper:
    def __init__(self, specification):
        self.hosts = {host["name"]: host for host in specification["hosts"]}
        self.keep = specification["keep"]
        self.pids = {}
        ns.set_process_name("muster-test-bed")
        ns.unshare(ns.CLONE_NEWNET | ns.CLONE_NEWNS)
        ns.mount("none", "/", flags=ns.MS_REC | ns.MS_PRIVATE)
        self.shield(["/run"])
        os.mkdir(SHARED)
        for name, text in specification["files"].items():
            path = os.path.join(SHARED, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        # The bridge only forwards: it has no address, and needs none.
        with open("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w", encoding="ascii") as file:
            file.write("1")
        ip(["link add br0 type bridge mcast_snooping 0 forward_delay 0 stp_state 0", "link set br0 up"])

    def shield(self, folders):
        """Puts a file system of our own over each folder, but keeps what the tests need there in sight."""
        kept = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in self.keep if any(below(path, f) for f in folders)}
        for folder in folders:
            ns.mount("tmpfs", folder, "tmpfs", ns.MS_NOSUID | ns.MS_NODEV, PRIVATE[folder])
        for path, descriptor in kept.items():
            if not os.path.exists(path):
                os.makedirs(path)
                ns.mount(f"/proc/self/fd/{descriptor}", path, flags=ns.MS_BIND | ns.MS_REC)
            os.close(descriptor)

    def start(self, names):
        """Starts these hosts, all at once: first the processes, then their network."""
        links = {name: self.fork_host(self.hosts[name]) for name in names}
        for name, (_, ready) in links.items():
            expect(ready, name)
        for name in names:  # what a killed host had may still be there
            if os.path.exists(f"/proc/sys/net/ipv4/conf/{self.hosts[name]['port']}"):
                ip([f"link delete {self.hosts[name]['port']}"])
        ip(word for name in names for word in (
            f"link add {self.hosts[name]['port']} type veth peer name eth0 netns {self.pids[name]}",
            f"link set {self.hosts[name]['port']} master br0 up"))
        for go, _ in links.values():
            os.write(go, b"g")
            os.close(go)
        for name, (_, ready) in links.items():
            expect(ready, name)
            os.close(ready)
        return {name: self.pids[name] for name in names}

    def fork_host(self, host):
        go_read, go_write = os.pipe()
        ready_read, ready_write = os.pipe()
        with ns.children_in():
            pid = os.fork()
        if pid == 0:
            try:
                os.close(ready_read)
                os.close(go_write)
                self.be_host(host, go_read, ready_write)
            except BaseException as error:
                with contextlib.suppress(OSError):
                    os.write(ready_write, str(error).encode())
            os._exit(1)
        os.close(go_read)
        os.close(ready_write)
        self.pids[host["name"]] = pid
        return go_write, ready_read

    def be_host(self, host, go, ready):
        """Process 1 of a host: sets it up, then reaps whoever loses its parent."""
        ns.die_with_parent()
        ns.set_process_name("init-" + host["name"][:10])
        ns.unshare(ns.CLONE_NEWNET | ns.CLONE_NEWNS | ns.CLONE_NEWUTS | ns.CLONE_NEWIPC)
        ns.set_hostname(host["name"])
        bed = os.open(SHARED, os.O_PATH)
        if host["root"]:
            self.enter_root(host["root"], host["binds"])
        self.shield(list(PRIVATE))
        os.mkdir(SHARED)
        ns.mount(f"/proc/self/fd/{bed}", SHARED, flags=ns.MS_BIND)
        os.mkdir("/run/sshd", 0o755)
        for name, target in host["etc"].items():
            if os.path.exists(target):
                ns.mount(os.path.join(SHARED, name), target, flags=ns.MS_BIND)
        os.makedirs(host["home"], 0o700, exist_ok=True)
        ns.mount("proc", "/proc", "proc")
        os.write(ready, b"r")
        if os.read(go, 1) != b"g":
            os._exit(1)
        ip(["link set lo up", "link set eth0 up", f"address add {host['ipv4']}/16 dev eth0",
            f"address add {host['ipv6']}/64 dev eth0 nodad"])
        os.write(ready, b"u")
        null = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.closerange(3, 256)
        os.chdir("/")
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            signal.pause()

    def enter_root(self, root, binds):
        """Everything that this host sees of a disk lies in that folder."""
        ns.mount(root, root, flags=ns.MS_BIND | ns.MS_REC)
        for there, here in {"/dev": "/dev", "/sys": "/sys", **binds}.items():
            os.makedirs(root + there, exist_ok=True)
            ns.mount(here, root + there, flags=ns.MS_BIND | ns.MS_REC)
        ns.mount("proc", root + "/proc", "proc")
        os.chdir(root)
        ns.mount(root, "/", flags=ns.MS_MOVE)
        os.chroot(".")
        self.keep = []  # of this machine

    def kill(self, names):
        for name in names:
            os.kill(self.pids[name], signal.SIGKILL)

    def reap(self, names):
        """Process 1 can be reaped only after all others of its namespace: the caller waits for its own children first."""
        for name in names:
            os.waitpid(self.pids.pop(name), 0)

    def serve(self, parent):
        """Until the caller closes our stdin or dies."""
        poller = select.poll()
        poller.register(0, select.POLLIN)
        poller.register(parent, select.POLLIN)
        pending = b""
        while True:
            if any(descriptor == parent for descriptor, _ in poller.poll()):
                return
            received = os.read(0, 65536)
            if not received:
                return
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                order, names = json.loads(line)
                try:
                    answer({"pids": {"start": self.start, "kill": self.kill, "reap": self.reap}[order](names)})
                except (OSError, RuntimeError) as error:
                    answer({"error": str(error)})


def expect(ready, name):
    said = os.read(ready, 4096).decode()
    if said not in ("r", "u"):
        raise RuntimeError(f"host {name}: {said or 'its first process died'}")


def ip(commands):
    text = "\n".join(commands)
    result = subprocess.run(["ip", "-batch", "-"], input=text, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"ip: {result.stderr.strip()}")


def answer(message):
    os.write(1, json.dumps(message).encode() + b"\n")


def main():
    parent = os.pidfd_open(os.getppid())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the caller ends us, after whatever it still asks of its hosts
    specification = b""
    while not specification.endswith(b"\n"):
        received = os.read(0, 65536)
        if not received:
            return
        specification += received
    specification = json.loads(specification)
    try:
        keeper = Keeper(specification)
        answer({"pids": keeper.start(list(keeper.hosts))})
    except (OSError, RuntimeError) as error:
        answer({"error": str(error)})
        return
    keeper.serve(parent)
    keeper.kill(list(keeper.pids))
    keeper.reap(list(keeper.pids))


if __name__ == "__main__":
    main()
