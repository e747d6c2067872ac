# SPDX-License-Identifier: Apache-2.0
"""The test bed itself: hosts that are hosts, faults that are faults, and nothing left afterwards."""
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import namespaces as ns
from hosts import LAUNCHER, Hosts, need_hosts
from processes import wait_until

REACH = "import socket, sys; socket.create_connection((sys.argv[1], 22), float(sys.argv[2])).recv(1)"


def reaches(hosts, source, target, patience=20):
    """Does the target's sshd answer?"""
    return hosts.run(source, [sys.executable, "-c", REACH, target, patience], check=False).returncode == 0


def is_cut(hosts, source, target):
    return not reaches(hosts, source, target, 0.4)


class HostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(3).__enter__()
        cls.addClassCleanup(cls.hosts.close)

    def tearDown(self):
        self.hosts.heal()

    def test_each_host_is_its_own(self):
        hosts = self.hosts
        for name in ("n00", "n02", LAUNCHER):
            self.assertEqual(hosts.run(name, ["hostname"]).stdout.strip(), name)
            self.assertEqual(hosts.run(name, ["bash", "-c", "echo ~; cd; pwd"]).stdout.split(), [hosts.hosts[name].home] * 2)
        hosts.run("n00", ["touch", "/tmp/here", "/dev/shm/here", "/run/here"])
        self.assertEqual(hosts.files("n00"), ["/dev/shm/here", "/tmp/here"])
        self.assertEqual(hosts.files("n01"), [])
        self.assertFalse(os.path.exists("/run/here"))
        sleeper = hosts.popen("n00", ["sleep", "1000"])
        self.assertEqual([p["command"] for p in hosts.processes("n00")], ["sleep 1000"])
        self.assertEqual(hosts.processes("n01"), [])
        self.assertEqual([*hosts.leftovers(timeout=0)], ["n00"])
        sleeper.kill()
        self.assertEqual(hosts.leftovers(), {})
        sleeper.wait()

    def test_ssh_from_everywhere_to_every_name(self):
        hosts = self.hosts
        before = hosts.logins("n00")
        for source, target in ((LAUNCHER, "n00"), (LAUNCHER, "n00-v6"), (LAUNCHER, hosts.hosts["n00"].ipv4), ("n01", "n00")):
            out = hosts.run(source, ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", target, "hostname; pwd"])
            self.assertEqual(out.stdout.split(), ["n00", hosts.hosts["n00"].home])
        self.assertEqual(hosts.logins("n00") - before, 4)

    def test_what_crosses_the_wire_is_counted(self):
        hosts = self.hosts
        received, _ = hosts.veth_bytes("n01")
        idle = hosts.veth_bytes("n02")
        hosts.run("n00", ["ssh", "n01", "cat >/dev/null"], input="x" * 1_000_000)
        self.assertGreater(hosts.veth_bytes("n01")[0] - received, 1_000_000)
        self.assertLess(hosts.veth_bytes("n02")[0] - idle[0], 100_000)

    def test_cuts(self):
        hosts = self.hosts
        with hosts.cut("n00", "n01"):
            self.assertTrue(is_cut(hosts, "n00", "n01"))
            self.assertTrue(is_cut(hosts, "n01", "n00-v6"))
            self.assertTrue(reaches(hosts, "n02", "n01"))
        self.assertTrue(reaches(hosts, "n00", "n01"))
        with hosts.cut_port("n01", 22):
            self.assertTrue(is_cut(hosts, "n00", "n01"))
        with hosts.silence("n02"):
            self.assertTrue(is_cut(hosts, "n00", "n02"))
            self.assertTrue(is_cut(hosts, "n02", "n00"))
        self.assertTrue(reaches(hosts, "n02", "n00"))

    def test_a_cut_one_way_lets_the_other_through(self):
        hosts = self.hosts
        receiver = ("import socket, sys\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind((sys.argv[1], 900))\n"
                    "print('ready', flush=True)\ns.settimeout(float(sys.argv[2]))\nprint(s.recv(10).decode())\n")
        send = "import socket, sys\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'word', (sys.argv[1], 900))\n"
        with hosts.cut_one_way("n00", "n01"):
            for source, target, patience, arrives in (("n00", "n01", 0.5, False), ("n01", "n00", 20, True)):
                there = hosts.popen(target, [sys.executable, "-c", receiver, hosts.hosts[target].ipv4, patience],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                self.assertEqual(there.stdout.readline(), "ready\n")
                hosts.run(source, [sys.executable, "-c", send, target])
                self.assertEqual("word" in there.communicate()[0], arrives, source)

    def test_loss_and_rate(self):
        hosts = self.hosts
        with hosts.drop_percent("n01", 100):
            self.assertTrue(is_cut(hosts, "n00", "n01"))
        with hosts.drop_percent("n01", 5):
            hosts.run("n00", ["ssh", "n01", "true"])
        hosts.rate_limit("n01", 8000)
        begin = time.monotonic()
        hosts.run("n00", ["ssh", "n01", "cat >/dev/null"], input="x" * 1_000_000)
        self.assertGreater(time.monotonic() - begin, 0.8)
        hosts.rate_limit("n01", None)

    def test_resets_reach_both_ends(self):
        hosts = self.hosts
        holder = "import socket, sys\ntry:\n    s.recv(1)\nexcept OSError as e:\n    print(e)\n"
        server = hosts.popen("n01", [sys.executable, "-c", "import socket\nl = socket.create_server(('', 901))\n"
                                     "print('ready', flush=True)\ns, _ = l.accept()\n" + holder],
                             stdout=subprocess.PIPE, text=True)
        self.assertEqual(server.stdout.readline(), "ready\n")
        client = hosts.popen("n00", [sys.executable, "-c", "import socket\ns = socket.create_connection(('n01', 901))\n"
                                     "print('ready', flush=True)\n" + holder], stdout=subprocess.PIPE, text=True)
        self.assertEqual(client.stdout.readline(), "ready\n")
        self.assertEqual(hosts.wildcard_listeners("n01"), [("0.0.0.0", 901)])
        self.assertEqual(hosts.reset("n00", "n02"), 0)
        self.assertEqual(hosts.reset("n00", "n01"), 1)
        self.assertNotEqual(client.communicate(timeout=20)[0], "")
        self.assertNotEqual(server.communicate(timeout=20)[0], "")

    def test_a_host_dies_and_comes_back(self):
        hosts = self.hosts
        hosts.run("n02", ["touch", "/tmp/old"])
        victim = hosts.popen("n02", ["sleep", "1000"])
        hosts.kill_host("n02")
        self.assertEqual(victim.wait(), -signal.SIGKILL)
        self.assertTrue(is_cut(hosts, "n00", "n02"))
        hosts.restart_host("n02")
        self.assertEqual(hosts.files("n02"), [])
        self.assertEqual(hosts.run(LAUNCHER, ["ssh", "n02", "hostname"]).stdout, "n02\n")


class OwnRootTest(unittest.TestCase):
    def test_a_host_sees_its_own_system_and_the_folders_it_is_given(self):
        with tempfile.TemporaryDirectory() as root:
            for folder in ("dev", "dev/shm", "etc", "proc", "run", "sys", "tmp", "usr"):
                os.mkdir(os.path.join(root, folder))
            for name in ("passwd", "hosts", "shadow", "resolv.conf", "own"):
                with open(os.path.join(root, "etc", name), "w", encoding="utf-8") as file:
                    file.write(f"the root's {name}\n")
            for name in ("bin", "lib", "lib64", "sbin"):
                os.symlink("usr/" + name, os.path.join(root, name))
            with Hosts(2, roots={"n00": root}, binds={"/usr": "/usr"}, sshd=False) as hosts:
                seen = hosts.run("n00", ["sh", "-c", "ls /; cat /etc/own; hostname; ip -oneline -4 address show eth0"], cwd="/").stdout.split("\n")
                self.assertEqual(seen[:12], ["bin", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "tmp", "usr", "the root's own"])
                self.assertEqual(seen[12], "n00")
                self.assertIn(hosts.hosts["n00"].ipv4, seen[13])
                self.assertEqual(hosts.read("n00", "/etc/hosts"), hosts.read("n01", "/etc/hosts"))
                self.assertEqual(hosts.run("n01", ["cat", "/etc/own"], cwd="/", check=False).returncode, 1)
            with open(os.path.join(root, "etc", "hosts"), encoding="utf-8") as file:
                self.assertEqual(file.read(), "the root's hosts\n")


class NothingIsLeftTest(unittest.TestCase):
    PROGRAM = ("from hosts import Hosts\nimport signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
               "with Hosts(2) as hosts:\n"
               "    hosts.popen('n00', ['setsid', '-f', 'sleep', '1000'])\n"
               "    print(hosts.keeper.pid, *(h.pid for h in hosts.hosts.values()), flush=True)\n    time.sleep(1000)\n")

    def test_after_any_end_of_the_test(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            test = subprocess.Popen([sys.executable, "-c", self.PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                    text=True)
            pids = [int(word) for word in test.stdout.readline().split()]
            self.assertEqual(len(pids), 4)
            ns.adopt_orphans()  # not every process 1 reaps at once
            test.send_signal(number)
            test.communicate(timeout=30)
            wait_until(lambda p=pids: self.gone(p), f"the end of {pids}")

    @staticmethod
    def gone(pids):
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        return not any(os.path.exists(f"/proc/{pid}") for pid in pids)

    def test_after_the_end_of_its_keeper(self):
        with Hosts(1) as hosts:
            pid, server = hosts.hosts["n00"].pid, hosts.servers["n00"]
            hosts.keeper.kill()
            self.assertEqual(server.wait(20), -signal.SIGKILL)
            wait_until(lambda: self.gone([pid]), "the end of n00")

    def test_this_machine_is_as_before(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            before = socket.if_nameindex(), file.read()
        with Hosts(2), open("/proc/self/mountinfo", encoding="utf-8") as file:
            self.assertEqual((socket.if_nameindex(), file.read()), before)
            self.assertFalse(os.path.exists("/run/bed"))


if __name__ == "__main__":
    need_hosts()
    unittest.main()
