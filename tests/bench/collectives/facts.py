# SPDX-License-Identifier: Apache-2.0
"""What is measured besides collectives: reduction loops, the cost of a call's checks, size and start of the SDK."""
import os
import subprocess
import tempfile

from tables import print_table, text_of


def kernels(program, goals):
    """The reduction loops beside a plain streaming add, for the best instruction set of this machine."""
    output = subprocess.run([program, "64", "7"], check=True, capture_output=True, text=True, timeout=120).stdout
    lines = [line.split() for line in output.splitlines()]
    best = lines[0][0]
    found = {(kind, op, int(sources)): (float(rate), float(ratio)) for name, kind, op, sources, rate, ratio in lines if name == best}
    kinds = list(dict.fromkeys(key[0] for key in found))
    print(f"### Reduction loops ({best}), one thread, buffers of 64 MiB\n")
    print("Bytes read and written in a second, and that divided by a plain streaming add of two float arrays, measured in turn.\n")
    rows = []
    for kind in kinds:
        pair, four = found[kind, "sum", 2], found[kind, "sum", 4]
        others = {op: value[1] for (name, op, sources), value in found.items() if name == kind and sources == 2}
        worst = min(others, key=others.get)
        rows.append([kind, f"{pair[0] / 1e9:.1f} GB/s", f"{pair[1]:.2f}", f"{four[1]:.2f}", f"{others[worst]:.2f} ({worst})"])
    print_table(["type", "sum of 2", "/ streaming add", "sum of 4 / streaming add", "slowest operation / streaming add"], rows)
    goals.at_least("reduction loops, sum of 2: at least 0.9 of a streaming add", {kind: found[kind, "sum", 2][1] for kind in kinds}, 0.9)


def call_cost(program, goals):
    output = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60).stdout
    cost = {name: float(value) for name, value in (line.split() for line in output.splitlines())}
    print("### What a call costs besides moving data\n")
    print_table(["part", "time of a call"],
                [["arguments, number, order (the front end over a backend that does nothing)", f"{cost['front_end']:.0f} ns"],
                 ["status slot and flight recorder", f"{cost['slot']:.0f} ns"],
                 ["fingerprint: written and compared, 2 ranks", f"{cost['fingerprint_2']:.0f} ns"],
                 ["fingerprint: written and compared, 8 ranks", f"{cost['fingerprint_8']:.0f} ns"]])
    goals.at_most("fingerprint (8 ranks) and slot together: at most 0.2 µs a call", {"µs": (cost["slot"] + cost["fingerprint_8"]) / 1000}, 0.2)


def start(clients, rounds):
    """Mean over the ranks of the time in init(), beside the peers'."""
    print("### Joining a job (mean over the ranks of the time in the library's init)\n")
    rows = []
    for client, name in (("shm", "`muster_init`, shm"), ("our-gloo", "`muster_init`, gloo"), ("openmpi", "`MPI_Init`"),
                         ("torch", "`init_process_group`, Gloo")):
        row = [name]
        for ranks in (2, 64):
            # 64 processes of PyTorch want some 20 GB, 64 of Gloo 2016 connections.
            if ranks == 64 and client not in ("shm", "openmpi"):
                row.append("")
                continue
            times = clients.measure({client: rounds}, ranks, 0, [])
            row.append(text_of(next(iter(times.values()), None)))
        rows.append(row)
    print_table(["", "2 ranks", "64 ranks"], rows)


def installed(programs):
    """What `cmake --install --component sdk --strip` of the build tree around `programs` puts on a disk, and what a program then loads."""
    build = programs
    while not os.path.exists(os.path.join(build, "CMakeCache.txt")):
        build = os.path.dirname(build)
    print("### The installed SDK\n")
    rows = []
    with tempfile.TemporaryDirectory() as prefix:
        subprocess.run(["cmake", "--install", build, "--component", "sdk", "--prefix", prefix, "--strip"], check=True, capture_output=True)
        total = 0
        for folder, _, names in os.walk(prefix):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    continue
                total += os.path.getsize(path)
                if ".so" in name:
                    rows.append([f"`{name}`", f"{os.path.getsize(path) / 1024:.0f} KiB", ", ".join(needed(path))])
    rows.append(["everything, headers included", f"{total / 1024:.0f} KiB", ""])
    print_table(["file", "size", "needs (`readelf -d`)"], rows)


def needed(path):
    output = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
    return [f"`{line.split('[')[1].rstrip(']')}`" for line in output.splitlines() if "(NEEDED)" in line]
