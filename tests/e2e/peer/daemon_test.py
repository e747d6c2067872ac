#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`muster rendezvous` hosts jobs of `muster run`: several at once, one after the other, and what they hear when it ends.

usage: daemon_test.py HostingDaemon|DaemonEnds    the second measures time
"""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import interop
import processes
from peer_jobs import Launcher
from processes import wait_until
from promise import kept, promised


class Here:
    """What Launcher asks of a set of hosts, for processes of this one."""

    def __init__(self, home):
        self.home = home

    def popen(self, _, command, env=None, **streams):
        return subprocess.Popen(command, env=interop.clean_environment(HOME=self.home, PYTHON_EXEC=sys.executable, **(env or {})), **streams)


class DaemonTest(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.home)
        self.here = Here(self.home)
        self.launchers = []
        self.daemon = self.start_daemon()

    def tearDown(self):
        for launcher in self.launchers:
            launcher.close()
        if self.daemon.poll() is None:
            self.daemon.terminate()
            self.assertEqual(self.daemon.wait(60), 0)
        wait_until(lambda: not self.ours(), "the end of all processes")

    def ours(self):
        """Processes that have this home, and so belong to this test."""
        return processes.having(f"HOME={self.home}")

    def start_daemon(self, *flags):
        process = self.here.popen("", [interop.MUSTER, "rendezvous", "--listen", "127.0.0.1:0", *flags], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.endpoint = json.loads(process.stdout.readline())["endpoint"]
        return process

    def node(self, job, *flags, nodes=2, do="exit", program=None):
        name = [] if job is None else ["--rdzv-id", job]
        self.launchers.append(Launcher(self.here, "here", ["--nnodes", str(nodes), "--rdzv-backend", "c10d", *name,
                                                           "--rdzv-endpoint", self.endpoint, *flags], program, {"JOB_DO": do}))
        return self.launchers[-1]

    def nodes(self, job, *flags, do="exit", program=None):
        return [self.node(job, *flags, do=do, program=program) for _ in range(2)]

    def status(self):
        return subprocess.run([interop.MUSTER, "rendezvous", "--status", self.endpoint], capture_output=True, text=True, check=False,
                              timeout=60, env=interop.clean_environment(HOME=self.home))

    def go(self):
        return os.path.join(self.home, "go")

    def world(self, launchers):
        """The workers of a job, which agree on where their store is."""
        workers = [launcher.workers(1, 2)[-1] for launcher in launchers]
        self.assertEqual({worker["RANK"] for worker in workers}, {"0", "1"})
        self.assertEqual(len({(worker["MASTER_ADDR"], worker["MASTER_PORT"]) for worker in workers}), 1)
        return workers

    def end(self, launchers, code=0):
        for launcher in launchers:
            launcher.ends(code)


class HostingDaemon(DaemonTest):
    def test_two_jobs_at_once_and_the_daemon_stays(self):
        jobs = {name: self.nodes(name, do=f"wait:{self.go()}") for name in ("A", "B")}
        stores = {name: self.world(launchers)[0] for name, launchers in jobs.items()}
        self.assertEqual({store["TORCHELASTIC_RUN_ID"] for store in stores.values()}, {"A", "B"})
        self.assertEqual(len({store["MASTER_PORT"] for store in stores.values()} | {self.endpoint.split(":")[1]}), 3)
        said = self.status()
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("2 jobs", said.stdout)
        for name in jobs:
            self.assertRegex(said.stdout, rf"job '{name}': up \d+ s, round 0, 2 nodes connected, restarts 0; round 0 runs on 2 nodes: ")
        with open(self.go(), "w", encoding="utf-8"):
            pass
        for launchers in jobs.values():
            self.end(launchers)
        # The same name serves again, for a run of its own.
        again = self.nodes("A")
        self.assertEqual({worker["TORCHELASTIC_RESTART_COUNT"] for worker in self.world(again)}, {"0"})
        self.end(again)
        self.assertRegex(self.status().stdout, "job 'A': .*; over: round 0 ended with success")
        self.assertIsNone(self.daemon.poll())

    def test_a_worker_that_fails_is_started_again_there(self):
        script = "test $TORCHELASTIC_RESTART_COUNT = 1 || test $RANK = 0 && exit 0; exit 7"
        launchers = self.nodes("A", "--max-restarts", "1", program=["--no-python", "/bin/sh", "-c", script])
        self.end(launchers)
        launchers[0].wait_for(1, lambda line: "restart 1 of 1" in line, "the restart")

    def test_workers_speak_to_each_other_over_the_store_of_their_job(self):
        if not os.access(interop.TORCH_PYTHON, os.X_OK):
            self.skipTest("no PyTorch")
        program = ("import os, torch.distributed as d\nd.init_process_group('gloo')\nd.barrier()\n"
                   "print('met', d.get_world_size(), flush=True)\nd.destroy_process_group()\n")
        for flags in ([], ["--store-proxy"]):
            launchers = self.nodes("torch" + "".join(flags), *flags, program=["--no-python", interop.TORCH_PYTHON, "-c", program])
            self.end(launchers)
            for launcher in launchers:
                launcher.wait_for(1, lambda line: "met 2" in line, "the world")

    def test_nodes_that_were_killed_are_not_counted_when_they_start_again(self):
        for launcher in self.nodes("A", do=f"wait:{self.go()}"):
            launcher.workers(1, 2)
        for launcher in self.launchers:
            launcher.process.kill()
        for pid in self.ours():
            if pid != self.daemon.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        again = self.nodes("A")
        self.assertEqual({worker["TORCHELASTIC_RESTART_COUNT"] for worker in self.world(again)}, {"0"})
        self.end(again)

    def test_who_is_refused(self):
        first = self.node("A", do=f"wait:{self.go()}")
        first.wait_for(1, lambda line: "1 of 2 nodes joined" in line, "that it waits")
        key = os.path.join(self.home, "other")
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write("ab" * 32 + "\n")
        for job, flags, words in (("A", ("--secret-file", key), "does not know this key|the same key"),
                                  ("A", ("--max-restarts", "3"), "has --max-restarts=3, .*has --max-restarts=0"),
                                  ("A", ("--rdzv-conf", "join_timeout=7"), "join_timeout=7000 ms, .*join_timeout=600000 ms"),
                                  ("", (), "--rdzv-id NAME"),
                                  (None, (), "--rdzv-id NAME")):
            with self.subTest(job=job, flags=flags):
                refused = self.node(job, *flags)
                refused.ends(125)
                self.assertRegex(refused.error(), words)
        said = subprocess.run([interop.MUSTER, "rendezvous", "--status", self.endpoint, "--secret-file", key], capture_output=True,
                              text=True, check=False, timeout=60, env=interop.clean_environment(HOME=self.home))
        self.assertEqual(said.returncode, 125)
        self.assertIn(f"asked for the status of the daemon at {self.endpoint}", said.stderr)
        self.assertIn("1 job,", self.status().stdout)
        first.stop()
        first.ends(143)

    def test_options_that_would_let_strangers_in(self):
        for flags in (["--listen", "0.0.0.0:0"], ["--listen", "0.0.0.0:0", "--listen-any", "--insecure-no-secret"],
                      ["--listen", "0.0.0.0:0", "--listen-any", "--allow-from", "10.0.0.0/8", "--insecure-no-secret"],
                      ["--listen", "127.0.0.1:0", "--status", "127.0.0.1:1"],
                      ["--listen", "127.0.0.1:0", "--insecure-no-secret", "--secret-file", "x"]):
            with self.subTest(flags):
                result = subprocess.run([interop.MUSTER, "rendezvous", *flags], capture_output=True, text=True, check=False, timeout=60,
                                        env=interop.clean_environment(HOME=self.home))
                self.assertEqual(result.returncode, 2, result.stderr)

    def test_a_daemon_without_a_home_hosts_no_jobs_and_says_so(self):
        self.daemon.terminate()
        self.daemon.wait(60)
        self.here.home = os.path.join(self.home, "none")
        self.daemon = self.start_daemon()
        self.here.home = self.home
        refused = self.node("A")
        refused.ends(125, "takes no nodes: this daemon has no key, and hosts no jobs; its own first lines say why")
        self.assertNotIn("another program", refused.error())

    def test_a_key_that_must_not_be_used_is_an_error(self):
        os.chmod(os.path.join(self.home, ".config", "muster", "key"), 0o644)
        result = subprocess.run([interop.MUSTER, "rendezvous", "--listen", "127.0.0.1:0"], capture_output=True, text=True, check=False,
                                timeout=60, env=interop.clean_environment(HOME=self.home))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("is open to other users", result.stderr)

    def test_without_a_key_on_loopback(self):
        self.daemon.terminate()
        self.daemon.wait(60)
        self.daemon = self.start_daemon("--insecure-no-secret")
        launchers = self.nodes("A", "--insecure-no-secret")
        self.world(launchers)
        self.end(launchers)


class DaemonEnds(DaemonTest):
    def ended(self, number, words):
        jobs = {name: self.nodes(name, "--shutdown-timeout", "5", do=f"wait:{self.go()}") for name in ("A", "B")}
        for launchers in jobs.values():
            self.world(launchers)
        waiting = self.node("C", do=f"wait:{self.go()}")
        waiting.wait_for(1, lambda line: "1 of 2 nodes joined" in line, "that it waits")
        since = time.monotonic()
        self.daemon.send_signal(number)
        host, port = self.endpoint.split(":")
        took = []
        for launcher in [*jobs["A"], *jobs["B"], waiting]:
            launcher.ends(125)
            self.assertRegex(launcher.error(), words.format(host=host, port=port))
            took.append(launcher.ended - since)
        kept("the daemon has ended: its jobs have, too", took=took, **promised("daemon-ended"))
        self.daemon.wait(60)
        wait_until(lambda: not self.ours(), "the end of all processes")

    def test_jobs_are_told_when_the_daemon_is_ended(self):
        self.ended(signal.SIGTERM, "the rendezvous daemon at {host}:{port} was ended by SIGTERM")
        self.assertEqual(self.daemon.returncode, 0)

    def test_jobs_notice_when_the_daemon_is_killed(self):
        self.ended(signal.SIGKILL, "lost the coordinator .{host} port {port}.*its process has ended")


if __name__ == "__main__":
    unittest.main()
