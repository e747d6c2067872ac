#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One program, started by everything that can start it, finds its world by the environment alone."""
import json
import os
import re
import shutil
import subprocess
import unittest

import interop

PROBE = os.environ["MUSTER_WORLD_PROBE"]
PLUGINS = os.environ["MUSTER_PLUGINS"]
LIMIT_S = 120


def environment(**extra):
    """No launcher's variables, ours included."""
    kept = {name: value for name, value in interop.clean_environment().items()
            if not name.startswith(("MUSTER_", "OMPI_", "PMIX_", "SLURM_"))}
    return {**kept, **extra}


def answers(command, **extra):
    """What the ranks printed, by rank."""
    command = list(map(str, command))
    # Open MPI's mpirun sometimes misses the end of its last ranks.
    for last in (False, False, True) if command[0] == "mpirun" else (True,):
        try:
            return parse_answers(subprocess.run(command, env=environment(**extra), timeout=LIMIT_S, capture_output=True,
                                                text=True, check=False))
        except subprocess.TimeoutExpired:
            if last:
                raise
    return None


def parse_answers(done):
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    lines = [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if "{" in line]
    return sorted(lines, key=lambda line: line.get("rank", -1))


class Launchers(unittest.TestCase):
    def check_world(self, ranks, size, launcher):
        self.assertEqual([answer.get("rank") for answer in ranks], list(range(size)), ranks)
        for rank, answer in enumerate(ranks):
            expected = {"rank": rank, "size": size, "local_rank": rank, "local_size": size, "node_rank": 0, "nodes": 1,
                        "launcher": launcher, "sum": size * (size + 1) // 2}
            self.assertEqual({name: answer[name] for name in expected}, expected)

    def test_muster_run(self):
        ranks = answers([interop.MUSTER, "run", "--nproc-per-node", "3", "--no-python", PROBE])
        self.check_world(ranks, 3, "muster run")

    def test_torchrun(self):
        if not os.path.exists(interop.TORCHRUN):
            self.skipTest("no torchrun")
        ranks = answers([interop.TORCHRUN, "--nproc-per-node", "2", "--no-python", PROBE])
        self.check_world(ranks, 2, "torchrun")

    def test_mpirun(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun")
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", PROBE]
        self.check_world(answers(command), 3, "mpirun")
        self.check_world(answers(command[:-1] + [PROBE, "env://"], MASTER_ADDR="127.0.0.1"), 3, "mpirun")

    def test_mpirun_where_mpi_carries_the_address(self):
        plugin = os.path.join(PLUGINS, "libmuster_mpi.so")
        if shutil.which("mpirun") is None or not os.path.exists(plugin):
            self.skipTest("no mpirun, or no plug-in for MPI")
        # As on several hosts: fewer ranks here than in the job.
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", "sh", "-c",
                   f"OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 exec {PROBE} backend=shm"]
        ranks = answers(command, MUSTER_PLUGIN_PATH=PLUGINS)
        self.assertEqual([(answer.get("rank"), answer.get("sum")) for answer in ranks], [(0, 6), (1, 6), (2, 6)], ranks)
        with self.assertRaisesRegex(AssertionError, "MASTER_ADDR"):
            answers(command, MUSTER_PLUGIN_PATH="/nowhere")

    def test_a_batch_script_of_slurm_is_bare(self):
        batch = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
        self.check_world(answers([PROBE], **batch), 1, "none")

    def test_bare(self):
        self.check_world(answers([PROBE]), 1, "none")


class Links(unittest.TestCase):
    """What the store of rank 0 and all else of a world bring into a program."""

    def test_only_the_standard_libraries_are_needed(self):
        listed = subprocess.run(["ldd", PROBE], capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout
        names = {line.split()[0].split("/")[-1].split(".so")[0] for line in listed.splitlines()}
        # Sanitizers bring their own.
        names -= {"libasan", "libubsan", "libtsan"}
        self.assertLessEqual(names, {"linux-vdso", "libstdc++", "libgcc_s", "libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"})

    def test_no_code_of_heavy_libraries_is_in_it(self):
        if shutil.which("nm") is None:
            self.skipTest("no nm")
        symbols = subprocess.run(["nm", "-C", PROBE], capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout
        found = [line for line in symbols.splitlines() if re.search(r"\b(boost|spdlog|fmt|nlohmann)::", line)]
        self.assertEqual(found, [])
        self.assertIn("muster::", symbols)


if __name__ == "__main__":
    unittest.main()
