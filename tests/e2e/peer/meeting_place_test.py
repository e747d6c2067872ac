#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same command on every host, and the place where they are to meet is wrong: a name that does not resolve, another program
at the port, two hosts that both take themselves for node 0 (E4 of the issue; F17, F31 and F32 of the fault matrix)."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from hosts import Hosts, need_hosts
from peer_jobs import Launcher, c10d
from processes import wait_until
from promise import CLOCK, PATIENCE_S, kept, promised
from side_by_side import run_side_by_side

# Programs that take connections: one says nothing, one hangs up, one greets first, one answers in its own protocol's words,
# one speaks TLS with a certificate.
STRANGER = """
import socket, ssl, sys, time
kind, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
server = socket.create_server((address, port))
context = None
if kind == "certificate":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[4])
held = []
while True:
    client, _ = server.accept()
    if kind == "silent":
        held.append(client)
        continue
    try:
        if kind == "greets":
            client.sendall(b"SSH-2.0-Stranger_1.0\\r\\n")
        if kind == "answers":
            client.recv(10)
            client.sendall(b"HTTP/1.1 400 Bad \\x1b[31mRequest\\r\\n\\r\\n")
        if kind == "certificate":
            client = context.wrap_socket(client, server_side=True)
        if kind != "closes":
            client.recv(100)
        client.close()
    except OSError:
        pass
"""

# A name server that knows no name.
NO_SUCH_NAME = """
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 53))
print("listens", flush=True)
while True:
    question, client = server.recvfrom(4096)
    server.sendto(question[:2] + bytes([0x81, 0x83]) + question[4:6] + bytes(6) + question[12:], client)
"""


class MeetingPlace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(3, sshd=False, shared_home=True).__enter__()
        cls.addClassCleanup(cls.hosts.close)

    def start(self, host, flags):
        launcher = Launcher(self.hosts, host, flags)
        self.addCleanup(launcher.close)
        return launcher

    def ends(self, what, bound, launcher, since, *words, code=125, one_try=CLOCK):
        self.assertEqual(launcher.end(PATIENCE_S), code, launcher.text())
        kept(what, took=[launcher.ended - since], one_try=one_try, **bound)
        for word in words:
            self.assertRegex(launcher.error(), word)

    def tearDown(self):
        self.assertEqual(self.hosts.leftovers(timeout=20), {})

    def certificate(self):
        """The path on n00 of a key and its certificate; None without openssl."""
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, name) for name in ("key", "certificate")]
            try:
                subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=n00", "-keyout", files[0],
                                "-out", files[1]], capture_output=True, check=True)
            except (FileNotFoundError, subprocess.CalledProcessError):
                return None
            text = "".join(pathlib.Path(file).read_text(encoding="ascii") for file in files)
        self.hosts.write("n00", "/tmp/muster-test.pem", text, 0o600)
        return "/tmp/muster-test.pem"

    def test_another_program_at_the_port(self):
        address = self.hosts.hosts["n00"].ipv4
        kinds = {"silent": r"did not answer the TLS handshake.*another program listens there.*ss -ltnp",
                 "greets": r"it says 'SSH-2\.0-Stranger_1\.0': another program listens there",
                 "answers": r"it says 'HTTP/1\.1 400 Bad \\x1b\[31mRequest': another program listens there"}
        pem = self.certificate()
        if pem is not None:
            kinds["certificate"] = "TLS handshake.*failed.*another program listens there"
        launchers, servers = {}, []
        for place, kind in enumerate(kinds):
            port = 29500 + place
            server = self.hosts.popen("n00", [sys.executable, "-c", STRANGER, kind, address, port, pem or ""])
            servers.append(server)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            wait_until(lambda port=port: (address, port) in self.hosts.listeners("n00"), "the server")
            launchers[kind] = time.monotonic(), port, self.start("n01", c10d(f"n00:{port}", 2))
        patient = self.patient(address)
        for kind, (since, port, launcher) in launchers.items():
            with self.subTest(kind):
                bound = promised("stranger-at-the-meeting-place", "silent") if kind == "silent" else \
                    promised("stranger-at-the-meeting-place", "speaks")
                self.ends(f"a stranger at the meeting place that is {kind}", bound, launcher, since, kinds[kind], "n00", str(port),
                          one_try="each of the four kinds is a try")
                self.assertEqual("our key" in launcher.error(), kind == "certificate")
                print(f"{kind}: {launcher.errors[-2]}")
        for server in servers:
            server.kill()
        wait_until(lambda: all(time.monotonic() > launcher.begin + 12 for _, launcher, _ in patient), "more than that time")
        for server, launcher, port in patient:
            self.assertIsNone(launcher.process.poll(), launcher.text())
            server.kill()
            server.wait()
            self.start("n00", c10d(f"n00:{port}", 2))
            launcher.ends(0, timeout=60)

    def patient(self, address):
        """Nodes that go on although a program takes their connections: it hangs up, or the user said how long to wait."""
        found = []
        for port, kind, flags in ((29520, "closes", ()), (29521, "silent", ("--rdzv-conf", "join_timeout=300"))):
            server = self.hosts.popen("n00", [sys.executable, "-c", STRANGER, kind, address, port, ""])
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            wait_until(lambda port=port: (address, port) in self.hosts.listeners("n00"), "the server")
            launcher = self.start("n02", c10d(f"n00:{port}", 2, *flags))
            launcher.wait_for(1, lambda line: "another program may listen there" in line, "the notice")
            found.append((server, launcher, port))
        return found

    def name_server(self, *names):
        """One on n00, of which these hosts learn that no name exists."""
        server = self.hosts.popen("n00", [sys.executable, "-c", NO_SUCH_NAME, self.hosts.hosts["n00"].ipv4], stdout=subprocess.PIPE)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        server.stdout.readline()
        self.ask_there(*names)
        return server

    def test_a_name_that_does_not_exist(self):
        server = self.name_server("n01", "n02")
        since = time.monotonic()
        launchers = [self.start("n01", c10d("nowhere.invalid:29400", 2)),
                     self.start("n02", ["--nnodes", "2", "--node-rank", "1", "--master-addr", "nowhere.invalid"])]
        for launcher in launchers:
            self.ends("a meeting place whose name does not exist", promised("meeting-place-unknown"), launcher, since,
                      "cannot find the address of host 'nowhere.invalid'", "for 30 s there was no such name", "join_timeout=SECONDS",
                      "tried again for 30 s")
        server.kill()
        server.wait()

    def test_a_name_may_appear_late(self):
        """A name server says that there is no such name, as a cluster's does of a service without pods; and none can be asked."""
        flags = c10d("later:29400", 3)
        server = self.name_server("n02")
        launchers = []
        for host, words in (("n02", "tried again for 30 s"), ("n01", "tried again for 600 s")):
            launchers.append(self.start(host, flags))
            launchers[-1].wait_for(1, lambda line, words=words: "waiting for later port 29400" in line and words in line, "the notice")
            server.kill()
            server.wait()
        wait_until(lambda: time.monotonic() > launchers[1].begin + 9, "more than what was once the end")
        for name in ("n01", "n02"):
            names = self.hosts.read(name, "/etc/hosts")
            self.addCleanup(self.hosts.write, name, "/etc/hosts", names)
            self.hosts.write(name, "/etc/hosts", f"{names}\n{self.hosts.hosts['n00'].ipv4} later\n")
        self.start("n00", c10d("n00:29400", 3, "--rdzv-conf", "is_host=1"))
        for launcher in launchers:
            launcher.ends(0, timeout=60)

    def test_two_hosts_that_take_themselves_for_the_first(self):
        flags = ["--nnodes", "2", "--node-rank", "0", "--master-addr", "n00", "--master-port", "29444"]
        first, second = [self.start(host, flags) for host in ("n00", "n01")]
        said = second.wait_for(1, lambda line: "--node-rank=0" in line, "the warning")[0]
        self.assertRegex(said, "n01.*--master-addr=n00 is not an address of it.*'n00' has --node-rank 0 as well")
        first.wait_for(1, lambda line: "1 of 2 nodes joined" in line, "whom it waits for")
        self.assertNotIn("--node-rank", first.error())
        for launcher in (first, second):
            launcher.stop()
            launcher.ends(143)

    def ask_there(self, *names):
        """These hosts ask n00 for names."""
        for name in names:
            self.hosts.write(name, "/etc/resolv.conf", f"nameserver {self.hosts.hosts['n00'].ipv4}\n")
            self.addCleanup(self.hosts.write, name, "/etc/resolv.conf", "")

    def test_a_name_server_that_does_not_answer(self):
        self.ask_there("n01")
        with self.hosts.silence("n00"):
            since = time.monotonic()
            launcher = self.start("n01", c10d("n77:29400", 2))
            launcher.wait_for(1, lambda line: "waiting for n77 port 29400" in line, "the notice")
            # Twice 2 s: the launcher's question whether that is this host, and the agent's first.
            kept("a name server that is silent: said", took=[time.monotonic() - since], one_try=CLOCK,
                 **promised("meeting-place-unknown", "said"))
            # It may answer later.
            launcher.wait_for(1, lambda line: "the address of host 'n77'" in line and "tried again for 600 s" in line, "how long it waits")
            launcher.stop()
            launcher.ends(143)

    def test_ctrl_c_in_a_terminal_while_a_name_is_looked_up(self):
        """Before the launcher has forked anything, and when its agent looks."""
        self.ask_there("n01")
        with self.hosts.silence("n00"):
            took = []
            for at_once in (True, True, False):
                launcher = Launcher(self.hosts, "n01", c10d("n77:29400", 2, "--rdzv-conf", "join_timeout=300"), before=Hosts.TERMINAL)
                self.addCleanup(launcher.close)
                wait_until(lambda: self.hosts.asks_for_names("n01"), "a question for the name server")
                if not at_once:
                    launcher.wait_for(1, lambda line: "waiting for n77" in line, "the notice")
                since = time.monotonic()
                launcher.type(b"\x03")
                self.assertEqual(launcher.end(PATIENCE_S), 130, launcher.text())
                took.append(launcher.ended - since)
                self.assertEqual(self.hosts.leftovers(timeout=20), {})
            kept("Ctrl-C while a name is looked up", took=took, **promised("ctrl-c-on-many-hosts", "peer_lookup"))


if __name__ == "__main__":
    need_hosts()
    if len(sys.argv) == 1:
        run_side_by_side([f"MeetingPlace.{name}" for name in dir(MeetingPlace) if name.startswith("test_")], parallel=4, limit_s=100)
    unittest.main()
