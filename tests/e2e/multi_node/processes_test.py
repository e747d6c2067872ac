# SPDX-License-Identifier: Apache-2.0
"""One of our processes on one of several hosts is killed or stopped, or the user interrupts: F13 to F17 of the fault matrix."""
import re
import resource
import signal
import sys
import time

from multi_node import AGENT, CLOCK, GUARDIAN, MUSTER, STORE, STUBBORN, Hosts, Job, check, kept, main, promise, promised
from processes import interrupt_until_it_ends, wait_until

TWO_EACH = "n00:2,n01:2"


def ends(what, bound, hit, code, *words, usual=0.02, worker=None, flags=(), directories=False):
    """A job of two hosts, to which `hit` does something and says when: how soon it has ended, and with which words."""
    with Hosts(2) as hosts:
        def once():
            job = Job(hosts, *flags, worker=worker, at=TWO_EACH).ready(4)
            took = job.ended(hit(job))
            job.expect(code, *words)
            job.nothing_left(directories=directories)
            return took

        promise(what, once=once, **dict(bound, usual=usual))


def agent_killed():
    ends("a node's agent is killed", promised("node-agent-killed"), lambda job: job.hit("n01", AGENT), 125,
         r"the agent process of n01 .*SIGKILL")


def agent_of_the_coordinator_killed():
    ends("node 0's agent is killed", promised("node-agent-killed"), lambda job: job.hit("n00", AGENT), 125,
         r"the agent process of n00 .*SIGKILL")


def agent_killed_while_it_starts():
    """Whatever the moment, the job ends and leaves nothing."""
    with Hosts(2) as hosts:
        for moment in (0.0, 0.01, 0.03):
            job = Job(hosts, at=TWO_EACH)
            wait_until(lambda: job.pids("n01", AGENT), "the agent of n01", pause_s=0.002)
            time.sleep(moment)
            job.hit("n01", AGENT)
            check(job.end() != 0, "success without an agent", job.shown())
            job.expect_clean(125, r"n01")


def agent_stopped_for_a_moment():
    with Hosts(2) as hosts:
        job = Job(hosts, worker=["bash", "-c", "echo ready $RANK; sleep 6"]).ready(2)
        # By one process there: what this test takes to start another one adds to the time.
        agent = min(job.pids("n01", AGENT))
        hosts.run("n01", ["bash", "-c", f"kill -STOP {agent}; sleep 2; kill -CONT {agent}"])
        job.expect_clean(0)


def agent_stopped():
    with Hosts(2) as hosts:
        said = []
        for _ in range(2):
            job = Job(hosts).ready(2)
            begin = job.hit("n01", AGENT, signal.SIGSTOP)
            job.wait_for(r"n01 was stopped \(SIGSTOP\)", name="err")
            said.append(time.monotonic() - begin)
            job.hit("n01", AGENT, signal.SIGCONT)
            job.send(signal.SIGTERM)
            job.expect(143)
        job = Job(hosts).ready(2)
        begin = job.hit("n01", AGENT, signal.SIGSTOP)
        job.wait_for(r"n01 was stopped \(SIGSTOP\)", name="err")
        said.append(time.monotonic() - begin)
        took = job.ended(begin)
        job.expect_clean(125, r"n01", r"stayed stopped|silent for 5000 ms")
        kept("a node's agent is stopped: said", took=said, **promised("node-agent-stopped", "said"))
        kept("a node's agent is stopped: the job has ended", took=[took], one_try=CLOCK, **promised("node-agent-stopped"))


def agent_stopped_and_resumed_too_late():
    with Hosts(2) as hosts:
        job = Job(hosts).ready(2)
        job.hit("n01", AGENT, signal.SIGSTOP)
        time.sleep(10)
        for pid in job.pids("n01", AGENT):
            hosts.signal("n01", pid, signal.SIGCONT)
        job.expect_clean(125, r"n01")


def guardian_killed():
    ends("a node's guardian is killed", promised("node-guardian-killed"), lambda job: job.hit("n01", GUARDIAN), 125,
         r"the guardian process of n01 was killed")


def kill_guardian_and_agent(job):
    pids = [p["pid"] for p in job.hosts.processes("n01") if p["comm"] in (GUARDIAN, AGENT)]
    check(len(pids) >= 2, f"only {pids}", job.shown())
    begin = time.monotonic()
    job.hosts.run("n01", ["/bin/kill", "-KILL", *pids], check=False)  # the end of one may have ended the other
    return begin


def guardian_and_agent_killed():
    ends("a node's guardian and agent are killed", promised("node-guardian-and-agent-killed"), kill_guardian_and_agent, 125, r"n01",
         directories=True)


def kill_those_with_a_question(job):
    """The coordinator asks the agent whose a connection to the store's port is. What a process has not read when it is killed makes
    its kernel reset the connection instead of ending it."""
    (address, port), = [e for e in job.hosts.listeners("n00") if e[1] != 22 and not e[0].startswith("127.")]
    job.hit("n01", AGENT, signal.SIGSTOP)
    stranger = job.hosts.popen("n01", [sys.executable, "-c", f"import signal, socket; s = socket.create_connection(({address!r}, {port})); "
                                                             "s.sendall(bytes(5)); signal.pause()"])
    try:
        wait_until(lambda: has_unread(job.hosts, "n01", AGENT, port), "a question to the agent of n01")
    finally:
        stranger.kill()
        stranger.wait()
    return kill_guardian_and_agent(job)


def has_unread(hosts, name, comm, port):
    """Whether something that came from that port waits to be read by the process with this name."""
    shown = hosts.run(name, ["ss", "-Htnp", "dport", "=", f":{port}"]).stdout
    return any(comm in line and int(line.split()[1]) > 0 for line in shown.splitlines())


def guardian_and_agent_killed_with_a_question_unread():
    ends("a node's guardian and agent are killed before they have read all", promised("node-guardian-and-agent-killed"),
         kill_those_with_a_question, 125, r"n01.*guardian or agent there was killed by SIGKILL", directories=True)


def guardian_and_agent_killed_and_the_job_goes_on():
    """The coordinator, too, knows at once."""
    with Hosts(2) as hosts:
        def once():
            job = Job(hosts, "--nnodes", "1:2", "--max-restarts", "1", "-H", "n00,n01",
                      worker=["bash", "-c", "echo ready $RANK of $WORLD_SIZE; exec sleep 1000"]).ready(2)
            begin = kill_those_with_a_question(job)
            job.wait_for("ready 0 of 1")
            took = time.monotonic() - begin
            job.send(signal.SIGTERM)
            job.expect_clean(143, directories=True)
            return took

        promise("a node's guardian and agent are killed, and the job goes on without it", once=once,
                **promised("node-guardian-and-agent-killed", "next_round"))


def kill_blind_pair(job):
    """Kills agent and guardian of n01, and neither sees the other's end."""
    job.hit("n01", GUARDIAN, signal.SIGSTOP)
    job.hit("n01", AGENT)
    job.hit("n01", GUARDIAN)
    job.expect(125, "n01")


def what_a_killed_pair_left():
    """Neither could end what a worker had left, nor remove the folder of the stop file, for each died before the other's end was seen:
    the next job on that host does, and `muster clean` the folder."""
    with Hosts(2) as hosts:
        job = Job(hosts, worker=["bash", "-c", "setsid sleep 1000 & echo ready $RANK; exec sleep 1000"]).ready(2)
        kill_blind_pair(job)
        wait_until(lambda: [process["comm"] for process in hosts.processes("n01")] == ["sleep"], "the end of all but one")
        check(len(stop_folders(hosts, "n01")) == 1, f"not one folder of a stop file: {stop_folders(hosts, 'n01')}")
        job = Job(hosts, at="n01", worker=["true"])
        job.expect_clean(0, directories=True)
        check(not stop_folders(hosts, "n01"), f"left after the next job: {stop_folders(hosts, 'n01')}")

        job = Job(hosts).ready(2)
        kill_blind_pair(job)
        check(len(stop_folders(hosts, "n01")) == 1, f"not one folder of a stop file: {stop_folders(hosts, 'n01')}")
        said = hosts.run("n01", [MUSTER, "clean"]).stdout
        check("and 1 folder of jobs" in said, said)
        check(not stop_folders(hosts, "n01"), f"left after clean: {stop_folders(hosts, 'n01')}")


def stop_folders(hosts, name):
    return sorted({path.split("/")[2] for path in hosts.files(name) if path.startswith("/tmp/muster_stop_")})


def store_killed():
    """Both nodes know it by themselves."""
    with Hosts(2) as hosts:
        def once():
            job = Job(hosts).ready(2)
            took = job.ended(job.hit("n00", STORE))
            job.expect(125, r"the store process of n00 was lost \(killed by SIGKILL\)")
            errors = [node["error"] for node in job.report()["nodes"]]
            check(len(errors) == 2 and all("lost the coordinator" in error for error in errors), f"other errors: {errors}", job.shown())
            job.nothing_left()
            return took

        promise("node 0's store is killed", once=once, **promised("node-store-killed"))


def launcher_killed():
    with Hosts(2) as hosts:
        def once():
            job = Job(hosts, at=TWO_EACH).ready(4)
            begin = job.send(signal.SIGKILL)
            job.process.wait()
            job.nothing_left(directories=True)
            return time.monotonic() - begin

        promise("the launcher is killed: nothing is left on any host", once=once, **promised("launcher-of-many-hosts-killed"))


def launcher_killed_while_it_starts():
    with Hosts(3) as hosts:
        for moment in (0.05, 0.3, 0.5, 0.7):
            job = Job(hosts)
            time.sleep(moment)
            job.process.kill()
            job.process.wait()
            job.nothing_left(directories=True)


def interrupted_once():
    ends("Ctrl-C", promised("ctrl-c-on-many-hosts", "once"), lambda job: job.send(signal.SIGINT), 130)


def interrupted_twice():
    with Hosts(2) as hosts:
        def once():
            job = Job(hosts, "--shutdown-timeout", "60", worker=STUBBORN, at=TWO_EACH).ready(4)
            job.send(signal.SIGINT)
            time.sleep(1)
            check(job.process.poll() is None and len(job.pids("n01", "bash")) == 2, "the workers did not get their time", job.shown())
            took = job.ended(job.send(signal.SIGINT))
            job.expect_clean((130, 137))
            return took

        promise("Ctrl-C a second time", once=once, **promised("ctrl-c-on-many-hosts", "twice"))


def interrupted_thrice():
    with Hosts(2) as hosts:
        def once():
            job = Job(hosts, "--shutdown-timeout", "60", worker=STUBBORN, at=TWO_EACH).ready(4)
            begin = time.monotonic()
            interrupt_until_it_ends(job.process)
            job.end()
            took = time.monotonic() - begin
            job.expect_clean((130, 137))
            return took

        promise("Ctrl-C again and again", once=once, **promised("ctrl-c-on-many-hosts", "thrice"))


def interrupted_while_waiting():
    """F17 during the rendezvous; who is missing is said."""
    with Hosts(2, shared_home=True) as hosts:
        def once():
            job = Job(hosts, "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-id", "J", "--rdzv-endpoint", "n00:29400", on="n00")
            job.wait_for(r"1 of 2|waiting", name="err")
            took = job.ended(job.send(signal.SIGINT))
            job.expect(130)
            check(not hosts.leftovers(), "left behind")
            return took

        promise("Ctrl-C while other nodes are waited for", once=once, **promised("ctrl-c-on-many-hosts", "waiting", usual=0.02))


def terminated():
    ends("SIGTERM", promised("ctrl-c-on-many-hosts", "once"), lambda job: job.send(signal.SIGTERM), 143)


def notices_reach_every_host():
    """SIGUSR1 at the launcher is for every worker that handles it; where the processes of a host have got it, too, it is not sent again."""
    handles = ["bash", "-c", "trap 'echo noticed $RANK' USR1; trap 'echo later $RANK' USR2; echo ready $RANK; "
                             "while [ ! -e /tmp/muster-test-end ]; do sleep 0.02; done"]
    with Hosts(3) as hosts:
        job = Job(hosts, worker=handles).ready(3)
        job.send(signal.SIGUSR1)
        job.wait_for(r"noticed \d", count=3)
        job.hit("n00", STORE, signal.SIGUSR1)
        # All of a host in the instant in which a batch system would signal them, unless the machine is busy for 0.1 s.
        everybody = [str(min(job.pids("n01", comm))) for comm in (GUARDIAN, "bash", AGENT)]
        for tries in range(1, 11):
            before = job.out
            hosts.run("n01", ["/bin/kill", f"-{int(signal.SIGUSR1)}", *everybody])
            job.send(signal.SIGUSR1)
            wait_until(lambda: {*re.findall(r"noticed (\d)", job.out[len(before):])} == {*"012"}, "the notice on each host")  # pylint: disable=cell-var-from-loop
            job.send(signal.SIGUSR2)  # is passed on later than the one before would have been
            job.wait_for(r"later \d", count=3 * tries)
            if sorted(re.findall(r"noticed (\d)", job.out[len(before):])) == list("012"):
                break
        check(sorted(re.findall(r"noticed (\d)", job.out[len(before):])) == list("012"), "each notice once", job.shown())
        for name in hosts.names:
            hosts.write(name, "/tmp/muster-test-end", "")
        job.end()
        job.expect_clean(0, "SIGUSR1 is passed on to the workers that handle it")


def interrupted_while_ssh_connects():
    with Hosts(2) as hosts:
        hosts.start_impostor("n01", "silent")

        def once():
            job = Job(hosts)
            wait_until(lambda: len([p for p in hosts.processes("login") if p["comm"] == "ssh"]) == 2, "both clients of ssh")
            took = job.ended(job.send(signal.SIGINT))
            job.expect_clean(130)
            return took

        promise("Ctrl-C while ssh connects", once=once, **promised("ctrl-c-on-many-hosts", "connecting"))


def worker_fails_on_another_host():
    """The exit code is the worker's, the text names rank and host, and the other host is cleaned."""
    go = "/tmp/muster-test-go"
    program = f"echo ready $RANK; [ $RANK = 3 ] || exec sleep 1000; until [ -e {go} ]; do sleep 0.01; done; rm {go}; echo broken >&2; exit 7"

    def let_go(job):
        begin = time.monotonic()
        job.hosts.write("n01", go, "")
        return begin

    ends("a worker on another host fails", promised("worker-on-another-host-fails"), let_go, 7, r"rank 3", r"n01",
         r"exit code 7|exited with 7|code 7", r"broken", usual=0.03, worker=["bash", "-c", program])


def temporary_logs():
    """They go after success, and stay on their hosts after a failure."""
    with Hosts(2) as hosts:
        job = Job(hosts, "--tee", "3", worker=["bash", "-c", "echo ready $RANK"])
        job.expect_clean(0, "ready 0", "ready 1")
        job = Job(hosts, "--tee", "3", worker=["bash", "-c", "echo ready $RANK; until [ -e /tmp/muster-test-go ]; do sleep 0.1; done; "
                                                      "[ $RANK = 0 ] || exit 3; exec sleep 1000"]).ready(2)
        hosts.write("n01", "/tmp/muster-test-go", "")
        job.expect(3)
        for host in hosts.names:
            kept = [f for f in hosts.files(host) if f.endswith("/stdout.log")]
            check(len(kept) == 1, f"{kept} on {host}", job.shown())


def store_stopped():
    """Its guardian kills it before the other nodes give it up by themselves; where that is held up, they are first."""
    with Hosts(2) as hosts:
        said = []
        for _ in range(2):
            job = Job(hosts, at=TWO_EACH).ready(4)
            begin = job.hit("n00", STORE, signal.SIGSTOP)
            job.wait_for(r"the store process of n00 was stopped \(SIGSTOP\)", name="err")
            said.append(time.monotonic() - begin)
            job.hit("n00", STORE, signal.SIGCONT)
            job.send(signal.SIGTERM)
            job.expect(143)
        job = Job(hosts, at=TWO_EACH).ready(4)
        begin = job.hit("n00", STORE, signal.SIGSTOP)
        job.wait_for(r"the store process of n00 was stopped \(SIGSTOP\)", name="err")
        said.append(time.monotonic() - begin)
        took = job.ended(begin)
        job.expect(125, r"the store process of n00 was lost \(it stayed stopped|lost the coordinator")
        job.nothing_left()
        kept("node 0's store is stopped: said", took=said, **promised("node-store-stopped", "said"))
        kept("node 0's store is stopped: the job has ended", took=[took], one_try=CLOCK, **promised("node-store-stopped"))


def store_stopped_and_terminated():
    with Hosts(2) as hosts:
        job = Job(hosts, "--shutdown-timeout", "2").ready(2)
        job.hit("n00", STORE, signal.SIGSTOP)
        job.wait_for(r"the store process of n00 was stopped", name="err")
        job.send(signal.SIGTERM)
        job.expect_clean(143)


def guardian_stopped(host):
    """The job goes on, and ends as it would have."""
    with Hosts(2) as hosts:
        job = Job(hosts, worker=["bash", "-c", "echo ready $RANK; until [ -e /tmp/muster-test-go ]; do sleep 0.1; done"]).ready(2)
        job.hit(host, GUARDIAN, signal.SIGSTOP)
        job.wait_for(rf"the guardian process of {host} is stopped", name="err")
        for each in ("n00", "n01"):
            hosts.write(each, "/tmp/muster-test-go", "")
        job.expect_clean(0)


def guardian_of_the_coordinator_stopped():
    guardian_stopped("n00")


def guardian_of_another_node_stopped():
    guardian_stopped("n01")


def open_files():
    """Ours have the hard limit, and workers what the user has."""
    soft, hard = 256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with Hosts(2) as hosts:
        job = Job(hosts, worker=["bash", "-c", "echo ready $RANK with $(ulimit -Sn); exec sleep 1000"]).ready(2)
        with open(f"/proc/{job.process.pid}/limits", encoding="ascii") as file:
            limit = next(line.split()[3:5] for line in file if line.startswith("Max open files"))
        check(limit == [str(hard)] * 2, f"the launcher's limit is {limit}", job.shown())
        agent = hosts.run("n01", ["grep", "open files", f"/proc/{min(job.pids('n01', AGENT))}/limits"]).stdout.split()[3:5]
        check(agent == [str(hard)] * 2, f"an agent's limit is {agent}", job.shown())
        job.send(signal.SIGTERM)
        job.expect(143, rf"ready \d with {soft}")


FAILS_WHEN_TOLD = ["dash", "-c", "echo ready $RANK; until [ -e /tmp/muster-test-go ]; do sleep 0.05; done; exit 3"]


def nodes_that_fail_together():
    """Node 0's agent may leave with something unread, which is no broken line: nobody is waited for."""
    took = []
    with Hosts(3) as hosts:
        for _ in range(8):
            job = Job(hosts, "--log-level", "info", worker=FAILS_WHEN_TOLD).ready(3)
            for name in hosts.names:
                hosts.write(name, "/tmp/muster-test-go", "")
            took.append(job.ended(time.monotonic()))
            job.expect(3)
            check(not re.search(r"n00.*may come back", job.err), "node 0 was waited for", job.shown())
            for name in hosts.names:
                hosts.run(name, ["rm", "/tmp/muster-test-go"])
        job.nothing_left()
    kept("nodes that fail together: the job has ended", took=took, **promised("worker-on-another-host-fails", "together", usual=0.06))


def told_to_stop_before_the_round():
    """n01 cannot reach node 0, so no round begins. Only the launcher can tell the others that one of them ends."""
    with Hosts(3) as hosts:
        for name, comm, number in (("n02", AGENT, signal.SIGTERM), ("n02", GUARDIAN, signal.SIGHUP), ("n00", AGENT, signal.SIGTERM),
                                   ("n00", GUARDIAN, signal.SIGHUP)):
            word, took = comm.removeprefix("muster:"), []
            for _ in range(3):
                with hosts.cut("n00", "n01"):
                    job = Job(hosts, "--rdzv-conf", "join_timeout=100")
                    wait_until(lambda: all(job.pids(host, AGENT) for host in hosts.names), "an agent on each host", pause_s=0.002)
                    took.append(job.ended(job.hit(name, comm, number)))
                job.expect_clean(125, rf"the {word} process of {name} was told to stop by {signal.Signals(number).name}")
            kept(f"the {word} of {name} is told to stop before its round: the job has ended", took=took, **promised("node-told-to-stop"))


if __name__ == "__main__":
    main(timed=(told_to_stop_before_the_round, store_stopped, agent_stopped, agent_killed, agent_of_the_coordinator_killed,
                guardian_killed, guardian_and_agent_killed, guardian_and_agent_killed_with_a_question_unread,
                guardian_and_agent_killed_and_the_job_goes_on, launcher_killed, interrupted_once, interrupted_twice, interrupted_thrice,
                interrupted_while_waiting, interrupted_while_ssh_connects, terminated, worker_fails_on_another_host,
                nodes_that_fail_together, store_killed),
         untimed=(agent_stopped_and_resumed_too_late, agent_stopped_for_a_moment, agent_killed_while_it_starts, what_a_killed_pair_left,
                  store_stopped_and_terminated, launcher_killed_while_it_starts, temporary_logs,
                  guardian_of_the_coordinator_stopped, guardian_of_another_node_stopped, open_files,
                  notices_reach_every_host),
         untimed_parallel=6)
