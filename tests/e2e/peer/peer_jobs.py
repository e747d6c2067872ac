# SPDX-License-Identifier: Apache-2.0
"""Jobs that are started on every host (torchrun's way), for tests."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

import interop

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_worker.py")
LIMIT_S = 60


class Launcher:
    """`muster run` on one host. Its lines are read as they come."""

    def __init__(self, hosts, host, flags, program=None, env=None, before=()):
        program = program or ["--no-python", sys.executable, WORKER]
        self.host = host
        self.lines, self.errors = [], []
        self.forgotten = 0
        self.begin, self.ended = time.monotonic(), None  # ended: when its last line had come
        self.process = hosts.popen(host, [*before, interop.MUSTER, "run", *flags, *program],
                                   stdin=subprocess.PIPE if before else subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.news = threading.Condition()
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))]
        for reader in self.readers:
            reader.start()

    def read(self, stream, into):
        for line in stream:
            with self.news:
                into.append(line.rstrip("\n"))
                self.news.notify_all()
        self.ended = time.monotonic()

    def text(self):
        return f"{self.host}:\n" + "\n".join([*self.lines, *self.errors])

    def wait_for(self, count, matches, what):
        """Waits until `count` lines of stdout or stderr fulfil `matches`, and returns them."""
        end = time.monotonic() + LIMIT_S
        with self.news:
            while True:
                # Readers end after the last line.
                over = self.process.poll() is not None and not any(reader.is_alive() for reader in self.readers)
                found = [line for line in [*self.lines[self.forgotten:], *self.errors] if matches(line)]
                if len(found) >= count:
                    return found
                if over or time.monotonic() > end:
                    raise AssertionError(f"never: {what}; exit code {self.process.poll()}\n{self.text()}")
                self.news.wait(0.1)

    def forget(self):
        """Lines of stdout so far do not count any more."""
        with self.news:
            self.forgotten = len(self.lines)

    def workers(self, count, round_world=None):
        """The environments that `count` workers here have printed, those of one world size."""
        def matches(line):
            return line.startswith("{") and (round_world is None or json.loads(line)["WORLD_SIZE"] == str(round_world))
        return [json.loads(line) for line in self.wait_for(count, matches, f"{count} workers in a world of {round_world}")]

    def end(self, timeout=LIMIT_S):
        """Its exit code."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"not done after {timeout} s\n{self.text()}") from None
        for reader in self.readers:
            reader.join(10)
        return code

    def ends(self, code, *words, timeout=LIMIT_S):
        """It ends with this code, and its stderr says all of these texts."""
        if self.end(timeout) != code:
            raise AssertionError(f"exit code {self.process.returncode}, not {code}\n{self.text()}")
        for word in words:
            if word not in self.error():
                raise AssertionError(f"nothing says '{word}'\n{self.text()}")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for reader in self.readers:
            reader.join(10)
        if self.process.stdin:
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.stderr.close()

    def type(self, keys):
        """To a command that stands `before` the launcher and gives it a terminal."""
        self.process.stdin.buffer.write(keys)
        self.process.stdin.buffer.flush()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def error(self):
        return "\n".join(self.errors)


def c10d(endpoint, nodes, *more):
    return ["--nnodes", str(nodes), "--rdzv-backend", "c10d", "--rdzv-id", "J", "--rdzv-endpoint", endpoint, *more]
