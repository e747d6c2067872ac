# SPDX-License-Identifier: Apache-2.0
"""A job on several hosts is ended from another shell, or its ranks get a signal: muster kill."""
import signal

from multi_node import AGENT, LAUNCHER, MUSTER, STUBBORN, Hosts, Job, check, main

# Says that it got SIGUSR1, and takes no notice of SIGTERM.
HOLD = """
import os, signal, socket, time
def say(text):
    os.write(1, f"{text} {os.environ['RANK']} on {socket.gethostname()}\\n".encode())
signal.signal(signal.SIGUSR1, lambda number, frame: say("got"))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say("ready")
while True:
    time.sleep(0.1)  # pause() would wait for ever if the signal came just before it.
"""


def kill(hosts, *words, code=0):
    asked = hosts.run(LAUNCHER, [MUSTER, "kill", *words], check=False)
    check(asked.returncode == code, asked)
    return asked.stdout + asked.stderr


def ranks_on_three_hosts_get_a_signal_and_the_job_ends():
    with Hosts(3) as hosts:
        job = Job(hosts, "--name", "three", at="n00:2,n01:2,n02:2", worker=["python3", "-c", HOLD]).ready(6)
        said = kill(hosts, "three", "--rank", "1,4", "--signal", "USR1")
        check(said.startswith("SIGUSR1 was sent to ranks 1, 4 of job "), said)
        job.wait_for(r"got 1 on n00")
        job.wait_for(r"got 4 on n02")
        check(job.out.count("got") == 2, job.shown())
        check("has no rank 6 now" in kill(hosts, "--rank", "0,6", "--signal", "KILL", code=2), "a rank that is not there")

        said = kill(hosts, "--signal", "USR1")
        check(said.startswith("SIGUSR1 was passed on to ranks 0-5 of job "), said)
        job.wait_for(r"got \d", count=8)

        # The failure of a rank stops the others, which take no notice of SIGTERM: the grace of the second stop is shorter.
        kill(hosts, "--rank", "5", "--signal", "KILL")
        said = kill(hosts, "--grace", "0.5")
        check(said.startswith("job ") and "exit code 143, interrupted by SIGTERM from 'muster kill'" in said, said)
        job.expect_clean(143, r"interrupted by SIGTERM from 'muster kill' \(uid \d+, process \d+\)")


def nothing_is_sent_while_a_node_does_not_answer():
    with Hosts(3) as hosts:
        job = Job(hosts, "--shutdown-timeout", "0.5", at="n00:2,n01:2,n02:2", worker=["python3", "-c", HOLD]).ready(6)
        job.hit("n01", AGENT, signal.SIGSTOP)
        said = kill(hosts, "--rank", "0,2", "--signal", "KILL", code=3)
        check("no answer from n01, where the other ranks may be; nothing was sent" in said, said)
        # After 5 s the node is lost, which a busy machine may take until here.
        hosts.run("n01", ["/bin/kill", "-CONT", *job.pids("n01", AGENT)], check=False)
        job.send(signal.SIGTERM)
        job.expect((125, 143))
        check("sends SIGKILL" not in job.err, "it was sent", job.shown())
        job.nothing_left(directories=True)


def a_job_on_two_hosts_ends_at_once():
    with Hosts(2) as hosts:
        job = Job(hosts, "--shutdown-timeout", "600", worker=STUBBORN).ready(2)
        said = kill(hosts, "--now")
        check("exit code 143" in said and "'muster kill --now'" in said, said)
        job.expect_clean(143)


def a_grace_is_for_the_nodes_that_have_ended_too():
    """One node ends at once, the other takes longer than --shutdown-timeout: both stay until the last has ended."""
    slow = HOLD.replace("signal.SIG_IGN", "lambda number, frame: (time.sleep(3 * int(os.environ['RANK'])), say('saved'), os._exit(0))")
    with Hosts(2) as hosts:
        job = Job(hosts, "--shutdown-timeout", "0.5", worker=["python3", "-c", slow]).ready(2)
        kill(hosts, "--grace", "30")
        job.expect_clean(143, "saved 0", "saved 1")


if __name__ == "__main__":
    main(untimed=[ranks_on_three_hosts_get_a_signal_and_the_job_ends, nothing_is_sent_while_a_node_does_not_answer, a_job_on_two_hosts_ends_at_once,
                  a_grace_is_for_the_nodes_that_have_ended_too])
