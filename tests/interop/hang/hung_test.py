#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs that hang: the first line names the rank that the others wait for, and no other, and where it stands.

usage: hung_test.py [2|4|8|hosts|default [NAME...]]    so many ranks here, 2 unless given; hosts: four on three hosts; default: 2 with the
default of --hang-timeout, all others with 5 s"""
import concurrent.futures
import re
import sys
import time
import traceback

from hosts import Hosts, need_hosts
import interop
from interop import check
from promise import CLOCK, kept
from watched_job import DONE, HUNG, Job, place_pattern

SCRIPT = "hung_programs.py"
TIMEOUT_S, DEFAULT_S = 5, 60
# From the last "ready" to the line, besides the time of --hang-timeout.
PROMISED_S, USUAL_S = 5, 0.7
# To wait for what comes in any case.
PATIENCE_S = 60
RANKS_AT_ONCE = 12
AT = "n00:1,n01:2,n02:1"  # rank 1 is on n01

# Of each program the level of the line ("is": it hangs for good; "may be": nothing tells whether), and what is said of the odd rank.
ODD = {
    "lock": ("is", "waits for a lock or an event"),
    "sleep": ("is", "sleeps"),
    "waiting_call": ("is", "sleeps"),
    "python_loop": ("may be", "computes, and nothing else of it moves"),
    "c_loop": ("may be", "computes, and nothing else of it moves"),
    "store_key": ("is", r"waits for the store's key '[^']*epcoh'.*which nobody has set; '[^']*epoch' exists"),
    "loader_worker": ("is", "waits for processes of its own, which stand still"),
    "stopped": ("is", "is stopped by a signal"),
    "silent_pipe": ("may be", "waits for a file, a pipe or a socket"),
}
# Of these the call that rank 0 waits for and that of rank 1. Where these are all ranks, both are named, for nothing tells which is
# right; where messages do not match, always. Else the others are with rank 0, and rank 1 is odd.
SIDES = {
    "skipped_collective": ("barrier", "all_reduce"),
    "other_collective": ("all_gather", "broadcast"),
    "other_tag": ("send", "recv"),
    "missing_in_group": ("new_group", "all_reduce"),
}
# For more than two ranks: a group of two of them.
PART = "missing_in_part"
# The ranks but for rank 1, by the number of all.
OTHERS = {2: "rank 0 waits", 4: "ranks 0, 2, 3 wait", 8: "ranks 0, 2-7 wait"}
# What takes processors while it hangs is started last.
NAMES = sorted([*ODD, *SIDES], key=lambda name: name.endswith("_loop"))


def rank_at(rank, name, kind):
    return rf"rank {rank} (?:on \S+ )?\({place_pattern(SCRIPT, f'{name}: {kind}')}\)"


def expected(name, ranks):
    """Patterns that the line has, all of them."""
    others = OTHERS[ranks]
    if name in ODD:
        level, deed = ODD[name]
        awaited = "other ranks" if name == "waiting_call" else "all_reduce"
        return [f"^muster: warning: \\S+: {rank_at(1, name, 'odd')} {level} hung: it {deed}", f"{others} for {awaited}"]
    if name == PART:
        return [f"^muster: warning: \\S+: {rank_at(1, name, 'odd')} is hung: it waits for all_reduce"]
    first, second = (rf"waits? for (?:the store's key '[^']*' in )?{call}\b" for call in SIDES[name])
    if ranks == 2 or name == "other_tag":
        rest = [] if ranks == 2 else [rf"; ranks 2(?:, 3|-{ranks - 1}) wait for all_reduce"]
        return [rf"^muster: warning: \S+: (?:ranks 0, 1 are hung: )?{rank_at(0, name, 'first')} .*{first}", rf"{rank_at(1, name, 'second')} .*{second}",
                *rest]
    return [rf"^muster: warning: \S+: {rank_at(1, name, 'odd')} is hung: it {second}", f"{others.rsplit(' ', 1)[0]} {first}"]


def run_once(name, ranks, timeout_s, hosts):
    """Returns the seconds from "ready" to the line."""
    flags = [] if timeout_s == DEFAULT_S else ["--hang-timeout", str(timeout_s)]
    with Job(SCRIPT, [name], *flags, ranks=ranks, hosts=hosts, at=AT if hosts else None) as job:
        ready = job.ready()
        told = job.wait_for(HUNG, timeout_s + PATIENCE_S)
        check(told, f"{name}: nothing is called hung", job.shown())
        took, line = told[0][0] - ready, told[0][1]
        print(f"{name}, {ranks} ranks{' on three hosts' if hosts else ''}: {took:.1f} s: {line}", flush=True)
        for pattern in expected(name, ranks):
            check(re.search(pattern, line), f"{name}: the line does not have '{pattern}'", job.shown())
        accused = len(re.findall(r"\b(?:is|are|may be) hung\b", line))
        check(name not in ODD or accused == 1, f"{name}: others are accused, too", job.shown())
        check(not hosts or "rank 1 on n01 " in line, f"{name}: the host of rank 1 is not named", job.shown())
        check(not job.found(DONE), f"{name}: it did not hang", job.shown())
    return took


def run_all(names, ranks, timeout_s=TIMEOUT_S, hosts=None):
    fallen, took = [], []
    with concurrent.futures.ThreadPoolExecutor(max(1, RANKS_AT_ONCE // ranks)) as pool:
        jobs = {name: pool.submit(run_once, name, ranks, timeout_s, hosts) for name in names}
    for name, job in jobs.items():
        try:
            took.append(job.result())
        except AssertionError:
            fallen.append(name)
            traceback.print_exc(file=sys.stdout)
    check(not fallen, f"{len(fallen)} of {len(names)} fell: {', '.join(fallen)}")
    kept(f"a hung program of {ranks} ranks is named", PROMISED_S, took, clock=timeout_s, usual=USUAL_S, one_try=CLOCK)


def main():
    interop.need_torch()
    where = sys.argv[1] if len(sys.argv) > 1 else "2"
    ranks = {"hosts": 4, "default": 2}.get(where) or int(where)
    names = sys.argv[2:] or [*NAMES, *([PART] if ranks > 2 else [])]
    begin = time.monotonic()
    if where == "hosts":
        need_hosts()
        with Hosts(3) as hosts:
            run_all(names, ranks, hosts=hosts)
    else:
        run_all(names, ranks, DEFAULT_S if where == "default" else TIMEOUT_S)
    print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
