#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A running job's delays while strangers work on its port, from another network namespace; prints Markdown.

usage: run.py --bin DIR [--daemon FILE] [--rounds N] [--attack KIND=RATE[xBURST] ...] [--check]
Needs rendezvous_load in DIR, and root. --daemon: another build's rendezvous_load as the daemon, to compare.
--check: exits 1 if a p99 under attack is more than three times the quiet one, and three times as much as an attack on a fourth host
(`elsewhere`, which has to come first) makes of it by being at work on the same machine, if requests were too few to say (one
that hangs is counted with its age), if the attack never connected, or if too many descriptors are held for it. Under a sanitizer
no time is judged.
"""
import argparse
import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import interop  # noqa: E402
from hosts import Hosts, Unavailable  # noqa: E402
from processes import cpu_seconds  # noqa: E402

QUIET_S, ATTACK_S, SETTLE_S = 1.5, 2.0, 0.5
GOAL = 1.10
# Times the yardstick: two seconds of a machine that does other things say less than the rounds of the benchmark.
CHECKED = 3
# Requests in a second that a job on a busy machine makes at least: a tenth of those that the pauses between them allow.
LEAST_PER_S = {"store": 100, "control": 50}
# Of a single request: half the attack.
STALL_US = ATTACK_S / 2 * 1e6
# Strangers that the daemon keeps at most, and what it needs itself.
MOST_DESCRIPTORS = 256 + 64
# KIND=RATE, and in how large bursts.
ATTACKS = ("elsewhere=2000", "slowloris=1000", "flood=2000", "flood=2000x100", "scan=500", "scan=500x50", "oversized=500",
           "wrong_key=500", "wrong_key=500x50")
NAMES = {"slowloris": "slowloris, {rate:,} connections", "flood": "connect and reset, {rate:,}/s",
         "scan": "HTTP request, {rate:,}/s", "oversized": "TLS message of 16 MiB announced, {rate:,}/s",
         "wrong_key": "TLS handshake with a wrong key, {rate:,}/s",
         "elsewhere": "for comparison: connect and reset, {rate:,}/s, at a port of a fourth host"}
# Takes connections and closes them; what an attack on it costs the job is that all hosts share this machine.
ELSEWHERE = """
import socket
with socket.create_server(("{host}", 0), backlog=4096) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        try:
            server.accept()[0].close()
        except OSError:
            pass
"""


class Job:
    """The daemon on n00, and a node on n01 that asks it."""

    def __init__(self, hosts, program, daemon):
        self.hosts, self.program, self.key = hosts, program, secrets.token_hex(32)
        self.programs = {"n00": daemon, "n01": program}
        self.lines = []
        # Before all else that runs here: the attacker, and whoever else is at work on this machine, is elsewhere in life.
        self.first = ["chrt", "--rr", "1"] if may_be_first(hosts) else []
        self.main_first = ["chrt", "--reset-on-fork", "--rr", "1"] if self.first else []
        self.daemon = self.start("n00", "serve", 2, hosts.hosts["n00"].ipv4)
        self.port = json.loads(self.daemon.stdout.readline())["port"]
        self.probe = self.start("n01", "probe", self.port, 3600, hosts.hosts["n00"].ipv4)
        self.other = hosts.popen("n03", ["chrt", "--idle", "0", sys.executable, "-c", ELSEWHERE.format(host=hosts.hosts["n03"].ipv4)],
                                 stdout=subprocess.PIPE, text=True)
        self.elsewhere = int(self.other.stdout.readline())
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def start(self, host, *arguments):
        first = self.main_first if host == "n00" else self.first
        process = self.hosts.popen(host, [*first, self.programs[host], *arguments], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        process.stdin.write(self.key + "\n")
        process.stdin.flush()
        return process

    def read(self):
        for line in self.probe.stdout:
            self.lines.append(json.loads(line))

    def samples(self, begin, end):
        """What was asked for meanwhile (a little before may be among it), and what has been asked for and not been answered."""
        deadline = time.monotonic() + 30
        while not self.lines or self.lines[-1]["at"] < end:
            if self.probe.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("strangers bench: the job did not outlive the attack")
            time.sleep(0.02)
        chosen = [line for line in list(self.lines) if begin + 0.1 < line["at"] <= end]
        return {name: [value for line in chosen for value in line[name]] + [line["pending"][name] for line in chosen[-1:]]
                for name in ("store", "control")}

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.daemon.pid}/fd"))

    def stop(self):
        for process in (self.probe, self.daemon, self.other):
            process.kill()
            process.wait()


def may_be_first(hosts):
    return hosts.run("n00", ["chrt", "--rr", "1", "true"], check=False).returncode == 0


def attack(job, kind, rate, burst):
    seconds = SETTLE_S + ATTACK_S
    target = (job.hosts.hosts["n00"].ipv4, job.port)
    if kind == "elsewhere":
        kind, target = "flood", (job.hosts.hosts["n03"].ipv4, job.elsewhere)
    # With the time of the processor that the job leaves: an attacker has a machine of its own.
    command = ["chrt", "--idle", "0", job.program, "attack", kind, rate, burst, *target, round(seconds + 0.5), "10.87"]
    process = job.hosts.popen("n02", command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write("0" * 64 + "\n")
    process.stdin.flush()
    time.sleep(SETTLE_S)
    return process


def at(values, share):
    values = sorted(values)
    return values[int(share * (len(values) - 1))] if values else float("nan")


def measure(job, kind, rate, burst, rounds):
    found = {(name, when): [] for name in ("store", "control") for when in ("quiet", "attacked")}
    done = {"opened": 0, "connected": 0, "seconds": 0.0, "kept": 0, "descriptors": 0}
    cpu = 0.0

    def ask(when, begin):
        end = time.monotonic()
        for name, values in job.samples(begin, end).items():
            found[name, when] += values
            if len(values) < LEAST_PER_S[name] * (end - begin):
                done.setdefault("few", f"{len(values)} {name} requests in {end - begin:.1f} s ({when})")

    for _ in range(rounds):
        begin = time.monotonic()
        time.sleep(QUIET_S)
        ask("quiet", begin)
        process = attack(job, kind, rate, burst)
        begin, used = time.monotonic(), cpu_seconds(job.daemon.pid)
        time.sleep(ATTACK_S)
        cpu += cpu_seconds(job.daemon.pid) - used
        done["descriptors"] = max(done["descriptors"], job.descriptors())
        ask("attacked", begin)
        said = json.loads(process.communicate(timeout=30)[0])
        for word in ("opened", "connected", "seconds", "kept"):
            done[word] += said[word]
        time.sleep(SETTLE_S)
    return found, done, cpu / rounds / ATTACK_S


def report(kind, rate, burst, measured, check, yardstick):
    """What was missed. `yardstick` has, by name, what the attack elsewhere makes of the p99; that one sets it."""
    found, done, cpu = measured
    cells, missed = [], []
    late = "Missed: too late" if check else "Missed"
    in_bursts = f" in bursts of {burst}" if burst > 1 else ""
    title = NAMES[kind].format(rate=rate) + in_bursts
    if done["connected"] == 0:
        missed.append(f"Missed: {title}: not one connection of the attack stood")
    if done["descriptors"] > MOST_DESCRIPTORS:
        missed.append(f"Missed: {title}: {done['descriptors']} descriptors were held")
    judges_time = not (check and interop.sanitized())
    if "few" in done and judges_time:
        missed.append(f"{late}: {title}: only {done['few']}")
    for name in ("control", "store"):
        quiet, attacked = found[name, "quiet"], found[name, "attacked"]
        ratio = at(attacked, 0.99) / at(quiet, 0.99)
        cells += [f"{at(quiet, 0.5):.0f} / {at(quiet, 0.99):.0f} us", f"{at(attacked, 0.5):.0f} / {at(attacked, 0.99):.0f} us",
                  f"{ratio:.2f}"]
        if kind == "elsewhere":
            yardstick[name] = max(1.0, ratio)
        if not judges_time or kind == "elsewhere":
            continue
        if ratio > (CHECKED * yardstick.get(name, 1.0) if check else GOAL):
            missed.append(f"{late}: {title}: the {name} p99 is {ratio:.2f} times the quiet one")
        if max(attacked, default=0) > STALL_US:
            missed.append(f"{late}: {title}: a {name} request waited {max(attacked) / 1e6:.1f} s")
    print(f"| {title} | {done['connected'] / done['seconds']:,.0f} | {100 * cpu:.0f} % "
          f"| {' | '.join(cells)} |", flush=True)
    return missed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--torch-python")
    parser.add_argument("--daemon")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--attack", nargs="*", default=ATTACKS, metavar="KIND=RATE[xBURST]")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    missed, yardstick = [], {}
    program = os.path.join(os.path.realpath(options.bin), "rendezvous_load")
    try:
        with Hosts(4, sshd=False, keep=[options.bin, os.path.dirname(options.daemon or program)]) as hosts:
            # Where the attacker's many addresses are.
            hosts.run("n02", ["ip", "route", "add", "local", "10.87.200.0/24", "dev", "lo"])
            print("Asked from a second host; the strangers are on a third (each host a network namespace of its own), and get the "
                  "time of the processor that the job leaves.\n")
            print("| attack | connections/s | daemon's CPU | control p50 / p99, quiet | attacked | p99 ratio "
                  "| store p50 / p99, quiet | attacked | p99 ratio |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|")
            for each in options.attack:
                kind, rate, burst = re.fullmatch(r"(\w+)=(\d+)(?:x(\d+))?", each).groups()
                what = kind, int(rate), int(burst or 1)
                job = Job(hosts, program, os.path.realpath(options.daemon) if options.daemon else program)
                try:
                    missed += report(*what, measure(job, *what, options.rounds), options.check, yardstick)
                finally:
                    job.stop()
    except Unavailable as error:
        print(f"skipped: {error}")
        return 77 if options.check else 0
    for text in missed:
        print(f"\n{text}.")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
