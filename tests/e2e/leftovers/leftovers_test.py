# SPDX-License-Identifier: Apache-2.0
"""Nothing of a job is left, however it ends, and it ends in the time that docs/failures.md promises.

usage: leftovers_test.py <scenario> [repeats]    repeats: how often, 3 if not said; a soak says 20 or more
"""

import os
import random
import signal
import sys
import tempfile
import time

from interop import check
from job_processes import AGENT, GUARDIAN, HERE, STORE, DetachedJob, MarkedJob
from processes import bytes_waiting, wait_until
from promise import PATIENCE_S, promise, promised

WORKER = os.path.join(HERE, "worker.sh")
GRACE_S = 0.3
HELPERS_S = 0.2  # between the KILL of a worker and that of its helpers
LONG_GRACE_S = 10  # to be seen if it passes
LIMIT_S = PATIENCE_S
TIMEOUT_S = 0.5
STOPPED_TIMEOUT_S = 2  # by then the job has begun, and what is stopped has been said
GRACE = ("--shutdown-timeout", str(GRACE_S))


def kill_if_there(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def finish(job, code):
    got, out, err = job.end(LIMIT_S)
    check(got == code, "exit code %d instead of %d\n%s\n%s" % (got, code, out, err))
    check(not job.left(), "left when the launcher ended: %s" % job.left())
    return err


def ended(job, code, since):
    """Seconds from then until the job had ended; also what it said."""
    err = finish(job, code)
    return time.monotonic() - since, err


def said(job, word):
    """Waits for that word of a worker; returns when it came."""
    job.wait_for(word)
    return time.monotonic()


def normal_end():
    job = MarkedJob([WORKER, "0"], *GRACE)
    job.started(2)
    return ended(job, 0, time.monotonic())[0]


def normal_end_stubborn():
    begin = time.monotonic()
    job = MarkedJob([WORKER, "-t", "0"], *GRACE)
    job.started(2)
    took, _ = ended(job, 0, time.monotonic())  # the workers end now; perhaps they have
    check(time.monotonic() - begin >= GRACE_S, "no grace")
    return took


def failure(*stubborn):
    """Rank 1 fails; the other one ends when it is told to, or at the end of the grace."""

    def scenario():
        with tempfile.TemporaryDirectory() as folder:
            # It waits for the other: one that is told to end while it starts need not be stubborn yet.
            rank_1 = 'while [ ! -e "$1" ]; do sleep 0.01; done; exec "$0" %s 3' % " ".join(stubborn)
            rank_0 = 'exec "$0" %s stay' % " ".join(stubborn)
            go = os.path.join(folder, "go")
            job = MarkedJob(["sh", "-c", '[ $RANK = 1 ] || { %s; }; %s' % (rank_0, rank_1), WORKER, go], *GRACE)
            job.wait_for(b"ready 0")
            open(go, "w").close()
            took, err = ended(job, 3, said(job, b"ready 1"))
        check("rank 1" in err and "exit code 3" in err, err)
        return took

    return scenario


# It runs its child before it ends: to one that a shell has only just forked, SIGTERM is the shell's, and lost.
PASSES_ON = """import os, signal, subprocess, sys, time
def pass_on(*_):
    subprocess.Popen(["sleep", "987"])
    os._exit(0)
signal.signal(signal.SIGTERM, pass_on)
open(sys.argv[1], "w").close()
while True:
    time.sleep(0.1)  # pause() would wait for ever if the signal came just before it.
"""


def leftovers_that_fork():
    """What the workers leave runs on in a child of its own when it is told to end."""
    worker = 'setsid "$2" -c "$1" "$0" >/dev/null 2>&1 & while [ ! -e "$0" ]; do sleep 0.01; done; echo ready'
    with tempfile.TemporaryDirectory() as folder:
        job = MarkedJob(["sh", "-c", worker, os.path.join(folder, "armed"), PASSES_ON, sys.executable], "--shutdown-timeout",
                        str(LONG_GRACE_S), workers=1)
        return ended(job, 0, said(job, b"ready"))[0]


def main_thread_gone():
    """A daemon whose main thread has ended looks like a zombie, but lives."""
    job = MarkedJob([sys.executable, os.path.join(HERE, "main_thread_gone.py")], *GRACE)
    job.started(2)
    took, err = ended(job, 0, time.monotonic())
    check("left running" in err, err)
    return took


def everything_gets_sigterm():
    """As systemctl stop does: every process of the job is signalled, ours too."""
    job = MarkedJob([WORKER, "stay"], *GRACE)
    job.started(2)
    pids = job.processes()
    start = time.monotonic()
    for pid in pids:
        kill_if_there(pid, signal.SIGTERM)
    return ended(job, 143, start)[0]


def sigchld_ignored_at_start():
    previous = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        job = MarkedJob([WORKER, "3"], *GRACE)
    finally:
        signal.signal(signal.SIGCHLD, previous)
    return ended(job, 3, said(job, b"ready"))[0]


def stopped_while_joining_again():
    job = MarkedJob(["sh", "-c", "echo ready; exit 3"], "--nnodes", "1:2", "--rdzv-conf", "last_call_timeout=1",
                    "--max-restarts", "1", *GRACE)
    job.started(1)
    for line in job.launcher.stderr:
        if b"restarting" in line:
            break  # the second round waits 1 s for more nodes; an earlier signal only makes this easier
    start = time.monotonic()
    os.kill(job.launcher.pid, signal.SIGTERM)
    return ended(job, 143, start)[0]


def restart():
    """Both workers fail, and both start again: how long from the first word of the one round to the last of the next."""
    code = 'exec "$0" $([ $TORCHELASTIC_RESTART_COUNT = 0 ] && echo 3 || echo 0)'
    job = MarkedJob(["sh", "-c", code, WORKER], "--max-restarts", "1", *GRACE)
    return ended(job, 0, said(job, b"ready"))[0]


def interrupted(number):
    def scenario():
        job = MarkedJob([WORKER, "stay"], *GRACE)
        job.started(2)
        start = time.monotonic()
        os.kill(job.launcher.pid, number)
        return ended(job, 128 + number, start)[0]

    return scenario


def interrupted_stubborn():
    job = MarkedJob([WORKER, "-t", "stay"], *GRACE)
    job.started(2)
    start = time.monotonic()
    os.kill(job.launcher.pid, signal.SIGINT)
    took, _ = ended(job, 130, start)
    check(took >= GRACE_S, "no grace: took %.2f s" % took)
    return took


def in_mask(mask, pid, number):
    """Whether the process has a handler for this signal ("SigCgt"), or has yet to take one that was sent to it ("ShdPnd")."""
    with open("/proc/%d/status" % pid) as file:
        bits = next(line for line in file if line.startswith(mask)).split()[1]
    return int(bits, 16) >> (number - 1) & 1


def interrupted_again(times):
    """So many Ctrl-C on end, the second of which leaves no grace."""

    def scenario():
        # Nobody reads our stdout after the first lines, so the pipe is full: that must not hold the end up either.
        flood = 'trap "" INT; echo ready; while [ ! -e "$0" ]; do sleep 0.01; done; while :; do echo line after line after line; done'
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            job = MarkedJob(["sh", "-c", flood, go], "--shutdown-timeout", "600")
            job.started(2)
            open(go, "w").close()
            wait_until(lambda: bytes_waiting(job.launcher.stdout) > 30000, "a full pipe", pause_s=0)
        return killed_by_ctrl_c(job, times)

    return scenario


def killed_by_ctrl_c(job, times):
    """Seconds that so many Ctrl-C take to end it."""
    launcher = job.launcher.pid
    wait_until(lambda: in_mask("SigCgt", launcher, signal.SIGINT), "the launcher's handler", pause_s=0)
    start = time.monotonic()
    for _ in range(times):
        os.kill(launcher, signal.SIGINT)  # one that is pending already does not count twice
        wait_until(lambda: not in_mask("ShdPnd", launcher, signal.SIGINT), "the signal to be taken", pause_s=0)
    job.launcher.wait(LIMIT_S)
    took = time.monotonic() - start
    finish(job, 130)
    return took


def stopped_both_and_interrupted():
    """Guardian and agent are both stopped, so that neither lets the other go on; the launcher does, and the second Ctrl-C kills."""
    job = MarkedJob([WORKER, "stay"], "--shutdown-timeout", "600")
    job.started(2)
    for pid in (job.guardian(), job.ours(AGENT)):
        os.kill(pid, signal.SIGSTOP)
    return killed_by_ctrl_c(job, 2)


def interrupted_anywhere():
    job = MarkedJob([WORKER, "stay"], *GRACE)
    job.first_fork()
    time.sleep(random.uniform(0, 0.03))
    start = time.monotonic()
    os.kill(job.launcher.pid, signal.SIGTERM)
    got, _, err = job.end(LIMIT_S)
    check(got in (143, -signal.SIGTERM), "exit code %d\n%s" % (got, err))
    job.assert_nothing_left(LIMIT_S)
    return time.monotonic() - start


def deadline():
    start = time.monotonic()
    job = MarkedJob([WORKER, "stay"], "--timeout", str(TIMEOUT_S), *GRACE)
    return ended(job, 124, start)[0]


def stopped(name, end):
    """One of ours is stopped (SIGSTOP): that is said at once, and holds the end of the job up no longer than its bound.
    `end`: the exit code when the job is told to end, or its workers succeed (0)."""

    def scenario():
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            begin = time.monotonic()
            flags = ("--timeout", str(STOPPED_TIMEOUT_S)) if end == 124 else ()
            job = MarkedJob(["sh", "-c", 'echo ready; while [ ! -e "$0" ]; do sleep 0.01; done', go], *flags, *GRACE)
            job.started(2)
            pid = job.guardian() if name == GUARDIAN else job.ours(name)
            os.kill(pid, signal.SIGSTOP)
            line = job.said("the %s process" % name.split(":")[1])
            check("stopped" in line and "kill -CONT %d'" % pid in line, line)
            start = time.monotonic()
            if end == 0:
                open(go, "w").close()
                if name == AGENT:
                    os.kill(pid, signal.SIGCONT)
                    job.said("the agent process goes on")
            elif end != 124:
                os.kill(job.launcher.pid, end - 128)
            return ended(job, end, begin if end == 124 else start)[0]

    return scenario


def stopped_from_the_keyboard():
    """^Z stops the launcher alone: workers and our other processes have terminals of their own, and none of us is missed."""
    with tempfile.TemporaryDirectory() as folder:
        go = os.path.join(folder, "go")
        job = MarkedJob(["sh", "-c", 'echo ready; while [ ! -e "$0" ]; do sleep 0.01; done; echo ready', go], *GRACE)
        job.started(2)
        os.killpg(job.launcher.pid, signal.SIGSTOP)
        open(go, "w").close()
        job.started(2)
        start = time.monotonic()
        os.killpg(job.launcher.pid, signal.SIGCONT)
        took, err = ended(job, 0, start)
        check("stopped" not in err, err)
        return took


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
                pids.append(wait_until(job.agent, "the agent", pause_s=0))
        random.shuffle(pids)
        for pid in pids:
            kill_if_there(pid)  # the first one's end may have ended the second
        start = time.monotonic()
        if "launcher" in victims:
            job.assert_nothing_left(LIMIT_S)
            took = time.monotonic() - start
            job.end(LIMIT_S)
        else:
            took, err = ended(job, 125, start)
            check("guardian" in err or "agent" in err, "no culprit named: " + err)
        return took

    return scenario


def kill_nine_of_detached(*victims):
    """Kills the launcher of a detached job, its console process, or both, at a random instant from the fork of the latter on. A job
    that has lost its console process alone goes on, and ends by one signal with one code."""

    def scenario():
        job = DetachedJob([WORKER, "stay"], *GRACE)
        launcher, console = wait_until(job.console, "the console process", LIMIT_S, pause_s=0)
        time.sleep(random.choice((0, 0, random.uniform(0, 0.005), random.uniform(0, 0.06))))
        pids = [launcher if victim == "launcher" else console for victim in victims]
        random.shuffle(pids)
        for pid in pids:
            kill_if_there(pid)
        start = time.monotonic()
        if "launcher" in victims:
            job.assert_nothing_left(LIMIT_S)
            took = time.monotonic() - start
            code, out, err = job.end(LIMIT_S)
            # It is a start for whoever has seen the workers run.
            check(code in (0, 125), "exit code %d\n%s\n%s" % (code, out, err))
            return took
        code, out, err = job.end(LIMIT_S)
        check(code == 0, "exit code %d\n%s\n%s" % (code, out, err))
        name = out.strip()
        start = time.monotonic()
        os.kill(launcher, signal.SIGTERM)
        job.assert_nothing_left(LIMIT_S)
        took = time.monotonic() - start
        check("with exit code 143" in job.status(name), job.status(name))
        return took

    return scenario


def kill_store():
    job = MarkedJob([WORKER, "stay"], *GRACE)
    job.started(2)
    store, start = job.ours(STORE), time.monotonic()
    os.kill(store, signal.SIGKILL)
    took, err = ended(job, 125, start)
    check("the store process was lost (killed by SIGKILL)" in err, err)
    return took


def kill_agent_with_watchdog():
    """The pipe for PyTorch's timers, too, is removed by the guardian."""
    with tempfile.TemporaryDirectory() as folder:
        def pipes():
            return [name for name in os.listdir(folder) if name.startswith("muster_watchdog_")]

        job = MarkedJob([WORKER, "stay"], *GRACE, environment={"TMPDIR": folder, "TORCHELASTIC_ENABLE_FILE_TIMER": "1"})
        job.started(2)
        check(len(pipes()) == 1, os.listdir(folder))
        start = time.monotonic()
        os.kill(job.agent(), signal.SIGKILL)
        took, _ = ended(job, 125, start)
        check(not pipes(), pipes())
        return took


# What each scenario promises: the page's bound, with the clock that the scenario itself chooses (the grace, if somebody ignores the order
# to end), and how soon it usually is. One without a usual time has workers that may just be forking.
USUAL_S = 0.015
SCENARIOS = {
    "normal_end": (normal_end, promised("worker-leaves-processes")),
    "normal_end_stubborn": (normal_end_stubborn, promised("worker-leaves-processes", clock=GRACE_S, usual=USUAL_S)),
    "failure": (failure(), promised("worker-fails")),
    "failure_stubborn": (failure("-t"), promised("worker-ignores-sigterm", clock=GRACE_S + HELPERS_S, usual=USUAL_S)),
    "restart": (restart, promised("worker-restarts", "again")),
    "that_fork": (leftovers_that_fork, promised("worker-leaves-processes")),
    "main_thread_gone": (main_thread_gone, promised("worker-leaves-processes")),
    "everything_gets_sigterm": (everything_gets_sigterm, promised("told-to-end")),
    "sigchld_ignored_at_start": (sigchld_ignored_at_start, promised("worker-fails")),
    "stopped_while_joining_again": (stopped_while_joining_again, promised("told-to-end", usual=USUAL_S)),
    "stopped_agent": (stopped(AGENT, 143), promised("agent-or-store-stopped", usual=USUAL_S)),
    "stopped_agent_deadline": (stopped(AGENT, 124), promised("agent-or-store-stopped", clock=STOPPED_TIMEOUT_S, usual=USUAL_S)),
    "stopped_agent_goes_on": (stopped(AGENT, 0), promised("agent-or-store-stopped", usual=USUAL_S)),
    "stopped_guardian": (stopped(GUARDIAN, 143), promised("guardian-stopped", usual=USUAL_S)),
    "stopped_guardian_success": (stopped(GUARDIAN, 0), promised("guardian-stopped", usual=USUAL_S)),
    "stopped_store": (stopped(STORE, 130), promised("agent-or-store-stopped", usual=USUAL_S)),
    "stopped_store_success": (stopped(STORE, 0), promised("agent-or-store-stopped", usual=USUAL_S)),
    "stopped_from_the_keyboard": (stopped_from_the_keyboard, promised("ctrl-z", usual=USUAL_S)),
    "sigint": (interrupted(signal.SIGINT), promised("ctrl-c")),
    "sigterm": (interrupted(signal.SIGTERM), promised("told-to-end")),
    "sighup": (interrupted(signal.SIGHUP), promised("told-to-end")),
    "sigint_stubborn": (interrupted_stubborn, promised("ctrl-c", clock=GRACE_S + HELPERS_S, usual=USUAL_S)),
    "sigint_twice": (interrupted_again(2), promised("ctrl-c-twice")),
    "sigint_thrice": (interrupted_again(3), promised("ctrl-c-twice")),
    "stopped_sigint_twice": (stopped_both_and_interrupted, promised("ctrl-c-twice")),
    "sigterm_anywhere": (interrupted_anywhere, promised("told-to-end")),
    "deadline": (deadline, promised("deadline", clock=TIMEOUT_S)),
    "kill_launcher": (kill_nine("launcher"), promised("launcher-killed", usual=USUAL_S)),
    "kill_launcher_stubborn": (kill_nine("launcher", stubborn=True), promised("launcher-killed", clock=GRACE_S + HELPERS_S, usual=USUAL_S)),
    "kill_guardian": (kill_nine("guardian"), promised("guardian-killed", usual=USUAL_S)),
    "kill_agent": (kill_nine("agent"), promised("agent-killed", usual=USUAL_S)),
    "kill_agent_stubborn": (kill_nine("agent", stubborn=True), promised("agent-killed", clock=GRACE_S, usual=USUAL_S)),
    "kill_agent_with_watchdog": (kill_agent_with_watchdog, promised("agent-killed", usual=USUAL_S)),
    "kill_store": (kill_store, promised("store-killed")),
    "kill_launcher_guardian": (kill_nine("launcher", "guardian"), promised("two-killed", usual=USUAL_S)),
    "kill_launcher_agent": (kill_nine("launcher", "agent"), promised("two-killed", usual=USUAL_S)),
    "kill_guardian_agent": (kill_nine("guardian", "agent"), promised("two-killed", usual=USUAL_S)),
    "kill_console": (kill_nine_of_detached("console"), promised("told-to-end")),
    "kill_detached_launcher": (kill_nine_of_detached("launcher"), promised("launcher-killed", usual=USUAL_S)),
    "kill_launcher_console": (kill_nine_of_detached("launcher", "console"), promised("two-killed", usual=USUAL_S)),
}


def main():
    name = sys.argv[1]
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    seed = int(os.environ.get("MUSTER_TEST_SEED", str(random.randrange(1 << 30))))
    random.seed(seed)
    scenario, bound = SCENARIOS[name]
    try:
        promise(name, once=scenario, tries=repeats, **bound)
    except Exception as error:
        print("%s failed (MUSTER_TEST_SEED=%d): %s" % (name, seed, error))
        return 1
    print("%s: %d runs, nothing left" % (name, repeats))
    return 0


if __name__ == "__main__":
    sys.exit(main())
