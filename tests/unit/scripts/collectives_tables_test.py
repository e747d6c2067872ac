#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of the collectives' benchmark: what is missing stays empty, and a goal is met only by all its sizes."""
import contextlib
import io
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tests", "bench", "collectives"))
import tables  # noqa: E402


def printed(call, *arguments):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        call(*arguments)
    return output.getvalue()


def times_of(**rows):
    """{row: microseconds at every size}."""
    return {(row.replace("_", "-"), "all_reduce", size): value for row, value in rows.items() for size in tables.SIZES}


class Tables(unittest.TestCase):
    def test_units(self):
        self.assertEqual([tables.text_of(value) for value in (None, 0.214, 1234, 56789)], ["", "0.21 µs", "1.23 ms", "56.8 ms"])

    def test_a_library_that_is_missing_has_no_column(self):
        text = printed(tables.print_all_reduce, 2, times_of(shm=1, gloo=10))
        self.assertIn("| buffer | shm, any memory | Gloo | shm, any / Gloo |", text)
        self.assertNotIn("Open MPI", text)
        self.assertIn("| 4 B | 1.00 µs | 10.00 µs | 0.10 |", text)

    def test_goals(self):
        goals = tables.Goals()
        times = times_of(shm=1, shm_allocated=1, gloo=3.5, our_gloo=3.6)
        times["our-gloo", "all_reduce", tables.MIB] = 4.0
        tables.compare_all_reduce(goals, {2: times})
        verdicts = {row[0]: row[2] for row in goals.rows}
        self.assertEqual(verdicts["2 ranks, any memory: at most 1/3 of Gloo's time"], "met")
        self.assertEqual(verdicts["2 ranks, memory of `muster_alloc`: at most 1/4 of Gloo's time"], "**missed**")
        self.assertEqual(verdicts["2 ranks, our gloo from 1 MiB up: within 5 % of Gloo"], "**missed**")
        self.assertEqual(verdicts["2 ranks, any memory, small: no slower than Open MPI"], "")
        self.assertIn("not measured", printed(goals.print))

    def test_hierarchical_is_held_against_its_slower_part(self):
        times = times_of(hierarchical=12, inside=3, between=10)
        self.assertAlmostEqual(tables.against_parts(times, 4), 1.2)
        self.assertIsNone(tables.against_parts(times_of(hierarchical=12, inside=3), 4))


if __name__ == "__main__":
    unittest.main()
