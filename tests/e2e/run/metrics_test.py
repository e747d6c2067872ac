# SPDX-License-Identifier: Apache-2.0
"""The metrics of a running job: served to its own user on this host, written to a file, and true."""
import http.client
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import open_metrics
import processes

MUSTER = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")
LIMIT_S = 60
NOBODY = 65534
# One that everybody may run.
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
HOLDS = """\
import os, signal, sys, threading
held = threading.Lock()
held.acquire()
sys.stdout.write("ready\\n")
sys.stdout.flush()
if os.environ.get("STOPS") == os.environ["RANK"]:
    os.kill(os.getpid(), signal.SIGSTOP)
held.acquire()
"""
# Connects as whoever runs it, and prints how many bytes it got.
STRANGER = """\
import socket, sys
family, address = (socket.AF_UNIX, sys.argv[1]) if "/" in sys.argv[1] else (socket.AF_INET, ("127.0.0.1", int(sys.argv[1])))
try:
    with socket.socket(family) as s:
        s.settimeout(20)
        s.connect(address)
        s.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
        print(len(s.recv(100)))
except OSError as error:
    print(0)
"""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=LIMIT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Metrics(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.program = os.path.join(self.folder, "holds.py")
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(HOLDS)

    def start(self, *flags, **environment):
        job = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", "--shutdown-timeout", "1", *flags, self.program],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, PYTHON_EXEC=sys.executable, **environment))
        self.addCleanup(self.end, job)
        for _ in range(2):
            self.assertEqual(job.stdout.readline(), "ready\n")
        return job

    def end(self, job):
        if job.poll() is None:
            job.terminate()
        job.stdout.close()
        job.stderr.close()
        return job.wait(timeout=LIMIT_S)

    def get(self, connection, path="/metrics", method="GET", **headers):
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return response, body

    def scrape(self, connection):
        response, body = self.get(connection)
        self.assertEqual(response.status, 200, body)
        self.assertEqual(response.getheader("Content-Type"), "application/openmetrics-text; version=1.0.0; charset=utf-8")
        return open_metrics.parse(body)

    def test_a_job_is_scraped_on_loopback(self):
        job = self.start("--metrics-listen", "127.0.0.1:0")
        port = int(re.fullmatch(r"muster: note: metrics are served at http://127.0.0.1:(\d+)/metrics\n", job.stderr.readline())[1])

        def connection():
            return http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)

        families = self.scrape(connection())
        self.assertEqual(families["muster_job_state"][{"state": "running"}], 1)
        self.assertEqual(sum(families["muster_job_state"].samples.values()), 1)
        (about,) = families["muster_job"].samples
        self.assertEqual(dict(about)["program"], self.program)
        for rank in "01":
            self.assertGreater(families["muster_rank_memory_bytes"][{"rank": rank}], 1 << 20)
        self.assertLess(abs(families["muster_round_start_seconds"][{}] - time.time()), LIMIT_S)
        self.assertEqual(families["muster_restarts"][{"cause": "node_failed"}], 0)
        self.assertEqual(self.get(connection(), "/")[0].status, 404)
        self.assertEqual(self.get(connection(), method="POST")[0].status, 405)
        self.assertEqual(self.get(connection(), Host="evil.example")[0].status, 403)
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as flood:
            with self.assertRaises(OSError):
                for _ in range(1000):
                    flood.sendall(b"x" * 65536)
                self.assertEqual(flood.recv(1), b"x", "a request without an end is read on and on")
        self.assertEqual(self.scrape(connection())["muster_job_state"][{"state": "running"}], 1)
        if os.geteuid() == 0:
            self.assertEqual(self.stranger(str(port)), "0\n")

    def stranger(self, place):
        return subprocess.run([PYTHON, "-c", STRANGER, place], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
                              capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout

    def test_a_hang_is_seen_at_a_unix_socket_that_is_its_users_alone(self):
        path = os.path.join(self.folder, "m.sock")
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)  # as a launcher that was killed leaves it
        job = self.start("--metrics-listen", f"unix:{path}", "--hang-timeout", "0.6", STOPS="1")
        self.assertEqual(job.stderr.readline(), f"muster: note: metrics are served at unix:{path}\n")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        deadline = time.monotonic() + LIMIT_S
        hung = None
        # The nodes may have answered just before the verdict that the launcher knows of by then.
        while hung != [1, 0, 1]:
            self.assertLess(time.monotonic(), deadline, hung)
            families = self.scrape(UnixConnection(path))
            if "muster_rank_hung" in families:
                hung = [families["muster_job_state"][{"state": "hung"}], *(families["muster_rank_hung"][{"rank": rank}] for rank in "01")]
        self.assertGreaterEqual(families["muster_rank_stalled_seconds"][{"rank": "1"}], 0.6)
        if os.geteuid() == 0:
            os.chmod(self.folder, 0o755)
            os.chmod(path, 0o666)
            self.assertEqual(self.stranger(path), "0\n")
        job.terminate()
        self.assertEqual(job.wait(timeout=LIMIT_S), 143)
        self.assertFalse(os.path.exists(path))

    def test_a_textfile_is_whole_at_any_time_and_has_the_last_state(self):
        path = os.path.join(self.folder, "job.prom")
        job = self.start("--metrics-textfile", path)
        deadline = time.monotonic() + LIMIT_S
        while not os.path.exists(path):
            self.assertLess(time.monotonic(), deadline, "it is never written")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(sum(open_metrics.parse(file.read())["muster_job_state"].samples.values()), 1)
        job.send_signal(signal.SIGINT)
        job.wait(timeout=LIMIT_S)
        with open(path, encoding="utf-8") as file:
            families = open_metrics.parse(file.read())
        self.assertEqual(families["muster_job_state"][{"state": "interrupted"}], 1)
        self.assertLess(abs(families["muster_last_update_seconds"][{}] - time.time()), LIMIT_S)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("job.prom")], ["job.prom"])

    def test_only_this_host_is_served(self):
        for place in ("0.0.0.0:9100", "[::]:0", ":9100", "localhost:9100", "unix:"):
            ended = subprocess.run([MUSTER, "run", "--metrics-listen", place, "--no-python", "true"], stdin=subprocess.DEVNULL,
                                   capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertIn("--metrics-listen=", ended.stderr)

    def test_a_place_that_cannot_be_had_refuses_the_job_before_anything_of_it_starts(self):
        state = os.path.join(self.folder, "state")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for place in (f"127.0.0.1:{taken.getsockname()[1]}", f"unix:{self.folder}/absent/m.sock"):
                for detached in ((), ("--detach",)):
                    ran = os.path.join(self.folder, "ran")
                    logs = os.path.join(self.folder, "logs")
                    ended = subprocess.run([MUSTER, "run", *detached, "--metrics-listen", place, "--log-dir", logs, "--redirects", "3", "--no-python",
                                            "touch", ran], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
                                           env=dict(os.environ, XDG_STATE_HOME=state), check=False)
                    self.assertEqual(ended.returncode, 2, ended.stderr)
                    self.assertIn("muster: error: --metrics-listen: no metrics can be served at ", ended.stderr)
                    self.assertEqual(os.listdir(self.folder), ["holds.py"])

    def test_no_other_process_of_the_job_holds_the_listener(self):
        """One that outlives the launcher would take connections that nobody answers."""
        job = self.start("--metrics-listen", "127.0.0.1:0")
        port = int(re.search(r":(\d+)/metrics", job.stderr.readline())[1])
        with open("/proc/net/tcp", encoding="ascii") as table:
            inode, = (fields[9] for fields in map(str.split, table) if fields[1] == f"0100007F:{port:04X}" and fields[3] == "0A")
        holders = []
        for pid in processes.tree(job.pid):
            try:
                descriptors = os.listdir(f"/proc/{pid}/fd")
            except FileNotFoundError:
                continue
            for descriptor in descriptors:
                try:
                    holders += [processes.name_of(pid)] * (os.readlink(f"/proc/{pid}/fd/{descriptor}") == f"socket:[{inode}]")
                except FileNotFoundError:
                    pass
        self.assertEqual(holders, ["muster"])

    def test_a_job_without_these_flags_has_no_thread_for_them(self):
        job = self.start()
        self.assertEqual(len(os.listdir(f"/proc/{job.pid}/task")), 1)


if __name__ == "__main__":
    unittest.main()
