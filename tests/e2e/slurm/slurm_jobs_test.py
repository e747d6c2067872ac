#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`muster run` inside jobs of a real Slurm of three nodes: one launcher that starts all nodes by srun, and steps whose tasks are
peers. Ranks that srun itself starts meet, too, and a batch script's own process is a world of one."""
import json
import os
import re
import select
import signal
import sys
import time
import unittest

import interop
from host_keeper import SHARED
from hosts import LAUNCHER, Hosts, need_hosts
from processes import wait_until
from slurm_cluster import SlurmCluster, need_slurm

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "world"))
from launchers_test import PROBE, Launchers, parse_answers  # noqa: E402

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peer", "peer_worker.py")
PROGRAM = ["--no-python", sys.executable, os.path.abspath(WORKER)]
RUN = [interop.MUSTER, "run"]
LIMIT_S = 60


class SlurmJobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(3, sshd=False, shared_home=True, keep=[os.path.dirname(PROBE)]).__enter__()
        cls.addClassCleanup(cls.hosts.close)
        cls.slurm = SlurmCluster(cls.hosts)
        cls.slurm.start()

    def tearDown(self):
        self.slurm.run(["scancel", "--user=root"])
        wait_until(lambda: not self.left(), "the end of the jobs", LIMIT_S)
        self.slurm.wait_for("idle nodes", self.slurm.is_idle)

    def left(self):
        """Processes of ours and of jobs, but not Slurm's own."""
        return [(host, process) for host in self.hosts.hosts for process in self.hosts.processes(host)
                if not re.match(r"\S*(munged|slurm)", process["command"])]

    def workers(self, text, prefix=r"\[\d+\]: "):
        found = [json.loads(re.sub(f"^{prefix}", "", line)) for line in text.splitlines() if line.endswith("}")]
        return sorted(found, key=lambda worker: int(worker["RANK"]))

    def check_world(self, text, hosts, **keywords):
        workers = self.workers(text, **keywords)
        self.assertEqual([worker["host"] for worker in workers], hosts, text)
        self.assertEqual([worker["RANK"] for worker in workers], [str(rank) for rank in range(len(hosts))])
        self.assertEqual({worker["WORLD_SIZE"] for worker in workers}, {str(len(hosts))})
        self.assertEqual({worker["MASTER_ADDR"] for worker in workers}, {self.hosts.hosts[hosts[0]].ipv4})
        return workers

    def test_an_allocation_is_found(self):
        job = self.slurm.run(["salloc", "-Q", "-N3", *RUN, *PROGRAM], timeout=LIMIT_S)
        self.assertEqual(job.returncode, 0, job.stderr)
        self.check_world(job.stdout, ["n00", "n01", "n02"])

    def test_tasks_of_the_allocation_are_the_workers(self):
        job = self.slurm.run(["salloc", "-Q", "-N2", "--ntasks-per-node=2", *RUN, *PROGRAM], timeout=LIMIT_S)
        self.assertEqual(job.returncode, 0, job.stderr)
        self.check_world(job.stdout, ["n00", "n00", "n01", "n01"])

    def test_without_tasks_there_is_a_worker_for_each_gpu(self):
        for command in (["salloc", "-Q", "-N2", "--gpus-per-node=2", *RUN],
                        ["srun", "-N2", "--ntasks-per-node=1", "--gpus-per-node=2", *RUN]):
            job = self.slurm.run([*command, *PROGRAM], timeout=LIMIT_S)
            self.assertEqual(job.returncode, 0, job.stderr)
            workers = self.check_world(job.stdout, ["n00", "n00", "n01", "n01"])
            self.assertEqual({worker["gpus"] for worker in workers}, {"0,1"})

    def batch(self, size, command, workers):
        """What a batch script of these commands prints, once so many workers have spoken."""
        return self.submit(f"#!/bin/sh\n{command}\n", workers, size)

    def submit(self, text, workers, *flags):
        script, output = (f"{SHARED}/{self._testMethodName}.{end}" for end in ("sh", "out"))
        self.hosts.write(LAUNCHER, script, text, 0o755)
        job = self.slurm.run(["sbatch", *flags, f"--output={output}", script])
        self.assertEqual(job.returncode, 0, job.stderr)
        wait_until(lambda: os.path.exists(self.hosts.path(LAUNCHER, output)), "the output of the script", LIMIT_S)
        wait_until(lambda: self.hosts.read(LAUNCHER, output).count("}") >= workers, "words of all workers", LIMIT_S)
        return self.hosts.read(LAUNCHER, output)

    def test_a_batch_script_starts_its_own_node_without_srun(self):
        self.check_world(self.batch("-N2", f"exec {' '.join(RUN + PROGRAM)}", workers=2), ["n00", "n01"])

    def test_the_example_of_a_batch_script_starts_all_nodes(self):
        with open(os.path.join(interop.ROOT, "docs", "examples", "train.sbatch"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual((text.count("exec muster run"), text.count(" train.py\n")), (1, 1))
        text = text.replace("exec muster run", f"exec {' '.join(RUN)}").replace(" train.py\n", f" {' '.join(PROGRAM)}\n")
        self.check_world(self.submit(text, 3, f"--chdir={SHARED}"), ["n00", "n01", "n02"])

    def test_tasks_of_a_step_are_peers(self):
        job = self.slurm.run(["srun", "-N3", "--ntasks-per-node=1", *RUN, "--nproc-per-node", "2", *PROGRAM], timeout=LIMIT_S)
        self.assertEqual(job.returncode, 0, job.stderr)
        workers = self.check_world(job.stdout, ["n00", "n00", "n01", "n01", "n02", "n02"])
        self.assertTrue(workers[0]["TORCHELASTIC_RUN_ID"].startswith("slurm-"))
        self.assertTrue(10_000 <= int(workers[0]["MASTER_PORT"]) < 30_000)

    def test_the_ranks_of_a_step_meet_and_those_of_two_steps_do_not(self):
        ranks = parse_answers(self.slurm.run(["srun", "-N1", "-n3", PROBE], timeout=LIMIT_S))
        Launchers.check_world(self, ranks, 3, "srun")
        self.assertTrue(ranks[0]["run_id"].startswith("slurm-"), ranks[0])
        steps = [self.slurm.popen(["srun", "-N1", "-n2", PROBE]) for _ in range(2)]
        for step in steps:
            output, errors = step.communicate(timeout=LIMIT_S)
            self.assertEqual((step.returncode, output.count('"sum":3')), (0, 2), output + errors)
        for host in self.hosts.names:
            left = [name for name in os.listdir(self.hosts.path(host, "/tmp")) if re.match(r"muster-(?!\d+$)", name)]
            self.assertEqual(left, [])

    def test_a_batch_script_is_a_world_of_one(self):
        said = self.batch("-n2", f"env | grep ^SLURM_PROCID\nexec {PROBE}", workers=1)
        for words in ("SLURM_PROCID=0", '"launcher":"none"', '"size":1'):
            self.assertIn(words, said)

    def in_step(self, words, *flags):
        """`words` on each of two nodes with a /tmp of its own, where a key would be made."""
        command = " ".join([words, *RUN, *flags, *PROGRAM])
        return self.slurm.run(["srun", "-N2", "--ntasks-per-node=1", "sh", "-c", command], timeout=LIMIT_S)

    def test_munge_joins_nodes_whose_keys_differ(self):
        job = self.in_step("HOME=/tmp")
        self.assertEqual(job.returncode, 0, job.stderr)
        self.check_world(job.stdout, ["n00", "n01"])
        keys = {self.hosts.read(host, "/tmp/.config/muster/key") for host in ("n00", "n01")}
        self.assertEqual(len(keys), 2)

    def test_munge_serves_where_no_key_can_be_made(self):
        job = self.in_step("HOME=/proc")
        self.assertEqual(job.returncode, 0, job.stderr)
        self.check_world(job.stdout, ["n00", "n01"])

    def test_a_chosen_key_is_not_replaced_by_munge(self):
        for host, key in (("n00", "ab" * 32), ("n01", "cd" * 32)):
            self.hosts.write(host, "/tmp/chosen", key, 0o600)
        job = self.in_step("", "--secret-file", "/tmp/chosen", "--rdzv-conf", "join_timeout=20")
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("our key is /tmp/chosen: copy that of n00", job.stderr)

    def test_munge_lets_no_other_user_in(self):
        run = " ".join([*RUN, "--rdzv-conf", "join_timeout=20", "--no-python", "env"])
        other = "mkdir -m 777 /tmp/other; HOME=/tmp/other setpriv --reuid 65534 --clear-groups"
        command = f"if [ $SLURM_NODEID = 1 ]; then {other} {run}; else HOME=/tmp {run}; fi"
        job = self.slurm.run(["srun", "-N2", "--ntasks-per-node=1", "sh", "-c", command], timeout=LIMIT_S)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("it does not have the key of a node of this job", job.stderr)
        self.assertNotIn("RANK=", job.stdout)

    def test_several_tasks_on_a_node_are_an_error(self):
        job = self.slurm.run(["srun", "-N1", "--ntasks-per-node=2", *RUN, *PROGRAM], timeout=LIMIT_S)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("srun --ntasks-per-node=1 muster run --nproc-per-node 2", job.stderr)
        self.assertNotIn("RANK", job.stdout)

    def test_a_failure_ends_the_job_with_its_code(self):
        for command in (["salloc", "-Q", "-N3", *RUN], ["srun", "-N3", "--ntasks-per-node=1", *RUN]):
            begin = time.monotonic()
            job = self.slurm.run([*command, *PROGRAM], timeout=LIMIT_S, env={"JOB_DO": "fail:2:7"})
            self.assertEqual(job.returncode, 7, job.stderr)
            self.assertIn("n02", job.stderr)
            self.assertIn("rank 2", job.stderr)
            self.assertLess(time.monotonic() - begin, LIMIT_S)

    def test_what_srun_says_becomes_one_line(self):
        job = self.slurm.run(["salloc", "-Q", "-N2", *RUN, "--slurm", "on", "-H", "n00,n02", *PROGRAM], timeout=LIMIT_S)
        self.assertEqual(job.returncode, 125, job.stderr)
        self.assertIn("n02: srun: the node is not part of the Slurm job", job.stderr)
        job = self.slurm.run(["salloc", "-Q", "-N2", *RUN, "--remote-muster", "/no/such/muster", *PROGRAM], timeout=LIMIT_S)
        self.assertEqual(job.returncode, 125, job.stderr)
        self.assertIn("was not found there", job.stderr)
        self.assertIn("/no/such/muster", job.stderr)

    def start_and_wait(self, *command):
        """A job whose workers wait; returns when all of them run."""
        go = f"{SHARED}/never"
        job = self.slurm.popen([*command, *PROGRAM], env={"JOB_DO": f"wait:{go}"})
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)

        def workers():
            return sum("peer_worker" in process["command"] and "muster" not in process["command"].split()[0]
                       for _, process in self.left() if process["comm"].startswith("python"))

        wait_until(lambda: workers() == 3 or job.poll() is not None, "three workers", LIMIT_S)
        self.assertIsNone(job.poll(), "the job has ended")
        return job

    def test_a_killed_launcher_leaves_nothing(self):
        job = self.start_and_wait("salloc", "-Q", "-N3", *RUN)
        launcher = [process["pid"] for process in self.hosts.processes(LAUNCHER) if process["comm"] == "muster"]
        self.hosts.signal(LAUNCHER, launcher[0], signal.SIGKILL)
        job.wait(LIMIT_S)

    def read_until(self, job, word, count):
        """What it prints until this word has come so often."""
        text, deadline = "", time.monotonic() + LIMIT_S
        while text.count(word) < count:
            ready, _, _ = select.select([job.stdout], [], [], max(0, deadline - time.monotonic()))
            piece = os.read(job.stdout.fileno(), 65536).decode() if ready else ""
            if not piece:
                job.kill()
                raise AssertionError(f"no {count} of '{word}': {text}\n{job.stderr.read()}")
            text += piece
        return text

    def noticed(self, command):
        """The ranks that have got the notice of such a job, which goes on, as often as they have got it."""
        go = f"{SHARED}/go-on"
        job = self.slurm.popen([*command, *PROGRAM], env={"JOB_DO": f"notice:{go}"})
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        text = self.read_until(job, "ready", 3)
        if command[0] == "salloc":  # as --signal=B:USR1 does
            launcher = [process["pid"] for process in self.hosts.processes(LAUNCHER) if process["comm"] == "muster"]
            self.hosts.signal(LAUNCHER, launcher[0], signal.SIGUSR1)
        else:
            self.slurm.run(["scancel", "--signal=USR1", "--user=root"])
        text += self.read_until(job, "noticed", 3)
        self.hosts.write(LAUNCHER, go, "")
        out, err = job.communicate(timeout=LIMIT_S)
        self.assertEqual(job.returncode, 0, err)
        self.hosts.run(LAUNCHER, ["rm", go])
        return sorted(re.findall(r"noticed (\d)", text + out))

    def test_a_notice_reaches_the_workers_once_and_ends_nothing(self):
        for command in (["salloc", "-Q", "-N3", *RUN], ["srun", "-N3", "--ntasks-per-node=1", *RUN]):
            for _ in range(4):
                ranks = self.noticed(command)
                # Processes of a host that a busy machine lets get it more than 0.1 s apart have got two notices.
                if command[0] == "salloc" or ranks == ["0", "1", "2"]:
                    break
            self.assertEqual(ranks, ["0", "1", "2"])

    def test_a_cancelled_job_leaves_nothing(self):
        for command in (["salloc", "-Q", "-N3", *RUN], ["srun", "-N3", "--ntasks-per-node=1", *RUN]):
            job = self.start_and_wait(*command)
            self.slurm.run(["scancel", "--user=root"])
            job.wait(LIMIT_S)
            wait_until(lambda: not self.left(), "the end of the jobs", LIMIT_S)
            self.slurm.wait_for("idle nodes", self.slurm.is_idle)


if __name__ == "__main__":
    need_slurm()
    need_hosts()
    unittest.main()
