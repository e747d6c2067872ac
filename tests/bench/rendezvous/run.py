#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our coordinator with agents over TLS beside torchrun's c10d rendezvous with handlers in threads; prints Markdown.

usage: run.py --bin DIR --torch-python FILE [--agents N ...] [--handlers N ...] [--check]
Needs rendezvous_load in DIR. --check: exits 1 if a goal is missed by more than ten times (for a busy machine); a time
is then called "too late".
"""
import argparse
import json
import os
import re
import secrets
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from processes import cpu_seconds  # noqa: E402

IDLE_S = 6
JOIN_GOAL_S, RESTART_GOAL_S, IDLE_GOAL = 5.0, 1.0, 200.0  # of 4,000 agents; bytes a node and second
TORCH_LIMIT_S = 120
TORCH = """
import sys, threading, time
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler
import socket
count = int(sys.argv[1])
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
def handler(host):
    parameters = RendezvousParameters("c10d", f"127.0.0.1:{port}", "bench", count, count, is_host=host)
    backend, store = create_backend(parameters)
    return create_handler(store, backend, parameters)
handlers = [handler(i == 0) for i in range(count)]
start = time.monotonic()
threads = [threading.Thread(target=each.next_rendezvous) for each in handlers]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(time.monotonic() - start, flush=True)
import os
os._exit(0)
"""


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))


def transferred(port):
    """Bytes of TLS records that the daemon's connections have carried, both directions."""
    listing = subprocess.run(["ss", "-tinH", "state", "established", f"( sport = :{port} )"], capture_output=True,
                             text=True, check=True).stdout
    return sum(int(number) for number in re.findall(r"bytes_(?:acked|received):(\d+)", listing))


def start(binaries, key, *arguments, **keywords):
    process = subprocess.Popen([os.path.join(binaries, "rendezvous_load"), *map(str, arguments)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, **keywords)
    process.stdin.write(key + "\n")
    process.stdin.flush()
    return process


def measure_idle(pid, port, count):
    """While nothing but heartbeats goes on; begins a little after the second round has, and ends before the agents leave."""
    time.sleep(1)
    marks = []
    for pause in (IDLE_S - 2, 0):
        marks.append((time.monotonic(), cpu_seconds(pid), transferred(port)))
        time.sleep(pause)
    elapsed, cpu, moved = (after - before for before, after in zip(*marks))
    return {"idle_cpu_us": cpu / count / elapsed * 1e6, "idle_bytes": moved / count / elapsed}


def measure(binaries, count):
    key = secrets.token_hex(32)
    daemon = start(binaries, key, "serve", count + 1, stderr=subprocess.DEVNULL)
    agents = None
    try:
        port = json.loads(daemon.stdout.readline())["port"]
        empty_kib = resident_kib(daemon.pid)
        agents = start(binaries, key, "agents", port, count, IDLE_S, stderr=subprocess.PIPE)
        measured = {}
        for line in agents.stderr:
            word = line.strip()
            if word == "joined":
                measured["join_cpu_us"] = cpu_seconds(daemon.pid) / count * 1e6
            elif word == "idle":
                measured.update(measure_idle(daemon.pid, port, count))
                measured["kib"] = (resident_kib(daemon.pid) - empty_kib) / count
            elif word != "leaving":
                raise SystemExit(f"rendezvous bench: {count} agents: {word}")
        result = json.loads(agents.stdout.read())
        result.update(measured)
        return result
    finally:
        for process in filter(None, (agents, daemon)):
            process.kill()
            process.wait()


def measure_torch(python, count):
    try:
        done = subprocess.run([python, "-c", TORCH, str(count)], capture_output=True, text=True, timeout=TORCH_LIMIT_S,
                              check=True)
        return float(done.stdout)
    except (subprocess.SubprocessError, OSError, ValueError):
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--torch-python")
    parser.add_argument("--agents", type=int, nargs="*", default=[16, 64, 250, 1000, 4000])
    parser.add_argument("--handlers", type=int, nargs="*", default=[16, 64, 128])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    print("Agents in one process, each with a TLS connection of its own, and the daemon in another.\n")
    print("| agents | all joined | failure to next round | daemon's CPU per agent, joining | CPU per agent and second, idle "
          "| TLS bytes per agent and second, idle, both directions | memory per agent |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    missed = []
    for count in options.agents:
        result = measure(options.bin, count)
        print(f"| {count} | {result['joined_s']:.2f} s | {result['restart_s'] * 1e3:.0f} ms | {result['join_cpu_us']:.0f} us "
              f"| {result['idle_cpu_us']:.0f} us | {result['idle_bytes']:.0f} | {result['kib']:.0f} KiB |", flush=True)
        slack = 10 if options.check else 1
        for name, value, goal in (("joined_s", result["joined_s"], slack * JOIN_GOAL_S),
                                  ("restart_s", result["restart_s"], slack * RESTART_GOAL_S),
                                  ("idle_bytes", result["idle_bytes"], IDLE_GOAL)):
            if value > goal:
                word = "Missed: too late" if options.check and name.endswith("_s") else "Missed"
                missed.append(f"{word}: {count} agents: {name} is {value:.3g}, the goal {goal:.3g}")
    if options.torch_python and os.access(options.torch_python, os.X_OK):
        print("\n| torchrun's c10d rendezvous, handlers (threads of one process) | all joined |\n|---:|---:|")
        for count in options.handlers:
            seconds = measure_torch(options.torch_python, count)
            print(f"| {count} | {f'{seconds:.2f} s' if seconds else f'not within {TORCH_LIMIT_S} s'} |", flush=True)
    for text in missed:
        print(f"\n{text}.")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
