# SPDX-License-Identifier: Apache-2.0
"""The sshd of each host of hosts.py, with throw-away keys, and other things that may answer in its place."""
import os
import subprocess
import sys
import tempfile
import time

from host_keeper import SHARED

# What answers instead of sshd. Each is a program that gets the listening socket's (address, port) as its arguments.
IMPOSTORS = {
    # Takes the connection and never says who it is.
    "silent": "held = []\nwhile True:\n    held.append(server.accept())\n",
    # One byte of a banner in a second.
    "slow": "import time\nwhile True:\n    c, _ = server.accept()\n"
            "    for b in b'SSH-2.0-' + b'x' * 200:\n        c.sendall(bytes([b]))\n        time.sleep(1)\n",
    # Another protocol.
    "http": "while True:\n    c, _ = server.accept()\n    c.sendall(b'HTTP/1.1 400 Bad Request\\r\\n\\r\\n')\n    c.close()\n",
    # Hangs up at once, as sshd does beyond MaxStartups.
    "closes": "while True:\n    server.accept()[0].close()\n",
}


def make_keys():
    """A key of the hosts, one of their user, and one that nobody knows: {name: (private, public)}."""
    keys = {}
    with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
        paths = {name: os.path.join(folder, name) for name in ("host", "user", "other")}
        makers = [subprocess.Popen(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", path])
                  for path in paths.values()]
        for maker in makers:
            if maker.wait() != 0:
                raise RuntimeError("ssh-keygen failed")
        for name, path in paths.items():
            with open(path, encoding="ascii") as private, open(path + ".pub", encoding="ascii") as public:
                keys[name] = (private.read(), public.read())
    return keys


class Ssh:
    """Mixed into Hosts."""

    def write_client_files(self, host):
        """The user's side: key, known hosts, and who may log in."""
        public = " ".join(self.keys["host"][1].split()[:2])
        known = "".join(f"{h.name},{h.name}-v4,{h.name}-v6,{h.ipv4},{h.ipv6} {public}\n[{h.name}]:* {public}\n[{h.ipv4}]:* {public}\n"
                        f"[{h.ipv6}]:* {public}\n" for h in self.hosts.values())
        self.write(host.name, "~/.ssh/known_hosts", known)
        self.write(host.name, "~/.ssh/id_ed25519", self.keys["user"][0], 0o600)
        self.write(host.name, "~/.ssh/authorized_keys", self.keys["user"][1], 0o600)

    def start_sshd(self, name, *, port=22, options=(), key="host", wait=True):
        """`options` are lines for sshd_config and win over ours; `key` "other" is a host key that nobody knows."""
        host = self.hosts[name]
        lines = [*options, f"Port {port}", f"ListenAddress {host.ipv4}", f"ListenAddress {host.ipv6}",
                 f"HostKey {SHARED}/sshd/{name}.key", "PidFile none", "UsePAM no", "UseDNS no", "StrictModes no",
                 "PermitRootLogin prohibit-password", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
                 "PrintMotd no", "PrintLastLog no", "AuthorizedKeysFile .ssh/authorized_keys"]
        self.stop_sshd(name)
        self.write(name, f"{SHARED}/sshd/{name}.key", self.keys[key][0], 0o600)
        self.write(name, f"{SHARED}/sshd/{name}.conf", "\n".join(lines) + "\n")
        self.servers[name] = self.popen(
            name, ["/usr/sbin/sshd", "-D", "-f", f"{SHARED}/sshd/{name}.conf", "-E", f"{SHARED}/sshd/{name}.log"], cwd="/",
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.servers[name].wanted_port = port
        if wait:
            self.wait_for_sshd(name)

    def start_impostor(self, name, kind, *, port=22):
        """Puts one of IMPOSTORS, or a program's text, in sshd's place."""
        program = ("import socket, sys\nserver = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=64)\n"
                   + IMPOSTORS.get(kind, kind))
        self.stop_sshd(name)
        # Named sshd, so that it is not taken for something that a job left behind.
        program = "open('/proc/self/comm', 'w').write('sshd')\n" + program
        self.servers[name] = self.popen(name, [sys.executable, "-c", program, self.hosts[name].ipv4, port],
                                        cwd="/", stdout=subprocess.DEVNULL)
        self.servers[name].wanted_port = port
        self.wait_for_sshd(name)

    def stop_sshd(self, name):
        """Ends it; connections in progress live on, later ones are refused."""
        server = self.servers.pop(name, None)
        if server is not None:
            server.kill()
            server.wait()

    def wait_for_sshd(self, name, timeout=30):
        server, deadline = self.servers[name], time.monotonic() + timeout
        while (self.hosts[name].ipv4, server.wanted_port) not in self.listeners(name):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no sshd on {name}: {self.sshd_log(name)}")
            time.sleep(0.002)

    def sshd_log(self, name):
        try:
            return self.read(name, f"{SHARED}/sshd/{name}.log")
        except FileNotFoundError:
            return ""

    def logins(self, name):
        """How many connections sshd has let in so far."""
        return self.sshd_log(name).count("Accepted publickey")
