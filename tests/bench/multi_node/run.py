#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time from the command to the workers on 2, 16 and 64 hosts, beside bare ssh, mpirun and torchrun. Prints Markdown.

The hosts are namespaces of this machine, each with an sshd of its own (tests/support/hosts.py), so all logins share its cores.

usage: run.py --bin DIR --torch-python FILE [--hosts N,...] [--rounds N]
"""
import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support")
sys.path.insert(0, SUPPORT)

from hosts import LAUNCHER, SEARCH_PATH, SHARED, Hosts, Unavailable  # noqa: E402

STAMPS = f"{SHARED}/stamps"
# What each worker does: says when it began. Its shell starts in a millisecond or two.
WORKER = f"echo $EPOCHREALTIME > {STAMPS}/$HOSTNAME.$$"
SSH = ["ssh", "-x", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
LIMIT_S = 120


class Bed:
    """One set of hosts, and the launchers that start one worker on each."""

    def __init__(self, hosts, arguments):
        self.hosts = hosts
        self.names = hosts.names
        listed = ",".join(self.names)
        self.muster = [os.path.join(arguments.bin, "muster"), "run", "-H", listed, "--no-python", "bash", "-c", WORKER]
        self.mpirun = ["mpirun", "--allow-run-as-root", "-H", listed, "bash", "-c", WORKER]
        torchrun = os.path.join(os.path.dirname(os.path.abspath(arguments.torch_python)), "torchrun")
        self.torchrun = torchrun if os.path.exists(torchrun) else None
        self.job = 0
        os.makedirs(hosts.path(LAUNCHER, STAMPS))

    def bare(self, command):
        return [[*SSH, name, command] for name in self.names]

    def two_torchruns(self):
        self.job += 1
        words = (f"{self.torchrun} --nnodes {len(self.names)} --nproc-per-node 1 --rdzv-backend c10d --rdzv-id job{self.job} "
                 f"--rdzv-endpoint {self.names[0]}:{29400 + self.job} --no-python bash -c '{WORKER}'")
        return self.bare(words)

    def measure(self, commands, stamped=True):
        """Seconds from the start of these commands, all at once, to the first and the last worker and to the end of all."""
        folder = self.hosts.path(LAUNCHER, STAMPS)
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        begin, tick = time.time(), time.perf_counter()
        running = [self.hosts.popen(LAUNCHER, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                   for command in commands]
        for process in running:
            out, _ = process.communicate(timeout=LIMIT_S)
            if process.returncode != 0:
                raise RuntimeError(f"{' '.join(map(str, process.args))}: exit code {process.returncode}\n{out}")
        end = time.perf_counter() - tick
        stamps = []
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="ascii") as file:
                stamps.append(float(file.read()) - begin)
        if stamped and len(stamps) != len(self.names):
            raise RuntimeError(f"{commands[0]}: {len(stamps)} of {len(self.names)} workers started")
        return (min(stamps), max(stamps), end) if stamped else (end, end, end)


def processor_seconds(action):
    """What the processes that `action` starts and waits for take, and those that these wait for: the logins of a launcher, not its hosts."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    action()
    return used() - before


def seconds(values):
    return f"{statistics.median(values):.3f} s ({min(values):.3f} to {max(values):.3f})"


def verdict(value, goal):
    return f"{value:.3g} (goal <= {goal:g}: {'met' if value <= goal else '**missed**'})"


def measure_all(bed, rounds):
    """{name: [(first worker, last worker, end)]}, all tools in turn in every round."""
    tools = {"ssh": lambda: bed.measure(bed.bare("true"), stamped=False), "muster": lambda: bed.measure([bed.muster])}
    if shutil.which("mpirun", path=SEARCH_PATH):
        tools["mpirun"] = lambda: bed.measure([bed.mpirun])
    for tool in tools.values():  # once unmeasured: programs and keys are in memory afterwards
        tool()
    times = {name: [] for name in tools}
    times["torchrun"] = []
    for number in range(rounds):
        for name, tool in tools.items():
            times[name].append(tool())
        # Its agents alone would take the cores for a minute on many hosts.
        if bed.torchrun and len(bed.names) <= 2 and number % 5 == 0:
            times["torchrun"].append(bed.measure(bed.two_torchruns()))
    return times


def table(count, times):
    median = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in times.items() if rows}
    print(f"### From the command to the workers on {count} hosts, one worker each ({len(times['muster'])} rounds)\n")
    print("| what | first worker | last worker | end | muster's first worker / this |\n|---|---|---|---|---|")
    first, last, end = (seconds(column) for column in zip(*times["muster"]))
    print(f"| `muster run -H` | {first} | {last} | {end} | |")
    ours = median["muster"][0]
    print(f"| `ssh HOST true`, {count} at once, till all ended | | | {seconds([row[2] for row in times['ssh']])} | "
          f"{verdict(ours / median['ssh'][2], 1.1)} |")
    if "mpirun" in median:
        first, last, end = (seconds(column) for column in zip(*times["mpirun"]))
        print(f"| `mpirun -H` | {first} | {last} | {end} | {verdict(ours / median['mpirun'][0], 1)} |")
    if "torchrun" in median:
        first, last, end = (seconds(column) for column in zip(*times["torchrun"]))
        print(f"| `torchrun` on each host, started by ssh | {first} | {last} | {end} | {ours / median['torchrun'][0]:.3g} |")
    print()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--torch-python", required=True)
    parser.add_argument("--hosts", default="2,16,64")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    for count in map(int, arguments.hosts.split(",")):
        rounds = arguments.rounds if count <= 2 else max(3, arguments.rounds // (2 if count <= 16 else 5))
        try:
            with Hosts(count, keep=[arguments.bin]) as hosts:
                bed = Bed(hosts, arguments)
                table(count, measure_all(bed, rounds))
                used = statistics.median(processor_seconds(lambda: bed.measure([bed.muster])) for _ in range(3))
                print(f"On its own host `muster run` takes {used / count * 1e3:.1f} ms of processor time for each host, its `ssh` included.\n")
        except Unavailable as error:
            print(f"multi_node: not measured: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
