# SPDX-License-Identifier: Apache-2.0
"""The backend over Open MPI, with ranks started by mpirun."""
import os
import re
import shutil
import unittest

import interop

RANKS = os.path.join(os.path.dirname(interop.MUSTER), "..", "tests", "mpi_ranks")


def mpirun(ranks, what, timeout=120):
    """The results that the ranks print."""
    command = ["mpirun", "--oversubscribe", "-n", ranks, RANKS, what]
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    result = interop.run(command, timeout=timeout, check=False)
    found = re.findall("result: (.*)", result.stdout)  # mpirun's ranks have a terminal, so Catch2 writes colours
    if len(found) != ranks:
        raise AssertionError(f"{ranks} ranks, results {found}\n{result.stdout}\n{result.stderr}")
    return found


class Mpi(unittest.TestCase):
    def test_contract(self):
        for ranks in (2, 3, 4):
            self.assertEqual(mpirun(ranks, "contract"), ["right"] * ranks)

    def test_mismatch_names_both_calls_on_every_rank(self):
        for text in mpirun(3, "mismatch"):
            self.assertIn("error -5", text)
            self.assertIn("rank 0", text)
            self.assertIn("10 x f32", text)
            self.assertIn("20 x f32", text)

    def test_a_rank_that_does_not_come_is_named_at_the_deadline(self):
        results = mpirun(3, "late")
        late = [text for text in results if text != "right"]
        self.assertEqual(len(late), 2, results)
        for text in late:
            self.assertIn("error -3", text)
            self.assertIn("waited 6000 ms", text)
            self.assertIn("for rank 0", text)

    def test_without_mpirun_it_says_so(self):
        result = interop.run([RANKS, "contract"], check=False)
        self.assertIn("start the program with mpirun", result.stdout)


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        interop.skip("no mpirun (Debian: openmpi-bin)")
    unittest.main()
