# SPDX-License-Identifier: Apache-2.0
"""The files of docs/examples do what docs/deploy.md says, as they stand there. That of Slurm is run by slurm_jobs_test.py."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from hosts import Hosts, need_hosts
from interop import MUSTER, ROOT, TORCH_PYTHON, clean_environment
from processes import children, marked, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peer"))
from peer_jobs import WORKER, Launcher  # noqa: E402

EXAMPLES = os.path.join(ROOT, "docs", "examples")
LIMIT_S = 60
# Says that it runs, and saves when it is told to stop.
TRAINER = """\
import os, signal, sys, time
def save(number, frame):
    print("saved " + os.environ["RANK"], flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready " + os.environ["RANK"], flush=True)
time.sleep(600)
"""


def example(name):
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        return file.read()


class Kubernetes(unittest.TestCase):
    """Pods played by hosts of namespaces; the name of the first one appears when the others already wait for it."""

    def test_pods_meet_by_index_and_late_name(self):
        text = example("kubernetes.yaml")
        variables = dict(re.findall(r'- \{name: (\w+), value: "([^"]*)"\}', text))
        command = json.loads(re.search(r"command: (\[.*\])", text)[1])
        self.assertEqual((command[:2], command[-1]), (["muster", "run"], "train.py"))
        pods = int(re.search(r"completions: (\d+)", text)[1])
        self.assertEqual(variables["PET_NNODES"], str(pods))
        # GPUs are counted on the machine, and this one may have none.
        variables["PET_NPROC_PER_NODE"] = "2"
        with Hosts(pods, sshd=False, shared_home=True) as hosts:
            first = hosts.hosts["n00"]
            key = os.path.join(first.home, "pod-key")
            hosts.write("n00", key, "c0ffee" * 11, 0o400)
            flags = [key if word == "/etc/muster/key" else word for word in command[2:-1]]
            launchers = []
            for index in reversed(range(pods)):
                name = f"n{index:02}"
                if index == 0:
                    launchers[0].wait_for(1, lambda line: f"waiting for {variables['PET_MASTER_ADDR']}" in line, "a wait for the name")
                    for other in hosts.hosts:
                        hosts.write(other, "/etc/hosts", f"{hosts.read(other, '/etc/hosts')}\n{first.ipv4} {variables['PET_MASTER_ADDR']}\n")
                launchers.append(Launcher(hosts, name, flags, ["--no-python", sys.executable, WORKER], {**variables, "JOB_COMPLETION_INDEX": str(index)}))
                self.addCleanup(launchers[-1].close)
            for launcher in launchers:
                self.assertEqual(launcher.end(), 0, launcher.text())
                index = int(launcher.host[1:])
                self.assertEqual(sorted(int(one["RANK"]) for one in launcher.workers(2)), [2 * index, 2 * index + 1])
            self.assertEqual(hosts.leftovers(timeout=LIMIT_S), {})

    def test_the_manifest_is_one_that_a_cluster_takes(self):
        check = ("import kubernetes_validate, sys, yaml\n"
                 "for one in yaml.safe_load_all(open(sys.argv[1])): kubernetes_validate.validate(one, '1.30', strict=True)")
        if subprocess.run([TORCH_PYTHON, "-c", "import kubernetes_validate"], capture_output=True, check=False).returncode:
            self.skipTest("no kubernetes_validate")
        subprocess.run([TORCH_PYTHON, "-c", check, os.path.join(EXAMPLES, "kubernetes.yaml")], check=True, timeout=LIMIT_S)


class OneHost(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(self.folder, "train.py"), "w", encoding="utf-8") as file:
            file.write(TRAINER)
        self.environment = clean_environment(PATH=f"{os.path.dirname(MUSTER)}:{os.environ['PATH']}", MUSTER_TEST_MARK=f"examples-{os.getpid()}")

    def stop(self, command, before=()):
        """Starts the command, lets SIGTERM reach its muster when the trainer runs; returns its exit code and what the trainer wrote."""
        job = subprocess.Popen([*before, *command], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (job.kill(), job.communicate()))
        self.assertEqual(job.stdout.readline(), "ready 0\n")
        os.kill(children(job.pid, "muster")[0] if before else job.pid, signal.SIGTERM)
        out, _ = job.communicate(timeout=LIMIT_S)
        self.assertEqual(marked(self.environment["MUSTER_TEST_MARK"]), [])
        return job.returncode, out

    def test_the_entry_point_of_a_container_stops_in_order(self):
        command = json.loads(re.search(r"^ENTRYPOINT (\[.*\])$", example("Dockerfile"), re.MULTILINE)[1])
        if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False).returncode:
            self.skipTest("no namespace of processes can be made here")
        command = ["1" if word == "auto" else word for word in command]  # a worker for each processor would be as many as there are
        self.assertEqual(self.stop(command, ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]), (143, "saved 0\n"))

    def test_the_unit_of_systemd_is_one_and_stops_in_order(self):
        text = example("train.service")
        command = re.search(r"^ExecStart=%h/venv/bin/(.*)$", text, re.MULTILINE)[1].split()
        code, out = self.stop(["1" if word == "auto" else word for word in command])
        self.assertEqual((code, out), (143, "saved 0\n"))
        self.assertIn(f"\nSuccessExitStatus={code}\n", text)
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze")
        unit = os.path.join(self.folder, "train.service")
        with open(unit, "w", encoding="utf-8") as file:
            file.write(text.replace("%h/venv/bin/muster", MUSTER).replace("%h/train", self.folder))
        checked = subprocess.run(["systemd-analyze", "verify", "--user", unit], capture_output=True, text=True, timeout=LIMIT_S, check=False,
                                 env={**self.environment, "XDG_RUNTIME_DIR": self.folder})
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))


if __name__ == "__main__":
    need_hosts()
    unittest.main()
