# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between the hosts of hosts.py, and what went over their wires."""
import contextlib
import ipaddress
import itertools
import os
import struct
import subprocess

import namespaces as ns

LISTEN = "0A"


class Faults:
    """Mixed into Hosts. A fault holds until heal(), or to the end of a `with` block around its call."""

    _numbers = itertools.count()

    def switch(self, argv, **keywords):
        """Runs a command in the network namespace of the bridge."""
        result = subprocess.run(argv, preexec_fn=lambda: ns.setns(self.keeper_fd, ns.CLONE_NEWNET),
                                capture_output=True, text=True, check=False, **keywords)
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}: {result.stderr.strip()}")
        return result.stdout

    def apply_rules(self):
        rules = "\n".join(rule for fault in self.rules.values() for rule in fault)
        self.switch(["nft", "-f", "-"], input="table bridge bed\ndelete table bridge bed\ntable bridge bed {\n"
                    f"chain forward {{ type filter hook forward priority 0; policy accept;\n{rules}\n}}\n}}\n")

    def fault(self, rules):
        number = next(self._numbers)
        self.rules[number] = list(rules)
        self.apply_rules()
        ending = contextlib.ExitStack()
        ending.callback(self.heal, number)
        return ending

    def heal(self, number=None):
        """Takes back one fault, or all of them."""
        if number is None:
            self.rules.clear()
        else:
            self.rules.pop(number, None)
        if self.keeper is not None:
            self.apply_rules()

    def cut_one_way(self, source, destination):
        """What `source` sends to `destination` is lost; the other way works."""
        a, b = self.hosts[source], self.hosts[destination]
        return self.fault([f"ip saddr {a.ipv4} ip daddr {b.ipv4} drop", f"ip6 saddr {a.ipv6} ip6 daddr {b.ipv6} drop"])

    def cut(self, one, other):
        a, b = self.hosts[one], self.hosts[other]
        return self.fault(rule for s, d in ((a, b), (b, a)) for rule in (
            f"ip saddr {s.ipv4} ip daddr {d.ipv4} drop", f"ip6 saddr {s.ipv6} ip6 daddr {d.ipv6} drop"))

    def cut_port(self, name, port):
        """Nothing goes to or comes from this TCP port of a host any more."""
        host = self.hosts[name]
        return self.fault([f"ip daddr {host.ipv4} tcp dport {port} drop", f"ip saddr {host.ipv4} tcp sport {port} drop",
                           f"ip6 daddr {host.ipv6} tcp dport {port} drop", f"ip6 saddr {host.ipv6} tcp sport {port} drop"])

    def silence(self, name):
        """The host is cut off from all others, and goes on running."""
        port = self.hosts[name].port
        return self.fault([f'iifname "{port}" drop', f'oifname "{port}" drop'])

    def drop_percent(self, name, percent):
        """Each packet to and from the host is lost with this probability."""
        if percent >= 100:
            return self.silence(name)
        port, dice = self.hosts[name].port, f"numgen random mod 1000 < {int(percent * 10)}"
        return self.fault([f'iifname "{port}" {dice} drop', f'oifname "{port}" {dice} drop'])

    def rate_limit(self, name, kbit):
        """Both directions of the host's link carry at most this much; None lifts it."""
        if kbit is None:
            self.switch(["tc", "qdisc", "delete", "dev", self.hosts[name].port, "root"])
            self.run(name, ["tc", "qdisc", "delete", "dev", "eth0", "root"])
            return
        words = ["root", "tbf", "rate", f"{kbit}kbit", "burst", "64kb", "latency", "200ms"]
        self.switch(["tc", "qdisc", "replace", "dev", self.hosts[name].port, *words])
        self.run(name, ["tc", "qdisc", "replace", "dev", "eth0", *words])

    def reset(self, name, other=None, *, port=None):
        """Resets the host's established TCP connections (to `other`, with `port` on either side; never ssh unless port is
        22); both ends see it. Returns how many there were."""
        condition = [] if other is None else ["dst", self.hosts[other].ipv4, "or", "dst", f"[{self.hosts[other].ipv6}]"]
        ports = f"( sport = :{port} or dport = :{port} )" if port else "( sport != :22 and dport != :22 )"
        expression = f"( {' '.join(condition)} ) and {ports}" if condition else ports
        out = self.run(name, ["ss", "-H", "-K", "-t", "state", "established", expression]).stdout
        return len(out.splitlines())

    # -- the wires -------------------------------------------------------------------------------------------------------

    def veth_bytes(self, name):
        """(received, sent) by the host's one interface to others."""
        with open(self.path(name, "/proc/1/net/dev"), encoding="ascii") as file:
            fields = next(line for line in file if line.strip().startswith("eth0:")).partition(":")[2].split()
        return int(fields[0]), int(fields[8])

    def sockets(self, name):
        """The kernel's TCP table: [{address, port, peer, peer_port, state, inode}]; states are the kernel's hex numbers."""
        found = []
        for table in ("tcp", "tcp6"):
            with open(self.path(name, f"/proc/1/net/{table}"), encoding="ascii") as file:
                for line in file.readlines()[1:]:
                    fields = line.split()
                    (address, port), (peer, peer_port) = endpoint(fields[1]), endpoint(fields[2])
                    found.append({"address": address, "port": port, "peer": peer, "peer_port": peer_port,
                                  "state": fields[3], "inode": int(fields[9])})
        return found

    def asks_for_names(self, name):
        """Whether somebody there waits for a name server."""
        with open(self.path(name, "/proc/1/net/udp"), encoding="ascii") as table:
            return any(line.split()[2].endswith(":0035") for line in list(table)[1:])

    def listeners(self, name):
        """[(address, port)] of what listens on the host, sshd included."""
        return sorted((s["address"], s["port"]) for s in self.sockets(name) if s["state"] == LISTEN)

    def wildcard_listeners(self, name):
        return [entry for entry in self.listeners(name) if ipaddress.ip_address(entry[0]).is_unspecified]

    def owners(self, name, inode):
        """The processes (pids there) that hold a socket."""
        found = []
        for process in self.processes(name):
            folder = self.path(name, f"/proc/{process['pid']}/fd")
            with contextlib.suppress(OSError):
                if any(os.readlink(f"{folder}/{entry}") == f"socket:[{inode}]" for entry in os.listdir(folder)):
                    found.append(process["pid"])
        return found


def endpoint(text):
    """An address and port as /proc/net/tcp writes them: words of the machine's byte order."""
    address, _, port = text.partition(":")
    words = [int(address[i:i + 8], 16) for i in range(0, len(address), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    return str(ipaddress.ip_address(packed)), int(port, 16)
