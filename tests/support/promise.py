# SPDX-License-Identifier: Apache-2.0
"""Times that docs/ and README promise, held to in tests.

    promise("n01's agent is killed: the job has ended", 0.1, once, usual=0.02)     # once() returns the seconds it took

What docs/failures.md promises is taken from where the page has it, tests/failures.toml:

    promise("n01's agent is killed: the job has ended", once=once, **promised("node-agent-killed", usual=0.02))

A promise is judged by the median of several tries: a machine that does other things, too, may hold up one of them. The median
may be 3 times what is promised (10 times under a sanitizer), on a machine as fast as the one whose figures stand in
promise_rule.json: how long an idle one takes to start a process and wait for its end, and to send a word to another process and
get it back. On one that is slower, or busy, as much more as these take there between the tries; never less, and at most 3 times.
So a time may come late by an accident, but what takes ten times what is promised passes on no machine, however busy.

Where far more is promised than it takes, `usual` says what it takes, in the tree where it is tested: then the median may be 7.5 times
that, so that what has become ten times slower is seen although the promise is still kept. And no single try, however the middle one is,
may take 3 times the median's bound and more than 1 s: what hangs in one case out of three is a defect.

How long to wait for what must happen at all is another question: PATIENCE_S. Waiting long costs nothing while all is well.
"""
import functools
import json
import os
import statistics
import subprocess
import sys
import time
import tomllib

import interop

# To wait for what comes soon if it comes. Nothing is judged by it.
PATIENCE_S = 60
HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "promise_rule.json"), encoding="utf-8") as rule:
    RULE = json.load(rule)
SLACK = RULE["slack_sanitized" if interop.sanitized() else "slack"]
MOST_FACTOR = RULE["most_factor"]
TIMES_USUAL = RULE["times_usual"]
ONE_TRY_TIMES, ONE_TRY_S = RULE["one_try_times"], RULE["one_try_s"]
REFERENCE_S = {name: RULE[f"{name}_s"] for name in ("spawn", "message")}


class Yardstick:
    """How many times slower this machine is now than the reference. It is looked at often, between what is measured."""

    def __init__(self):
        self.seconds = {name: [] for name in REFERENCE_S}

    def look(self, spawns=10, messages=100):
        for _ in range(spawns):
            begin = time.monotonic()
            os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
            self.seconds["spawn"].append(time.monotonic() - begin)
        with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as other:
            for _ in range(messages + 1):
                begin = time.monotonic()
                other.stdin.write(b"word")
                other.stdout.read(4)
                self.seconds["message"].append(time.monotonic() - begin)
            other.stdin.close()
        del self.seconds["message"][-messages - 1]  # that waited for the other to start

    def factor(self):
        """From 1, that of the reference or any faster machine, to MOST_FACTOR."""
        slowest = max(usual(seconds) / REFERENCE_S[name] for name, seconds in self.seconds.items())
        return min(max(slowest, 1.0), MOST_FACTOR)


def usual(seconds):
    """The mean without the slowest tenth: other than the median it sees how long one waits for a processor that others use."""
    kept = sorted(seconds)[:max(1, len(seconds) * 9 // 10)]
    return sum(kept) / len(kept)


@functools.cache
def failures():
    """The records of tests/failures.toml, by their ids."""
    with open(os.path.join(HERE, "..", "failures.toml"), "rb") as file:
        return {record["id"]: record for record in tomllib.load(file)["failure"]}


def promised(failure, bound="ended", clock=0.0, usual=None):
    """What docs/failures.md promises of a failure, as arguments of promise() and kept(). `clock` is what a timer takes that the test
    has chosen, as the grace; it is added to that of the page. scripts/failures_page.py looks for both names as they are written in
    the call."""
    found = failures()[failure]["bounds"][bound]
    return {"seconds": found["seconds"], "clock": found.get("clock", 0.0) + clock, "usual": usual}


def promise(name, seconds, once, tries=3, clock=0.0, usual=None):
    """Calls `once`, which returns how many seconds it took, `tries` times, and raises AssertionError ("too late: ...") if the middle
    one is beyond the bound: `clock` + the machine's factor x SLACK x `seconds`, or x TIMES_USUAL x `usual` if that is less; or if
    any is beyond the limit of one try. Returns the middle one.

    `clock` is what a timer of ours takes in any case, as a grace period or the time of silence after which a node is lost; it is
    part of what is measured, and no slow machine makes it longer. All is printed, and written to $MUSTER_TEST_PROMISES as a line of JSON if that names a file."""
    yardstick, took = Yardstick(), []
    for _ in range(tries):
        yardstick.look()
        took.append(once())
    yardstick.look()
    return judge(name, seconds, took, yardstick.factor(), clock, usual)


# Why one try may be enough.
CLOCK = "seconds of a timer of ours, not of work, lie in it: a repetition would cost as much again, and an accident of the machine is small beside it"


def kept(name, seconds, took, clock=0.0, usual=None, one_try=""):
    """The same for what was measured elsewhere: `took` are the figures of three tries or more; `one_try` says why fewer are enough."""
    if len(took) < 3 and not one_try:
        raise TypeError(f"{name}: {len(took)} tries; judge the median of three, or say with one_try why that is enough")
    yardstick = Yardstick()
    yardstick.look()
    return judge(name, seconds, took, yardstick.factor(), clock, usual)


def kept_beside_others(name, seconds, measure, clock=0.0, usual=None):
    """The same in a test that runs beside others (one without the label timed, which would be run once more). `measure` returns the figures of
    three tries or more. If they are late, it measures twice more, and all but the longest try are judged: what the others do holds up one
    try, a defect more."""
    took = measure()
    try:
        return kept(name, seconds, took, clock, usual)
    except AssertionError:
        return kept(name, seconds, sorted([*took, *measure(), *measure()])[:-1], clock, usual)


def judge(name, seconds, took, factor, clock, usual=None):
    median = statistics.median(took)
    may_take = factor * (SLACK * seconds if usual is None else min(SLACK * seconds, TIMES_USUAL * usual))
    bound, limit = clock + may_take, clock + max(ONE_TRY_TIMES * may_take, ONE_TRY_S)
    said = (f"{name}: {median:.3f} s of {', '.join(f'{one:.3f}' for one in took)}; promised {clock + seconds:g} s"
            f"{'' if usual is None else f', usual {clock + usual:g} s'}, bound {bound:.3f} s, of one try {limit:.3f} s "
            f"(machine {factor:.2f} times as slow as the reference)")
    print(said, flush=True)
    write_down({"suite": suite(), "name": name, "promise": clock + seconds, "median": median, "tries": len(took), "bound": bound,
                "worst": max(took), "limit": limit, "factor": factor})
    if median > bound or max(took) > limit:
        raise AssertionError(f"too late: {said}")
    return median


def in_time(judged, tries=3):
    """For tests that run beside others, which may hold up all tries of a promise: what comes too late in `judged` is done again, and has
    to come in time then."""
    for left in reversed(range(tries)):
        try:
            return judged()
        except AssertionError as error:
            if left == 0 or not str(error).startswith("too late"):
                raise
    raise ValueError("no try")


def suite():
    """Folder and name of the test program, with its arguments."""
    folder, name = os.path.split(os.path.abspath(sys.argv[0]))
    return " ".join([f"{os.path.basename(folder)}/{name.removesuffix('.py')}", *sys.argv[1:]])


def write_down(figures):
    path = os.environ.get("MUSTER_TEST_PROMISES")
    if path:
        with open(path, "a", encoding="utf-8") as file:  # one write of a line is never mixed with another's
            file.write(json.dumps(figures) + "\n")
