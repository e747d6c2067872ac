# SPDX-License-Identifier: Apache-2.0
"""file:// on a file system that several hosts share."""
import json
import os
import subprocess
import unittest

from hosts import Hosts, need_hosts
from launchers_test import LIMIT_S, PLUGINS, PROBE
from processes import wait_until

ARGUMENT, UNSUPPORTED = -1, -11
KNOCK = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 30) as knocker:
    knocker.settimeout(30)
    try:
        knocker.sendall(bytes([1, 0, 0, 0, 0]))
        print("heard", knocker.recv(100))
    except ConnectionError as error:
        print("cut", error)
"""


class FileOnManyHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(3, shared_home=True, sshd=False, keep=[PROBE])
        cls.hosts.__enter__()
        cls.addClassCleanup(cls.hosts.close)
        cls.path = os.path.join(cls.hosts.hosts["n00"].home, "meeting")
        cls.address = {name: host.ipv4 for name, host in cls.hosts.hosts.items()}

    def start(self, name, rank, join_ms=60000, **extra):
        process = self.hosts.popen(name, [PROBE, f"file://{self.path}", rank, 2, f"join={join_ms}"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={"MUSTER_PLUGIN_PATH": PLUGINS, **extra})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def answer(self, process):
        output, errors = process.communicate(timeout=LIMIT_S)
        lines = [line for line in output.splitlines() if line.startswith("{")]
        self.assertTrue(lines, f"exit code {process.returncode}\n{output}\n{errors}")
        return json.loads(lines[0])

    def note(self, first):
        """(address, port) in the file, once rank 0 has written it."""
        path = self.hosts.path("n00", self.path)
        wait_until(lambda: os.path.exists(path) or first.poll() is not None, "the file", LIMIT_S)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        return self.hosts.read("n00", self.path).splitlines()[1:3]

    def test_the_ranks_of_two_hosts_meet_and_nobody_else(self):
        if not os.path.exists(os.path.join(PLUGINS, "libmuster_gloo.so")):
            self.skipTest("no Gloo, which carries data between hosts")
        allow = {"MUSTER_STORE_ALLOW": f"{self.address['n00']},{self.address['n01']}"}
        first = self.start("n00", 0, **allow)
        host, port = self.note(first)
        self.assertEqual(host, self.address["n00"])
        listening = self.hosts.run("n00", ["ss", "-tlnH"]).stdout
        self.assertEqual([line.split()[3] for line in listening.splitlines() if line.split()[3].endswith(f":{port}")],
                         [f"{host}:{port}"])
        said = self.hosts.run("n02", ["/usr/bin/python3", "-c", KNOCK, host, port]).stdout
        self.assertTrue(said.startswith("cut") or said == "heard b''\n", said)
        found = [self.answer(process) for process in (first, self.start("n01", 1, **allow))]
        for rank, mine in enumerate(found):
            self.assertEqual((mine.get("rank"), mine.get("sum"), mine.get("node_rank"), mine.get("nodes"), mine.get("store")),
                             (rank, 3, rank, 2, f"{host}:{port}"), mine)
        self.assertFalse(os.path.exists(self.hosts.path("n00", self.path)))

    def test_without_a_list_the_store_stays_on_its_host_and_others_are_told_why(self):
        for allow in ({}, {"MUSTER_STORE_ALLOW": "192.0.2.1"}):
            first = self.start("n00", 0, **allow)
            self.assertEqual(self.note(first)[0], "127.0.0.1")
            refused = self.answer(self.start("n01", 1, **allow))
            self.assertEqual(refused["code"], UNSUPPORTED, refused)
            for part in ("loopback address of host n00", "host n01 cannot reach", "MUSTER_STORE_ALLOW", "tcp://"):
                self.assertIn(part, refused["error"])
            first.kill()
            first.communicate(timeout=LIMIT_S)
            os.unlink(self.hosts.path("n00", self.path))

    def test_an_address_of_the_launcher_that_is_none_is_refused(self):
        refused = self.answer(self.start("n00", 0, MUSTER_STORE_ALLOW="10.0.0.0/8", MUSTER_LOCAL_ADDR="n00"))
        self.assertEqual(refused["code"], ARGUMENT, refused)
        self.assertIn("MUSTER_LOCAL_ADDR", refused["error"])


if __name__ == "__main__":
    need_hosts()
    unittest.main()
