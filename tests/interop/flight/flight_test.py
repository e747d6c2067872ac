# SPDX-License-Identifier: Apache-2.0
"""What we say of dumps of NCCL's flight recorder is what PyTorch's own analyzer finds in them. usage: flight_test.py <flight_lines>"""
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

import interop

LINES = sys.argv.pop()
ANALYZE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "analyze.py")
RANKS = 4


def entry(sequence, name="all_reduce", state="completed", sizes=((4, 8),), dtype="Float"):
    sizes = [list(size) for size in sizes]
    return {"record_id": sequence - 1, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": sequence, "p2p_seq_id": 0,
            "op_id": sequence, "profiling_name": "nccl:" + name, "time_created_ns": 1, "input_sizes": sizes, "input_dtypes": [dtype],
            "output_sizes": sizes, "output_dtypes": [dtype], "state": state, "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None, "retired": state == "completed", "timeout_ms": 600000, "is_p2p": False,
            "frames": [{"name": "step", "filename": "train.py", "line": 41}]}


def dump(last, before=40):
    """A rank that has completed so many all-reduces, and then what is in `last`."""
    entries = [entry(sequence) for sequence in range(1, before + 1)] + last
    return {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(RANKS)))}}, "pg_status": {},
            "entries": entries, "nccl_comm_state": {}}


WAITS = [entry(41, state="started")]


class Flights(unittest.TestCase):
    def both(self, odd_rank, odd, protocol=2):
        """Our lines, and what PyTorch finds, where one rank has another end than the others."""
        with tempfile.TemporaryDirectory() as folder:
            for rank in range(RANKS):
                with open(os.path.join(folder, f"rank{rank}"), "wb") as file:
                    pickle.dump(dump(odd if rank == odd_rank else WAITS), file, protocol)
            ours = subprocess.run([LINES, folder, str(RANKS)], capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
            theirs = subprocess.run([interop.TORCH_PYTHON, ANALYZE, folder], capture_output=True, text=True, timeout=120, check=True)
        return ours, json.loads(theirs.stdout.splitlines()[-1])

    def test_a_rank_that_never_came(self):
        for protocol in (2, 4):
            (line,), (found,) = self.both(3, [], protocol)
            self.assertEqual(line, "rank 3 never entered all_reduce 41 of group default_pg; ranks 0-2 wait in it")
            self.assertEqual((found["sequence"], found["missing"]), (41, [3]))

    def test_ranks_that_differ(self):
        for odd, kind, ours in (
                (entry(41, "broadcast", "started"), "COLLECTIVE_TYPE_MISMATCH", "rank 3 has broadcast, ranks 0-2 have all_reduce"),
                (entry(41, state="started", sizes=((4, 9),)), "SIZE_OR_SYNTAX_MISMATCH", "rank 3 has input sizes [[4, 9]], "),
                (entry(41, state="started", dtype="Half"), "COLLECTIVE_DTYPE_MISMATCH", "rank 3 has types [Half], "),
                (entry(41, state="scheduled"), "COLLECTIVE_STATE_MISMATCH", "rank 3 has state scheduled, ")):
            (line,), found = self.both(3, [odd])
            self.assertTrue(line.startswith("all_reduce 41 of group default_pg: " + ours), line)
            self.assertEqual((found[0]["sequence"], found[0]["kinds"], found[0]["odd"]), (41, [kind], [3]), found)

    def test_ranks_that_match(self):
        ours, theirs = self.both(3, WAITS)
        self.assertEqual((ours, theirs), ([], []))


if __name__ == "__main__":
    interop.need_torch()
    unittest.main()
