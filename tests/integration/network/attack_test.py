#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers at the port of a running job: each is refused within its bound, and the job's delays stay what they were.

usage: attack_test.py      needs rendezvous_load in $MUSTER_BIN_DIR
"""
import contextlib
import encodings.idna  # noqa: F401  loaded while its file can be read
import json
import os
import secrets
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import threading
import time

import interop
import promise

PROGRAM = os.path.join(os.environ["MUSTER_BIN_DIR"], "rendezvous_load")
NOBODY = 65534  # the strangers' uid
HANDSHAKE_S = 5.0  # what a stranger may take, by the rules
SLACK_S = 5.0  # of a busy machine
STRANGERS = 256  # at most, at once


class Job:
    """A daemon and one node whose requests are timed."""

    def __enter__(self):
        self.key = secrets.token_hex(32)
        self.daemon = self.start("serve", "2")
        self.port = json.loads(self.daemon.stdout.readline())["port"]
        self.probe = self.start("probe", str(self.port), "600")
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.wait_for_lines(1)
        return self

    def __exit__(self, *_):
        for process in (self.probe, self.daemon):
            process.kill()
            process.wait()

    def start(self, *arguments):
        process = subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        process.stdin.write(self.key + "\n")
        process.stdin.flush()
        return process

    def read(self):
        for line in self.probe.stdout:
            self.lines.append(json.loads(line))

    def wait_for_lines(self, count):
        deadline = time.monotonic() + 30
        wanted = len(self.lines) + count
        while len(self.lines) < wanted:
            assert self.probe.poll() is None, "the job's node has ended"
            assert time.monotonic() < deadline, "the job's node makes no progress"
            time.sleep(0.05)

    def p99(self, seconds):
        """Of the store and of the control connection, in microseconds: the median of the seconds' values."""
        start = len(self.lines)
        self.wait_for_lines(seconds)
        lines = self.lines[start:start + seconds]
        return {name: statistics.median(line[name]["p99_us"] for line in lines) for name in ("store", "control")}

    def connect(self, source=None):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=HANDSHAKE_S + SLACK_S,
                                              source_address=(source, 0) if source else None)
        return connection

    def descriptors(self):
        os.seteuid(0)
        try:
            return len(os.listdir(f"/proc/{self.daemon.pid}/fd"))
        finally:
            os.seteuid(NOBODY)


def ended(connection, limit=HANDSHAKE_S + SLACK_S):
    """What the server still says before it ends the connection; fails if it does not."""
    connection.settimeout(limit)
    said = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(4096):
            said += piece
            assert len(said) < 65536, "the server talks to a stranger"
    return said


def check_listeners(job):
    """From the kernel's table: the daemon listens on its one address and port."""
    folder = f"/proc/{job.daemon.pid}/fd"
    inodes = {os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)}
    listening = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{job.daemon.pid}/net/{table}", encoding="ascii") as file:
            for fields in map(str.split, list(file)[1:]):
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                    listening.append(fields[1])
    assert listening == [f"0100007F:{job.port:04X}"], f"the daemon listens on {listening}"


def check_plain_text(job):
    """Answers to strangers are at most a TLS alert; nothing comes back to those who speak something else."""
    for words in (b"hello\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"SSH-2.0-x\r\n", b"\x00" * 64, secrets.token_bytes(4096)):
        with job.connect() as connection:
            connection.sendall(words)
            said = ended(connection)
            assert said == b"" or (said[0] == 0x15 and len(said) <= 7), f"{words[:16]!r} was answered with {said[:64]!r}"


def check_downgrade(job):
    """Neither an older TLS nor a client without the key gets through the handshake."""
    for newest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.maximum_version = newest
        context.set_alpn_protocols(["muster/1"])
        with job.connect() as connection:
            try:
                context.wrap_socket(connection)
                raise AssertionError(f"a handshake without a key succeeded with {newest}")
            except (ssl.SSLError, ConnectionError):
                pass


def check_oversized(job):
    """A record longer than TLS allows, and a handshake message that claims 16 MiB."""
    for head in (b"\x16\x03\x01\xff\xff", b"\x16\x03\x01\x40\x00\x01\xff\xff\xff"):
        with job.connect() as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(head + b"\x00" * 65536)
            assert len(ended(connection)) <= 7


def check_silence(job):
    """Who says nothing, or stops in the middle of a handshake, is cut in time."""
    connections = [job.connect(f"127.3.0.{i + 1}") for i in range(4)]
    connections[1].sendall(b"\x16")
    connections[2].sendall(b"\x16\x03\x01\x02\x00\x01")
    connections[3].sendall(b"\x0b")
    start = time.monotonic()
    for connection in connections:
        ended(connection)
        connection.close()
    took = time.monotonic() - start
    assert took < HANDSHAKE_S + SLACK_S, f"too late: the silent are cut after {took:.1f} s"


def slowloris(job, stop):
    """1,000 connections from 100 addresses, each of which says a byte now and then; those that are cut come again."""
    held = {}
    while not stop.is_set():
        for i in range(1000):
            try:
                if i not in held:
                    held[i] = socket.socket()
                    held[i].setblocking(False)
                    held[i].bind((f"127.4.{i % 100}.1", 0))
                    held[i].connect_ex(("127.0.0.1", job.port))
                else:
                    held[i].send(b"\x16")
            except BlockingIOError:
                pass
            except OSError:
                held.pop(i).close()
        stop.wait(0.5)
    for connection in held.values():
        connection.close()


def flood(job, stop):
    """Connects and resets as fast as one thread can."""
    reset = struct.pack("ii", 1, 0)
    while not stop.is_set():
        with contextlib.suppress(OSError), socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            connection.settimeout(1)
            connection.connect(("127.0.0.1", job.port))


def scan(job, stop):
    """Connects, looks, and goes, from many addresses."""
    i = 0
    while not stop.is_set():
        i += 1
        with contextlib.suppress(OSError), socket.create_connection(
                ("127.0.0.1", job.port), 1, source_address=(f"127.5.{i % 250}.1", 0)) as connection:
            connection.sendall(b"\x16\x03\x01\x00\x05hello")


def check_load(job, attack, seconds):
    """The job goes on during the attack; returns how its delays changed."""
    yardstick = promise.Yardstick()
    yardstick.look()
    quiet = job.p99(seconds)
    stop = threading.Event()

    def come_last():
        # How the kernel shares two cores between a job and its attacker is not the question.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        attack(job, stop)

    attacker = threading.Thread(target=come_last)
    attacker.start()
    try:
        time.sleep(0.5)
        under_attack = job.p99(seconds)
        descriptors = job.descriptors()
    finally:
        stop.set()
        attacker.join()
    assert descriptors < STRANGERS + 64, f"{descriptors} descriptors are held for strangers"
    assert job.probe.poll() is None, "the job did not outlive the attack"
    for name in quiet:
        print(f"{attack.__name__}: {name} p99 {quiet[name]:.0f} us quiet, {under_attack[name]:.0f} us under attack")
        # Attacker and job share the processors here, so a request waits for the attacker's turns, too.
        bound = max(10 * quiet[name], yardstick.factor() * 25_000)
        assert under_attack[name] < bound or interop.sanitized(), f"too late: {name} suffers from {attack.__name__}"


@contextlib.contextmanager
def another_user():
    """Sockets made inside belong to somebody else."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def attack(job, seconds):
    with another_user():
        for check in (check_plain_text, check_downgrade, check_oversized, check_silence):
            check(job)
            print(f"{check.__name__}: refused")
        for attack in (slowloris, flood, scan):
            check_load(job, attack, seconds)


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    if os.geteuid() != 0:
        print("skipped: only root can play a stranger on the same machine")
        sys.exit(77)
    with Job() as job:
        check_listeners(job)
        attack(job, seconds)


if __name__ == "__main__":
    main()
