# SPDX-License-Identifier: Apache-2.0
"""Measured times as Markdown, and whether they reach the goals."""

KIB, MIB = 1 << 10, 1 << 20
RESNET18 = 4 * 11_173_962  # bytes of float gradients of ResNet-18 for CIFAR-10
SIZES = (4, 64, KIB, 4 * KIB, 64 * KIB, MIB, 25 * MIB, RESNET18)
SIZE_NAMES = {4: "4 B", 64: "64 B", KIB: "1 KiB", 4 * KIB: "4 KiB", 64 * KIB: "64 KiB", MIB: "1 MiB", 4 * MIB: "4 MiB",
              25 * MIB: "25 MiB", RESNET18: "44.7 MB", 0: ""}
ROWS = {"shm-allocated": "shm, `muster_alloc`", "shm": "shm, any memory", "our-gloo": "our gloo",
        "hierarchical": "hierarchical", "our-mpi": "our mpi", "gloo": "Gloo", "openmpi": "Open MPI", "torch": "PyTorch"}
ALGORITHMS = {"our-gloo": "direct", "gloo-ring": "ring", "gloo-tree": "tree", "gloo": "Gloo's ring"}
ALGORITHM_SIZES = (64 * KIB, MIB, 25 * MIB, RESNET18)
OTHERS = (("broadcast", KIB), ("broadcast", 4 * MIB), ("all_gather", KIB), ("all_gather", 4 * MIB), ("reduce_scatter", KIB),
          ("reduce_scatter", 4 * MIB), ("all_to_all", KIB), ("all_to_all", 4 * MIB), ("barrier", 0), ("ping_pong", KIB),
          ("ping_pong", 4 * MIB))


def text_of(microseconds):
    if microseconds is None:
        return ""
    if microseconds >= 10_000:
        return f"{microseconds / 1000:.1f} ms"
    return f"{microseconds / 1000:.2f} ms" if microseconds >= 1000 else f"{microseconds:.2f} µs"


def ratio(times, row, peer, op, size):
    ours, theirs = times.get((row, op, size)), times.get((peer, op, size))
    return None if ours is None or theirs is None else ours / theirs


def ratio_text(value):
    return "" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def print_table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def print_all_reduce(ranks, times):
    present = [row for row in ROWS if any(key[0] == row for key in times)]
    peers = [row for row in ("gloo", "openmpi", "torch") if row in present]
    print(f"### all_reduce, {ranks} ranks\n")
    print_table(["buffer", *(ROWS[row] for row in present), *(f"shm, any / {ROWS[peer]}" for peer in peers)],
                [[SIZE_NAMES[size], *(text_of(times.get((row, "all_reduce", size))) for row in present),
                  *(ratio_text(ratio(times, "shm", peer, "all_reduce", size)) for peer in peers)] for size in SIZES])


def print_parts(ranks, times):
    sizes = [size for size in SIZES if ("inside", "all_reduce", size) in times and ("between", "all_reduce", size) in times]
    if not sizes:
        return
    print(f"### hierarchical and its parts, {ranks} ranks as if on two hosts\n")
    print_table(["buffer", "hierarchical", f"shm inside both hosts ({ranks // 2} ranks each)", "gloo between (2 ranks)",
                 "hierarchical / slower part", "hierarchical / both parts"],
                [[SIZE_NAMES[size], *(text_of(times.get((row, "all_reduce", size))) for row in ("hierarchical", "inside", "between")),
                  ratio_text(against_parts(times, size)), ratio_text(against_parts(times, size, sum))] for size in sizes])


def against_parts(times, size, together=max):
    """Where parts share cores they cannot overlap, and their sum is what to expect."""
    parts = [times.get((row, "all_reduce", size)) for row in ("inside", "between")]
    whole = times.get(("hierarchical", "all_reduce", size))
    return None if whole is None or None in parts else whole / together(parts)


def print_algorithms(by_ranks):
    """Times of each MUSTER_ALGORITHM over Gloo, and what it takes: processor time of all ranks, and what rank 0 sends."""
    print("### all_reduce over our gloo by `MUSTER_ALGORITHM`, beside Gloo's ring\n")
    print("Processor time is that of a call on all ranks together. Messages and bytes are what rank 0 sends, counted in one call: the "
          "root of the tree, which sends most there.\n")
    rows = []
    for ranks, times in by_ranks.items():
        for size in ALGORITHM_SIZES:
            for client, name in ALGORITHMS.items():
                value = times.get((client, "all_reduce", size))
                if value is None:
                    continue
                processor = times.get((client, "all_reduce.processor", size))
                messages, sent = (times.get((client, f"all_reduce.{what}", size)) for what in ("messages", "sent"))
                rows.append([str(ranks), SIZE_NAMES[size], name, text_of(value),
                             ratio_text(ratio(times, client, "gloo", "all_reduce", size)), text_of(processor),
                             "" if messages is None else f"{messages:.0f}", "" if sent is None else f"{sent / 1e6:.2f} MB"])
    print_table(["ranks", "buffer", "algorithm", "time", "/ Gloo's ring", "processor time", "messages", "sent"], rows)


def compare_algorithms(goals, by_ranks):
    for ranks, times in by_ranks.items():
        if ranks > 2:
            goals.at_most(f"{ranks} ranks, our gloo as it is by default, from 25 MiB on: no slower than Gloo's ring",
                          {SIZE_NAMES[size]: ratio(times, "our-gloo", "gloo", "all_reduce", size) for size in (25 * MIB, RESNET18)}, 1)


def print_others(times):
    print("### Other calls, 2 ranks\n")
    print_table(["call", "bytes", ROWS["shm-allocated"], ROWS["shm"], ROWS["openmpi"], "shm, any / Open MPI"],
                [[op, SIZE_NAMES[size], *(text_of(times.get((row, op, size))) for row in ("shm-allocated", "shm", "openmpi")),
                  ratio_text(ratio(times, "shm", "openmpi", op, size))] for op, size in OTHERS])


class Goals:
    """What was wanted, what came out, and whether that is enough."""

    def __init__(self):
        self.rows = []

    def at_most(self, text, values, limit):
        """values: {what was compared: ratio or None}."""
        self.add(text, values, lambda value: value <= limit)

    def at_least(self, text, values, limit):
        self.add(text, values, lambda value: value >= limit)

    def add(self, text, values, is_met):
        known = {name: value for name, value in values.items() if value is not None}
        if not known:
            self.rows.append([text, "not measured", ""])
            return
        measured = ", ".join(f"{name}: {ratio_text(value)}" if name else ratio_text(value) for name, value in known.items())
        self.rows.append([text, measured, "met" if all(is_met(value) for value in known.values()) else "**missed**"])

    def print(self):
        print("### Goals\n")
        print_table(["goal", "measured", ""], self.rows)


def compare_all_reduce(goals, by_ranks):
    """The goals for all_reduce. by_ranks: {ranks: times}."""
    two, eight = by_ranks.get(2, {}), by_ranks.get(8, {})
    large, small = (25 * MIB, RESNET18), SIZES[:5]

    def against(times, row, peer, sizes):
        return {SIZE_NAMES[size]: ratio(times, row, peer, "all_reduce", size) for size in sizes}

    goals.at_most("2 ranks, memory of `muster_alloc`: at most 1/4 of Gloo's time", against(two, "shm-allocated", "gloo", large), 1 / 4)
    goals.at_most("2 ranks, any memory: at most 1/3 of Gloo's time", against(two, "shm", "gloo", large), 1 / 3)
    goals.at_most("2 ranks, memory of `muster_alloc`: at most 1/3 of Open MPI's time",
                  against(two, "shm-allocated", "openmpi", large), 1 / 3)
    goals.at_most("2 ranks, any memory: at most 1/3 of Open MPI's time", against(two, "shm", "openmpi", large), 1 / 3)
    goals.at_most("2 ranks, any memory, small: no slower than Open MPI", against(two, "shm", "openmpi", small), 1)
    goals.at_most("8 ranks, any memory, 4 KiB: at most half of Open MPI's time", against(eight, "shm", "openmpi", (4 * KIB,)), 1 / 2)
    for ranks, times in by_ranks.items():
        goals.at_most(f"{ranks} ranks, our gloo from 1 MiB up: within 5 % of Gloo", against(times, "our-gloo", "gloo", SIZES[5:]), 1.05)
    goals.at_most("2 ranks, our gloo below 1 MiB: at most 2.2 times Gloo", against(two, "our-gloo", "gloo", small), 2.2)
    for ranks, times in by_ranks.items():
        if ranks > 2:
            goals.at_most(f"{ranks} ranks, hierarchical: no slower than its slower part plus 10 %",
                          {SIZE_NAMES[size]: against_parts(times, size) for size in SIZES}, 1.1)
