#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures collectives beside Gloo, Open MPI and PyTorch, and what belongs to them. Prints Markdown.

usage: run.py --bin DIR [--torch-python FILE] [--rounds N] [--budget MS] [--only SECTION...]
"""
import argparse
import os
import time

import facts
import tables
from clients import Clients

SECTIONS = ("all_reduce", "algorithms", "others", "cost", "kernels", "start", "installed")


def measure_all_reduce(clients, ranks, rounds, budget):
    cases = [("all_reduce", size) for size in tables.SIZES]
    wanted = {client: rounds for client in ("shm", "our-gloo", "our-mpi", "gloo", "openmpi")}
    # Eight interpreters on two cores need ten seconds to start; one round says enough.
    wanted["torch"] = rounds if ranks == 2 else 1
    if ranks > 2:
        wanted.update(hierarchical=rounds, inside=rounds, between=rounds)
    times = clients.measure(wanted, ranks, budget, cases)
    tables.print_all_reduce(ranks, times)
    tables.print_parts(ranks, times)
    return times


def measure_algorithms(clients, ranks, rounds, budget):
    cases = [("all_reduce", size) for size in tables.ALGORITHM_SIZES]
    return clients.measure({client: rounds for client in tables.ALGORITHMS}, ranks, budget, cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True, help="folder of the built programs")
    parser.add_argument("--torch-python", help="interpreter with PyTorch")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each client (default: 3)")
    parser.add_argument("--budget", type=float, default=80, help="milliseconds for one size in one turn (default: 80)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8], help="of all_reduce (default: 2 4 8)")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    arguments = parser.parse_args()
    begin = time.monotonic()
    clients = Clients(arguments.bin, arguments.torch_python)
    goals = tables.Goals()
    print(f"{os.cpu_count()} cores, all ranks on this machine, f32 sum in place. Every client runs up to {arguments.rounds} times, in "
          "turn with the others; a figure is the median over the runs of the median time of one call on rank 0. Buffers of 1 MiB and "
          "more are written anew before each call. Open MPI chooses its algorithm; Gloo is Debian's, ring, over TCP on the loopback "
          "device, started by `muster run` as ours are; PyTorch uses its own Gloo. `shm`, `our gloo`, `hierarchical` (as if on two "
          "hosts) and `our mpi` are Muster's backends, called through `muster.h`.\n")
    if "all_reduce" in arguments.only:
        by_ranks = {ranks: measure_all_reduce(clients, ranks, arguments.rounds, arguments.budget) for ranks in arguments.ranks}
        tables.compare_all_reduce(goals, by_ranks)
    if "algorithms" in arguments.only:
        by_ranks = {ranks: measure_algorithms(clients, ranks, arguments.rounds, arguments.budget) for ranks in arguments.ranks}
        tables.print_algorithms(by_ranks)
        tables.compare_algorithms(goals, by_ranks)
    if "others" in arguments.only:
        tables.print_others(clients.measure({"shm": arguments.rounds, "openmpi": arguments.rounds}, 2, arguments.budget, tables.OTHERS))
    if "cost" in arguments.only:
        facts.call_cost(clients.program("call_cost"), goals)
    if "kernels" in arguments.only:
        facts.kernels(clients.program("reduce_kernels"), goals)
    if "start" in arguments.only:
        facts.start(clients, arguments.rounds)
    if "installed" in arguments.only:
        facts.installed(os.path.abspath(arguments.bin))
    goals.print()
    print(f"Measured in {time.monotonic() - begin:.0f} s.")


if __name__ == "__main__":
    main()
