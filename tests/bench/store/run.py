#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our store beside PyTorch's libuv TCPStore and Redis, in one run through one client program; prints Markdown.

usage: run.py --bin DIR --torch-python FILE [--seconds S] [--repeats N]
Needs in DIR: muster, store_bench_client. A server that is not installed is left out of the table, and that is said.
"""
import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from interop import free_port  # noqa: E402
from processes import cpu_seconds  # noqa: E402

TORCH = "PyTorch TCPStore"
FASTER_THAN_TORCH = 1.5
TORCH_SERVER = """
import sys
from datetime import timedelta
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=30), wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""


def wait_for_port(port):
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


class Server:
    def __init__(self, name, protocol, process, port):
        self.name, self.protocol, self.process, self.port = name, protocol, process, port

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def start_muster(binaries):
    process = subprocess.Popen([os.path.join(binaries, "muster"), "rendezvous", "--listen", "127.0.0.1:0"],
                               stdout=subprocess.PIPE, text=True)
    endpoint = json.loads(process.stdout.readline())["endpoint"]
    return Server("Muster", "c10d", process, int(endpoint.rsplit(":", 1)[1]))


def start_torch(python):
    if not os.access(python, os.X_OK):
        return None
    process = subprocess.Popen([python, "-c", TORCH_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL)
    return Server(TORCH, "c10d", process, int(process.stdout.readline()))


def start_redis(folder):
    program = shutil.which("redis-server")
    if not program:
        return None
    port = free_port()
    process = subprocess.Popen([program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                                "--dir", folder], stdout=subprocess.DEVNULL)
    wait_for_port(port)
    return Server("Redis", "resp", process, port)


def measure(client, server, clients, operation, seconds):
    before = cpu_seconds(server.process.pid)
    text = subprocess.run([client, server.protocol, "127.0.0.1", str(server.port), str(clients), operation, str(seconds)],
                          check=True, capture_output=True, text=True, timeout=60 + 2 * seconds).stdout
    result = json.loads(text)
    used = cpu_seconds(server.process.pid) - before
    result["cpu_us"] = used * 1e6 / max(1, result["per_second"] * (seconds + 0.3))  # the client warms up for 0.3 s
    return result


def medians(client, servers, clients, operation, options):
    """Servers take turns, so that a busy spell of the machine does not fall on one of them."""
    runs = {server.name: [] for server in servers}
    for _ in range(options.repeats):
        for server in servers:
            runs[server.name].append(measure(client, server, clients, operation, options.seconds))
    return {name: {key: statistics.median(run[key] for run in list_) for key in list_[0]} for name, list_ in runs.items()}


def no_worse(results, key, lower_is_better):
    """Whether ours is as good as the best peer's, as text; "-" where there is no peer."""
    peers = [(result[key], name) for name, result in results.items() if name != "Muster"]
    if not peers:
        return "-"
    best, name = min(peers) if lower_is_better else max(peers)
    ours = results["Muster"][key]
    met = ours <= best if lower_is_better else ours >= best
    return f"{'<=' if lower_is_better else '>='} {name}: {'met' if met else '**missed**'}"


def throughput_goal(results, key):
    """No slower than the best peer, and 1.5 times as fast as PyTorch's store, whose protocol we speak."""
    verdicts = [no_worse(results, key, False)]
    if TORCH in results:
        met = results["Muster"][key] >= FASTER_THAN_TORCH * results[TORCH][key]
        verdicts.append(f">= {FASTER_THAN_TORCH:g} x {TORCH}: {'met' if met else '**missed**'}")
    return "; ".join(verdicts)


def row(label, key, results, digits, better, goal):
    ours = results["Muster"][key]
    cells = [f"{result[key]:,.{digits}f}" for result in results.values()]
    for name, result in results.items():
        if name != "Muster":
            cells.append(f"{ours / result[key]:.2f}" if result[key] else "-")
    print(f"| {label} | {' | '.join(cells)} | {better} | {goal} |")


def table(client, servers, options):
    names = [server.name for server in servers]
    ratios = [f"ours / {name}" for name in names[1:]]
    print(f"| store | {' | '.join(names + ratios)} | better | goal |")
    print("|" + "---|" * (3 + len(names) + len(ratios)))
    for operation in ("set", "get", "add"):
        results = medians(client, servers, 1, operation, options)
        for name in ("p50", "p99"):
            key = f"{name}_us"
            row(f"{operation}, 1 client, {name} µs", key, results, 1, "lower", no_worse(results, key, True))
    for operation in ("set", "get", "add"):
        results = medians(client, servers, 64, operation, options)
        goal = throughput_goal(results, "per_second")
        row(f"{operation}, 64 clients, operations/s", "per_second", results, 0, "higher", goal)
        row(f"{operation}, 64 clients, server CPU µs/operation", "cpu_us", results, 2, "lower", "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--torch-python", default="")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    client = os.path.join(options.bin, "store_bench_client")
    with tempfile.TemporaryDirectory() as folder:
        started = [start_muster(options.bin), start_torch(options.torch_python), start_redis(folder)]
        servers = [server for server in started if server]
        try:
            table(client, servers, options)
        finally:
            for server in servers:
                server.stop()
    print()
    print("One client program for all, one request outstanding per connection, values of 32 bytes; a set of PyTorch's "
          "protocol has no reply, so a PING in the same segment confirms it. Medians of "
          f"{options.repeats} runs of {options.seconds:g} s, servers in turn.")
    if len(servers) < 3:
        print("Left out because it is not installed: "
              + ", ".join(name for name, server in zip(("", TORCH, "Redis"), started) if not server) + ".")
    return 0


if __name__ == "__main__":
    sys.exit(main())
