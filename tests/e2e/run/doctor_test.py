#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`muster doctor` on this host, and on others through an "ssh" that runs everything here and fails as hosts do."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from interop import MUSTER, clean_environment

FAKE_SSH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ssh_start", "fake_ssh.sh")
LIMIT_S = 60
# Everything that is looked at on each host.
WHAT = ["muster", "Python", "torch", "GPUs", "NCCL", "cuDNN", "network", "/dev/shm", "/tmp", "ulimit -n", "ulimit -l", "ulimit -u",
        "processors", "memory", "ptrace_scope", "old jobs", "logind"]


def doctor(*arguments, **environment):
    kept = clean_environment(**environment)
    if "TMPDIR" not in environment:
        kept.pop("TMPDIR", None)
    return subprocess.run([MUSTER, "doctor", *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False, env=kept)


class Doctor(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def report(self, *arguments, **environment):
        result = doctor("--json", *arguments, **environment)
        report = json.loads(result.stdout)
        self.assertEqual((report["schema"], report["version"]), ("muster.doctor", 1))
        self.assertEqual(result.returncode, 1 if report["problems"] else 0, result.stderr)
        return report

    def finding(self, host, what):
        found, = [finding for finding in host["findings"] if finding["what"] == what]
        self.assertEqual(found["verdict"] == "ok", not found["advice"], found)
        return found

    def interpreter(self, text):
        path = os.path.join(self.folder, "python")
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        return path

    def test_this_host(self):
        report = self.report(PYTHON_EXEC=sys.executable)
        host, = report["hosts"]
        self.assertEqual([finding["what"] for finding in host["findings"]], WHAT)
        self.assertEqual(host["facts"]["python"]["version"], "%d.%d.%d" % sys.version_info[:3])
        self.assertEqual(self.finding(host, "Python")["verdict"], "ok")
        self.assertEqual(host["facts"]["folders"][0]["path"], "/dev/shm")
        self.assertGreater(host["facts"]["folders"][0]["total"], 0)
        text = doctor(PYTHON_EXEC=sys.executable).stdout
        self.assertEqual(text.splitlines()[0], host["host"])
        for what in WHAT:
            self.assertIn(f"  {what} ", text)
        # Counted in this text: since the report before it, jobs of other tests may have left folders, or theirs may be gone.
        found = re.findall(r"(?m)^  (problem|note) ", text)
        self.assertRegex(text.splitlines()[-1], rf"^1 host: {found.count('problem')} problems?, {found.count('note')} notes?$")

    def test_an_interpreter_and_its_torch(self):
        said = json.dumps({"version": "3.12.1", "executable": "/p", "torch": "2.9.0", "torch_cuda": "12.8", "nccl": "2.27.5"})
        host, = self.report("--python", self.interpreter(f"echo '{said}'\n"))["hosts"]
        self.assertEqual(host["facts"]["python"]["torch"], "2.9.0")
        self.assertIn("2.9.0, for CUDA 12.8", self.finding(host, "torch")["found"])
        self.assertIn("2.27.5 of torch", self.finding(host, "NCCL")["found"])
        host, = self.report("--python", self.interpreter("echo 'no such library' >&2; exit 1\n"))["hosts"]
        self.assertEqual(self.finding(host, "Python")["verdict"], "problem")
        self.assertIn("no such library", self.finding(host, "Python")["found"])
        host, = self.report("--python", os.path.join(self.folder, "absent"))["hosts"]
        self.assertEqual(self.finding(host, "Python")["verdict"], "problem")

    def test_a_missing_temporary_directory_and_few_open_files(self):
        absent = os.path.join(self.folder, "absent")
        result = subprocess.run(["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh", MUSTER, "doctor", "--json"], capture_output=True, text=True,
                                timeout=LIMIT_S, check=False, env=clean_environment(TMPDIR=absent))
        self.assertEqual(result.returncode, 1, result.stderr)
        host, = json.loads(result.stdout)["hosts"]
        self.assertEqual(self.finding(host, "TMPDIR")["found"], absent + ": No such file or directory")
        self.assertEqual(self.finding(host, "ulimit -n")["verdict"], "problem")

    def test_other_hosts(self):
        # All "hosts" are this one, so that nothing differs but the one that refuses.
        flags = ["--ssh-command", FAKE_SSH, "--towards", "192.0.2.1"]
        report = self.report("-H", "ok1,noisy2,refused3,early4", *flags)
        ok, noisy, refused, early = report["hosts"]
        for host in ok, noisy:
            self.assertEqual([finding["what"] for finding in host["findings"]], WHAT, host)
            self.assertEqual(host["facts"]["network"]["towards"], "192.0.2.1")
        self.assertEqual([host["host"] for host in report["hosts"]], ["ok1", "noisy2", "refused3", "early4"])
        for host in refused, early:
            self.assertNotIn("facts", host)
            self.assertEqual([finding["what"] for finding in host["findings"]], ["login"])
        self.assertIn("connection refused", self.finding(refused, "login")["found"])
        self.assertIn("sshd", self.finding(refused, "login")["advice"])
        self.assertEqual(self.finding(early, "login")["found"], "it printed no report")
        self.assertEqual(report["differences"], [])
        self.assertEqual([(one["what"], one["found"]) for one in report["tried"]], [("all_reduce", "not tried: refused3 was not reached")])
        text = doctor("-H", "ok1,refused3", *flags)
        self.assertEqual(text.returncode, 1, text.stderr)
        self.assertIn("refused3\n  problem  login", text.stdout)

    def test_hosts_whose_interpreters_differ(self):
        # Each "host" finds its own name in the interpreter's answer: the first argument of the "ssh".
        ssh = os.path.join(self.folder, "ssh.sh")
        with open(ssh, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nNAME=$1 exec "{FAKE_SSH}" "$@"\n')
        os.chmod(ssh, 0o755)
        python = self.interpreter('echo "{\\"version\\": \\"3.11.2\\", \\"torch\\": \\"2.4 of $NAME\\"}"\n')
        report = self.report("-H", "ok1,ok2", "--ssh-command", ssh, "--towards", "192.0.2.1", "--python", python, "--no-all-reduce")
        difference, = [one for one in report["differences"] if one["what"] == "torch"]
        self.assertEqual((difference["verdict"], difference["found"]), ("problem", "2.4 of ok1 on ok1; 2.4 of ok2 on ok2"))

    def test_wrong_usage(self):
        for arguments in (["--bogus"], ["n0"], ["-H", ""], ["-H", "n[0"], ["--ssh-port", "0"]):
            result = doctor(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            self.assertIn("muster: error: ", result.stderr)


if __name__ == "__main__":
    unittest.main()
