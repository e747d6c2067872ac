#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs on three hosts, of which one process of ours is hit by a signal: which, when and how comes from the seed.

Whatever is drawn, the job ends in time, succeeds or names a culprit, and leaves nothing. Each run has a seed of its own, from the
first one upwards, so that what fell is repeated with --seed THAT --runs 1.
"""
import argparse
import os
import random
import re
import signal
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "e2e", "multi_node")]
from hosts import Unavailable  # noqa: E402
from multi_node import PATIENCE_S, Hosts, Job, check  # noqa: E402

WORK_S = 4
# Longer than a silence that counts as death, so that a stopped process is both forgiven and given up.
STOPPED_S = 12
# Work, once more after a restart, a process that is stopped meanwhile, a grace period; and a busy machine.
BOUND_S = 2 * WORK_S + STOPPED_S + 30 + PATIENCE_S
OURS = re.compile(r"muster|ssh$")
WORKERS = re.compile(r"bash|sleep")
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT,
           signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1)
# Whom to blame: a host, a rank, one of our processes or what the user did.
CULPRIT = re.compile(r"\bn0[0-2]\b|\brank \d|launcher|guardian|\bssh\b|interrupt|SIG[A-Z]+|signal \d")


class Draw:
    """All that is left to chance in one run."""

    def __init__(self, seed):
        chance = random.Random(seed)
        self.flags = chance.choice(([], ["--max-restarts", "1"]))
        # While it starts, or once all work.
        self.starting = chance.random() < 0.5
        self.after_s = chance.uniform(0, 2 if self.starting else WORK_S)
        self.host = chance.choice(("login", "n00", "n01", "n02"))
        self.pick = chance.random()
        self.number = chance.choice(SIGNALS)
        self.stopped_s = chance.uniform(0, STOPPED_S)

    def shown(self):
        return f"{' '.join(self.flags) or 'no flags'}; {self.number.name} on {self.host} " \
               f"{self.after_s:.2f} s after {'the start' if self.starting else 'all work'}"


def victim(hosts, draw):
    """One of the processes that are there now; the same one where the same are there."""
    there = [p for p in hosts.processes(draw.host) if OURS.match(p["comm"]) or WORKERS.match(p["comm"])]
    there.sort(key=lambda process: (process["comm"], process["pid"]))
    return there[int(draw.pick * len(there))] if there else None


def hit(hosts, process, draw, number):
    """It may have ended meanwhile."""
    hosts.run(draw.host, ["/bin/kill", f"-{int(number)}", str(process["pid"])], check=False)


def one_run(hosts, seed):
    draw = Draw(seed)
    begin = time.monotonic()
    job = Job(hosts, *draw.flags, worker=["bash", "-c", f"echo ready $RANK of $WORLD_SIZE; sleep {WORK_S}; exit 0"])
    if not draw.starting:
        job.ready(3)
    time.sleep(draw.after_s)
    process = victim(hosts, draw)
    while process is None and job.process.poll() is None:
        time.sleep(0.005)
        process = victim(hosts, draw)
    said = f"seed {seed}: {draw.shown()}: {process['comm'] if process else 'nobody is there'}"
    try:
        if process:
            hit(hosts, process, draw, draw.number)
            if draw.number == signal.SIGSTOP:
                time.sleep(draw.stopped_s)
                hit(hosts, process, draw, signal.SIGCONT)
        code = job.end(BOUND_S)
        # What is killed says nothing.
        silenced = code < 0
        check(process or code == 0, f"exit code {code}, and nobody was hit", job.shown())
        check(code == 0 or silenced or CULPRIT.search(job.err), f"exit code {code}, and nobody is named", job.shown())
        job.nothing_left(timeout=10 + PATIENCE_S, directories=True)
    except AssertionError as error:
        raise AssertionError(f"{said}\n{error}") from None
    print(f"ok {time.monotonic() - begin:5.1f} s  {said}: exit code {code}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of the first run; default: drawn")
    parser.add_argument("--runs", type=int, default=0, help="so many; default: as many as --seconds allow")
    parser.add_argument("--seconds", type=float, default=60, help="no run begins after that; default: %(default)s")
    arguments = parser.parse_args()
    print(f"random_faults.py --seed {arguments.seed}", flush=True)
    begin, runs, fell = time.monotonic(), 0, []
    while (runs < arguments.runs) if arguments.runs else (time.monotonic() - begin < arguments.seconds or runs == 0):
        try:
            with Hosts(3) as hosts:
                # New hosts now and then, and after what fell: it may have left something.
                for seed in range(arguments.seed + runs, arguments.seed + runs + 10):
                    if runs and (runs >= arguments.runs if arguments.runs else time.monotonic() - begin >= arguments.seconds):
                        break
                    runs += 1
                    one_run(hosts, seed)
        except Unavailable as error:
            print(f"skipped: {error}")
            return 77
        except AssertionError:
            fell.append(arguments.seed + runs - 1)
            print("FAILED", traceback.format_exc(), flush=True)
    print(f"{runs} runs, {len(fell)} fell" + "".join(f"\n  random_faults.py --seed {seed} --runs 1" for seed in fell))
    return 1 if fell else 0


if __name__ == "__main__":
    sys.exit(main())
