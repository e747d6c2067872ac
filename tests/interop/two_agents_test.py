#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two stock torchrun agents meet on `muster rendezvous` and run a job of two nodes."""
import os
import signal
import subprocess
import time
import unittest

import interop

LIMIT_S = 240
WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker_all_reduce.py")


class TwoAgents(unittest.TestCase):
    def agent(self, endpoint):
        command = [interop.TORCHRUN, "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "two",
                   "--rdzv-endpoint", endpoint, "--rdzv-conf", "is_host=0", "--local-addr", "127.0.0.1", WORKER]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=interop.clean_environment() | {"PYTHONFAULTHANDLER": "1"})

    def output(self, agent, deadline):
        """Of an agent that is still there at the deadline: with the stacks of all its threads."""
        try:
            return agent.communicate(timeout=max(deadline - time.monotonic(), 0.1))[0]
        except subprocess.TimeoutExpired:
            agent.send_signal(signal.SIGABRT)
            return f"still running after {LIMIT_S} s:\n" + agent.communicate(timeout=20)[0]

    def test_a_job_of_two_nodes(self):
        with interop.Rendezvous() as daemon:
            agents = [self.agent(daemon.endpoint) for _ in range(2)]
            deadline = time.monotonic() + LIMIT_S
            outputs = [self.output(agent, deadline) for agent in agents]
        self.assertEqual([agent.returncode for agent in agents], [0, 0], "\n".join(outputs))
        text = "".join(outputs)
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2 round 0: 3 3", text)


if __name__ == "__main__":
    interop.need_torch()
    unittest.main()
