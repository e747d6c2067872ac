# SPDX-License-Identifier: Apache-2.0
"""Jobs on many hosts, started through an "ssh" that runs everything on this machine and fails in every way that hosts do."""
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import interop
import processes
from processes import bytes_waiting, interrupt_until_it_ends, wait_until
from side_by_side import run_side_by_side

FAKE_SSH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_ssh.sh")
LIMIT_S = 60
# What takes a second or two, and would take 30 s if somebody were waited for who cannot come.
SOON_S = 25


class Job:
    """`muster run -H hosts`, with a mark in the environment of all its processes."""

    def __init__(self, hosts, *arguments, shell="true", flags=(), stdin=subprocess.DEVNULL, **environment):
        self.state = tempfile.TemporaryDirectory()
        self.mark = str(uuid.uuid4())
        self.report = os.path.join(self.state.name, "report.json")
        env = interop.clean_environment(FAKE_SSH_STATE=self.state.name, HOME=self.state.name, MUSTER_TEST_MARK=self.mark,
                                        **environment)
        command = [interop.MUSTER, "run", "-H", hosts, "--ssh-command", FAKE_SSH, "--report", self.report, *flags,
                   *(arguments or ("sh", "-c", shell))]
        self.began = time.monotonic()
        self.process = subprocess.Popen(command, env=env, stdin=stdin, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def finish(self):
        self.out, self.err = self.process.communicate(timeout=LIMIT_S)
        self.seconds = time.monotonic() - self.began
        self.code = self.process.returncode
        return self

    def read_until(self, text):
        """Waits for a line on its stdout."""
        for line in self.process.stdout:
            if text in line:
                return
        raise AssertionError(f"no '{text}': {self.process.stderr.read()}")

    def left(self):
        """The command lines of processes that carry our mark."""
        return [text for pid in processes.marked(self.mark) if (text := processes.read(pid, "cmdline").replace("\0", " "))]

    def wait_until_gone(self):
        wait_until(lambda: not self.left(), "the end of all processes", LIMIT_S)


class Starts(unittest.TestCase):
    def test_every_rank_of_every_node_runs_once(self):
        job = Job("ok1:2,ok2:1,noisy3:1", shell="echo $RANK/$WORLD_SIZE $LOCAL_RANK $GROUP_RANK").finish()
        self.assertEqual(job.code, 0, job.err)
        self.assertEqual(sorted(job.out.splitlines()),
                         ["[0]: 0/4 0 0", "[1]: 1/4 1 0", "[2]: 2/4 0 1", "[3]: 3/4 0 2"])
        self.assertEqual(job.left(), [])
        with open(job.report) as file:
            report = json.load(file)
        self.assertEqual(sorted(node["node"] for node in report["nodes"]), ["noisy3", "ok1", "ok2"])
        self.assertEqual((report["outcome"], report["hosts"]), ("succeeded", []))

    def test_a_reader_may_take_its_time(self):
        # The first: all nodes have reported, and nobody has read a byte. The second: nodes have more than the launcher holds.
        jobs = {count: Job("ok1,ok2", shell=f"yes $(printf %099d 0) | head -n {count}") for count in (4000, 13000)}
        time.sleep(8)
        for count, job in jobs.items():
            job.finish()
            self.assertEqual(job.code, 0, job.err)
            self.assertEqual(len(job.out.splitlines()), 2 * count)

    def test_what_nobody_takes_is_counted(self):
        job = Job("ok1,ok2", shell="yes $(printf %099d 0) | head -n 4000")
        full = fcntl.fcntl(job.process.stdout, fcntl.F_GETPIPE_SZ)
        wait_until(lambda: bytes_waiting(job.process.stdout) > full // 2, "a pipe that fills")
        interrupt_until_it_ends(job.process)
        job.finish()
        self.assertRegex(job.err, r"the last [0-9]+ bytes that workers printed were dropped")

    def test_stdin_goes_to_one_rank_and_ends_there(self):
        with tempfile.TemporaryFile() as file:
            file.write(b"0123456789abcdef\n" * 200_000)  # more than any window on the way
            file.seek(0)
            job = Job("ok1,ok2:2", shell="[ $RANK = 2 ] && wc -c; [ $RANK = 1 ] && cat; true", flags=("--stdin", "2"),
                      stdin=file).finish()
        self.assertEqual(job.code, 0, job.err)
        self.assertEqual(job.out.split(), ["[2]:", str(17 * 200_000)])

    def test_log_files_are_brought_here(self):
        with tempfile.TemporaryDirectory() as folder:
            job = Job("ok1,ok2:2", shell="seq $RANK 100 $((RANK + 1000000)) >&2; echo out $RANK",
                      flags=("--redirects", "3", "--log-dir", f"{folder}/logs", "--gather-logs", f"{folder}/all")).finish()
            self.assertEqual(job.code, 0, job.err)
            for rank, place in enumerate(("ok1/attempt_0/0", "ok2/attempt_0/0", "ok2/attempt_0/1")):
                with open(f"{folder}/all/{place}/stdout.log") as file:
                    self.assertEqual(file.read(), f"out {rank}\n")
                with open(f"{folder}/all/{place}/stderr.log") as file:
                    self.assertEqual(file.read().split(), [str(i) for i in range(rank, rank + 1000001, 100)])
                self.assertEqual(os.stat(f"{folder}/all/{place}/stderr.log").st_mode & 0o777, 0o600)

    def test_hosts_get_a_copy_of_muster(self):
        job = Job("ok1,ok2", shell="tr '\\0' ' ' </proc/$PPID/cmdline", flags=("--push",)).finish()
        self.assertEqual(job.code, 0, job.err)
        self.assertEqual(job.out.count(f"{job.state.name}/.cache/muster/muster-"), 2, job.out)
        # Both came to one home at the same time, and nothing unfinished is left.
        self.assertEqual(len(os.listdir(f"{job.state.name}/.cache/muster")), 1)

    def test_a_name_server_that_is_silent_does_not_keep_the_client_long(self):
        job = Job("ok1,ok2", shell="echo options=$RES_OPTIONS").finish()
        self.assertEqual(job.out.count("options=timeout:2 attempts:1"), 2, job.out + job.err)

    def test_no_secret_and_nothing_of_the_job_is_in_a_command_line(self):
        job = Job("ok1,ok2", "sh", "-c", "echo ready; exec sleep 1000", "secret-argument")
        job.read_until("ready")
        self.assertEqual([text for text in job.left() if " agent" in text and "secret-argument" in text], [])
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.finish().code, 143, job.err)


class HostsThatCannotBeStarted(unittest.TestCase):
    def check(self, host, *texts):
        job = Job(f"ok1,{host},ok2", shell="exec sleep 1000").finish()
        self.assertEqual(job.code, 125, job.err)
        line = next(line for line in job.err.splitlines() if "error:" in line)
        for text in (host, *texts):
            self.assertIn(text, line)
        self.assertLess(job.seconds, SOON_S)
        job.wait_until_gone()
        with open(job.report) as file:
            report = json.load(file)
        self.assertEqual([entry["node"] for entry in report["hosts"]], [host])

    def test_the_cause_is_said(self):
        """What a real sshd can be made to say is in multi_node_host_checks."""
        for host, *texts in (("newkey", "host key is not known"), ("wrong", "wrong architecture"), ("full", "disk there is full"),
                             ("flood", "prints too much", "message of the day"), ("early", "exit code 0 before the agent answered")):
            with self.subTest(host):
                self.check(host, *texts)

    def test_several_hosts_are_all_named(self):
        job = Job("refused1,ok1,noname2,refused3").finish()
        self.assertEqual(job.code, 125, job.err)
        for host in ("refused1", "noname2", "refused3"):
            self.assertIn(f"host       {host}: ssh: ", job.err)

    def test_a_client_that_does_not_exist(self):
        client = interop.absent() + "/ssh"
        result = interop.run([interop.MUSTER, "run", "-H", "n0,n1", "--ssh-command", client, "true"], check=False)
        self.assertEqual(result.returncode, 125, result.stderr)
        self.assertIn(client, result.stderr)


# A worker's guardian and agent go at once, as if its host had.
LOSE_THIS_NODE = "agent=$PPID; guardian=$(cut -d' ' -f4 /proc/$agent/stat); kill -STOP $agent; kill -9 $guardian; kill -9 $agent; exec sleep 1000"


class HostsThatAreNotNeeded(unittest.TestCase):
    def test_the_job_runs_on_those_that_can_be_started(self):
        for host in ("refused2", "noname2"):
            job = Job(f"ok1,{host},ok3", shell="echo $RANK of $WORLD_SIZE", flags=("--nnodes", "1:3")).finish()
            self.assertEqual(job.code, 0, job.err)
            self.assertEqual(sorted(job.out.splitlines()), ["[0]: 0 of 2", "[1]: 1 of 2"])
            self.assertIn(f"{host} could not be started", job.err)
            self.assertIn("2 of 3 nodes are left, and --nnodes asks for 1 at least", job.err)
            self.assertIn(f"the job ended without {host}", job.err)
            self.assertLess(job.seconds, SOON_S)  # nobody is waited for who cannot come

    def test_stdin_goes_to_the_node_that_has_the_rank_now(self):
        lose = "[ $WORLD_SIZE = 2 ] && exec wc -c; [ $GROUP_RANK = 1 ] || exec sleep 1000; read line; " + LOSE_THIS_NODE
        job = Job("ok1,ok2,ok3", shell=f"[ $WORLD_SIZE = 2 ] && [ $RANK = 0 ] && exit; {lose}", stdin=subprocess.PIPE,
                  flags=("--nnodes", "1:3", "--max-restarts", "1", "--stdin", "1"))
        job.process.stdin.write("one line\n")
        job.process.stdin.flush()
        while "was lost" not in job.process.stderr.readline():
            self.assertIsNone(job.process.poll())
        job.process.stdin.write("the rest")
        job.finish()
        self.assertEqual(job.code, 0, job.err)
        self.assertEqual(job.out.split(), ["[1]:", "8"])


def signals_waiting(pid):
    """Whether a signal has come to a process that it has not taken yet."""
    masks = [line.split()[1] for line in processes.read(pid, "status").splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(int(mask, 16) for mask in masks)


class Links(unittest.TestCase):
    def test_the_guardian_does_not_break_into_what_its_agent_says(self):
        """The agent is in the middle of a report that the link cannot hold when its guardian has something to say."""
        with tempfile.TemporaryDirectory() as folder:
            shell = (f"[ $RANK = 1 ] || exec sleep 1000; echo $PPID >{folder}/agent; echo going; sleep 0.2; "
                     r"""echo "{\"message\": \"$(head -c 60000 /dev/zero | tr '\0' x)\"}" >$TORCHELASTIC_ERROR_FILE; exit 3""")
            job = Job("ok1,holds2", shell=shell, flags=("--log-dir", f"{folder}/logs"))
            wait_until(lambda: os.path.exists(f"{job.state.name}/holds"), "a link that holds what it has")
            wait_until(lambda: os.path.exists(f"{job.state.name}/full"), "a report that is more than there is room for")
            with open(f"{folder}/agent", encoding="ascii") as file:
                agent = int(file.read())
            # The agent has let its guardian go on, which does the same with the agent.
            guardian = int(processes.read(agent, "stat").rpartition(")")[2].split()[1])
            wait_until(lambda: processes.state(guardian) == "S" and not signals_waiting(guardian), "a guardian at rest")
            os.kill(agent, signal.SIGSTOP)
            time.sleep(0.2)
            open(f"{job.state.name}/goes_on", "w").close()
            said = []
            while "was stopped (SIGSTOP)" not in (line := job.process.stderr.readline()):
                said.append(line)
                self.assertNotEqual(line, "", f"the job has ended: {said}")
            os.kill(agent, signal.SIGCONT)
            self.assertEqual(job.finish().code, 3, job.err)
            with open(job.report, encoding="utf-8") as file:
                self.assertEqual(len(json.load(file)["root_cause"]["error"]["message"]), 60000)
            job.wait_until_gone()

    def test_a_launcher_that_says_nothing_is_taken_for_gone(self):
        stdin, ours = os.pipe()
        agent = subprocess.Popen([interop.MUSTER, "agent"], env=interop.clean_environment(), stdin=stdin, stdout=subprocess.PIPE)
        os.close(stdin)
        said, _ = agent.communicate(timeout=LIMIT_S)
        os.close(ours)
        self.assertIn(b"no key came", said)
        self.assertEqual(agent.returncode, 125)


class OneHost(unittest.TestCase):
    def run_here(self, *flags, shell, stdin=""):
        return subprocess.run([interop.MUSTER, "run", "--nproc-per-node", "2", *flags, "sh", "-c", shell], input=stdin,
                              env=interop.clean_environment(), capture_output=True, text=True, timeout=LIMIT_S)

    def test_stdin_is_one_rank_s(self):
        result = self.run_here("--stdin", "1", shell="echo $RANK got $(cat)", stdin="it")
        self.assertEqual(sorted(line.strip() for line in result.stdout.splitlines()), ["0 got", "1 got it"], result.stderr)

    def test_log_files_are_copied(self):
        with tempfile.TemporaryDirectory() as folder:
            result = self.run_here("--redirects", "3", "--gather-logs", f"{folder}/all", shell="echo out $RANK")
            self.assertEqual(result.returncode, 0, result.stderr)
            (host,) = os.listdir(f"{folder}/all")
            for rank in range(2):
                with open(f"{folder}/all/{host}/attempt_0/{rank}/stdout.log") as file:
                    self.assertEqual(file.read(), f"out {rank}\n")

    def test_what_cannot_be_done_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            result = self.run_here("--gather-logs", f"{folder}/all", shell="true")
        self.assertIn("--gather-logs has nothing to gather", result.stderr)
        result = self.run_here("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:29400", "--stdin", "1",
                               shell="true")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--stdin=1 needs a job whose hosts are all started from here", result.stderr)


class Ends(unittest.TestCase):
    def test_ctrl_c_reaches_workers_as_it_is(self):
        job = Job("ok1,ok2", shell="trap 'echo got INT; exit 0' INT; echo ready; while :; do sleep 0.05; done")
        job.read_until("ready")
        job.read_until("ready")
        job.process.send_signal(signal.SIGINT)
        job.finish()
        self.assertEqual(job.code, 130, job.err)
        self.assertEqual(job.out.count("got INT"), 2, job.out)
        self.assertEqual(job.left(), [])

    def test_the_deadline(self):
        job = Job("ok1,ok2", shell="exec sleep 1000", flags=("--timeout", "2")).finish()
        self.assertEqual(job.code, 124, job.err)
        self.assertEqual(job.left(), [])


if __name__ == "__main__":
    if len(sys.argv) == 1:
        run_side_by_side(("Starts", "HostsThatCannotBeStarted", "HostsThatAreNotNeeded", "Links", "OneHost", "Ends"), parallel=3)
    unittest.main(verbosity=2)
