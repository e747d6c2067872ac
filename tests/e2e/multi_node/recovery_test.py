# SPDX-License-Identifier: Apache-2.0
"""Jobs on many hosts that go on after a failure: --max-restarts, nodes that an elastic job can do without, and what becomes of
workers of an earlier round (F1, F13, F22 and F35 of the fault matrix over real ssh)."""
import re
import signal
import sys
import time

from links_test import flapping_link
from multi_node import AGENT, CLOCK, GUARDIAN, Hosts, Job, check, kept, main, promised
from processes import wait_until
from store_programs import WAITS_FOR_KEY

GO = "/tmp/muster-test-go"
READY = "echo ready $RANK of $WORLD_SIZE in round $TORCHELASTIC_RESTART_COUNT on $(hostname)"
UNTIL_TOLD = ["dash", "-c", f"{READY}; until [ -e {GO} ]; do sleep 0.1; done; echo done $RANK of $WORLD_SIZE"]
THREE = ("--nnodes", "2:3", "-H", "n00,n01,n02", "--max-restarts", "1", "--rdzv-conf", "last_call_timeout=3")


def let_go(hosts, *names):
    for name in names:
        hosts.write(name, GO, "")


def worker_crashes():
    """Every worker on every host starts again, once, and the report says how often."""
    crash = f"{READY}; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; [ $RANK = 3 ] || exec sleep 1000; " \
            f"until [ -e {GO} ]; do sleep 0.1; done; kill -SEGV $$"
    with Hosts(2) as hosts:
        job = Job(hosts, "--max-restarts", "2", at="n00:2,n01:2", worker=["dash", "-c", crash]).ready(4)
        let_go(hosts, "n01")
        job.expect(0, r"round 0 ended: rank 3 on n01.*SIGSEGV.*restart 1 of 2")
        for attempt in (0, 1):
            for rank in range(4):
                line = f"ready {rank} of 4 in round {attempt} on n0{rank // 2}\n"
                check(job.out.count(line) == 1, f"not once: {line}", job.shown())
        check([node["restarts"] for node in job.report()["nodes"]] == [1, 1], "another number of restarts in the report", job.shown())
        job.nothing_left()


def worker_crashes_once_too_often():
    """The failure after the last restart is the job's, with its code."""
    with Hosts(2) as hosts:
        job = Job(hosts, "--max-restarts", "1", worker=["dash", "-c", f"{READY}; [ $RANK = 0 ] || exit 9; exec sleep 1000"])
        job.expect(9, r"restart 1 of 1", r"rank 1 on n01", r"exit code 9")
        check(job.out.count("ready 1 of 2") == 2, "not two rounds", job.shown())
        job.nothing_left()


def hangs():
    """A rank that is stopped hangs the job on all hosts: with --on-hang the job starts again, or ends."""
    hang = f"{READY}; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; [ $RANK = 1 ] && kill -STOP $$; exec sleep 1000"
    flags = "--hang-timeout", "4", "--shutdown-timeout", "1", "--max-restarts", "1", "--on-hang"
    with Hosts(2) as hosts:
        job = Job(hosts, *flags, "restart", worker=["dash", "-c", hang])
        job.expect(0, r"round 0 ended: rank 1 on n01 is hung: it is stopped by a signal.*; rank 0 sleeps.*restart 1 of 1")
        job.nothing_left()
        job = Job(hosts, *flags, "abort", worker=["dash", "-c", hang])
        job.expect(1, r"(?m)^muster: error: .* failed: rank 1 on n01 is hung: it is stopped", r"0 of 1 used; no restart: a job that is hung ends")
        report = job.report()
        check((report["hang"]["level"], report["hang"]["text"]) == ("is_hung", report["cause"]), "another verdict in the report", report)
        check([node["ended_by"]["hung"] for node in report["nodes"]] == [True, True], "a node ended for another reason", report)
        job.nothing_left()
        # Through the agents' connections the store knows no worker by its address.
        job = Job(hosts, *flags, "abort", "--store-proxy", worker=["python3", "-c", WAITS_FOR_KEY])
        job.expect(1, r"all 2 ranks are hung: ranks 0, 1 wait for the store's key 'epcoh' since \d+ s \(.*\), which nobody has set; 'epoch' exists")
        job.nothing_left()


def goes_on_with_two(hosts, job, reason, since, what, bound):
    """The job is one of THREE and has lost n02: the next round is there at once, or after the time of silence."""
    job.wait_for(r"ready \d of 2 in round [01] on n0[01]", count=2)
    seconds = time.monotonic() - since
    kept(f"{what}: the next round", took=[seconds], one_try=CLOCK, **bound)
    let_go(hosts, "n00", "n01")
    job.expect(0, r"all workers start again", "done 0 of 2", "done 1 of 2", rf"(?m)^muster: warning: .*n02.*{reason}.*; 2 of 3 nodes are left",
               rf"the job ended without n02.*{reason}")
    check(not re.search(r"done \d of 3", job.out), "a worker of the round that was over went on", job.shown())
    check(all(node["restarts"] == 0 for node in job.report()["nodes"]), "a loss that the job can bear has cost a restart", job.shown())


def node_lost():
    """F22: a host of an elastic job goes; the others begin the next round."""
    with Hosts(3) as hosts:
        job = Job(hosts, *THREE, worker=UNTIL_TOLD).ready(3)
        begin = time.monotonic()
        hosts.kill_host("n02")
        goes_on_with_two(hosts, job, "silent for 5000 ms", begin, "a host of an elastic job vanishes",
                         promised("host-vanishes", "next_round"))
        job.nothing_left()


def agent_of_a_node_killed():
    """F13 in an elastic job."""
    with Hosts(3) as hosts:
        job = Job(hosts, *THREE, worker=UNTIL_TOLD).ready(3)
        goes_on_with_two(hosts, job, "SIGKILL", job.hit("n02", AGENT), "an agent of an elastic job is killed",
                         promised("node-agent-killed", "next_round"))
        job.nothing_left()


def agent_of_a_node_gives_up():
    """F15 in an elastic job: the agent ends its node, reports why, and the others succeed without it."""
    with Hosts(3) as hosts:
        job = Job(hosts, *THREE, worker=UNTIL_TOLD).ready(3)
        goes_on_with_two(hosts, job, "guardian", job.hit("n02", GUARDIAN), "a guardian of an elastic job is killed",
                         promised("node-gives-up", "next_round"))
        check(job.report()["outcome"] == "succeeded", "another outcome in the report", job.shown())
        job.nothing_left(directories=True)


def node_0_lost(process, on, work, told=READY, ready=3):
    """The store of an elastic job goes with it: the job ends at once, and says so, in a round or after a success."""
    with Hosts(3) as hosts:
        took = []
        for _ in range(3):
            job = Job(hosts, *THREE, on=on, worker=["dash", "-c", f"{told}; {work}"]).ready(ready)
            took.append(job.ended(job.hit("n00", process)))
            job.expect(125, rf"(?m)^muster: error: .*the {process.split(':')[1]} process of n00 was .*; n00 holds the store, and the job ends with it",
                       r"next  .*start the job again")
            check("in round 1" not in job.out and " of 2 " not in job.out, "another round began", job.shown())
            job.nothing_left()
        kept(f"{process} of node 0 of an elastic job is killed, seen from {on}", took=took, **promised("node-0-of-elastic"))


def agent_of_node_0_killed():
    node_0_lost(AGENT, "login", "exec sleep 1000")


def guardian_of_node_0_killed():
    node_0_lost(GUARDIAN, "login", "exec sleep 1000")


def agent_of_node_0_on_the_launchers_host_killed():
    node_0_lost(AGENT, "n00", "exec sleep 1000")


def guardian_of_node_0_on_the_launchers_host_killed():
    node_0_lost(GUARDIAN, "n00", "exec sleep 1000")


def agent_of_node_0_killed_after_its_success():
    node_0_lost(AGENT, "login", f"[ $RANK != 0 ] || exit 0; {READY}; exec sleep 1000", told="true", ready=2)


def node_that_cannot_start_its_workers():
    """It has joined nobody; the others are enough."""
    with Hosts(3) as hosts:
        for name in ("n00", "n01"):
            hosts.run(name, ["mkdir", "/tmp/muster-test-there"])
        # Even where n02 takes seconds to say so, the others are still in the last call.
        job = Job(hosts, *THREE[:-1], "last_call_timeout=20", "--wdir", "/tmp/muster-test-there",
                  worker=["dash", "-c", READY])
        job.expect_clean(0, "ready 0 of 2", "ready 1 of 2", r"(?m)^muster: warning: n02.*/tmp/muster-test-there.*; 2 of 3 nodes are left",
                         r"the job ended without n02.*/tmp/muster-test-there")


def too_few_are_left():
    """One less than --nnodes asks for: the job ends, and says so."""
    with Hosts(2) as hosts:
        job = Job(hosts, "--nnodes", "2:3", "-H", "n00,n01", "--max-restarts", "3", worker=UNTIL_TOLD).ready(2)
        job.hit("n01", GUARDIAN)
        job.expect_clean(125, "n01", "guardian", directories=True)


# A worker that asks the store of its round again and again, and writes down every answer. It keeps the connection of its
# first hour, and tries another one when that is gone.
OLD_WORKER = f"""
import os, socket, struct, sys, time
rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))


def word(text):
    return struct.pack("<Q", len(text)) + text


def connect():
    store = socket.create_connection(place, 5)
    store.sendall(struct.pack("<BI", 0, 0x3C85F7CE))
    return store


def add(store, key):
    store.sendall(b"\\x04" + word(key) + struct.pack("<q", 1))
    answer = store.recv(8)
    if len(answer) != 8:
        raise ConnectionError("closed")
    return struct.unpack("<q", answer)[0]


store = connect()
add(store, b"/seen")
print(f"ready {{rank}} of {{os.environ['WORLD_SIZE']}} in round {{attempt}} on {{os.uname().nodename}}", flush=True)
log = open("/tmp/muster-test-answers", "a", buffering=1)
while not os.path.exists("{GO}"):
    try:
        log.write(f"{{attempt}} {{add(store, b'/round' + attempt.encode())}}\\n")
        time.sleep(0.05)
    except OSError as error:
        log.write(f"{{attempt}} error {{error}}\\n")
        time.sleep(0.2)
        try:
            store = connect()
        except OSError as again:
            log.write(f"{{attempt}} refused {{again}}\\n")
# Nobody of another round has been here.
keys = [add(store, b"/round%d" % number) for number in range(2)]
print(f"done {{rank}} of {{os.environ['WORLD_SIZE']}} others {{keys[1 - int(attempt)]}}", flush=True)
"""


def worker_of_an_earlier_round():
    """F35 over several hosts: a worker outlives its round, because its agent and guardian stand still. It gets errors, never an
    answer of the next round's store, and is gone when they go on."""
    with Hosts(3) as hosts:
        program = [sys.executable, "-c", OLD_WORKER]
        job = Job(hosts, *THREE, "--restart-policy", "torchrun", worker=program).ready(3)
        begin = time.monotonic()
        job.hit("n02", GUARDIAN, signal.SIGSTOP)
        job.hit("n02", AGENT, signal.SIGSTOP)
        job.wait_for(r"ready \d of 2 in round 1 on n0[01]", count=2)
        kept("agent and guardian of an elastic job are stopped: the next round", took=[time.monotonic() - begin],
             one_try=CLOCK, **promised("node-agent-stopped", "next_round"))
        check(len(job.pids("n02", "python3")) + len(job.pids("n02", "python")) == 1, "the old worker is gone", job.shown())
        before = hosts.read("n02", "/tmp/muster-test-answers").count("error")
        wait_until(lambda: hosts.read("n02", "/tmp/muster-test-answers").count("error") >= before + 3, "further errors")
        answers = hosts.read("n02", "/tmp/muster-test-answers").splitlines()
        first = next(i for i, line in enumerate(answers) if "error" in line)
        check(all("error" in line or "refused" in line for line in answers[first:]), "an answer after its round", answers[first:])
        let_go(hosts, "n00", "n01")
        # The agent lets its guardian go on, too, which may have ended before it is told here.
        hosts.run("n02", ["/bin/kill", "-CONT", *(str(pid) for comm in (AGENT, GUARDIAN) for pid in job.pids("n02", comm))], check=False)
        job.expect_clean(0, r"done 0 of 2 others [12]\n", r"done 1 of 2 others [12]\n", "the job ended without n02", directories=True)


def lost_without_a_restart():
    """Two of three would be enough, but where a loss costs a restart there is no other round for them."""
    with Hosts(3) as hosts:
        job = Job(hosts, "--nnodes", "2:3", "-H", "n00,n01,n02", "--max-restarts", "0", "--restart-policy", "torchrun",
                  worker=UNTIL_TOLD).ready(3)
        job.hit("n02", AGENT)
        job.expect(125, r"(?m)^muster: warning: .*n02.*; a round that has begun ends the job, for no restart is left",
                   r"(?m)^muster: error: .*n02.*no restart is left \(--max-restarts 0\)")
        check("no restart is left" in job.report()["cause"], "the report does not say so", job.shown())
        job.nothing_left()


if __name__ == "__main__":
    # A link that comes and goes stays a second below the silence that counts as a death: nothing else runs beside these.
    main(timed=(flapping_link, node_lost, worker_of_an_earlier_round, agent_of_a_node_killed, agent_of_a_node_gives_up, agent_of_node_0_killed,
                guardian_of_node_0_killed, agent_of_node_0_on_the_launchers_host_killed,
                guardian_of_node_0_on_the_launchers_host_killed, agent_of_node_0_killed_after_its_success),
         untimed=(too_few_are_left, node_that_cannot_start_its_workers, worker_crashes, worker_crashes_once_too_often, hangs,
                  lost_without_a_restart), parallel=4)
