# SPDX-License-Identifier: Apache-2.0
"""One of our processes on one of several hosts is killed or stopped, or the user interrupts: F13 to F17 of the fault matrix."""
import signal
import time

from multi_node import AGENT, GUARDIAN, REST_S, STUBBORN, Hosts, Job, check, main

TWO_EACH = "n00:2,n01:2"


def agent_killed():
    with Hosts(2) as hosts:
        job = Job(hosts, at=TWO_EACH).ready(4)
        begin = time.monotonic()
        job.hit("n01", AGENT)
        job.end()
        check(time.monotonic() - begin < 1 + REST_S, "took too long", job.shown())
        job.expect(125, r"n01", r"(?i)agent", r"signal 9|SIGKILL")
        job.nothing_left()


def agent_of_the_coordinator_killed():
    with Hosts(2) as hosts:
        job = Job(hosts, at=TWO_EACH).ready(4)
        job.hit("n00", AGENT)
        job.end()
        job.expect(125, r"n00", r"(?i)agent", r"signal 9|SIGKILL")
        job.nothing_left()


def agent_killed_while_it_starts():
    """Whatever the moment, the job ends and leaves nothing."""
    with Hosts(2) as hosts:
        for moment in (0.0, 0.01, 0.03):
            job = Job(hosts, at=TWO_EACH)
            deadline = time.monotonic() + 30
            while not job.pids("n01", AGENT) and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(moment)
            job.hit("n01", AGENT)
            check(job.end() != 0, "success without an agent", job.shown())
            job.expect(125, r"n01")
            job.nothing_left()


def agent_stopped_for_a_moment():
    with Hosts(2) as hosts:
        job = Job(hosts, worker=["bash", "-c", "echo ready $RANK; sleep 6"]).ready(2)
        job.hit("n01", AGENT, signal.SIGSTOP)
        time.sleep(2)
        job.hit("n01", AGENT, signal.SIGCONT)
        job.end()
        job.expect(0)
        job.nothing_left()


def agent_stopped():
    with Hosts(2) as hosts:
        job = Job(hosts).ready(2)
        begin = time.monotonic()
        job.hit("n01", AGENT, signal.SIGSTOP)
        job.wait_for(r"n01 was stopped \(SIGSTOP\)", name="err")
        check(time.monotonic() - begin < 1 + REST_S, "its guardian said it too late", job.shown())
        job.end(5 + REST_S + 10)
        seconds = time.monotonic() - begin
        check(seconds < 5 + REST_S, f"taken for dead after {seconds:.1f} s", job.shown())
        job.expect(125, r"n01", r"stayed stopped|silent for 5000 ms")
        job.nothing_left()
        print(f"{seconds:.1f} s")


def agent_stopped_and_resumed_too_late():
    with Hosts(2) as hosts:
        job = Job(hosts).ready(2)
        job.hit("n01", AGENT, signal.SIGSTOP)
        time.sleep(10)
        for pid in job.pids("n01", AGENT):
            hosts.signal("n01", pid, signal.SIGCONT)
        job.end()
        job.expect(125, r"n01")
        job.nothing_left()


def guardian_killed():
    with Hosts(2) as hosts:
        job = Job(hosts, at=TWO_EACH).ready(4)
        job.hit("n01", GUARDIAN)
        job.end()
        job.expect(125, r"n01", r"(?i)guardian")
        job.nothing_left()


def guardian_and_agent_killed():
    with Hosts(2) as hosts:
        job = Job(hosts, at=TWO_EACH).ready(4)
        pids = [p["pid"] for p in hosts.processes("n01") if p["comm"] in (GUARDIAN, AGENT)]
        check(len(pids) >= 2, f"only {pids}", job.shown())
        hosts.run("n01", ["/bin/kill", "-KILL", *pids])
        job.end()
        job.expect(125, r"n01")
        job.nothing_left(directories=True)


def launcher_killed():
    with Hosts(2) as hosts:
        job = Job(hosts, at=TWO_EACH).ready(4)
        job.process.kill()
        job.process.wait()
        job.nothing_left(timeout=10 + REST_S, directories=True)


def launcher_killed_while_it_starts():
    with Hosts(3) as hosts:
        for moment in (0.05, 0.3, 0.5, 0.7):
            job = Job(hosts)
            time.sleep(moment)
            job.process.kill()
            job.process.wait()
            job.nothing_left(timeout=10 + REST_S, directories=True)


def interrupted_once():
    with Hosts(2) as hosts:
        job = Job(hosts, at=TWO_EACH).ready(4)
        begin = time.monotonic()
        job.send(signal.SIGINT)
        job.end()
        check(time.monotonic() - begin < 1 + REST_S, "took too long", job.shown())
        job.expect(130)
        job.nothing_left()


def interrupt_until_it_ends(job):
    """Two signals that come before the first is taken count as one."""
    begin = time.monotonic()
    while job.process.poll() is None and time.monotonic() - begin < REST_S:
        job.send(signal.SIGINT)
        time.sleep(0.05)
    job.end()


def interrupted_twice():
    with Hosts(2) as hosts:
        job = Job(hosts, "--shutdown-timeout", "60", worker=STUBBORN, at=TWO_EACH).ready(4)
        job.send(signal.SIGINT)
        time.sleep(1)
        check(job.process.poll() is None and len(job.pids("n01", "bash")) == 2, "the workers did not get their time", job.shown())
        begin = time.monotonic()
        job.send(signal.SIGINT)
        job.end()
        check(time.monotonic() - begin < 1 + REST_S, "the second interrupt did not hurry it", job.shown())
        job.expect((130, 137))
        job.nothing_left()


def interrupted_thrice():
    with Hosts(2) as hosts:
        job = Job(hosts, "--shutdown-timeout", "60", worker=STUBBORN, at=TWO_EACH).ready(4)
        begin = time.monotonic()
        interrupt_until_it_ends(job)
        check(time.monotonic() - begin < 1 + REST_S, "the third interrupt did not end it", job.shown())
        job.expect((130, 137))
        job.nothing_left()


def terminated():
    with Hosts(2) as hosts:
        job = Job(hosts).ready(2)
        job.send(signal.SIGTERM)
        job.end()
        job.expect(143)
        job.nothing_left()


def interrupted_while_ssh_connects():
    with Hosts(2) as hosts:
        hosts.start_impostor("n01", "silent")
        job = Job(hosts)
        deadline = time.monotonic() + 30
        while len([p for p in hosts.processes("login") if p["comm"] == "ssh"]) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        begin = time.monotonic()
        job.send(signal.SIGINT)
        job.end()
        check(time.monotonic() - begin < 9, "it waited for ssh", job.shown())
        job.expect(130)
        job.nothing_left()


def worker_fails_on_another_host():
    """The exit code is the worker's, the text names rank and host, and the other host is cleaned."""
    with Hosts(2) as hosts:
        job = Job(hosts, at=TWO_EACH, worker=["bash", "-c", "echo ready $RANK; [ $RANK != 3 ] || { echo broken >&2; exit 7; }; "
                                                            "exec sleep 1000"])
        job.end()
        job.expect(7, r"rank 3", r"n01", r"exit code 7|exited with 7|code 7", r"broken")
        job.nothing_left()


def temporary_logs():
    """They go after success, and stay on their hosts after a failure."""
    with Hosts(2) as hosts:
        job = Job(hosts, "--tee", "3", worker=["bash", "-c", "echo ready $RANK"])
        job.end()
        job.expect(0, "ready 0", "ready 1")
        job.nothing_left()
        job = Job(hosts, "--tee", "3", worker=["bash", "-c", "echo ready $RANK; until [ -e /tmp/muster-test-go ]; do sleep 0.1; done; "
                                                      "[ $RANK = 0 ] || exit 3; exec sleep 1000"]).ready(2)
        hosts.write("n01", "/tmp/muster-test-go", "")
        job.end()
        job.expect(3)
        for host in hosts.names:
            kept = [f for f in hosts.files(host) if f.endswith("/stdout.log")]
            check(len(kept) == 1, f"{kept} on {host}", job.shown())


CASES = (agent_killed, agent_of_the_coordinator_killed, agent_killed_while_it_starts, agent_stopped_for_a_moment, agent_stopped,
         agent_stopped_and_resumed_too_late, guardian_killed, guardian_and_agent_killed, launcher_killed,
         launcher_killed_while_it_starts, interrupted_once, interrupted_twice, interrupted_thrice, terminated,
         interrupted_while_ssh_connects, worker_fails_on_another_host, temporary_logs)

if __name__ == "__main__":
    main(CASES)
