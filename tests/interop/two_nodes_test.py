#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two nodes that are started one by one, as torchrun does it: a script that knows env:// only sees no difference, and an agent of
torchrun that comes to our port is turned away by name."""
import os
import subprocess
import tempfile
import unittest

import interop
from environment_test import OTHER_VALUE, WORKER, assert_same, read_environments
from interop import free_port

FOLDER = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 90


def muster_run(home):
    return [interop.MUSTER, "run"], {"HOME": home, "PYTHON_EXEC": interop.TORCH_PYTHON}


def torchrun(home):
    return [interop.TORCHRUN, "--local-addr", "127.0.0.1"], {"HOME": home, "PYTHON_EXEC": interop.TORCH_PYTHON}


def run_nodes(launcher, nodes, *program):
    """The same job once for each list of flags in `nodes`, at the same time."""
    with tempfile.TemporaryDirectory() as home:
        command, extra = launcher(home)
        processes = [subprocess.Popen([*command, *flags, *program], env=interop.clean_environment(**extra), text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for flags in nodes]
        try:
            outputs = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    codes = [process.returncode for process in processes]
    if codes != [0] * len(codes):
        raise AssertionError(f"{command}: exit codes {codes}\n" + "\n".join(outputs))


def c10d():
    return [["--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-id", "two", "--rdzv-endpoint",
             f"127.0.0.1:{port}"] for port in [free_port()] * 2]


def static():
    port = free_port()
    return [["--nnodes", "2", "--nproc-per-node", "2", "--node-rank", str(rank), "--master-addr", "127.0.0.1", "--master-port",
             str(port)] for rank in range(2)]


class TwoNodes(unittest.TestCase):
    def collect(self, launcher, nodes):
        with tempfile.TemporaryDirectory() as folder:
            run_nodes(launcher, nodes, WORKER, folder)
            return read_environments(folder, 4)

    def compare(self, flags):
        for ours, theirs in zip(self.collect(muster_run, flags()), self.collect(torchrun, flags())):
            assert_same(self, ours, theirs, OTHER_VALUE | {"HOME"})

    def test_c10d_gives_the_same_environment(self):
        self.compare(c10d)

    def test_static_gives_the_same_environment(self):
        self.compare(static)

    def test_an_agent_of_torchrun_is_refused_by_name(self):
        port = free_port()
        flags = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-id", "two", "--rdzv-endpoint", f"127.0.0.1:{port}"]
        with tempfile.TemporaryDirectory() as home:
            ours = subprocess.Popen([interop.MUSTER, "run", *flags, "true"], env=interop.clean_environment(HOME=home), text=True,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            theirs = subprocess.Popen([interop.TORCHRUN, *flags, "--rdzv-conf", "is_host=0,read_timeout=20", "--no-python", "true"],
                                      env=interop.clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                self.assertNotEqual(theirs.wait(LIMIT_S), 0)
                ours.terminate()
                text = ours.communicate(timeout=60)[1]
            finally:
                for process in (ours, theirs):
                    process.kill()
                    process.wait()
        self.assertIn("torchrun", text)


if __name__ == "__main__":
    interop.need_torch()
    unittest.main()
