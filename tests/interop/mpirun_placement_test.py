#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same hostfile or host list gives the same placement under Open MPI's mpirun and ours."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import interop

HOSTFILE = """# as for both
n0 slots=4
n1 slots = 2   # uneven

n2 slots=3 max_slots=8
"""
LISTED = "n0:2,n1:3,n2"
MAP = ["--bind-to", "none", "--display-map", "--do-not-launch"]


def mpirun(arguments):
    """Workers and ranks of each host, from the map that mpirun prints without starting anything."""
    environment = {**interop.clean_environment(), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    result = subprocess.run(["mpirun", *arguments, *MAP, "true"], env=environment, capture_output=True, text=True,
                            timeout=60, check=False)
    hosts = {}
    for line in result.stdout.splitlines():
        if node := re.search(r"Data for node: (\S+)", line):
            ranks = hosts.setdefault(node.group(1), [])
        elif rank := re.search(r"Process rank: (\d+)", line):
            ranks.append(int(rank.group(1)))
    if not hosts:
        raise AssertionError(f"mpirun {arguments} printed no map:\n{result.stdout}\n{result.stderr}")
    return hosts


def muster(arguments):
    plan = json.loads(interop.run([interop.MUSTER, "run", *arguments, "--dry-run", "true"]).stdout)["placement"]
    hosts = {node["name"]: [] for node in plan["nodes"]}
    for worker in plan["ranks"]:
        hosts[worker["host"]].append(worker["rank"])
    return hosts


class Placement(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.hostfile = os.path.join(folder, "hosts")
        with open(self.hostfile, "w", encoding="utf-8") as file:
            file.write(HOSTFILE)

    def test_ranks_are_the_same_when_slots_are_filled_in_order(self):
        for arguments in (["--hostfile", self.hostfile, "-np", "7"], ["--hostfile", self.hostfile, "-np", "12", "--oversubscribe"],
                          ["-H", LISTED, "-np", "4"]):
            with self.subTest(arguments=arguments):
                self.assertEqual(muster(arguments), mpirun(arguments))

    def test_spread_over_nodes_gives_the_same_counts(self):
        """Our ranks stay contiguous on a node, mpirun deals them out in turn: only the counts are comparable."""
        for arguments in (["-np", "6"], ["-np", "20", "--oversubscribe"]):
            with self.subTest(arguments=arguments):
                arguments = ["--hostfile", self.hostfile, "--map-by", "node", *arguments]
                count = {host: len(ranks) for host, ranks in mpirun(arguments).items()}
                self.assertEqual({host: len(ranks) for host, ranks in muster(arguments).items()}, count)


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        interop.skip("no mpirun")
    VERSION = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
    if "(Open MPI) 4." not in VERSION:
        interop.skip(f"mpirun is not Open MPI 4, whose map this test reads: {VERSION.splitlines()[:1]}")
    unittest.main()
