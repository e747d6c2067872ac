# SPDX-License-Identifier: Apache-2.0
"""A job on three hosts as another shell sees it: muster ps, status and stacks answer for all of them."""
import json
import signal
import time

from multi_node import AGENT, LAUNCHER, MUSTER, Hosts, Job, check, kept, main

HOLD = """
import os, socket, threading
held = threading.Lock()
held.acquire()
def hold():
    print(f"ready {os.environ['RANK']} on {socket.gethostname()}", flush=True)
    held.acquire()
hold()
"""


def ask(hosts, *words, check=True, on=LAUNCHER):
    return hosts.run(on, [MUSTER, *words], check=check)


def a_job_on_three_hosts_is_looked_at():
    with Hosts(3) as hosts:
        job = Job(hosts, at="n00:2,n01:2,n02:2", worker=["python3", "-c", HOLD]).ready(6)
        (card,) = json.loads(ask(hosts, "ps", "--json").stdout)
        check((card["nodes"], card["workers"]) == (3, 6), card)
        elsewhere = ask(hosts, "status", on="n00", check=False)
        check(elsewhere.returncode == 1 and "no job of this user runs on this host" in elsewhere.stderr, elsewhere)

        answer = json.loads(ask(hosts, "status", "--json").stdout)
        check(answer["no_answer_from"] == [] and [node["host"] for node in answer["nodes"]] == ["n00", "n01", "n02"], answer)
        workers = [worker for node in answer["nodes"] for worker in node["workers"]]
        check([(worker["rank"], worker["state"]) for worker in workers] == [(rank, "running") for rank in range(6)], workers)
        pids = {process["pid"] for process in hosts.processes("n02")}
        check(all(worker["pid"] in pids and worker["memory"] > 1 << 20 for worker in workers[4:]), workers, pids)

        stacks = ask(hosts, "stacks").stdout
        check(stacks == "ranks 0-5: <string>:7 hold <- <string>:8 <module>\n", stacks)
        some = ask(hosts, "stacks", "--rank", "1,4-5").stdout
        check(some.startswith("ranks 1, 4, 5: "), some)

        (agent,) = job.pids("n01", AGENT)
        hosts.signal("n01", agent, signal.SIGSTOP)
        partial = ask(hosts, "status").stdout
        check("no answer for 3 s from n01: partial, 2 of 3 nodes\n" in partial, partial)
        hosts.signal("n01", agent, signal.SIGCONT)
        job.send(signal.SIGTERM)
        job.end()
        job.nothing_left()
        check(ask(hosts, "ps").stdout.count("\n") == 1, "the job is still there")


def a_job_whose_nodes_start_is_looked_at():
    """Before its agent runs a node has nothing to say, and nobody waits for it."""
    with Hosts(2) as hosts:
        hosts.kill_host("n01")
        job = Job(hosts, at="n00,n01")
        deadline = time.monotonic() + 30
        while not (cards := json.loads(ask(hosts, "ps", "--json").stdout)):
            check(time.monotonic() < deadline, "no job is seen", job.shown())
        check(len(cards) == 1, cards)
        asked = ask(hosts, "status").stdout
        check("node n01: is being started\n" in asked and "no answer" not in asked, asked)
        job.send(signal.SIGINT)
        job.end()


def the_stacks_of_many_ranks_are_one_line():
    """64 Python programs on eight hosts, within a second."""
    with Hosts(8) as hosts:
        job = Job(hosts, at=",".join(f"{name}:8" for name in hosts.names), worker=["python3", "-c", HOLD]).ready(64)
        took = []
        for _ in range(3):
            begin = time.monotonic()
            stacks = ask(hosts, "stacks").stdout
            took.append(time.monotonic() - begin)
            check(stacks == "ranks 0-63: <string>:7 hold <- <string>:8 <module>\n", stacks)
        kept("the stacks of 64 ranks on 8 hosts", 1.0, took)
        job.send(signal.SIGTERM)
        job.end()


if __name__ == "__main__":
    main(timed=[the_stacks_of_many_ranks_are_one_line], untimed=[a_job_on_three_hosts_is_looked_at, a_job_whose_nodes_start_is_looked_at])
