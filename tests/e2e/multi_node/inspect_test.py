# SPDX-License-Identifier: Apache-2.0
"""A job on three hosts as another shell sees it: muster ps, status and stacks answer for all of them."""
import json
import os
import re
import signal
import time

import open_metrics
from event_file import events_of, kinds_of
from interop import TORCH_PYTHON
from multi_node import AGENT, LAUNCHER, MUSTER, PATIENCE_S, Hosts, Job, check, kept, main
from processes import wait_until

PYTHON = TORCH_PYTHON if os.path.exists(TORCH_PYTHON) else "python3"
HOLD = """
import os, socket, threading
held = threading.Lock()
held.acquire()
def hold():
    os.write(1, f"ready {os.environ['RANK']} on {socket.gethostname()}\\n".encode())  # by one write, that nobody takes apart
    held.acquire()
hold()
"""

# One rank of six stops itself.
HANG = """
import os, signal, threading
held = threading.Lock()
held.acquire()
def hold():
    os.write(1, f"ready {os.environ['RANK']}\\n".encode())
    if os.environ["RANK"] == "5":
        os.kill(os.getpid(), signal.SIGSTOP)
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

        # A rank that has said that it is ready has not got to its next line yet.
        stacks = "ranks 0-5: <string>:7 hold <- <string>:8 <module>\n"
        wait_until(lambda: ask(hosts, "stacks").stdout == stacks, "all ranks in their line")
        some = ask(hosts, "stacks", "--rank", "1,4-5").stdout
        check(some.startswith("ranks 1, 4, 5: "), some)
        native = ask(hosts, "stacks", "--native").stdout
        check("--native stops each thread" in native, native)
        if "libdw1" not in native:
            check(len(re.findall(r"(?m)^ranks 0-5, main thread \(python3\), machine code:$", native)) == 1, native)
            check(re.search(r"(?m)^  #\d+ +\S+ \(libc\S*\+0x", native), native)
        again = ask(hosts, "stacks").stdout
        check(again == stacks, again)

        job.hit("n01", AGENT, signal.SIGSTOP)
        partial = ask(hosts, "status").stdout
        check("no answer for 3 s from n01: partial, 2 of 3 nodes\n" in partial, partial)
        # After 5 s the node is lost, which a busy machine may take until here.
        hosts.run("n01", ["/bin/kill", "-CONT", *job.pids("n01", AGENT)], check=False)
        job.send(signal.SIGTERM)
        job.end()
        job.nothing_left(directories=True)
        check(ask(hosts, "ps").stdout.count("\n") == 1, "the job is still there")


def three_hosts_are_examined():
    """muster doctor over ssh: every host's facts, its way to the others, and a host that is silent."""
    with Hosts(3) as hosts:
        asked = ask(hosts, "doctor", "--json", "-H", "n00,n01,n02", "--python", PYTHON, check=False)
        report = json.loads(asked.stdout)
        check(asked.returncode == (1 if report["problems"] else 0), asked)
        check([host["facts"]["host"] for host in report["hosts"]] == ["n00", "n01", "n02"], report)
        ways = [host["facts"]["network"] for host in report["hosts"]]
        check([way["towards"] for way in ways] == ["n01", ways[0]["address"], ways[0]["address"]], ways)
        check(all(way["interface"] and way["mtu"] > 0 and not way["error"] for way in ways), ways)
        check(len({way["address"] for way in ways}) == 3, ways)
        check(all(host["facts"]["python"]["version"] for host in report["hosts"]), report)
        check(report["differences"] == [], report["differences"])
        tried, = report["tried"]
        if PYTHON == TORCH_PYTHON:
            check(re.fullmatch(r"1 MiB on 3 hosts with gloo in \d+\.\d ms", tried["found"]) and tried["verdict"] == "ok", asked)

        hosts.kill_host("n01")
        asked = ask(hosts, "doctor", "-H", "n00,n01,n02", "--login-timeout", "20", check=False)
        check(asked.returncode == 1, asked)
        check(re.search(r"^n01\n  problem  login +ssh: .*\n +-> \S.*\nn02\n", asked.stdout, re.M), asked.stdout)
        check(asked.stdout.count("  muster ") == 2, asked.stdout)


def a_job_whose_nodes_start_is_looked_at():
    """Before its agent runs a node has nothing to say, and nobody waits for it."""
    with Hosts(2) as hosts:
        hosts.kill_host("n01")
        job = Job(hosts, at="n00,n01")
        deadline = time.monotonic() + PATIENCE_S
        while not (cards := json.loads(ask(hosts, "ps", "--json").stdout)):
            check(time.monotonic() < deadline, "no job is seen", job.shown())
        check(len(cards) == 1, cards)
        asked = ask(hosts, "status").stdout
        check("node n01: is being started\n" in asked and "no answer" not in asked, asked)
        job.send(signal.SIGINT)
        job.end()


def a_hang_on_three_hosts_is_told_once_with_where_all_ranks_are():
    with Hosts(3) as hosts:
        flags = "--hang-timeout", "4", "--shutdown-timeout", "1"
        job = Job(hosts, *flags, at="n00:2,n01:2,n02:2", worker=["python3", "-c", HANG]).ready(6)
        told = r"(?m)^muster: warning: n00: rank 5 on n02 \(<string>:8 in hold\) is hung: it is stopped by a signal since \d+ s; .*\n" \
               r"(muster: warning: n0\d:   ranks? [0-4, -]+: <string>:9 hold <- <string>:10 <module>\n)+" \
               r"muster: warning: n0\d:   rank 5: <string>:8 hold <- <string>:10 <module>$"
        job.wait_for(told, name="err")
        check(len(re.findall("is hung", job.err)) == 1, "it is told again", job.shown())
        shown = ask(hosts, "status").stdout
        check(re.search(r"(?m)^rank 5 on n02 \(<string>:8 in hold\) is hung: .*\(said \d+ s ago\)$", shown), shown)
        check(re.search(r"(?m)^5 +n02 .* is stopped by a signal since \d+ s", shown), shown)
        check(re.search(r"(?m)^0 +n00 .* waits for a lock or an event since \d+ s \(<string>:9 in hold\)$", shown), shown)
        job.send(signal.SIGTERM)
        job.end()
        job.nothing_left()


# Rank 3 of six fails once; then rank 5 stops itself.
ONCE = """
import os, signal, sys, threading
held = threading.Lock()
held.acquire()
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    if os.environ["RANK"] == "3":
        sys.exit(3)
    held.acquire()
sys.stdout.write(f"ready {os.environ['RANK']}\\n")
sys.stdout.flush()
if os.environ["RANK"] == "5":
    os.kill(os.getpid(), signal.SIGSTOP)
held.acquire()
"""
SCRAPE = """
import socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.connect(sys.argv[1])
    s.sendall(b"GET /metrics HTTP/1.0\\r\\n\\r\\n")
    sys.stdout.write(s.makefile("rb").read().decode().partition("\\r\\n\\r\\n")[2])
"""


def the_course_and_the_metrics_of_a_job_on_three_hosts_are_told():
    mark = os.urandom(4).hex()
    file, place = f"/tmp/muster-test-events-{mark}", f"/tmp/muster-test-metrics-{mark}"
    with Hosts(3) as hosts:
        flags = ["--max-restarts", "1", "--hang-timeout", "4", "--shutdown-timeout", "1", "--event-file", file,
                 "--metrics-listen", f"unix:{place}"]
        job = Job(hosts, *flags, at="n00:2,n01:2,n02:2", worker=["python3", "-c", ONCE]).ready(6)
        # By then each node knows the verdict.
        job.wait_for("rank 5 .*is hung", name="err")
        families = open_metrics.parse(hosts.run(LAUNCHER, ["python3", "-c", SCRAPE, place]).stdout)
        check(families["muster_job_state"][{"state": "hung"}] == 1, families["muster_job_state"].samples)
        check(families["muster_restarts"][{"cause": "node_failed"}] == 1, families["muster_restarts"].samples)
        hung = {(dict(key)["node"], dict(key)["rank"]): value for key, value in families["muster_rank_hung"].samples.items()}
        check(hung == {(f"n0{rank // 2}", str(rank)): float(rank == 5) for rank in range(6)}, hung)
        heard = families["muster_node_last_heard_seconds"].samples
        check(sorted(dict(key)["node"] for key in heard) == ["n00", "n01", "n02"], heard)
        job.send(signal.SIGTERM)
        job.end()
        events = events_of(hosts.read(LAUNCHER, file))
        # Each node's words come over its own connection, so only the order within one node is certain.
        kinds = kinds_of(events, "worker_end", "hang")
        begins = ["round_begin", "node_begin", "node_begin", "node_begin"] * 2
        check(sorted(kinds[1:-2]) == sorted(["failure", "restart", *begins]), events)
        check([kinds[0], *kinds[-2:]] == ["job_start", "stop", "job_end"], events)
        nodes = {(event["node"], event["node_rank"], event["first_rank"]) for event in events if event["kind"] == "node_begin"}
        check(nodes == {("n00", 0, 0), ("n01", 1, 2), ("n02", 2, 4)}, nodes)
        check(all(event["culprits"] == [5] for event in events if event["kind"] == "hang"), events)
        check(job.report()["time"]["detect_ms"] >= 4000, job.report()["time"])
        job.nothing_left()


def the_jobs_of_other_hosts_are_listed():
    with Hosts(3) as hosts:
        job = Job(hosts, "--nnodes", "1", "--name", "night", on="n01").ready(1)
        while not json.loads(ask(hosts, "ps", "--json", on="n01").stdout):
            check(job.process.poll() is None, "the job has ended", job.shown())
        listed = ask(hosts, "ps", "-H", "n00,n01")
        check(re.fullmatch(r"HOST +JOB .*\nn01 +\S+ +night +running +\S+Z +1 +1 +muster run .*\n", listed.stdout), listed)
        hosts.kill_host("n02")
        asked = ask(hosts, "ps", "-H", "n01,n02", "--json", "--login-timeout", "20", check=False)
        one, other = json.loads(asked.stdout)
        check(asked.returncode == 3 and re.search(r"(?m)^muster: error: n02 did not answer: ssh: ", asked.stderr), asked)
        check([card["name"] for card in one["jobs"]] == ["night"] and other["error"].startswith("n02 did not answer"), asked)
        job.send(signal.SIGTERM)
        job.end()


def a_detached_job_on_three_hosts_keeps_what_its_ranks_print():
    with Hosts(3) as hosts:
        state = f"/tmp/muster-test-state-{os.urandom(4).hex()}"

        def say(*words, code=0):
            asked = hosts.run(LAUNCHER, [MUSTER, *words], check=False, env={"XDG_STATE_HOME": state})
            check(asked.returncode == code, asked)
            return asked.stdout

        job = say("run", "--detach", "-H", "n00:2,n01:2,n02:2", "--login-timeout", "60", "--no-python", "python3", "-c", HOLD).strip()
        answer = json.loads(say("status", "--json"))
        check(len([worker for node in answer["nodes"] for worker in node["workers"] if worker["pid"]]) == 6, answer)
        deadline = time.monotonic() + PATIENCE_S
        while say("logs", job).count("ready") < 6:
            check(time.monotonic() < deadline, "not all ranks are ready", say("logs", job))
        lines = [json.loads(line) for line in say("logs", job, "--json").splitlines()]
        ready = sorted((line["rank"], line["round"], line["text"]) for line in lines if line["rank"] is not None)
        check(ready == [(rank, 0, f"ready {rank} on n0{rank // 2}") for rank in range(6)], lines)
        check(say("logs", "--rank", "3") == "[3]: ready 3 on n01\n", "one rank")
        say("kill", job)
        deadline = time.monotonic() + PATIENCE_S
        while not (last := say("logs", job, "--json").splitlines()[-1]).startswith('{"exit_code"'):
            check(time.monotonic() < deadline, "the console has no end", last)
        check(json.loads(last)["exit_code"] == 143, last)
        # The launcher ends after its console, which has told the end.
        wait_until(lambda: not [p for host in [LAUNCHER, *hosts.names] for p in hosts.processes(host) if p["comm"].startswith("muster")],
                   "the end of all our processes")


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
    main(timed=[the_stacks_of_many_ranks_are_one_line],
         untimed=[the_course_and_the_metrics_of_a_job_on_three_hosts_are_told, the_jobs_of_other_hosts_are_listed,
                  a_detached_job_on_three_hosts_keeps_what_its_ranks_print,
                  a_hang_on_three_hosts_is_told_once_with_where_all_ranks_are, a_job_on_three_hosts_is_looked_at,
                  three_hosts_are_examined, a_job_whose_nodes_start_is_looked_at])
