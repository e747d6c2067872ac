#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every process of ours, killed, stopped or cut off, in every phase of a job, on one host and on three: nothing is left in the promised
time, the job has one end and one code, and the message names the host and what happened.

usage: loss_table_test.py [--cases N] [--seed S] [--all] [--parallel P]    draws N cases; --all: the whole table, in an order of that seed
       loss_table_test.py CASE                                             one case, as such a run has printed it"""
import argparse
import itertools
import random
import re
import signal
import sys
import time
import traceback
from typing import NamedTuple

from multi_node import AGENT, GUARDIAN, STORE, Hosts, Job, check, need_hosts
from processes import wait_until
from promise import PATIENCE_S, promised
from side_by_side import run_side_by_side

LOGIN, FIRST, SECOND, LAST = "login", "n00", "n01", "n02"
HOLD, GO = "/tmp/muster-test-hold", "/tmp/muster-test-go"
GRACE_S = 1
JOIN_S = 12
LOGIN_S = 15
# Until it is told to end; what it has left ignores SIGTERM, so that the end of a round takes the grace.
WORKER = ["dash", "-c", "echo ready $RANK of $WORLD_SIZE in round $TORCHELASTIC_RESTART_COUNT on $(hostname); "
          f"until [ -e {GO} ]; do sleep 0.05; done; [ $WORLD_SIZE != 1 ] || {{ trap '' TERM; sleep 1000 >&- 2>&- & }}; "
          "echo done $RANK of $WORLD_SIZE in round $TORCHELASTIC_RESTART_COUNT"]
SSH = f"""#!/bin/sh
case "$*" in *\\ {LAST}\\ *) until [ ! -e {HOLD} ]; do sleep 0.05; done;; esac
exec /usr/bin/ssh "$@"
"""


class Case(NamedTuple):
    process: str  # what is struck; of ssh the client for `node`
    node: str     # where it is; "" of the launcher
    strike: str   # killed, stopped, or cut: its host is cut off from all others
    phase: str
    hosts: int
    size: str     # fixed or elastic
    inside: bool  # the launcher is on the first node

    def __str__(self):
        return "/".join([self.process, self.node or "-", self.strike, self.phase, str(self.hosts), self.size,
                         "inside" if self.inside else "outside"])

    @classmethod
    def read(cls, text):
        process, node, strike, phase, hosts, size, place = text.split("/")
        return cls(process, "" if node == "-" else node, strike, phase, int(hosts), size, place == "inside")

    @property
    def launcher_host(self):
        return FIRST if self.inside else LOGIN

    @property
    def struck_host(self):
        return self.launcher_host if self.process in ("launcher", "ssh") else self.node


# The last host has not answered; it runs, and does not reach the coordinator, which the others have joined; workers run; the work of the
# node that is struck is done.
PHASES = ("login", "started", "joined", "running", "ending")


def exists(case):
    """Whether there is such a process then, and whether it matters which."""
    last = SECOND if case.hosts == 3 and case.phase in ("login", "joined") else LAST if case.hosts == 3 else FIRST
    alone = case.hosts == 1 and case.inside
    if alone and (case.phase not in ("running", "ending") or case.strike == "cut"):
        return False  # all of it begins in one instant, and nothing leads to another host
    if case.hosts == 1 and (case.size == "elastic" or case.phase == "login"):
        return False
    if case.process == "ssh":
        return case.node == last and not alone and case.strike != "cut"
    if case.process == "agent" and case.phase == "login" and case.node == FIRST:
        return False  # its guardian waits for the others
    if case.process == "store":
        return case.node == FIRST and case.phase != "login" and case.strike != "cut"
    if case.process == "launcher":
        return case.node == ""
    return case.node in (FIRST, last) and (case.strike != "cut" or case.process == "agent" and not (case.inside and case.node == FIRST))


TABLE = [case for case in (Case(*row) for row in itertools.product(
    ("launcher", "guardian", "agent", "store", "ssh"), ("", FIRST, SECOND, LAST), ("killed", "stopped", "cut"), PHASES, (1, 3),
    ("fixed", "elastic"), (False, True))) if exists(case)]


class Run:
    """One case."""

    def __init__(self, case, hosts):
        self.case, self.hosts = case, hosts
        self.names = hosts.names[:case.hosts]
        alone = case.hosts == 1 and case.inside
        self.held = None
        hosts.write(case.launcher_host, "/tmp/muster-test-ssh/ssh", SSH, 0o755)
        if case.phase == "login":
            hosts.write(case.launcher_host, HOLD, "")
        if case.phase in ("started", "joined") and case.hosts == 3:
            last, first = hosts.hosts[LAST].ipv4, hosts.hosts[FIRST].ipv4
            # It cannot dial the coordinator; what ssh carries passes.
            self.held = hosts.fault([f"ip saddr {last} ip daddr {first} tcp flags & (syn | ack) == syn drop"])
        # The end of a round on one host is as long as the grace of what its worker has left.
        self.grace = 3 * GRACE_S if case.hosts == 1 and case.phase == "ending" else GRACE_S
        flags = ["--shutdown-timeout", str(self.grace)]
        if not alone:
            flags += ["-H", ",".join(self.names), "--ssh-command", "/tmp/muster-test-ssh/ssh", "--login-timeout", str(LOGIN_S),
                      "--rdzv-conf", f"join_timeout={JOIN_S},last_call_timeout=2"]
        if case.size == "elastic":
            flags += ["--nnodes", f"2:{case.hosts}"]
        self.job = Job(hosts, *flags, on=case.launcher_host, worker=WORKER, at=None if not alone else "", patient=False)

    def ready(self):
        """Waits for the phase."""
        case, job = self.case, self.job
        if case.phase == "login":
            wait_until(lambda: job.pids(FIRST, GUARDIAN) and job.pids(SECOND, AGENT), "the nodes that answer")
        elif case.phase in ("started", "joined"):
            wait_until(lambda: all(job.pids(name, AGENT) for name in self.names), "the agents")
            if case.hosts == 3:
                wait_until(self.second_is_connected, "the coordinator's clients")
        else:
            job.ready(case.hosts)
        if case.phase == "ending":
            self.let_go(case.struck_host if case.struck_host in self.names else FIRST)
            job.wait_for(r"done \d+ of")

    def second_is_connected(self):
        first = self.hosts.hosts[FIRST].ipv4
        return any(s["peer"] == first and s["peer_port"] != 22 and s["port"] != 22 and s["state"] == "01" for s in self.hosts.sockets(SECOND))

    def let_go(self, *names):
        for name in names:
            if self.hosts.hosts[name].pid is not None:
                self.hosts.write(name, GO, "")

    def release(self):
        """What holds the phase, and the workers."""
        if self.case.phase == "login":
            self.hosts.run(self.case.launcher_host, ["rm", "-f", HOLD])
        if self.held:
            self.held.close()
        self.let_go(*self.names)

    def pid(self):
        """The host and the pid there of what is struck; 0: it has ended."""
        case, job = self.case, self.job
        names = {"guardian": GUARDIAN, "agent": AGENT, "store": STORE}
        if case.process in names:
            return case.node, min(job.pids(case.node, names[case.process]), default=0)
        if case.process == "ssh":
            clients = [p["pid"] for p in self.hosts.processes(case.launcher_host)
                       if p["comm"] == "ssh" and f" {case.node} " in f"{p['command']} "]
            return case.launcher_host, min(clients, default=0)
        mine = [p["pid"] for p in self.hosts.processes(case.launcher_host) if p["comm"] == "muster" and " run " in p["command"]]
        return case.launcher_host, min(mine, default=0)

    def strike(self):
        """Returns the moment, and what takes it back; None for that: there was nobody any more."""
        if self.case.strike == "cut":
            return time.monotonic(), self.hosts.silence(self.case.struck_host).close
        host, pid = self.pid()
        begin = time.monotonic()
        number = signal.SIGKILL if self.case.strike == "killed" else signal.SIGSTOP
        if not pid or self.hosts.run(host, ["/bin/kill", f"-{int(number)}", str(pid)], check=False).returncode != 0:
            return begin, None
        return begin, lambda: self.hosts.run(host, ["/bin/kill", "-CONT", str(pid)], check=False)


# -- what is promised ----------------------------------------------------------------------------------------------------------------

PROMISES = {
    "killed": promised("node-agent-killed"),
    "stopped": promised("node-agent-stopped"),
    "cut": promised("host-cut-off"),
    "cut, and ours are gone": promised("host-cut-off", "ours"),
    "node 0 cut": promised("node-0-vanishes"),
    "node 0 of an elastic job": promised("node-0-of-elastic"),
    "launcher killed": promised("launcher-of-many-hosts-killed"),
    "launcher not heard": promised("launcher-host-vanishes"),
    "without ssh": promised("ssh-cut", "at_the_end"),
    "ssh stopped": promised("ssh-stopped", "killed"),
    "first guardian stopped": promised("first-guardian-stopped"),
}


def limit(name, more=0.0):
    """The seconds that one try may take on a machine that is busy with other cases and tests. The grace may be used up once on every way to the end."""
    promise = PROMISES[name]
    return promise["clock"] + max(9 * promise["seconds"], 4.0) + 3 * GRACE_S + more


def is_open(case):
    """Whether the coordinator knows the node when its ssh goes, and whether the end of a round lets a process go on before it is taken for
    dead, is a matter of milliseconds."""
    ends = case.strike == "stopped" and case.hosts == 1 and case.phase == "ending"
    return ends or case.process == "ssh" and case.phase == "started"


def first_guardian_stopped(case):
    """It waits for its orders, and has no agent that could see it."""
    return (case.process, case.node, case.strike, case.phase) == ("guardian", FIRST, "stopped", "login")


def goes_on(case):
    """Whether the job can do without what is struck."""
    alone = case.hosts == 1 and case.inside
    if case.process == "ssh":
        return case.phase != "login" or case.size == "elastic"
    if first_guardian_stopped(case):
        return False
    if case.strike == "stopped" and (case.process == "guardian" or alone):
        return True
    return case.size == "elastic" and case.node in (SECOND, LAST)


def seconds_to_the_end(case):
    """Of a job that cannot go on."""
    if case.strike == "cut":
        return max(limit("node 0 cut"), limit("cut"))
    if case.process == "ssh":
        return limit("ssh stopped" if case.strike == "stopped" else "killed")
    if first_guardian_stopped(case):
        return limit("first guardian stopped")
    return limit("node 0 of an elastic job" if case.size == "elastic" and case.strike == "killed" else case.strike)


WHAT = re.compile(r"killed|stopped|lost|silent|is gone|no answer|not answer|not start|Timeout|SIGTERM|connection|ended")


def expect_empty(hosts, names, since, seconds, job):
    left = hosts.leftovers(names, timeout=max(0.0, since + seconds - time.monotonic()))
    check(not left, f"left behind {time.monotonic() - since:.1f} s after that: {left}", job.shown())


def expect_end(run, since, seconds, codes):
    """One end in time, with one true code and a message that says what happened to whom."""
    case, job = run.case, run.job
    code = job.end(max(1.0, since + seconds - time.monotonic()))
    check(code in codes, f"exit code {code}, not one of {codes}", job.shown())
    began = re.findall(r"ready \d+ of (\d+ in round \d+)", job.out)
    done = set(re.findall(rf"done (\d+) of {began[-1]}\n", job.out)) if began else ()
    whole = bool(began) and len(done) == int(began[-1].split()[0])
    if code == 0:
        # Of a node that the launcher has just given up no output comes, though it may be done in that instant.
        check(whole or is_open(case), "success, though not every rank of the last round is done", job.shown())
    else:
        check(not whole or case.phase == "ending", "a failure, though every rank of the last round is done", job.shown())
        alone = case.hosts == 1 and case.inside
        check((alone or re.search(r"\bn0\d\b|launcher", job.err)) and WHAT.search(job.err), "nothing says what happened where", job.shown())
        check(len(re.findall(r"(?m)^muster: error: ", job.err)) == 1, "not one end is told", job.shown())
    return code


def launcher_is_struck(run, since, undo):
    case, hosts, job = run.case, run.hosts, run.job
    if case.strike == "killed":
        job.process.wait()
        return expect_empty(hosts, None, since, limit("launcher killed", 3), job)
    others = [name for name in run.names if name != case.launcher_host]
    expect_empty(hosts, others, since, limit("launcher not heard"), job)
    if case.strike == "stopped":
        undo()
        expect_empty(hosts, run.names, time.monotonic(), limit("killed"), job)
        since = time.monotonic()
    # All work was done where one host had nothing left but to say so.
    codes = (0, 125) if case.phase == "ending" and case.hosts == 1 else (125,)
    return expect_end(run, since, limit("without ssh", LOGIN_S), codes)


def one(case):
    with Hosts(case.hosts) as hosts:
        run = Run(case, hosts)
        run.ready()
        alone = case.hosts == 1 and case.inside
        since, undo = run.strike()
        if undo is None:
            check(case.phase == "ending", "there is no such process", run.job.shown())
            run.release()
            expect_end(run, since, limit("killed"), (0,))
        elif case.process == "launcher" and not (alone and case.strike == "stopped"):
            launcher_is_struck(run, since, undo)
        elif case.process == "launcher":
            run.release()
            undo()
            expect_end(run, since, limit("killed"), (0,))
        elif goes_on(case):
            run.release()
            if alone:  # nobody takes it for dead there
                undo()
            # A round that has begun without the node, and the one that it is in until it counts as lost.
            seconds = limit("without ssh") if case.process == "ssh" else limit("cut", JOIN_S)
            expect_end(run, since, seconds, (0, 125) if is_open(case) else (0,))
        else:
            if first_guardian_stopped(case):
                run.release()
            expect_end(run, since, seconds_to_the_end(case), (0, 125) if is_open(case) else (125,))
            if case.strike == "stopped":
                undo()
        names = [name for name in hosts.hosts if name != case.struck_host] if case.strike == "cut" else None
        # An agent that has neither launcher nor coordinator gives both 3 s to come back, and its guardian 5 s.
        expect_empty(hosts, names, time.monotonic(), 7 + GRACE_S, run.job)
        if case.strike == "cut":
            expect_empty(hosts, [case.struck_host], since, limit("cut, and ours are gone"), run.job)
            undo()
        print(f"{case}: exit code {run.job.process.returncode} after {time.monotonic() - since:.1f} s")


# -- which ---------------------------------------------------------------------------------------------------------------------------

SLOW_OF_TEN = 3


def is_slow(case):
    """It waits for a silence."""
    return case.strike == "cut" or case.strike == "stopped" and case.process in ("launcher", "ssh")


def draw(seed, count):
    """So many cases, of which a part that is always the same waits for a silence; those first, so that others fill the gaps."""
    chance = random.Random(seed)
    slow, quick = [[case for case in TABLE if is_slow(case) == wanted] for wanted in (True, False)]
    for cases in (slow, quick):
        chance.shuffle(cases)
    if not count:
        return chance.sample(TABLE, len(TABLE))
    return slow[:count * SLOW_OF_TEN // 10] + quick[:count - count * SLOW_OF_TEN // 10]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="?")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--parallel", type=int, default=6)
    arguments = parser.parse_args()
    if arguments.case:
        try:
            one(Case.read(arguments.case))
        except AssertionError:
            traceback.print_exc()
            sys.exit(1)
        return
    need_hosts()
    cases = draw(arguments.seed, 0 if arguments.all else arguments.cases)
    print(f"loss_table_test.py {'--all ' if arguments.all else f'--cases {arguments.cases} '}--seed {arguments.seed}: "
          f"{len(cases)} of {len(TABLE)} cases", flush=True)
    run_side_by_side([str(case) for case in cases], arguments.parallel, 2 * PATIENCE_S)


if __name__ == "__main__":
    main()
