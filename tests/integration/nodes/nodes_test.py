# SPDX-License-Identifier: Apache-2.0
"""`muster agent`: what a node does with its orders, and how it ends when something around it does. Real processes."""

import array
import base64
import fcntl
import json
import os
import signal
import socket
import struct
import tempfile
import termios
import time
import unittest

from node_link import LIMIT_S, Job, processes_with, wait_until


SILENT = []


def cores():
    """Those that we may use; CPUs may be threads of one."""
    found = set()
    for cpu in os.sched_getaffinity(0):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", encoding="ascii") as file:
                found.add(file.read())
        except FileNotFoundError:
            found.add(cpu)
    return len(found)


def setUpModule():
    """A launcher that says nothing takes a while to give up: meanwhile the other tests run."""
    SILENT.append(Job("true", nodes=1))


def tearDownModule():
    SILENT.pop().__exit__()


class TwoNodes(unittest.TestCase):
    def test_the_workers_of_all_nodes_form_one_world(self):
        show = 'echo "$RANK of $WORLD_SIZE, node $GROUP_RANK of $GROUP_WORLD_SIZE, $MASTER_ADDR:$MASTER_PORT, I am $MUSTER_LOCAL_ADDR"; echo oops >&2'
        with Job(show, workers=2) as job:
            job.start()
            for index, report in enumerate(job.reports()):
                node = job.nodes[index]
                self.assertEqual(report["outcome"], "succeeded", report)
                self.assertEqual(report["node"], node.name)
                self.assertEqual(report["node_rank"], index)
                where = json.loads(job.nodes[0].expect("listening"))
                expected = ["[%d]: %d of 4, node %d of 2, 127.0.0.1:%d, I am 127.0.0.1" % (rank, rank, index, where["port"])
                            for rank in (2 * index, 2 * index + 1)]
                self.assertEqual(sorted(node.text().splitlines()), expected)
                self.assertEqual(sorted(node.text(2).splitlines()), ["[%d]: oops" % rank for rank in (2 * index, 2 * index + 1)])
                self.assertEqual(node.process.wait(20), 0, node.errors)
            self.assertEqual(job.leftovers(), {})

    def test_a_failure_on_one_node_ends_the_others_which_name_it(self):
        with Job("[ $RANK = 1 ] && exit 7; exec sleep 60") as job:
            job.start()
            first, second = job.reports()
            self.assertEqual(second["outcome"], "failed")
            self.assertEqual(second["ended_by"]["node"], "")
            self.assertEqual(second["workers"][0]["status"]["value"], 7)
            self.assertEqual(first["outcome"], "stopped")
            self.assertEqual(first["ended_by"]["node"], "n1")
            self.assertEqual(first["ended_by"]["rank"], 1)
            self.assertEqual(first["ended_by"]["exit_code"], 7)
            self.assertIn("rank 1 on n1", first["ended_by"]["text"])
            self.assertEqual(job.leftovers(), {})

    def test_one_counter_of_restarts_for_the_job(self):
        with tempfile.TemporaryDirectory() as folder:
            script = ("echo round $TORCHELASTIC_RESTART_COUNT; [ $RANK = $TORCHELASTIC_RESTART_COUNT ] && exit 3;"
                      "[ $TORCHELASTIC_RESTART_COUNT = 2 ] || exec sleep 60")
            with Job(script, max_restarts=2, restart_policy="torchrun") as job:
                job.start()
                for report in job.reports():
                    self.assertEqual(report["outcome"], "succeeded", report)
                    self.assertEqual(report["restarts"], 2)
                self.assertIn(b"restart 1 of 2", b"".join(job.nodes[0].said["log"]))
                for node in job.nodes:
                    self.assertTrue(node.text().endswith(": round 2\n"), node.text())
                self.assertEqual(job.leftovers(), {})

    def test_an_order_to_stop_reaches_the_workers_as_the_signal(self):
        with Job('trap "echo stopped; exit 0" INT; echo ready; while :; do sleep 0.05; done') as job:
            job.start()
            for node in job.nodes:
                node.wait_for(lambda one: b"ready" in one.output[1], "worker")
            for node in job.nodes:
                node.send("stop", signal.SIGINT)
            for node, report in zip(job.nodes, job.reports()):
                self.assertIn("stopped", node.text())
                self.assertEqual(report["error"], "")
            self.assertEqual(job.leftovers(), {})

    def test_a_missing_directory_or_program_names_the_host(self):
        with Job("true", working_directory="/no/such/place") as job:
            job.start()
            report = job.reports()[1]
            self.assertEqual(report["outcome"], "agent_error")
            for word in ("/no/such/place", "n1", "--wdir"):
                self.assertIn(word, report["error"])
        with Job("true", command=["no-such-program"]) as job:
            job.start()
            report = max(job.reports(), key=lambda one: one["outcome"] == "failed")
            self.assertEqual(report["workers"][0]["status"]["value"], 127)
            self.assertIn("on " + report["host"], report["workers"][0]["start_error"])


    def dial(self, port, **changes):
        """A node that is told to look for its coordinator there."""
        job = Job("true", **changes)
        self.addCleanup(job.__exit__)
        job.instruct(1)
        job.nodes[1].send("coordinator", 0, json.dumps({"host": "127.0.0.1", "port": port}).encode())
        return job.nodes[1]

    def test_a_coordinator_that_is_not_there_is_named_in_time(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        node = self.dial(port, join_timeout_ms=1500)
        node.wait_for(lambda one: one.report, "report")
        self.assertEqual(node.report["outcome"], "agent_error")
        for word in ("127.0.0.1", str(port), "refused"):
            self.assertIn(word, node.report["error"])

    def test_an_order_to_stop_ends_the_wait_for_a_coordinator(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(LIMIT_S)
            node = self.dial(server.getsockname()[1])
            server.accept()[0].close()
        begin = time.monotonic()
        node.send("stop", signal.SIGTERM)
        node.wait_for(lambda one: one.report, "report")
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual((node.report["outcome"], node.report["error"]), ("stopped", ""))

    def test_an_order_to_kill_ends_the_wait_for_the_others(self):
        with Job("true") as job:
            job.instruct(0)
            job.nodes[0].expect("listening")
            job.nodes[0].send("kill")
            job.nodes[0].wait_for(lambda one: one.report, "report")
            self.assertEqual(job.nodes[0].report["outcome"], "stopped")

    @unittest.skipIf(cores() < 2, "needs two cores")
    def test_workers_are_bound_to_cores_of_their_own(self):
        show = 'python3 -c "import os; print(sorted(os.sched_getaffinity(0)))"'
        with Job(show, nodes=1, workers=2, bind_to="core", output__rank_prefix=False) as job:
            job.start()
            error = job.reports()[0]["workers"][0]["start_error"]
            if "hwloc" in error:
                self.skipTest(error)
            first, second = (set(json.loads(line)) for line in job.nodes[0].text().splitlines())
            self.assertTrue(first and second and not first & second, (first, second))


class Streams(unittest.TestCase):
    def test_a_flood_waits_for_the_launcher_and_loses_nothing(self):
        lines = 300000
        with Job("seq %d" % lines, nodes=1, output__rank_prefix=False) as job:
            node = job.nodes[0]
            node.takes_output = False
            job.start()
            node.wait_for(lambda one: one.untaken > 900000, "full window")
            time.sleep(0.3)
            self.assertLessEqual(node.untaken, 1 << 20)
            node.takes_output = True
            node.take_output()
            job.reports()
            self.assertEqual(node.output[1], b"".join(b"%d\n" % i for i in range(1, lines + 1)))

    def test_one_rank_reads_the_launchers_input(self):
        with Job("cat; echo end", stdin_rank=1) as job:
            job.start()
            text = os.urandom(1500)
            expected = base64.b64encode(text)
            node = job.nodes[1]
            for begin in range(0, len(expected), 100):
                node.send("input", 0, expected[begin:begin + 100])
            node.send("input")
            job.reports()
            self.assertEqual(node.output[1], b"[1]: " + expected + b"end\n")
            self.assertEqual(job.nodes[0].text(), "[0]: end\n")

    def test_log_files_can_be_gathered(self):
        with tempfile.TemporaryDirectory() as folder:
            with Job("seq 20000", output__log_dir=folder + "/deep/logs", output__gather_logs=True,
                     output__redirects={"fallback": 3, "by_rank": []}) as job:
                job.start()
                job.reports()
                for node in job.nodes:
                    files = {}
                    for body in node.said["file"]:
                        head, data = body.split(b"\0", 1)
                        offset, last, name = head.decode().split(" ", 2)
                        self.assertEqual(int(offset), len(files.setdefault(name, b"")))
                        files[name] += data
                    self.assertEqual(files[node.name + "/attempt_0/0/stdout.log"], b"".join(b"%d\n" % i for i in range(1, 20001)))
                    self.assertEqual(os.stat(folder + "/deep/logs/" + node.name).st_mode & 0o777, 0o700)


MEET = """
import os, socket, struct, sys, time
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), timeout=20)
store.sendall(struct.pack("<BI", 0, 0x3C85F7CE) + struct.pack("<BI", 13, os.getpid()))
assert struct.unpack("<I", store.recv(4))[0] == os.getpid()
def key(text): return struct.pack("<Q", len(text)) + text
def add(count):
    store.sendall(b"\\x04" + key(b"/workers") + struct.pack("<q", count))
    return struct.unpack("<q", store.recv(8))[0]
count = add(1)
while count < int(os.environ["WORLD_SIZE"]):
    count = add(0)
    time.sleep(0.005)
print("met at", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], flush=True)
"""


class Store(unittest.TestCase):
    """Who reaches the store of a job's workers."""

    def meet(self, then="", **changes):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "meet.py")
        with open(path, "w") as file:
            file.write(MEET)
        job = Job("python3 %s%s" % (path, then), workers=2, **changes)
        self.addCleanup(job.__exit__)
        return job.start()

    def test_workers_meet_at_the_coordinators_port(self):
        job = self.meet()
        for report in job.reports():
            self.assertEqual(report["outcome"], "succeeded", report)

    def test_workers_meet_through_their_agents(self):
        job = self.meet(node__store_proxy=True)
        for report in job.reports():
            self.assertEqual(report["outcome"], "succeeded", report)
        ports = [set(line.split()[-1] for line in node.text().splitlines()) for node in job.nodes]
        self.assertEqual([len(port) for port in ports], [1, 1])
        port = json.loads(job.nodes[0].expect("listening"))["port"]
        self.assertFalse({str(port)} & (ports[0] | ports[1]), ports)

    def test_a_process_of_ours_outside_the_job_is_refused(self):
        for proxy in (False, True):
            job = self.meet("; exec sleep 60", node__store_proxy=proxy)
            for node in job.nodes:
                node.wait_for(lambda one: one.output[1].count(b"met") == 2, "workers at the store")
            for node in job.nodes:
                where = node.text().splitlines()[0].split()[-2:]
                with socket.create_connection((where[0], int(where[1])), timeout=20) as stranger:
                    stranger.sendall(struct.pack("<BI", 0, 0x3C85F7CE) + struct.pack("<BI", 13, 4711))
                    try:
                        self.assertEqual(stranger.recv(4), b"")
                    except ConnectionResetError:
                        pass


class Ends(unittest.TestCase):
    """Each of these kills something, and nothing may be left."""

    def start(self, shell="exec sleep 60", **changes):
        job = Job("echo ready; setsid sleep 60 & " + shell, **changes)
        self.addCleanup(job.__exit__)
        job.start()
        for node in job.nodes:
            node.wait_for(lambda one: b"ready" in one.output[1], "worker")
        return job

    def test_the_agent_is_killed(self):
        job = self.start()
        os.kill(job.nodes[1].agent, signal.SIGKILL)
        job.nodes[1].wait_for(lambda one: one.last_words, "last words")
        self.assertIn("agent process of n1 was lost (killed by SIGKILL)", job.nodes[1].last_words)
        job.nodes[0].wait_for(lambda one: one.report, "report")
        self.assertEqual(job.nodes[0].report["ended_by"]["node"], "n1")
        self.assertEqual(job.leftovers(), {})

    def test_the_agent_beside_the_coordinator_is_killed(self):
        job = self.start()
        os.kill(job.nodes[0].agent, signal.SIGKILL)
        job.nodes[1].wait_for(lambda one: one.report, "report")
        self.assertEqual(job.nodes[1].report["ended_by"]["node"], "n0")
        self.assertEqual(job.leftovers(), {})

    def test_the_guardian_is_killed(self):
        job = self.start()
        os.kill(job.nodes[1].guardian, signal.SIGKILL)
        # What led to n1 is gone with it; the coordinator has been told.
        job.nodes[0].wait_for(lambda one: one.report, "report")
        self.assertEqual(job.nodes[0].report["ended_by"]["node"], "n1")
        self.assertIn("guardian process of n1 was killed", str(job.nodes[0].report["ended_by"]))
        self.assertEqual(job.leftovers(), {})

    def test_guardian_and_agent_are_killed(self):
        job = Job("echo ready; exec sleep 60")
        self.addCleanup(job.__exit__)
        job.start()
        for node in job.nodes:
            node.wait_for(lambda one: b"ready" in one.output[1], "worker")
        agent = job.nodes[1].agent
        os.kill(job.nodes[1].guardian, signal.SIGKILL)
        os.kill(agent, signal.SIGKILL)
        job.nodes[0].wait_for(lambda one: one.report, "report")
        self.assertEqual(job.nodes[0].report["ended_by"]["node"], "n1")
        self.assertEqual(job.leftovers(), {})

    def test_what_a_killed_pair_left_is_ended_by_the_next_job(self):
        job = self.start()
        node = job.nodes[1]
        agent = node.agent
        os.kill(node.guardian, signal.SIGSTOP)  # neither may see the other one's end
        os.kill(agent, signal.SIGKILL)
        os.kill(node.guardian, signal.SIGKILL)
        job.nodes[0].wait_for(lambda one: one.report, "report")
        # Any muster that starts a node on this machine may be the one that finds it, another test's, too.
        wait_until(lambda: set(processes_with(job.mark).values()) <= {"sleep"}, "the end of the rest")
        with Job("true", nodes=1) as other:
            other.start()
            other.reports()
            # It looks while its workers run, which may have ended before it is done.
            self.assertEqual(other.nodes[0].process.wait(20), 0, other.nodes[0].errors)
        self.assertEqual(job.leftovers(), {})

    def test_the_launcher_is_gone(self):
        job = self.start()
        for node in job.nodes:
            node.cut()
        self.assertEqual(job.leftovers(), {})

    def test_the_launcher_is_gone_before_it_sent_orders(self):
        job = Job("true")
        self.addCleanup(job.__exit__)
        for node in job.nodes:
            node.expect("hello")
            node.cut()
        self.assertEqual(job.leftovers(), {})

    def test_the_coordinator_is_killed(self):
        job = self.start()
        daemon = wait_until(lambda: job.nodes[0].child(job.nodes[0].guardian, "muster:store"), "daemon")
        os.kill(daemon, signal.SIGKILL)
        for report in job.reports():
            self.assertEqual(report["outcome"], "agent_error")
            self.assertIn("lost the coordinator", report["error"])
        self.assertEqual(job.leftovers(), {})

    def test_an_agent_that_stands_still_for_a_moment_goes_on(self):
        job = self.start("for i in 1 2 3 4 5 6; do sleep 0.5; done")
        agent = job.nodes[1].agent
        os.kill(agent, signal.SIGSTOP)
        job.nodes[1].errors_until(b"was stopped (SIGSTOP)")
        time.sleep(2)
        os.kill(agent, signal.SIGCONT)
        for report in job.reports():
            self.assertEqual(report["outcome"], "succeeded", report)
        self.assertEqual(job.leftovers(), {})

    def test_the_guardian_does_not_break_into_what_its_agent_says(self):
        """The agent is in the middle of a report that the link cannot hold when its guardian has something to say."""
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            text = "$(head -c 60000 /dev/zero | tr '\\0' x)"
            job = Job("echo ready; while [ ! -e %s ]; do sleep 0.01; done; [ $RANK = 1 ] || exec sleep 60; echo going; "
                      'sleep 0.2; echo "{\\"message\\": \\"%s\\"}" >$TORCHELASTIC_ERROR_FILE; exit 3' % (go, text), output__log_dir=folder)
            self.addCleanup(job.__exit__)
            job.start()
            for node in job.nodes:
                node.wait_for(lambda one: b"ready" in one.output[1], "worker")
            node = job.nodes[1]
            pipe = node.process.stdout.fileno()
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
            node.pauses_at = b"going"
            with open(go, "w"):
                pass
            node.wait_for(lambda one: b"going" in one.output[1], "last message that is read")
            waiting = array.array("i", [0])
            wait_until(lambda: fcntl.ioctl(pipe, termios.FIONREAD, waiting) == 0 and waiting[0] > 0, "words that wait")
            time.sleep(1)  # for the report, which is more than there is room for
            agent = node.agent
            os.kill(agent, signal.SIGSTOP)
            time.sleep(0.2)
            node.reads.set()
            node.errors_until(b"was stopped (SIGSTOP)")
            os.kill(agent, signal.SIGCONT)
            node.wait_for(lambda one: one.report, "report")
            self.assertEqual(len(node.report["workers"][0]["error"]["message"]), 60000)
            self.assertEqual(job.leftovers(), {})

    def test_an_agent_that_stands_still_for_long_is_fenced(self):
        job = self.start()
        agent = job.nodes[1].agent
        os.kill(agent, signal.SIGSTOP)
        job.nodes[1].errors_until(b"was stopped (SIGSTOP)")
        job.nodes[0].wait_for(lambda one: one.report, "report")
        self.assertEqual(job.nodes[0].report["ended_by"]["node"], "n1")
        job.nodes[1].wait_for(lambda one: one.last_words, "last words")
        self.assertIn("stayed stopped", job.nodes[1].last_words)
        self.assertEqual(job.leftovers(), {})


class SilentLauncher(unittest.TestCase):
    def test_z_a_launcher_that_goes_silent_before_its_orders_is_taken_for_gone(self):
        node = SILENT[0].nodes[0]
        node.expect("hello")
        node.wait_for(lambda one: one.last_words, "last words")
        self.assertIn("no key came", node.last_words)
        self.assertEqual(node.process.wait(20), 125)


if __name__ == "__main__":
    unittest.main()
