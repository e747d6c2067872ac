#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tcp:// and file://: ranks that meet without a launcher, and what they say when they cannot."""
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from interop import Rendezvous, absent, free_port
from launchers_test import LIMIT_S, PROBE, environment
from processes import wait_until

ARGUMENT, DEADLINE, PEER, IO, STORE = -1, -3, -4, -10, -12


def own_address():
    """An IPv4 address of this machine that is not loopback's, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.254", 9))  # sends nothing
            return probe.getsockname()[0]
        except OSError:
            return None


def start(*arguments, **extra):
    return subprocess.Popen([PROBE, *map(str, arguments)], env=environment(**extra), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def answer(process):
    """The line of JSON that a rank printed last."""
    output, errors = process.communicate(timeout=LIMIT_S)
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise AssertionError(f"exit code {process.returncode}\n{output}\n{errors}")
    return json.loads(lines[-1])


def meet(ranks, size, url, **extra):
    """What the ranks answer that are started with this URL."""
    processes = [start(url, rank, size, **extra) for rank in ranks]
    return [answer(process) for process in processes]


class Meets(unittest.TestCase):
    def check_world(self, answers):
        size = len(answers)
        for rank, found in enumerate(answers):
            self.assertEqual((found.get("rank"), found.get("size"), found.get("sum"), found.get("local_rank")),
                             (rank, size, size * (size + 1) // 2, rank), found)

    def test_tcp(self):
        self.check_world(meet(range(3), 3, f"tcp://127.0.0.1:{free_port()}"))

    def test_tcp_ipv6_with_the_ranks_in_the_url(self):
        try:
            port = free_port("::1", socket.AF_INET6)
        except OSError:
            self.skipTest("no IPv6 loopback")
        processes = [start(f"tcp://[::1]:{port}?rank={rank}&world_size=2") for rank in range(2)]
        self.check_world([answer(process) for process in processes])

    def test_tcp_with_the_ranks_in_the_environment(self):
        port = free_port()
        processes = [start(MUSTER_INIT_URL=f"tcp://127.0.0.1:{port}", MUSTER_RANK=str(rank), MUSTER_WORLD_SIZE="2")
                     for rank in range(2)]
        self.check_world([answer(process) for process in processes])

    def test_tcp_beyond_loopback_with_a_list(self):
        address = own_address()
        if address is None:
            self.skipTest("this machine has no address beside loopback's")
        url = f"tcp://{address}:{free_port(address)}"
        [refused] = meet([0], 2, url)
        self.assertEqual(refused["code"], ARGUMENT)
        self.check_world(meet(range(2), 2, url, MUSTER_STORE_ALLOW=address + "/32"))

    def test_pytorchs_variables_by_hand(self):
        port = free_port()
        processes = [start(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
                     for rank in range(2)]
        self.check_world([answer(process) for process in processes])

    def test_a_store_that_is_there(self):
        with Rendezvous() as server:
            processes = [start(MUSTER_STORE=server.endpoint, MUSTER_RANK=str(rank), MUSTER_WORLD_SIZE="2") for rank in range(2)]
            self.check_world([answer(process) for process in processes])


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "meeting")

    def test_the_ranks_meet_and_leave_nothing(self):
        Meets.check_world(self, meet(range(3), 3, f"file://{self.path}"))
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_an_empty_file_is_taken(self):
        with open(self.path, "w", encoding="ascii"):
            pass
        Meets.check_world(self, meet(range(2), 2, f"file://{self.path}"))

    def test_the_file_of_a_killed_run_is_noticed(self):
        first = start(f"file://{self.path}", 0, 2)
        wait_until(lambda: os.path.exists(self.path), "the file", pause_s=0.001)
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)
        first.send_signal(signal.SIGKILL)
        first.communicate(timeout=LIMIT_S)
        self.assertTrue(os.path.exists(self.path))
        # The rank that comes first waits for a fresh file instead of the dead store.
        second = start(f"file://{self.path}", 1, 2)
        answers = meet([0], 2, f"file://{self.path}") + [answer(second)]
        Meets.check_world(self, answers)

    def test_the_file_of_a_living_run_is_refused(self):
        first = start(f"file://{self.path}", 0, 2)
        wait_until(lambda: os.path.exists(self.path), "the file", pause_s=0.001)
        [refused] = meet([0], 2, f"file://{self.path}")
        self.assertEqual(refused["code"], ARGUMENT)
        self.assertIn(f"process {first.pid}", refused["error"])
        answers = [answer(process) for process in [start(f"file://{self.path}", 1, 2)]]
        Meets.check_world(self, [answer(first)] + answers)

    def test_a_file_of_others_is_left_alone(self):
        with open(self.path, "w", encoding="ascii") as file:
            file.write("thesis\n")
        os.chmod(self.path, 0o600)
        for rank in range(2):
            [refused] = meet([rank], 2, f"file://{self.path}")
            self.assertEqual(refused["code"], ARGUMENT)
            self.assertIn(self.path, refused["error"])
        with open(self.path, encoding="ascii") as file:
            self.assertEqual(file.read(), "thesis\n")

    def test_links_and_open_files_are_not_trusted(self):
        os.symlink("/etc/passwd", self.path)
        [refused] = meet([1], 2, f"file://{self.path}")
        self.assertIn("symbolic link", refused["error"])
        os.remove(self.path)
        with open(self.path, "w", encoding="ascii") as file:
            file.write("muster store\n")
        os.chmod(self.path, 0o644)
        [refused] = meet([1], 2, f"file://{self.path}")
        self.assertIn("other users", refused["error"])

    def test_a_folder_that_is_not_there(self):
        [refused] = meet([0], 2, "file:///no/such/folder/meeting")
        self.assertEqual(refused["code"], IO)
        self.assertIn("/no/such/folder", refused["error"])


class Errors(unittest.TestCase):
    def refusal(self, code, *arguments, **extra):
        found = answer(start(*arguments, **extra))
        self.assertEqual(found.get("code"), code, found)
        return found["error"]

    def test_a_rank_that_is_gone_before_the_backend_is_agreed_on(self):
        for fault, what in (("kill@2:agree", "has died"), ("error@2:agree", "has left the world")):
            url = f"tcp://127.0.0.1:{free_port()}"
            begin = time.monotonic()
            processes = [start(url, rank, 3, "join=150000", MUSTER_FAULT=fault) for rank in range(3)]
            errors = [answer(process) for process in processes[:2]]
            processes[2].communicate(timeout=LIMIT_S)
            for error in errors:
                self.assertEqual(error.get("code"), PEER, error)
                self.assertIn(f"rank 2 (process {processes[2].pid} on host ", error["error"])
                self.assertIn(what, error["error"])
            self.assertLess(time.monotonic() - begin, 75)

    def test_a_store_that_is_not_there(self):
        port = free_port()
        text = self.refusal(STORE, f"tcp://127.0.0.1:{port}", 1, 2, "join=300")
        self.assertIn(f"127.0.0.1:{port}", text)
        self.assertIn("300 ms", text)
        text = self.refusal(DEADLINE, f"file://{absent()}", 1, 2, "join=300")
        self.assertIn(absent(), text)
        text = self.refusal(STORE, "env://", "join=300", MUSTER_STORE=f"127.0.0.1:{port}", MUSTER_RANK="0",
                            MUSTER_WORLD_SIZE="2")
        self.assertIn(f"127.0.0.1:{port}", text)

    def test_a_port_that_is_in_use(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            text = self.refusal(IO, f"tcp://127.0.0.1:{holder.getsockname()[1]}", 0, 2, "join=300")
            self.assertIn("in use", text)
            self.assertIn(str(os.getpid()), text)

    def test_addresses_beyond_this_host_need_a_list(self):
        self.assertIn("every address", self.refusal(ARGUMENT, "tcp://0.0.0.0:2000", 0, 2))
        self.assertIn("MUSTER_STORE_ALLOW", self.refusal(ARGUMENT, "tcp://192.0.2.1:2000", 0, 2))
        self.assertIn("'ten'", self.refusal(ARGUMENT, "tcp://127.0.0.1:2000", 0, 2, MUSTER_STORE_ALLOW="10.0.0.0/8,ten"))


if __name__ == "__main__":
    unittest.main()
