# SPDX-License-Identifier: Apache-2.0
"""Nothing of a job is left, however it ends. usage: leftovers_test.py <scenario> [repeats]

The bound asserted for the middle one of all runs is 10x the promised 100 ms after the grace period, that for each is far larger,
as a busy machine may hold any of them up. The true figures are printed.
"""

import array
import fcntl
import os
import random
import signal
import statistics
import sys
import tempfile
import termios
import time

from job_processes import HERE, MarkedJob, wait_until

WORKER = os.path.join(HERE, "worker.sh")
GRACE_S = 0.3
WITHIN_S = 20.0
USUALLY_WITHIN_S = 1.0
# For what must happen at all.
LIMIT_S = 60
GRACE = ("--shutdown-timeout", str(GRACE_S))


def kill_if_there(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def finish(job, code):
    got, out, err = job.end(LIMIT_S)
    check(got == code, "exit code %d instead of %d\n%s\n%s" % (got, code, out, err))
    check(not job.left(), "left when the launcher ended: %s" % job.left())
    return err


def normal_end():
    finish(MarkedJob([WORKER, "0"], *GRACE), 0)


def took_since(start):
    took = time.monotonic() - start
    check(took < GRACE_S + WITHIN_S, "took %.2f s" % took)
    return took


def normal_end_stubborn():
    begin = time.monotonic()
    job = MarkedJob([WORKER, "-t", "0"], *GRACE)
    job.started(2)
    ready = time.monotonic()  # and the workers end; perhaps they have
    finish(job, 0)
    check(took_since(begin) >= GRACE_S, "no grace")
    return took_since(ready)


def failure():
    err = finish(MarkedJob(["sh", "-c", 'exec "$0" $([ $RANK = 1 ] && echo 3 || echo stay)', WORKER], *GRACE), 3)
    check("rank 1" in err and "exit code 3" in err, err)


def failure_stubborn():
    finish(MarkedJob(["sh", "-c", 'exec "$0" -t $([ $RANK = 1 ] && echo 3 || echo stay)', WORKER], *GRACE), 3)


def main_thread_gone():
    """A daemon whose main thread has ended looks like a zombie, but lives."""
    err = finish(MarkedJob([sys.executable, os.path.join(HERE, "main_thread_gone.py")], *GRACE), 0)
    check("left running" in err, err)


def everything_gets_sigterm():
    """As systemctl stop does: every process of the job is signalled, ours too."""
    job = MarkedJob([WORKER, "stay"], *GRACE)
    job.started(2)
    for pid in job.processes():
        kill_if_there(pid, signal.SIGTERM)
    finish(job, 143)


def sigchld_ignored_at_start():
    previous = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        job = MarkedJob([WORKER, "3"], *GRACE)
    finally:
        signal.signal(signal.SIGCHLD, previous)
    finish(job, 3)


def stopped_while_joining_again():
    job = MarkedJob(["sh", "-c", "echo ready; exit 3"], "--nnodes", "1:2", "--rdzv-conf", "last_call_timeout=4",
                    "--max-restarts", "1", *GRACE)
    job.started(1)
    for line in job.launcher.stderr:
        if b"restarting" in line:
            break  # the second round waits 4 s for more nodes; an earlier signal only makes this easier
    start = time.monotonic()
    os.kill(job.launcher.pid, signal.SIGTERM)
    finish(job, 143)
    return took_since(start)


def restart():
    code = 'exec "$0" $([ $TORCHELASTIC_RESTART_COUNT = 0 ] && echo 3 || echo 0)'
    finish(MarkedJob(["sh", "-c", code, WORKER], "--max-restarts", "1", *GRACE), 0)


def interrupted(number):
    def scenario():
        job = MarkedJob([WORKER, "stay"], *GRACE)
        job.started(2)
        os.kill(job.launcher.pid, number)
        finish(job, 128 + number)

    return scenario


def interrupted_stubborn():
    job = MarkedJob([WORKER, "-t", "stay"], *GRACE)
    job.started(2)
    start = time.monotonic()
    os.kill(job.launcher.pid, signal.SIGINT)
    finish(job, 130)
    took = took_since(start)
    check(took >= GRACE_S, "no grace: took %.2f s" % took)
    return took


def catches(pid, number):
    """Whether the process has a handler for this signal."""
    with open("/proc/%d/status" % pid) as file:
        mask = next(line for line in file if line.startswith("SigCgt:")).split()[1]
    return int(mask, 16) >> (number - 1) & 1


def bytes_waiting(pipe):
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def interrupted_twice():
    # Nobody reads our stdout after the first lines, so the pipe is full: that must not hold the end up either.
    flood = 'trap "" INT; echo ready; while [ ! -e "$0" ]; do sleep 0.01; done; while :; do echo line after line after line; done'
    with tempfile.TemporaryDirectory() as folder:
        go = os.path.join(folder, "go")
        job = MarkedJob(["sh", "-c", flood, go], "--shutdown-timeout", "600")
        job.started(2)
        open(go, "w").close()
        wait_until(lambda: bytes_waiting(job.launcher.stdout) > 30000, LIMIT_S, "a full pipe")
    wait_until(lambda: catches(job.launcher.pid, signal.SIGINT), LIMIT_S, "the launcher's handler")
    os.kill(job.launcher.pid, signal.SIGINT)
    start = time.monotonic()
    while job.launcher.poll() is None and time.monotonic() - start < WITHIN_S:
        os.kill(job.launcher.pid, signal.SIGINT)  # a signal that is pending already does not count twice
        time.sleep(0.02)
    took = time.monotonic() - start
    finish(job, 130)
    check(took < WITHIN_S, "took %.2f s" % took)
    return took


def interrupted_anywhere():
    job = MarkedJob([WORKER, "stay"], *GRACE)
    job.first_fork()
    time.sleep(random.uniform(0, 0.03))
    os.kill(job.launcher.pid, signal.SIGTERM)
    got, _, err = job.end(LIMIT_S)
    check(got in (143, -signal.SIGTERM), "exit code %d\n%s" % (got, err))
    return job.assert_nothing_left(GRACE_S + WITHIN_S)


def deadline():
    job = MarkedJob([WORKER, "stay"], "--timeout", "0.5", *GRACE)
    finish(job, 124)


def kill_nine(*victims, stubborn=False):
    """Kills these of our processes at a random instant from the first fork on."""

    def scenario():
        job = MarkedJob([WORKER, *(["-t"] if stubborn else []), "stay"], *GRACE)
        guardian = job.first_fork()
        time.sleep(random.choice((0, 0, random.uniform(0, 0.005), random.uniform(0, 0.06))))
        pids = []
        for victim in victims:
            if victim == "launcher":
                pids.append(job.launcher.pid)
            elif victim == "guardian":
                pids.append(guardian)
            else:
                pids.append(wait_until(job.agent, LIMIT_S, "the agent"))
        random.shuffle(pids)
        for pid in pids:
            kill_if_there(pid)  # the first one's end may have ended the second
        start = time.monotonic()
        if "launcher" in victims:
            job.assert_nothing_left(GRACE_S + WITHIN_S)
            took = took_since(start)
            job.end(LIMIT_S)
        else:
            err = finish(job, 125)
            took = took_since(start)
            check("guardian" in err or "agent" in err, "no culprit named: " + err)
        return took

    return scenario


SCENARIOS = {
    "normal_end": normal_end,
    "normal_end_stubborn": normal_end_stubborn,
    "failure": failure,
    "failure_stubborn": failure_stubborn,
    "restart": restart,
    "main_thread_gone": main_thread_gone,
    "everything_gets_sigterm": everything_gets_sigterm,
    "sigchld_ignored_at_start": sigchld_ignored_at_start,
    "stopped_while_joining_again": stopped_while_joining_again,
    "sigint": interrupted(signal.SIGINT),
    "sigterm": interrupted(signal.SIGTERM),
    "sighup": interrupted(signal.SIGHUP),
    "sigint_stubborn": interrupted_stubborn,
    "sigint_twice": interrupted_twice,
    "sigterm_anywhere": interrupted_anywhere,
    "deadline": deadline,
    "kill_launcher": kill_nine("launcher"),
    "kill_launcher_stubborn": kill_nine("launcher", stubborn=True),
    "kill_guardian": kill_nine("guardian"),
    "kill_agent": kill_nine("agent"),
    "kill_agent_stubborn": kill_nine("agent", stubborn=True),
    "kill_launcher_guardian": kill_nine("launcher", "guardian"),
    "kill_launcher_agent": kill_nine("launcher", "agent"),
    "kill_guardian_agent": kill_nine("guardian", "agent"),
}


def main():
    name = sys.argv[1]
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    seed = int(os.environ.get("MUSTER_TEST_SEED", str(random.randrange(1 << 30))))
    random.seed(seed)
    ends = []
    for repeat in range(repeats):
        try:
            ends.append(SCENARIOS[name]() or 0.0)
        except Exception as error:
            print("%s: run %d of %d failed (MUSTER_TEST_SEED=%d): %s" % (name, repeat + 1, repeats, seed, error))
            return 1
    middle = statistics.median(ends)
    print("%s: %d runs, nothing left, middle end %.0f ms, slowest %.0f ms" % (name, repeats, middle * 1000, max(ends) * 1000))
    if middle >= GRACE_S + USUALLY_WITHIN_S:
        print("that is more than %.1f s for half of them" % (GRACE_S + USUALLY_WITHIN_S))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
