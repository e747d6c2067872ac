# SPDX-License-Identifier: Apache-2.0
"""--ssh-tree: hosts start other hosts. What holds with one login from here for each host holds with a tree of them, too."""
import re
import signal
import subprocess
import time

from multi_node import AGENT, LAUNCHER, MUSTER, PATIENCE_S, Hosts, Job, check, kept, main

BRANCH = "muster:branch"
# By --ssh-tree 2, n00 starts n02 and n03, n01 starts n04 and n05, n02 starts n06 and n07, ...
TREE = ("--ssh-tree", "2")


def logins_from(hosts, name):
    """How many hosts have let in a login from this one."""
    accepted = f"Accepted publickey for root from {hosts.hosts[name].ipv4} port"
    return sum(hosts.sshd_log(other).count(accepted) for other in hosts.names)


def sixteen_hosts():
    """Four levels; output, exit code and stdin as ever, and nobody starts more than two."""
    with Hosts(16) as hosts:
        job = Job(hosts, *TREE, worker=["dash", "-c", "echo rank $RANK of $WORLD_SIZE on $(hostname)"])
        job.end(90)
        job.expect(0)
        lines = sorted(re.findall(r"rank (\d+) of 16 on n(\d+)", job.out), key=lambda found: int(found[0]))
        check([(int(a), int(b)) for a, b in lines] == [(i, i) for i in range(16)], "not each rank on its host", job.shown())
        for name, started in [(LAUNCHER, 2), *((f"n{i:02}", 2 if i < 7 else 0) for i in range(16))]:
            check(logins_from(hosts, name) == started, f"{name} started {logins_from(hosts, name)}, not {started}", job.shown())
        job.nothing_left()
        job = Job(hosts, "--ssh-tree", "4", worker=["bash", "-c", "echo ready $RANK; [ $RANK != 11 ] || exit 7; exec sleep 1000"])
        job.end(90)
        job.expect(7, "rank 11", "n11")
        job.nothing_left()


def much_output():
    """Two floods, of an inner host and of one below it, come whole, while a third host speaks."""
    with Hosts(4) as hosts:
        flood = ("case $RANK in 0|2) head -c 20000000 /dev/zero | tr '\\0' x | fold -w 99;; "
                 "*) for i in $(seq 50); do echo word $i; done;; esac")
        job = Job(hosts, *TREE, worker=["bash", "-c", flood])
        job.end(120)
        job.expect(0)
        for rank in (0, 2):
            count = sum(len(line) for line in re.findall(rf"^\[{rank}\]: (x+)$", job.out, re.M))
            check(count == 20000000, f"{count} bytes of rank {rank}", job.err)
        check(all(len(re.findall(rf"^\[{rank}\]: word ", job.out, re.M)) == 50 for rank in (1, 3)), "words are missing", job.err)
        job.nothing_left()


def wait_until(job, condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        check(time.monotonic() < deadline and job.process.poll() is None, f"no {what}", job.shown())
        time.sleep(0.002)


def refused(hosts, *words, flags=TREE, login_s=60, clock=0):
    """The job ends with one line that has all words, what to do is said next, and nothing is left."""
    begin = time.monotonic()
    job = Job(hosts, *flags, "--login-timeout", str(login_s), patient=False)
    took = job.ended(begin)
    job.expect(125)
    said = re.findall(r"^muster: error: .*\n(?:  .*\n)*", job.err, re.M)
    check(len(said) == 1 and all(re.search(word, said[0]) for word in words), f"no one text has {words}", job.shown())
    job.nothing_left()
    kept(f"a tree that cannot start: {' '.join(words[:2])}", 2, [took], clock=clock)
    print(said[0].splitlines()[0])


def logins_that_fail():
    with Hosts(16) as hosts:
        hosts.stop_sshd("n00")
        refused(hosts, "n00: ", "refused", r"it was to start n02, n03, n06, n07 and 4 more")
        hosts.start_sshd("n00")
        hosts.stop_sshd("n02")
        refused(hosts, "n02: ", "refused", r"started from n00", r"it was to start n06, n07, n14, n15\)", "next +on n00: ")
        hosts.start_sshd("n02")
        hosts.start_sshd("n07", key="other")
        refused(hosts, "n07: ", "host key", r"started from n02", "next +on n02: ")
        hosts.start_sshd("n07")
        hosts.write("n01", "~/.ssh/id_ed25519", "", 0o600)
        hosts.write("n01", "~/.ssh/config", "Host *\n  BatchMode yes\n")
        refused(hosts, "n0[45]", "login refused", r"started from n01")


def unreachable_below():
    with Hosts(16) as hosts, hosts.silence("n02"):
        # What ssh is given is told as it is: less than the login timeout.
        refused(hosts, "n02: ", "no answer within 18 s|no route|unreachable", "started from n00", login_s=20, clock=18)


def slow_login_shell_below():
    """The login timeout holds for hosts that other hosts start, too."""
    with Hosts(4) as hosts:
        hosts.write("n02", "~/.bashrc", "sleep 1000\n")
        hosts.write("n02", "~/.bashrc", "sleep 22\n")
        job = Job(hosts, *TREE, worker=["dash", "-c", "echo fine $RANK"])
        job.end(90)
        job.expect(0, *(f"fine {rank}" for rank in range(4)))
        job.nothing_left()


def other_version_below():
    with Hosts(4) as hosts:
        for name in hosts.names:
            hosts.write(name, "/tmp/muster-test", f"#!/bin/sh\nexec {MUSTER} \"$@\"\n", 0o755)
        hosts.write("n02", "/tmp/muster-test", "#!/bin/sh\nprintf '\\nmuster-agent 1 0.0.1-other\\n'\nexec cat\n", 0o755)
        refused(hosts, "n02: ", r"0\.0\.1-other", "same version", flags=[*TREE, "--remote-muster", "/tmp/muster-test"])


def sshd_of_an_inner_host_killed_at_start():
    """The login to n00 breaks while it starts others, which are slow to answer."""
    with Hosts(16) as hosts:
        hosts.start_impostor("n02", "silent")
        job = Job(hosts, *TREE)
        wait_until(job, lambda: job.pids("n00", BRANCH) and job.pids("n00", "ssh"), "starts from n00")
        hosts.run("n00", ["pkill", "-KILL", "sshd"], check=False)
        hosts.servers.pop("n00").wait()
        job.end()
        job.expect(125, r"n00: .*(onnection|closed|reset|exit code 255).*\(it was to start n02")
        job.nothing_left(directories=True)


def branch_killed():
    """Everybody goes on through the coordinator, as by any login that is cut."""
    with Hosts(8) as hosts:
        for name, number, lost in (("n00", signal.SIGKILL, (0, 2, 3, 6, 7)), ("n02", signal.SIGTERM, (2, 6, 7))):
            go = f"/tmp/muster-test-go-{name}"
            wait = f"echo ready $RANK; while [ ! -e {go} ]; do sleep 0.05; done; echo done $RANK"
            job = Job(hosts, *TREE, worker=["bash", "-c", wait]).ready(8)
            job.hit(name, BRANCH, number)
            moved = r"n0(\d): the connection to it was lost; going on through the coordinator"
            job.wait_for(moved, name="err", count=len(lost))
            for host in hosts.names:
                hosts.write(host, go, "")
            job.end()
            job.expect(0, *(f"done {rank}" for rank in range(8)))
            said = re.findall(moved, job.err)
            check(sorted(map(int, said)) == list(lost), f"{said} were lost, not {lost}", job.shown())
            job.nothing_left()


def inner_host_dies():
    with Hosts(8) as hosts:
        job = Job(hosts, *TREE).ready(8)
        hosts.kill_host("n01", silent=False)
        job.end()
        job.expect(125, "n01")
        job.nothing_left(directories=True)


def launcher_killed():
    with Hosts(16) as hosts:
        job = Job(hosts, *TREE).ready(16)
        begin = job.send(signal.SIGKILL)
        job.process.wait()
        job.nothing_left(directories=True)
        kept("a tree whose launcher is killed: nothing is left", 1, [time.monotonic() - begin])


def launchers_host_vanishes():
    """Nobody hears that it is gone: agents end by their lease, and then what led to them, from the leaves up."""
    with Hosts(8) as hosts:
        job = Job(hosts, *TREE).ready(8)
        begin = time.monotonic()
        with hosts.silence(LAUNCHER):
            left = hosts.leftovers(hosts.names, timeout=PATIENCE_S)
            took = time.monotonic() - begin
            check(not left, f"left behind without a launcher: {left}", job.shown())
            # Agents look every 8 s whether it has been silent for 16 s; up to 10 s later those that started them end.
            kept("a tree whose launcher's host vanishes: nothing is left", 1, [took], clock=16 + 8 + 10)
            job.process.kill()
            job.process.wait()


def launcher_killed_while_it_starts():
    with Hosts(8) as hosts:
        for host, process in ((LAUNCHER, "ssh"), ("n00", BRANCH), ("n00", "ssh"), ("n02", BRANCH), ("n06", AGENT)):
            job = Job(hosts, *TREE)
            wait_until(job, lambda: job.pids(host, process), f"{process} on {host}")
            job.process.kill()
            job.process.wait()
            job.nothing_left(directories=True)


def interrupted():
    with Hosts(8) as hosts:
        job = Job(hosts, *TREE).ready(8)
        job.send(signal.SIGINT)
        job.end()
        job.expect(130)
        job.nothing_left()
        hosts.start_impostor("n06", "silent")
        job = Job(hosts, *TREE)
        job.wait_for("waiting for", name="err")
        job.send(signal.SIGINT)
        job.end()
        job.expect(130)
        job.nothing_left()


def pushed():
    """Each host gets its copy from the one that starts it."""
    with Hosts(4) as hosts:
        job = Job(hosts, *TREE, "--push", worker=["dash", "-c", "echo fine $RANK"])
        job.end(90)
        job.expect(0, *(f"fine {rank}" for rank in range(4)))
        for name in hosts.names:
            check(len(hosts.files(name, hosts.hosts[name].home + "/.cache/muster")) == 1, f"no copy on {name}", job.shown())
        job.nothing_left()


def without_some():
    """Those below an inner host that cannot be had are missed with it; the rest is enough."""
    with Hosts(6) as hosts:
        hosts.stop_sshd("n01")
        job = Job(hosts, *TREE, "--nnodes", "3:6", at=",".join(hosts.names), worker=["dash", "-c", "echo fine of $WORLD_SIZE"])
        job.end()
        job.expect(0, "fine of 3", "n04")
        job.nothing_left()


def server_that_lets_in_few():
    """Logins that a busy server refuses are tried again from every host."""
    with Hosts(1) as hosts:
        hosts.start_sshd("n00", options=["MaxStartups 2:50:4"])
        for name in (LAUNCHER, "n00"):
            hosts.write(name, "~/.ssh/config", "Host a*\n  HostName n00\n  HostKeyAlias n00\n")
        job = Job(hosts, "--ssh-tree", "3", at="a[00-12]", worker=["bash", "-c", "echo ready $RANK"])
        job.end(90)
        job.expect(0)
        check(job.out.count("ready") == 13, "not all started", job.shown())
        job.nothing_left()


def stdin_of_a_node_below():
    """More than what may be under way at once."""
    with Hosts(4) as hosts:
        text = "line of input\n" * 100000
        done = hosts.run(LAUNCHER, [MUSTER, "run", "-H", ",".join(hosts.names), *TREE, "--stdin", "3", "--no-python", "dash", "-c",
                                    "echo $RANK: $(wc -c)"], input=text)
        check(f"3: {len(text)}" in done.stdout and "0: 0" in done.stdout, done.stdout, done.stderr)
        check(not hosts.leftovers(timeout=PATIENCE_S), f"left behind: {hosts.leftovers()}")


def users_agent_lent():
    """Hosts without a key use the user's ssh-agent, if that is asked for; workers do not get at it."""
    with Hosts(4) as hosts:
        lent = {"SSH_AUTH_SOCK": "/tmp/muster-test-agent"}
        agent = hosts.popen(LAUNCHER, ["ssh-agent", "-D", "-a", lent["SSH_AUTH_SOCK"]], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while hosts.files(LAUNCHER) == [] and time.monotonic() < deadline:
            time.sleep(0.01)
        hosts.run(LAUNCHER, ["ssh-add", "-q", hosts.hosts[LAUNCHER].home + "/.ssh/id_ed25519"], env=lent)
        hosts.write("n00", "~/.ssh/id_ed25519", "", 0o600)
        for flags, code, words in ((["--ssh-command", "ssh -A"], 0, [f"fine {rank} none" for rank in range(4)]),
                                   ([], 125, ["n0[23]: ssh: login refused", "started from n00"])):
            job = Job(hosts, *TREE, *flags, env=lent, worker=["dash", "-c", "echo fine $RANK ${SSH_AUTH_SOCK:-none}"])
            job.end()
            job.expect(code, *words)
        agent.kill()
        agent.wait()
        job.nothing_left()


# The longest first: at the end nobody waits for it alone.
CASES = (launchers_host_vanishes, slow_login_shell_below, much_output, logins_that_fail, branch_killed, interrupted,
         launcher_killed_while_it_starts, unreachable_below, sixteen_hosts, pushed, launcher_killed, server_that_lets_in_few,
         inner_host_dies, stdin_of_a_node_below, without_some, sshd_of_an_inner_host_killed_at_start, users_agent_lent,
         other_version_below)

if __name__ == "__main__":
    main(CASES, parallel=5)
