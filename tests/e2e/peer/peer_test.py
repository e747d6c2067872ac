#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same command on every host (torchrun's way): nodes meet, come late, leave, fail, and are turned away."""
import base64
import os
import signal
import subprocess
import sys
import time
import unittest

from host_keeper import SHARED
from hosts import Hosts, need_hosts
from peer_jobs import Launcher, c10d
from processes import wait_until
from promise import promise, promised


class PeerTest(unittest.TestCase):
    KEYWORDS = {}

    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(4, sshd=False, **{"shared_home": True, **cls.KEYWORDS}).__enter__()
        cls.addClassCleanup(cls.hosts.close)
        cls.port = 29400

    def setUp(self):
        type(self).port += 1  # what is left of an earlier job could answer at its port
        self.launchers = []
        self.go = f"{SHARED}/go{self.port}"

    def tearDown(self):
        for launcher in self.launchers:
            launcher.close()
        left = self.hosts.leftovers(timeout=60)
        self.assertEqual(left, {})

    def start(self, host, flags, do="exit", **env):
        self.launchers.append(Launcher(self.hosts, host, flags, env={"JOB_DO": do, **env}))
        return self.launchers[-1]

    def c10d(self, host, nodes, *more, do="exit", at="n00", **env):
        return self.start(host, c10d(f"{at}:{self.port}", nodes, *more), do, **env)

    def let_go(self):
        self.hosts.write("n00", self.go, "")

    def end_all(self, code=0):
        for launcher in self.launchers:
            launcher.ends(code)

    def check_world(self, launchers, nodes, per_node=1):
        """Every worker of a world, as its launchers saw them, in order of rank."""
        world = nodes * per_node
        workers = [worker for launcher in launchers for worker in launcher.workers(per_node, world)[-per_node:]]
        workers.sort(key=lambda worker: int(worker["RANK"]))
        self.assertEqual([worker["RANK"] for worker in workers], [str(rank) for rank in range(world)])
        for rank, worker in enumerate(workers):
            self.assertEqual(worker["GROUP_RANK"], str(rank // per_node), worker)
            self.assertEqual(worker["LOCAL_RANK"], str(rank % per_node), worker)
            self.assertEqual(worker["GROUP_WORLD_SIZE"], str(nodes), worker)
            self.assertEqual(worker["LOCAL_WORLD_SIZE"], str(per_node), worker)
            self.assertEqual(worker["MASTER_ADDR"], workers[0]["MASTER_ADDR"])
            self.assertEqual(worker["MASTER_PORT"], workers[0]["MASTER_PORT"])
        for node in range(nodes):
            self.assertEqual(len({worker["host"] for worker in workers if worker["GROUP_RANK"] == str(node)}), 1, workers)
        return workers


class Meeting(PeerTest):
    def test_two_nodes_by_c10d(self):
        launchers = [self.c10d(host, 2) for host in ("n00", "n01")]
        workers = self.check_world(launchers, 2)
        self.end_all()
        self.assertEqual({worker["host"] for worker in workers}, {"n00", "n01"})
        self.assertEqual({worker["TORCHELASTIC_RUN_ID"] for worker in workers}, {"J"})
        # The address that the other hosts see, and the only port that the job has.
        self.assertEqual((workers[0]["MASTER_ADDR"], workers[0]["MASTER_PORT"]), (self.hosts.hosts["n00"].ipv4, str(self.port)))

    def static(self, order, *more, do="exit"):
        return [self.start(host, ["--nnodes", str(len(order)), "--node-rank", str(rank), "--master-addr", order[0],
                                  "--master-port", str(self.port), *more], do) for rank, host in enumerate(order)]

    def test_four_nodes_by_static_have_the_places_that_they_want(self):
        order = ["n02", "n00", "n03", "n01"]
        workers = self.check_world(self.static(order, "--nproc-per-node", "2"), 4, 2)
        self.end_all()
        self.assertEqual([worker["host"] for worker in workers[::2]], order)

    def test_the_host_may_come_last(self):
        client = self.c10d("n01", 2)
        client.wait_for(1, lambda line: "waiting for" in line and f"n00 port {self.port}" in line, "whom it waits for")
        self.check_world([client, self.c10d("n00", 2)], 2)
        self.end_all()

    def test_two_nodes_on_one_host(self):
        launchers = [self.c10d("n00", 2) for _ in range(2)]
        workers = self.check_world(launchers, 2)
        self.end_all()
        self.assertEqual({worker["host"] for worker in workers}, {"n00"})

    def test_only_the_endpoint_is_listened_on(self):
        launchers = [self.c10d(host, 2, do=f"wait:{self.go}") for host in ("n00", "n01")]
        self.check_world(launchers, 2)
        self.assertEqual(self.hosts.listeners("n01"), [])
        self.assertEqual(self.hosts.listeners("n00"), [(self.hosts.hosts["n00"].ipv4, self.port)])
        self.let_go()
        self.end_all()


class Elastic(PeerTest):
    FLAGS = ("--rdzv-conf", "last_call_timeout=1")

    def test_a_node_comes_late_and_another_leaves(self):
        do = f"wait:{self.go}"
        launchers = [self.c10d(host, "1:4", *self.FLAGS, do=do) for host in ("n00", "n01", "n02")]
        self.check_world(launchers, 3)
        launchers.append(self.c10d("n03", "1:4", *self.FLAGS, do=do))
        workers = self.check_world(launchers, 4)
        # A change of the nodes is no restart that --max-restarts counts.
        self.assertEqual({worker["TORCHELASTIC_RESTART_COUNT"] for worker in workers}, {"0"})
        for launcher in launchers:
            launcher.forget()
        left = launchers.pop(1)
        left.stop()
        workers = self.check_world(launchers, 3)
        self.assertEqual({worker["host"] for worker in workers}, {"n00", "n02", "n03"})
        left.ends(143)
        said = launchers[0].wait_for(1, lambda line: "n01 was told to stop" in line, "why the round ended")
        self.assertTrue(said[0].endswith("n01 was told to stop; all workers start again"), said)
        for launcher in launchers:
            self.assertNotRegex(launcher.error(), r"n0\d:\d+-")  # names for machines
        self.let_go()
        for launcher in launchers:
            launcher.ends(0)

    def test_a_node_dies(self):
        do = f"wait:{self.go}"
        launchers = [self.c10d(host, "2:3", *self.FLAGS, do=do) for host in ("n00", "n01", "n02")]
        self.check_world(launchers, 3)
        self.hosts.kill_host("n02", silent=False)
        self.addCleanup(self.hosts.restart_host, "n02")
        workers = self.check_world(launchers[:2], 2)
        # Two are enough, so that the loss costs no restart.
        self.assertEqual({worker["TORCHELASTIC_RESTART_COUNT"] for worker in workers}, {"0"})
        self.let_go()
        for launcher in launchers[:2]:
            launcher.ends(0)


    def test_the_node_that_holds_the_store_leaves(self):
        launchers = [self.c10d(host, "1:3", *self.FLAGS, do=f"wait:{self.go}") for host in ("n00", "n01", "n02")]
        self.check_world(launchers, 3)
        launchers[0].stop()
        for launcher in launchers:
            launcher.ends(143)
        for launcher in launchers[1:]:
            self.assertIn("n00 was told to stop; n00 holds the store, and the job ends with it", launcher.error())


class Failure(PeerTest):
    def test_every_launcher_says_who_failed_and_ends_with_its_code(self):
        launchers = [self.start(host, ["--nnodes", "2", "--node-rank", str(rank), "--master-addr", "n00", "--master-port",
                                       str(self.port)], "fail:1:7") for rank, host in enumerate(("n00", "n01"))]
        self.end_all(7)
        self.assertIn("see the report of n01\n", launchers[0].error() + "\n")
        for launcher in launchers:
            self.assertIn("n01", launcher.error())
            self.assertIn("rank 1", launcher.error())

    def test_contradicting_flags_are_named_with_both_values_and_hosts(self):
        first = self.c10d("n00", 2, "--max-restarts", "1")
        second = self.c10d("n01", 2, "--max-restarts", "2")
        second.ends(125, "--max-restarts", "n00", "n01", "1", "2")
        first.stop()
        first.end()

    def test_nobody_comes(self):
        launcher = self.c10d("n01", 2, "--rdzv-conf", "join_timeout=2")
        launcher.ends(125, f"n00 port {self.port}")
        alone = self.c10d("n00", 2, "--rdzv-conf", "join_timeout=8")
        alone.ends(125, "1 of 2 nodes joined")

    def test_a_node_that_is_told_to_stop_ends_the_job_by_that_signal(self):
        launchers = [self.c10d(host, 2, do=f"wait:{self.go}") for host in ("n00", "n01")]
        self.check_world(launchers, 2)
        launchers[1].stop()
        launchers[1].ends(143)
        launchers[0].ends(143, "n01 was told to stop")

    def test_a_node_of_a_job_of_fixed_size_comes_back(self):
        """Its launcher is killed, as by a container that is gone, and is told to stop, as by one that is preempted."""
        do = f"wait:{self.go}"
        flags = ("--max-restarts", "2", "--rdzv-conf", "join_timeout=50")
        first = self.c10d("n00", 2, *flags, do=do)
        for restarts, number in enumerate((signal.SIGKILL, signal.SIGTERM, None)):
            other = self.c10d("n01", 2, *flags, do=do)
            workers = self.check_world([first, other], 2)
            self.assertEqual({worker["TORCHELASTIC_RESTART_COUNT"] for worker in workers}, {str(restarts)})
            first.forget()
            if number is None:
                break
            other.stop(number)
            said = first.wait_for(restarts + 1, lambda line: "n01" in line and "waiting up to 50 s for it to come back" in line,
                                  "for whom it waits")
            self.assertIn(f"(restart {restarts + 1} of 2)", said[-1])
            other.end()
        self.let_go()
        for launcher in (first, other):
            launcher.ends(0)

    def test_nobody_comes_back(self):
        flags = ("--max-restarts", "1", "--rdzv-conf", "join_timeout=15")
        launchers = [self.c10d(host, 2, *flags, do=f"wait:{self.go}") for host in ("n00", "n01")]
        self.check_world(launchers, 2)
        launchers[1].process.kill()
        launchers[0].wait_for(1, lambda line: "n01 (gone for " in line and "may come back" in line, "for whom it waits")
        launchers[0].ends(125, "no round 1 after 15000 ms", "n01 (gone for ", " s) may come back", "the launcher on n01 is gone",
                          timeout=20)

    def test_a_program_at_the_port_that_says_nothing(self):
        address = self.hosts.hosts["n00"].ipv4
        for name in ("silent", "muster:store"):
            server = self.hosts.popen("n00", [sys.executable, "-c", f"import socket\nopen('/proc/self/comm', 'w').write('{name}')\n"
                                              f"s = socket.create_server(('{address}', {self.port}))\ninput()"], stdin=subprocess.PIPE)
            self.addCleanup(server.wait)
            self.addCleanup(server.stdin.close)
            self.addCleanup(server.kill)
            wait_until(lambda: self.hosts.listeners("n00") == [(address, self.port)], "the server")
            words = "Address already in use by process"
            if name == "silent":
                for flags in ((), ("--rdzv-conf", "is_host=1")):
                    launcher = self.c10d("n00", 2, *flags)
                    launcher.ends(125)
                    self.assertRegex(launcher.error(), rf"{words} \d+ \(silent\)")
                    self.assertIn(str(self.port), launcher.error())
            else:  # it could be a launcher of the same job
                launcher = self.c10d("n00", 2)
                launcher.wait_for(1, lambda line: "waiting for" in line and words in line, "what is at the port")
                launcher.stop()
                launcher.ends(143)
            server.kill()
            wait_until(lambda: self.hosts.listeners("n00") == [], "the server's end")

    def test_a_node_of_an_earlier_run_is_turned_away(self):
        launchers = [self.c10d(host, 2, do=f"wait:{self.go}") for host in ("n00", "n01")]
        self.check_world(launchers, 2)
        # The guardian ends an agent that stays stopped.
        agent, guardian = [process["pid"] for name in ("muster:agent", "muster:guardian") for process in self.hosts.processes("n01")
                           if process["comm"] == name]
        # It misses the end of its run, and would be back in the next one.
        with self.hosts.cut("n00", "n01"):
            for pid in (guardian, agent):
                self.hosts.signal("n01", pid, signal.SIGSTOP)
            launchers[0].stop()
            launchers[0].end()
        again = self.c10d("n00", 2, do=f"wait:{self.go}")
        wait_until(lambda: self.hosts.listeners("n00"), "the next run")
        # The agent lets its guardian go on, too, which may have ended before it is told here.
        self.hosts.run("n01", ["/bin/kill", "-CONT", str(agent), str(guardian)], check=False)
        launchers[1].ends(125, "earlier run")
        self.assertEqual(again.process.poll(), None)
        again.stop()
        again.end()


class LauncherKilled(PeerTest):
    def test_a_launcher_that_is_killed_is_named(self):
        def once():
            self.setUp()
            launchers = [self.c10d(host, 2, do=f"wait:{self.go}") for host in ("n00", "n01")]
            self.check_world(launchers, 2)
            launchers[1].process.kill()
            since = time.monotonic()
            launchers[0].ends(125, "the launcher on n01 is gone")
            self.tearDown()
            return launchers[0].ended - since

        promise("the launcher of a node is killed in the peer form", once=once, **promised("peer-launcher-killed"))


class Secrets(PeerTest):
    KEYWORDS = {"shared_home": False}

    def key(self, host, text, mode=0o600):
        self.hosts.write(host, f"/tmp/key{self.port}", text, mode)
        return ["--secret-file", f"/tmp/key{self.port}"]

    def test_a_key_file_on_every_host_is_shown_to_nobody(self):
        key = os.urandom(32)
        launchers = [self.c10d(host, 2, *self.key(host, key.hex() + "\n"), "--log-level", "debug", do=f"wait:{self.go}")
                     for host in ("n00", "n01")]
        self.check_world(launchers, 2)
        shapes = [key, key.hex().encode(), key.hex().upper().encode(), base64.b64encode(key), base64.urlsafe_b64encode(key)]
        for host in ("n00", "n01"):
            processes = [process["pid"] for process in self.hosts.processes(host)]
            self.assertGreaterEqual(len(processes), 4)
            for path in [f"/proc/{pid}/{file}" for pid in processes for file in ("cmdline", "environ")]:
                with open(self.hosts.path(host, path), "rb") as file:
                    content = file.read()
                self.assertFalse([shape for shape in shapes if shape in content], path)
        self.let_go()
        self.end_all()
        for launcher in launchers:
            self.assertFalse([shape for shape in shapes if shape in launcher.text().encode()])

    def test_keys_that_differ(self):
        first = self.c10d("n00", 2)
        second = self.c10d("n01", 2)
        second.ends(125, f"n00 port {self.port}", "/.config/muster/key", "copy")
        first.wait_for(1, lambda line: self.hosts.hosts["n01"].ipv4 in line, "who was refused")
        first.stop()
        first.end()

    def test_a_key_that_others_can_read(self):
        launcher = self.c10d("n00", 2, *self.key("n00", "ab" * 32, 0o644))
        launcher.ends(2, f"chmod 600 '/tmp/key{self.port}'")

    def test_without_a_key_only_by_a_flag_and_loudly(self):
        refused = self.c10d("n01", 2, "--insecure-no-secret")
        refused.ends(2, "is not a loopback address")
        self.launchers.clear()
        launchers = [self.c10d("n00", 2, "--insecure-no-secret", at="127.0.0.1") for _ in range(2)]
        self.check_world(launchers, 2)
        self.end_all()
        for launcher in launchers:
            self.assertIn("--insecure-no-secret: whoever can reach", launcher.error())


class DebianNames(PeerTest):
    KEYWORDS = {"own_name_local": True}

    def test_the_own_name_is_loopback_on_the_host_itself(self):
        launchers = [self.c10d(host, 2) for host in ("n00", "n01")]
        workers = self.check_world(launchers, 2)
        self.end_all()
        self.assertEqual(workers[0]["MASTER_ADDR"], self.hosts.hosts["n00"].ipv4)


class SixthVersion(PeerTest):
    KEYWORDS = {"family": 6}

    def test_names_and_addresses(self):
        address = self.hosts.hosts["n00"].ipv6
        for endpoint in (f"n00:{self.port}", f"[{address}]:{self.port + 100}"):
            launchers = [self.start(host, c10d(endpoint, 2)) for host in ("n00", "n01")]
            workers = self.check_world(launchers, 2)
            self.end_all()
            self.assertEqual(workers[0]["MASTER_ADDR"], address)

    def test_workers_behind_their_agents(self):
        launchers = [self.c10d(host, 2, "--store-proxy", do=f"wait:{self.go}") for host in ("n00", "n01")]
        workers = [worker for launcher in launchers for worker in launcher.workers(1, 2)]
        self.assertEqual([worker["MASTER_ADDR"] for worker in workers], ["127.0.0.1"] * 2)
        self.assertEqual(self.hosts.listeners("n01"), [("127.0.0.1", int(workers[1]["MASTER_PORT"]))])
        self.let_go()
        self.end_all()


if __name__ == "__main__":
    need_hosts()
    os.environ["PYTHON_EXEC"] = sys.executable
    unittest.main()
