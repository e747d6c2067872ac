# SPDX-License-Identifier: Apache-2.0
"""Links between hosts that are cut, slow, lossy or reset, and hosts that vanish: F20 and F27 to F30 of the fault matrix."""
import re
import sys
import time

from multi_node import AGENT, CLOCK, GUARDIAN, PATIENCE_S, Hosts, Job, check, kept, main, promised
from processes import wait_until

GO = "/tmp/muster-test-go"


def counting(seconds):
    """A worker that prints a number each quarter of a second."""
    return ["bash", "-c", f"echo ready $RANK; for i in $(seq {int(seconds * 4)}); do echo rank $RANK line $i; sleep 0.25; done"]


COUNTING_UNTIL_TOLD = ["bash", "-c", f"echo ready $RANK; i=0; until [ -e {GO} ]; do i=$((i + 1)); echo rank $RANK line $i; sleep 0.25; done; "
                                     "echo rank $RANK counted $i"]


def all_lines_came(job, lines):
    """Of each rank as many as `lines` says."""
    for rank, wanted in lines.items():
        for line in (1, wanted):
            check(f"rank {rank} line {line}\n" in job.out, f"line {line} of rank {rank} is missing", job.shown()[-4000:])
        count = job.out.count(f"rank {rank} line ")
        check(count == wanted, f"{count} lines of rank {rank}, not {wanted}", job.shown()[-4000:])


def ssh_cut_after_the_start():
    """F20: the job lives on over the direct channel, and its output comes to the end."""
    with Hosts(2) as hosts:
        job = Job(hosts, worker=COUNTING_UNTIL_TOLD).ready(2)
        begin = time.monotonic()
        with hosts.cut_port("n01", 22):
            job.wait_for(MOVED, name="err")
            kept("ssh is cut: seen", took=[time.monotonic() - begin], one_try=CLOCK, **promised("ssh-cut", "seen"))
            for name in hosts.names:
                hosts.write(name, GO, "")
            job.expect(0)
            counted = {rank: int(count) for rank, count in re.findall(r"rank (\d) counted (\d+)\n", job.out)}
            check(sorted(counted) == ["0", "1"], "a rank did not come to its end", job.shown()[-4000:])
            all_lines_came(job, counted)
        job.nothing_left()


UNTIL_TOLD = ["bash", "-c", f"echo ready $RANK; until [ -e {GO} ]; do sleep 0.1; done; echo done $RANK"]
MOVED = "going on through the coordinator"


def lives_on(job):
    """Longer than a guardian waits that takes the launcher for dead: the shutdown timeout of 1 s and 5 s more."""
    time.sleep(8)
    for name in job.hosts.names:
        job.hosts.write(name, GO, "")
    job.expect_clean(0, "done 0", "done 1")


def kill_ssh_clients(job, *names):
    """Of these hosts; returns when their links lead through the coordinator."""
    for name in names:
        clients = [p["pid"] for p in job.hosts.processes("login") if p["comm"] == "ssh" and f" {name} " in f"{p['command']} "]
        check(clients, f"no ssh client for {name}: {job.hosts.processes('login')}", job.shown())
        for pid in clients:
            job.hosts.signal("login", pid)
    job.wait_for(MOVED, name="err", count=len(names))


def ssh_clients_killed():
    """F20: the sessions on the other side end at once."""
    with Hosts(2) as hosts:
        job = Job(hosts, "--shutdown-timeout", "1", worker=UNTIL_TOLD).ready(2)
        kill_ssh_clients(job, *hosts.names)
        lives_on(job)


def worker_fails_without_ssh():
    """F20: the cause is reported all the same, and the exit code is the worker's."""
    worker = f"echo ready $RANK; [ $RANK = 1 ] || exec sleep 1000; until [ -e {GO} ]; do sleep 0.1; done; echo the cause >&2; exit 5"
    with Hosts(2) as hosts:
        job = Job(hosts, worker=["bash", "-c", worker]).ready(2)
        kill_ssh_clients(job, "n01")
        hosts.write("n01", GO, "")
        job.expect_clean(5, "rank 1", "the cause")


def launcher_killed_without_ssh():
    """No end of a session tells the hosts of it."""
    with Hosts(2) as hosts:
        job = Job(hosts).ready(2)
        kill_ssh_clients(job, *hosts.names)
        job.process.kill()
        job.process.wait()
        job.nothing_left(directories=True)


def ssh_cut_and_healed():
    """F20: the session on the other side ends long after the link has moved."""
    with Hosts(2) as hosts:
        job = Job(hosts, "--shutdown-timeout", "1", worker=UNTIL_TOLD).ready(2)
        with hosts.cut_port("n01", 22):
            kill_ssh_clients(job, "n01")
            time.sleep(1)
            # Before the cut heals: the client's end is on its way again and again.
            check(hosts.reset("n01", port=22) > 0, "the session on n01 had ended before", job.shown())
        lives_on(job)


def goes_on(seconds, fault, count=2):
    """A job meets with a fault and ends as it would have, with every line of its output once. What `fault` does lasts to the end."""
    with Hosts(count) as hosts:
        job = Job(hosts, worker=counting(seconds)).ready(count)
        fault(hosts, job)
        job.expect(0)
        all_lines_came(job, dict.fromkeys(range(count), 4 * seconds))
        job.nothing_left()


def reset_ssh(hosts, job):
    check(hosts.reset(hosts.names[-1], port=22) > 0, "no connection to reset", job.shown())


def ssh_reset_after_the_start():
    goes_on(12, reset_ssh)


def only_host_without_its_ssh():
    """A job of one host elsewhere: the launcher reaches it directly, too."""
    def fault(hosts, job):
        listening = [host for host, port in hosts.listeners("n00") if port != 22]
        check(listening == [hosts.hosts["n00"].ipv4], f"no listener for us: {listening}")
        check("cannot reach" not in job.err, "a false warning", job.shown())
        reset_ssh(hosts, job)

    goes_on(12, fault, count=1)


def loss():
    """F27: no false death at 10 % of lost packets, nearly a tenth between two that lose 5 %."""
    goes_on(15, lambda hosts, _: [hosts.drop_percent(name, 5) for name in hosts.names])


def flapping_link():
    """F28: cuts of two seconds, again and again, are no death."""
    def fault(hosts, _):
        for _ in range(4):
            with hosts.silence("n01"):
                time.sleep(2)
            time.sleep(1.5)

    goes_on(16, fault)


def connections_reset():
    """F29: silent reconnection, nothing lost or doubled."""
    def fault(hosts, job):
        total = 0
        for _ in range(3):
            total += hosts.reset("n01", "n00")
            time.sleep(1)
        check(total > 0, "there was no connection between the hosts", job.shown())

    goes_on(12, fault)


def loss_while_it_starts():
    with Hosts(2) as hosts, hosts.drop_percent("n01", 5):
        job = Job(hosts, worker=["bash", "-c", "echo ready $RANK"])
        job.expect_clean(0, "ready 0", "ready 1")


def slow_link():
    """F27: a flood of one host's output over a slow link does not make it look dead."""
    with Hosts(2) as hosts:
        hosts.rate_limit("n01", 2000)
        job = Job(hosts, worker=["bash", "-c", "echo ready $RANK; [ $RANK = 0 ] || head -c 2000000 /dev/zero | tr '\\0' x | fold; "
                                               "echo; echo end $RANK"])
        job.expect(0, "end 0", "end 1")
        check(job.out.count("x") >= 2_000_000, f"{job.out.count('x')} of 2,000,000 bytes came")
        job.nothing_left()


STORE_USER = """
import os, socket, struct, time
rank = os.environ["RANK"]
word = lambda text: struct.pack("<Q", len(text)) + text
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), 30)
replies = store.makefile("rb")
store.sendall(b"\\0" + struct.pack("<I", 0x3C85F7CE))
print(f"ready {rank}", flush=True)
count = 0
while not os.path.exists("%s"):
    count += 1
    value = str(count).encode()
    store.sendall(b"\\x01" + word(rank.encode()) + word(value) + b"\\x03" + word(rank.encode()))
    length, = struct.unpack("<Q", replies.read(8))
    assert replies.read(length) == value
    time.sleep(0.005)
print(f"done {rank} after {count}", flush=True)
""" % GO


def reset_control(hosts, name, port):
    """Resets the agent's connection to the coordinator, by ss -K, as soon as there is one."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        agents = {p["pid"] for p in hosts.processes(name) if p["comm"] == AGENT}
        for each in hosts.sockets(name):
            if each["peer_port"] == port and each["state"] == "01" and agents & set(hosts.owners(name, each["inode"])):
                hosts.run(name, ["ss", "-H", "-K", "-t", "state", "established", f"sport = :{each['port']}"])
                return
        time.sleep(0.01)
    check(False, f"the agent on {name} has no connection to port {port}", hosts.sockets(name))


def control_is_reset_while_workers_use_the_store(*flags):
    """F29 by ss -K: the session is resumed each time, and the store goes on: its connections are others, or hidden by the agents."""
    with Hosts(2) as hosts:
        job = Job(hosts, *flags, worker=[sys.executable, "-c", STORE_USER]).ready(2)
        (_, port), = [e for e in hosts.listeners("n00") if e[1] != 22 and not e[0].startswith("127.")]
        for _ in range(10):
            reset_control(hosts, "n01", port)
            time.sleep(0.2)
        for name in hosts.names:
            hosts.write(name, GO, "")
        job.expect(0, r"done 0 after \d\d", r"done 1 after \d\d")
        check("lost" not in job.err, "a line about what is healed", job.shown())
        job.nothing_left()


def control_reset_beside_the_store():
    control_is_reset_while_workers_use_the_store()


def control_reset_that_carries_the_store():
    control_is_reset_while_workers_use_the_store("--store-proxy")


def host_vanishes():
    """F30, F22: a power cut of a host; nothing is heard of it any more."""
    with Hosts(2) as hosts:
        job = Job(hosts).ready(2)
        begin = time.monotonic()
        hosts.kill_host("n01")
        took = job.ended(begin)
        job.expect_clean(125, r"node n01 is lost: silent for 5000 ms")
        kept("a host vanishes: the job has ended", took=[took], one_try=CLOCK, **promised("host-vanishes"))


def host_dies():
    """Its kernel still says that everything there has ended."""
    with Hosts(2) as hosts:
        job = Job(hosts).ready(2)
        hosts.kill_host("n01", silent=False)
        job.expect_clean(125, "n01", directories=True)


def host_of_the_coordinator_vanishes():
    """F24 without a second store: a clear end, all hosts cleaned."""
    with Hosts(3) as hosts:
        job = Job(hosts).ready(3)
        begin = time.monotonic()
        hosts.kill_host("n00")
        took = job.ended(begin)
        job.expect_clean(125, r"n00: .*[Tt]imeout, server n00 not responding")
        # The launcher hears of it from ssh alone.
        kept("node 0 vanishes: the job has ended", took=[took], one_try=CLOCK, **promised("node-0-vanishes"))


def host_cut_off():
    """F25: it stops its workers by itself, and the job ends; the log says which host."""
    with Hosts(2) as hosts:
        job = Job(hosts).ready(2)
        begin = time.monotonic()
        with hosts.silence("n01"):
            cut_off(job, begin, "a host is cut off")
        job.nothing_left()


def cut_off(job, begin, what):
    """Both sides: the job has ended, and no worker runs where nobody could have said so."""
    there = time_until_empty(job, "n01", begin)
    here = job.ended(begin)
    job.expect(125, r"node n01 is lost: silent for 5000 ms")
    kept(f"{what}: the job has ended", took=[here], one_try=CLOCK, **promised("host-cut-off"))
    kept(f"{what}: its workers are gone", took=[there], one_try=CLOCK, **promised("host-cut-off", "workers"))


def time_until_empty(job, name, begin):
    """Seconds until no worker is left on that host."""
    while job.pids(name, "sleep"):
        check(time.monotonic() - begin < PATIENCE_S, f"workers are left on {name}", job.shown())
        time.sleep(0.05)
    return time.monotonic() - begin


def host_cut_off_one_way():
    """F26: what it sends is lost, what it is sent arrives."""
    with Hosts(2) as hosts:
        job = Job(hosts).ready(2)
        begin = time.monotonic()
        with hosts.cut_one_way("n01", "n00"), hosts.cut_one_way("n01", "login"):
            cut_off(job, begin, "a host is cut off one way")
        job.nothing_left()


def leaves_nothing_while_cut_off(*cuts):
    """Nor do our own processes stay on that host, though the cut does not heal."""
    with Hosts(2) as hosts:
        job = Job(hosts).ready(2)
        for cut, *names in cuts:
            cut(hosts, *names)
        begin = time.monotonic()
        job.end()
        left = hosts.leftovers(timeout=PATIENCE_S)
        check(not left, f"left behind on a host that was cut off: {left}", job.shown())
        kept("a host is cut off: nothing is left there", took=[time.monotonic() - begin], one_try=CLOCK,
             **promised("host-cut-off", "ours"))


def host_cut_off_leaves_nothing():
    leaves_nothing_while_cut_off((Hosts.silence, "n01"))


def host_cut_off_one_way_leaves_nothing():
    leaves_nothing_while_cut_off((Hosts.cut_one_way, "n01", "n00"), (Hosts.cut_one_way, "n01", "login"))


def launcher_cut_off():
    """F16 by the network: the agents that do not hear the launcher any more stop."""
    with Hosts(2) as hosts:
        job = Job(hosts).ready(2)
        begin = time.monotonic()
        with hosts.silence("login"):
            left = hosts.leftovers(hosts.names, timeout=PATIENCE_S)
            took = time.monotonic() - begin
            check(not left, f"left behind without a launcher: {left}", job.shown())
            job.end()
            kept("the launcher's host vanishes: nothing is left on the others", took=[took], one_try=CLOCK,
                 **promised("launcher-host-vanishes"))
        check(job.process.returncode != 0, "success", job.shown())
        job.nothing_left()


def launcher_cut_off_while_nodes_start():
    """n02 takes long to log in: n00 waits for its orders, and n01 for a coordinator. The launcher's host loses its power."""
    with Hosts(3) as hosts:
        hosts.write("login", "/tmp/muster-test-slow/ssh", "#!/bin/sh\ncase \"$*\" in *n02*) exec sleep 1000;; esac\n"
                                                          "exec /usr/bin/ssh \"$@\"\n", 0o755)
        job = Job(hosts, "--ssh-command", "/tmp/muster-test-slow/ssh")
        wait_until(lambda: job.pids("n00", GUARDIAN) and job.pids("n01", AGENT), "the nodes that answer")
        begin = time.monotonic()
        hosts.kill_host("login")
        left = hosts.leftovers(hosts.names, timeout=PATIENCE_S)
        took = time.monotonic() - begin
        check(not left, f"left behind without a launcher: {left}")
        kept("the launcher's host vanishes while nodes start: nothing is left on the others", took=[took], one_try=CLOCK,
             **promised("launcher-host-vanishes"))


def launcher_cut_off_while_muster_is_copied():
    """--push over a slow link: there is no process of ours on n01 yet that could miss the launcher."""
    with Hosts(1) as hosts:
        hosts.rate_limit("n00", 1000)
        Job(hosts, "--push", patient=False)
        wait_until(lambda: [p for p in hosts.processes("n00") if p["comm"] == "head"], "the copy")
        begin = time.monotonic()
        hosts.kill_host("login")
        left = hosts.leftovers(hosts.names, timeout=PATIENCE_S)
        took = time.monotonic() - begin
        check(not left, f"left behind without a launcher: {left}")
        kept("the launcher's host vanishes while muster is copied: nothing is left there", took=[took], one_try=CLOCK,
             **promised("launcher-host-vanishes"))


def launcher_loses_the_coordinator_only():
    """ssh is enough: nobody takes the launcher for gone."""
    with Hosts(2) as hosts:
        job = Job(hosts, worker=["bash", "-c", "echo ready $RANK; sleep 30; echo done $RANK"]).ready(2)
        (_, port), = [e for e in hosts.listeners("n00") if e[1] != 22 and not e[0].startswith("127.")]
        with hosts.fault([f"ip saddr {hosts.hosts['login'].ipv4} tcp dport {port} drop"]):
            job.end()
        job.expect_clean(0, "done 0", "done 1")


def ssh_cut_at_the_end(name):
    """F20: the workers end while nobody has noticed that ssh is cut. Their output and the report come all the same."""
    with Hosts(2) as hosts:
        job = Job(hosts, "--shutdown-timeout", "1", worker=UNTIL_TOLD).ready(2)
        with hosts.cut_port(name, 22):
            begin = time.monotonic()
            for each in hosts.names:
                hosts.write(each, GO, "")
            took = job.ended(begin)
            job.expect(0, "done 0", "done 1")
        job.nothing_left()
        kept(f"ssh to {name} is cut before the workers end: the job has ended", took=[took], one_try=CLOCK,
             **promised("ssh-cut", "at_the_end"))


def ssh_to_node_0_cut_at_the_end():
    ssh_cut_at_the_end("n00")


def ssh_to_node_1_cut_at_the_end():
    ssh_cut_at_the_end("n01")


if __name__ == "__main__":
    # The longest first: at the end nobody waits for it alone. What comes near to the silence that counts as a death is not left to a machine
    # that is busy with other tests.
    main(timed=(launcher_cut_off, launcher_cut_off_while_nodes_start, launcher_cut_off_while_muster_is_copied, host_cut_off_leaves_nothing,
                host_cut_off_one_way_leaves_nothing, loss, ssh_to_node_0_cut_at_the_end, ssh_to_node_1_cut_at_the_end,
                ssh_cut_after_the_start, host_of_the_coordinator_vanishes, host_cut_off, host_cut_off_one_way, host_vanishes),
         untimed=(launcher_loses_the_coordinator_only,
                  ssh_cut_and_healed, ssh_clients_killed, slow_link, launcher_killed_without_ssh, worker_fails_without_ssh,
                  ssh_reset_after_the_start, connections_reset, host_dies, only_host_without_its_ssh, control_reset_beside_the_store,
                  control_reset_that_carries_the_store, loss_while_it_starts),
         parallel=10, untimed_parallel=8)
