# SPDX-License-Identifier: Apache-2.0
"""A host on which the job cannot start: one line with the host and the cause, soon, everything else stopped. Section E4 of the
issue is F19, F21, F31 to F33 and F36 of the fault matrix."""
import os
import re
import signal
import time

from interop import absent
from multi_node import CLOCK, LAUNCHER, MUSTER, SLEEPER, Hosts, Job, check, kept, main, promised
from processes import wait_until

# Who says no is heard at once. ssh waits some time for a host, and one that hangs up is tried again for as long.
AT_ONCE = promised("host-cannot-start", "at_once")
NO_ANSWER = promised("host-cannot-start", "no_answer")
MANY = "each case is a try: the bounds of those that say no at once, and of those that give no answer, are the same"


def refused_start(hosts, *words, flags=(), host="n01", code=125, bound=AT_ONCE, **keywords):
    """The job ends soon, one line says why and names the host, and nothing is left of the hosts that were fine."""
    begin = time.monotonic()
    job = Job(hosts, *flags, patient=False, **keywords)
    seconds = job.ended(begin)
    job.expect(code)
    said = [line for line in job.err.splitlines() if "error: " in line and host in line]
    check(len(said) == 1 and all(re.search(word, said[0]) for word in words), f"no one line has {host} and {words}", job.shown())
    check(code == 127 or "; " in said[0] or re.search("^  next ", job.err, re.M), "it does not say what to do next", job.shown())
    check(not re.search(r"(?i)password:|yes/no", job.err), "it asked something", job.shown())
    job.nothing_left()
    print(said[0])
    kept(f"a job that cannot start: {words[0]}", took=[seconds], one_try=MANY, **bound)


def host_checks_of_ssh():
    with Hosts(2) as hosts:
        hosts.stop_sshd("n01")
        refused_start(hosts, "refused")
        hosts.start_sshd("n01", key="other")
        refused_start(hosts, "key")
        hosts.start_sshd("n01", options=["PubkeyAuthentication no", "PasswordAuthentication yes"])
        refused_start(hosts, "password|login refused|denied")
        hosts.start_impostor("n01", "http")
        refused_start(hosts, "SSH|ssh", bound=NO_ANSWER)
        hosts.start_impostor("n01", "closes")
        refused_start(hosts, "closed|reset", bound=NO_ANSWER)
        hosts.start_sshd("n01")
        refused_start(hosts, "resolve|name", host="n77", at="n00,n77", bound=promised("name-unknown"))


def unreachable():
    with Hosts(2) as hosts, hosts.silence("n01"):
        refused_start(hosts, "no answer|no route|timed out|unreachable", bound=NO_ANSWER)
        # What ssh is given is told as it is: less than the login timeout.
        refused_start(hosts, "no answer within 3 s|no route|unreachable", flags=["--login-timeout", "5"],
                      bound=dict(NO_ANSWER, clock=3))


def silent_banner():
    with Hosts(2) as hosts:
        hosts.start_impostor("n01", "silent")
        refused_start(hosts, "answer|banner|timed out", bound=NO_ANSWER)


def slow_banner():
    with Hosts(2) as hosts:
        hosts.start_impostor("n01", "slow")
        refused_start(hosts, "answer|banner|timed out", bound=NO_ANSWER)


def login_shell_hangs():
    with Hosts(2) as hosts:
        hosts.write("n01", "~/.bashrc", "sleep 1000\n")
        job = Job(hosts, patient=False)
        job.wait_for(r"n01 \(connecting for \d+ s\)", name="err")
        said = time.monotonic() - job.begin
        took = job.ended(job.begin)
        kept("a login shell that hangs: said", took=[said], one_try=CLOCK, **promised("login-shell-hangs", "said"))
        kept("a login shell that hangs: the job has ended", took=[took], one_try=CLOCK, **promised("login-shell-hangs"))
        job.expect(125, "error: .*n01: ssh: the agent did not answer in time", "--login-timeout")
        hosts.run("n01", ["pkill", "sleep"], check=False)  # the user's own
        job.nothing_left()


def login_shell_is_slow():
    """It gets as long as the flag says: less than it needs, and more than the limit without that flag would be."""
    limit_s = 8
    with Hosts(2) as hosts:
        hosts.write("n01", "~/.bashrc", "sleep 1000\n")
        job = Job(hosts, "--login-timeout", str(limit_s), patient=False)
        seconds = job.ended(job.begin)
        kept(f"--login-timeout {limit_s}", took=[seconds], one_try=CLOCK,
             **promised("login-shell-hangs", "own_limit", clock=limit_s))
        check(limit_s / 2 <= seconds, f"--login-timeout {limit_s}: {seconds:.1f} s", job.shown())
        # A machine that is busy may not get as far as the shell.
        job.expect(125, r"error: .*n01: ssh: (the agent did not answer in time|no answer within \d+ s)", "--login-timeout")
        hosts.run("n01", ["pkill", "sleep"], check=False)  # the user's own
        job.nothing_left()


def slow_login_shell():
    with Hosts(2) as hosts:
        hosts.write("n01", "~/.bashrc", "sleep 3\n")
        job = Job(hosts, worker=["dash", "-c", "echo fine $RANK"])
        job.expect_clean(0, "fine 0", "fine 1")


def noisy_login_shell():
    """What start-up files print is no harm."""
    with Hosts(2) as hosts:
        hosts.write("n01", "~/.bashrc", "echo Welcome to n01; echo and beware >&2; printf 'no newline'\n")
        job = Job(hosts, worker=["dash", "-c", "echo fine $RANK"])  # bash would read that file itself
        job.expect(0, "fine 0", "fine 1")
        check("Welcome" not in job.out, "the shell's words are among the workers'", job.shown())
        job.nothing_left()


def login_lost_while_others_start():
    """n00 has answered and waits for its orders, which come when n01 has answered, too."""
    with Hosts(2) as hosts:
        hosts.start_impostor("n01", "silent")
        job = Job(hosts)
        job.wait_for(r"1 of 2 nodes have answered; waiting for n01", name="err")
        hosts.run("n00", ["pkill", "-KILL", "sshd"], check=False)
        hosts.servers.pop("n00").wait()
        job.expect_clean(125, r"error: .*n00: .*(onnection|closed|reset|exit code 255)", directories=True)


def hosts_without_muster():
    with Hosts(2) as hosts:
        refused_start(hosts, "muster", "not found|no such|missing", flags=["--remote-muster", absent() + "/muster"], host="n0")
        hosts.write("n01", "/tmp/muster-test", "#!/bin/sh\nprintf '\\nmuster-agent 2 0.0.1-other\\n'\nexec cat\n", 0o755)
        hosts.run("n00", ["ln", "-s", MUSTER, "/tmp/muster-test"])
        refused_start(hosts, r"0\.0\.1-other", "same version|upgrade|install", flags=["--remote-muster", "/tmp/muster-test"],
                      bound=promised("other-version"))
        hosts.write("n01", "/tmp/muster-test", "#!/bin/sh\necho no such licence >&2; exit 3\n", 0o755)
        refused_start(hosts, "exit code 3", "no such licence", flags=["--remote-muster", "/tmp/muster-test"])


def pushed():
    """Each host gets a copy, and keeps it."""
    with Hosts(2) as hosts:
        job = Job(hosts, "--push", worker=["dash", "-c", "echo fine $RANK"])
        job.end(200)
        job.expect(0, "fine 0", "fine 1")
        for name in hosts.names:
            check(len(hosts.files(name, hosts.hosts[name].home + "/.cache/muster")) == 1, f"no copy on {name}", job.shown())
        job.nothing_left()


def wrong_directory():
    with Hosts(2) as hosts:
        os.mkdir(hosts.path("n00", "/tmp/muster-test-only-here"))
        refused_start(hosts, "/tmp/muster-test-only-here", flags=["--wdir", "/tmp/muster-test-only-here"])


def program_missing_on_one_host():
    with Hosts(2) as hosts:
        hosts.run("n00", ["ln", "-s", "/bin/true", "/tmp/muster-test-program"])
        refused_start(hosts, "/tmp/muster-test-program", code=127, worker=["/tmp/muster-test-program"],
                      bound=promised("program-missing", "elsewhere"))


def full_disk():
    """Workers run on; the log file that could not be written is named, with its host."""
    with Hosts(2) as hosts:
        for folder in ("/tmp", "/dev/shm"):
            hosts.run("n01", ["dash", "-c", f"cat /dev/zero >{folder}/muster-test-full"], check=False)
        job = Job(hosts, "--log-dir", "/tmp/muster-test-logs", "--redirects", "3", worker=["dash", "-c", "echo words of $RANK"])
        job.expect_clean(0, "(?i)n01.*(space|full)")


def duplicate_host():
    with Hosts(2) as hosts:
        job = Job(hosts, at="n00:1,n01:1,n01:1")
        job.expect_clean(2, "n01", "twice|more than once|again|already")


def shared_connections():
    """One that the user shares is used; none begins with the job; one that the way through another host leaves outlives the job."""
    master = "ControlMaster auto\nControlPersist 60\nControlPath ~/.ssh/share-%h\n"
    with Hosts(2) as hosts:
        def ssh(*arguments, check=True):
            return hosts.run(LAUNCHER, ["ssh", *arguments], check=check)

        hosts.write(LAUNCHER, "~/.ssh/config", f"Host n01\nProxyJump n00\nHost n0*\n{master}", 0o600)
        ssh("-o", "ProxyJump=none", "n01", "true")
        check(hosts.logins("n01") == 1, "the connection to share was not made")
        job = Job(hosts, at="n01", worker=["true"])
        job.expect(0)
        check(hosts.logins("n01") == 1, "it was not used", job.shown())
        check(ssh("-O", "check", "n01", check=False).returncode == 0, "it is gone", job.shown())
        ssh("-O", "exit", "n01")
        job = Job(hosts, at="n01", worker=["true"])
        job.expect(0)
        check(ssh("-O", "check", "n01", check=False).returncode != 0, "one was begun", job.shown())
        check(ssh("-O", "check", "n00", check=False).returncode == 0, "that of the way through n00 is gone", job.shown())
        ssh("-O", "exit", "n00")
        job.nothing_left()


def resolver_that_does_not_answer():
    """F32: Ctrl-C works while a name is looked up."""
    with Hosts(2) as hosts:
        hosts.write(LAUNCHER, "/etc/resolv.conf", f"nameserver {hosts.hosts['n01'].ipv4}\n")
        with hosts.silence("n01"):
            refused_start(hosts, "the name server does not answer", host="n77", at="n00,n77", bound=promised("name-server-silent"))
            # ours stays as it is
            for terminal in (False, True):
                took = []
                for _ in range(3):
                    job = Job(hosts, at="n00,n77", env={"RES_OPTIONS": "timeout:30"}, terminal=terminal)
                    wait_until(lambda: hosts.asks_for_names(LAUNCHER), "a question for the name server")
                    begin = time.monotonic()
                    if terminal:
                        job.type("\x03")
                    else:
                        job.send(signal.SIGINT)
                    took.append(job.ended(begin))
                    job.expect_clean(130, "interrupted by SIGINT")
                kept(f"Ctrl-C {'in a terminal ' if terminal else ''}while a name is looked up", took=took,
                     **promised("ctrl-c-on-many-hosts", "lookup"))


def port_taken():
    """F31: who holds it is named."""
    with Hosts(2) as hosts:
        holder = hosts.popen("n00", ["python3", "-c", "import socket, time\ns = socket.create_server(('', 29455))\n"
                                     "open('/proc/self/comm', 'w').write('sshd')\ntime.sleep(1000)"])
        wait_until(lambda: ("0.0.0.0", 29455) in hosts.listeners("n00"), "who holds the port")
        refused_start(hosts, "29455", "held by|in use|taken|pid", host="n00", flags=["--master-port", "29455"],
                      bound=promised("meeting-port-taken"))
        holder.kill()


def sixty_agents_on_one_sshd():
    """F21: sshd drops connections beyond MaxStartups; they come again, and all start."""
    with Hosts(1) as hosts:
        hosts.write(LAUNCHER, "~/.ssh/config", "Host a*\n  HostName n00\n  HostKeyAlias n00\n")
        job = Job(hosts, at="a[00-59]", worker=["bash", "-c", "echo ready $RANK"])
        job.end(200)
        job.expect(0)
        check(job.out.count("ready") == 60, "not all started", job.shown())
        job.nothing_left()


def server_that_lets_in_few():
    """A server that lets in very few at once."""
    with Hosts(1) as hosts:
        hosts.start_sshd("n00", options=["MaxStartups 2:50:4"])
        hosts.write(LAUNCHER, "~/.ssh/config", "Host a*\n  HostName n00\n  HostKeyAlias n00\n")
        job = Job(hosts, at="a[00-11]", worker=["bash", "-c", "echo ready $RANK"])
        job.end(200)
        job.expect_clean(0)


def sixteen_hosts():
    """Each rank on its host, and one login to each."""
    with Hosts(16) as hosts:
        job = Job(hosts, worker=["dash", "-c", "echo rank $RANK of $WORLD_SIZE on $(hostname)"])
        job.end(200)
        job.expect(0)
        lines = sorted((int(rank), int(host)) for rank, host in re.findall(r"rank (\d+) of 16 on n(\d+)", job.out))
        check(lines == [(i, i) for i in range(16)], "not each rank on its host", job.shown())
        logins = [hosts.logins(name) for name in hosts.names]
        check(logins == [1] * 16, f"{logins} logins", job.shown())
        job.nothing_left()


def no_wildcard_listener():
    """Nothing of ours listens on all addresses, and what is on the network is on n00 only."""
    with Hosts(2) as hosts:
        before = {name: set(hosts.listeners(name)) for name in hosts.hosts}
        job = Job(hosts, worker=SLEEPER).ready(2)
        for name in hosts.hosts:
            check(hosts.wildcard_listeners(name) == [], f"{name}: {hosts.wildcard_listeners(name)}")
        ours = {name: [e for e in hosts.listeners(name) if e not in before[name] and not e[0].startswith("127.")]
                for name in hosts.hosts}
        check(not ours["n01"] and not ours[LAUNCHER], f"listening on the network: {ours}")
        check({e[0] for e in ours["n00"]} <= {hosts.hosts["n00"].ipv4}, f"not node 0's address: {ours}")
        job.send(signal.SIGINT)
        job.end()
        job.nothing_left()


def names_and_addresses_of_all_kinds():
    """MASTER_ADDR is node 0's address on the network, whatever it is called; this host needs no ssh."""
    worker = ["dash", "-c", "echo rank $RANK on $(hostname) at $MASTER_ADDR"]
    for keywords, on, at, logins in (({"family": 6}, LAUNCHER, "n00,n01", (1, 1)),
                                     ({"own_name_local": True}, "n00", "n00,n01", (0, 1)),
                                     ({"own_name_local": True}, "n01", "n00,n01", (1, 0)),
                                     ({}, "n00", "localhost,n01", (0, 1)),
                                     ({}, LAUNCHER, "[fd87::11],10.87.0.12", (1, 1))):
        with Hosts(2, **keywords) as hosts:
            job = Job(hosts, at=at, on=on, worker=worker)
            job.end()
            address = hosts.hosts["n00"].address
            job.expect(0, rf"rank 0 on n00 at {address}\n", rf"rank 1 on n01 at {address}\n")
            check((hosts.logins("n00"), hosts.logins("n01")) == logins, f"not {logins} logins", job.shown())
            job.nothing_left()


if __name__ == "__main__":
    main(timed=(host_checks_of_ssh, silent_banner, slow_banner, login_shell_is_slow, login_shell_hangs, unreachable,
                resolver_that_does_not_answer, hosts_without_muster, wrong_directory, port_taken, program_missing_on_one_host),
         untimed=(full_disk, sixty_agents_on_one_sshd, names_and_addresses_of_all_kinds, sixteen_hosts, server_that_lets_in_few,
                  slow_login_shell, login_lost_while_others_start, pushed, no_wildcard_listener, noisy_login_shell, duplicate_host,
                  shared_connections),
         parallel=5)
