# SPDX-License-Identifier: Apache-2.0
"""A launcher's side of the links to several `muster agent`, all on this machine: what ssh would connect are pipes here."""

import hashlib
import hmac
import json
import os
import queue
import signal
import struct
import subprocess
import threading
import time
import uuid

MUSTER = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")
LIMIT_S = 60
# Messages of the link itself and of its first moments are not counted.
UNNUMBERED = {"hello", "key", "spec", "listening", "notice", "ack", "resume"}


def derive_key(secret, node, incarnation, job, role="agent"):
    """HKDF-SHA256 (RFC 5869) without salt, one block."""
    text = "v1/%s/%s/%s/%d" % (role, job, node, incarnation)
    extracted = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(extracted, text.encode() + b"\x01", hashlib.sha256).digest()


def processes_with(mark):
    """{pid: name} of every living process with MUSTER_TEST_MARK=<mark> in its environment."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/environ" % entry, "rb") as file:
                if ("MUSTER_TEST_MARK=" + mark).encode() not in file.read().split(b"\0"):
                    continue
            with open("/proc/%s/stat" % entry) as file:
                if file.read().rsplit(")", 1)[1].split()[0] in "ZX":
                    continue
            with open("/proc/%s/comm" % entry) as file:
                found[int(entry)] = file.read().strip()
        except OSError:
            continue
    return found


def wait_until(condition, what, seconds=LIMIT_S):
    give_up = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > give_up:
            raise AssertionError("waited %.1f s for %s" % (seconds, what))
        time.sleep(0.002)


class Node:
    """One `muster agent` and the launcher's end of its link. What it says is kept by kind."""

    def __init__(self, job, name, command=None):
        self.job, self.name = job, name
        self.output = {1: b"", 2: b""}
        self.said = {}
        self.report = None
        self.last_words = None
        self.takes_output = True
        self.untaken = 0
        self.received = 0
        self.pauses_at = None  # once this has been printed, nothing more is read until reads is set
        self.reads = threading.Event()
        self.ended = threading.Event()
        self.changed = threading.Condition()
        self.write_lock = threading.Lock()
        self.process = subprocess.Popen(command or [MUSTER, "agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=job.environment, start_new_session=True)
        self.errors = b""
        threading.Thread(target=self._read_errors, daemon=True).start()
        threading.Thread(target=self._read, daemon=True).start()

    def _read_errors(self):
        with self.process.stderr:
            for line in self.process.stderr:
                with self.changed:
                    self.errors += line
                    self.changed.notify_all()

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            piece = self.process.stdout.read(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def _read(self):
        try:
            while not self.process.stdout.readline().startswith(b"muster-agent 1 "):
                pass
            while True:
                if self.pauses_at and self.pauses_at in self.output[1]:
                    self.reads.wait()
                (length,) = struct.unpack(">I", self._exactly(4))
                head, body = self._exactly(length).split(b"\n", 1)
                kind, number = head.decode().split()
                self._take(kind, int(number), body)
        except (EOFError, OSError, ValueError):
            pass
        with self.changed:
            self.ended.set()
            self.changed.notify_all()

    def _take(self, kind, number, body):
        with self.changed:
            if kind not in UNNUMBERED:
                self.received += 1
            if kind == "output":
                self.output[number] += body
            elif kind == "report":
                self.report = json.loads(body)
            elif kind == "notice":
                self.last_words = body.decode()
            elif kind != "ack":
                self.said.setdefault(kind, []).append(body)
            self.changed.notify_all()
            if kind in ("output", "file"):
                self.untaken += len(body)
        if kind in ("output", "file") and self.takes_output:
            self.take_output()
        if kind not in UNNUMBERED:
            self.send("ack", self.received)

    def take_output(self):
        with self.changed:
            size, self.untaken = self.untaken, 0
        self.send("taken", size)

    def send(self, kind, number=0, body=b""):
        payload = b"%s %d\n" % (kind.encode(), number) + body
        try:
            with self.write_lock:
                self.process.stdin.write(struct.pack(">I", len(payload)) + payload)
                self.process.stdin.flush()
        except (OSError, ValueError):
            pass  # it has ended; a test that cares looks at its end

    def wait_for(self, condition, what, seconds=LIMIT_S):
        with self.changed:
            if not self.changed.wait_for(lambda: condition(self) or self.ended.is_set(), seconds) or not condition(self):
                raise AssertionError("%s: no %s; stderr: %s; said: %r" % (self.name, what, self.errors.decode(), self.said))

    def expect(self, kind):
        self.wait_for(lambda node: node.said.get(kind), kind)
        return self.said[kind][-1]

    def errors_until(self, text):
        self.wait_for(lambda node: text in node.errors, "%r on stderr" % text)

    def text(self, stream=1):
        return self.output[stream].decode()

    def cut(self):
        """The end of ssh, as the node sees it."""
        with self.write_lock:
            self.process.stdin.close()

    def child(self, parent, name):
        for pid, found in processes_with(self.job.mark).items():
            try:
                with open("/proc/%d/stat" % pid) as file:
                    if found == name and int(file.read().rsplit(")", 1)[1].split()[1]) == parent:
                        return pid
            except OSError:
                continue
        return None

    @property
    def guardian(self):
        return self.process.pid

    @property
    def agent(self):
        return wait_until(lambda: self.child(self.guardian, "muster:agent"), "the agent of " + self.name)


class Job:
    """A job of several nodes on this machine, driven as the launcher does it. A context: nothing outlives it."""

    def __init__(self, shell, nodes=2, workers=1, **changes):
        self.mark = uuid.uuid4().hex
        self.environment = dict(os.environ, MUSTER_TEST_MARK=self.mark)
        dry = subprocess.run([MUSTER, "run", "--dry-run", "--nproc-per-node", str(workers), "--no-python", "sh", "-c", shell],
                             capture_output=True, text=True, check=True, timeout=LIMIT_S)
        self.template = json.loads(dry.stdout)["agent"]
        self.template.update(min_nodes=nodes, max_nodes=nodes, run_id="job-" + self.mark[:8], shutdown_timeout_ms=5000)
        self.template["output"].update(log_dir="", log_dir_is_temporary=False, rank_prefix=True)
        self.names = ["n%d" % i for i in range(nodes)]
        self.template["node"].update(form="started", expected_nodes=self.names, listen_port=0, peers=[])
        for path, value in changes.items():
            where = self.template
            *folders, last = path.split("__")
            for folder in folders:
                where = where[folder]
            where[last] = value
        self.secret = os.urandom(32)
        self.nodes = [Node(self, name) for name in self.names]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.kill()
        for pid in processes_with(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for node in self.nodes:
            node.reads.set()
            node.process.wait()
            node.ended.wait(LIMIT_S)
            for stream in (node.process.stdin, node.process.stdout):
                try:
                    stream.close()
                except OSError:
                    pass

    def spec(self, index):
        spec = json.loads(json.dumps(self.template))
        spec["host"] = self.names[index]
        spec["node"].update(name=self.names[index], node_rank=index, incarnation=index + 1, coordinator=index == 0,
                            listen_host="127.0.0.1" if index == 0 else "")
        return spec

    def instruct(self, index, **changes):
        node = self.nodes[index]
        node.expect("hello")
        key = derive_key(self.secret, node.name, index + 1, self.template["run_id"])
        node.send("status")  # a launcher that still waits for other nodes
        node.send("key", 2 if index == 0 else 1, key + (self.secret if index == 0 else b""))
        spec = self.spec(index)
        spec.update(changes)
        node.send("spec", 0, json.dumps(spec).encode())

    def start(self):
        for index in range(len(self.nodes)):
            self.instruct(index)
        where = self.nodes[0].expect("listening")
        for node in self.nodes[1:]:
            node.send("coordinator", 0, where)
        return self

    def reports(self):
        for node in self.nodes:
            node.wait_for(lambda one: one.report, "report")
        return [node.report for node in self.nodes]

    def leftovers(self):
        """What still runs when every node should have ended."""
        try:
            wait_until(lambda: not processes_with(self.mark), "the end of every process", 20)
        except AssertionError:
            return processes_with(self.mark)
        return {}
