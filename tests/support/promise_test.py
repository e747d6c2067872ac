# SPDX-License-Identifier: Apache-2.0
"""The bounds of promises: what is late fails, what one accident holds up does not."""
import contextlib
import io
import json
import os
import tempfile
import time
import unittest
from unittest import mock

import promise

os.environ.pop("MUSTER_TEST_PROMISES", None)  # none of these is a promise of the product


def judged(seconds, took, factor=1.0, clock=0.0, **keywords):
    """Whether the figures are in their bound, at a SLACK of 3."""
    with mock.patch.object(promise, "SLACK", 3), contextlib.redirect_stdout(io.StringIO()):
        try:
            promise.judge("name", seconds, took, factor, clock, **keywords)
        except AssertionError:
            return False
    return True


class Bounds(unittest.TestCase):
    def test_the_middle_one_counts(self):
        self.assertTrue(judged(1, [2.9, 0.1, 8.9]))
        self.assertFalse(judged(1, [0.1, 3.1, 3.2]))
        self.assertTrue(judged(1, [3]))
        self.assertFalse(judged(1, [3.01]))

    def test_a_slow_machine_may_take_longer_but_its_clocks_do_not(self):
        self.assertTrue(judged(1, [5.9], factor=2))
        self.assertFalse(judged(1, [6.1], factor=2))
        self.assertTrue(judged(1, [10.9], factor=2, clock=5))
        self.assertFalse(judged(1, [11.1], factor=2, clock=5))

    def test_what_is_usual_counts_where_more_is_promised(self):
        self.assertTrue(judged(0.1, [0.14], usual=0.02))
        self.assertFalse(judged(0.1, [0.16], usual=0.02))
        self.assertTrue(judged(0.1, [0.29], factor=2, usual=0.02))
        self.assertTrue(judged(0.1, [5.14], clock=5, usual=0.02))
        self.assertFalse(judged(0.1, [0.31], usual=0.05))  # never more than the promise allows

    def test_what_becomes_ten_times_slower_than_usual_is_seen(self):
        self.assertLess(promise.TIMES_USUAL, 10)
        self.assertFalse(judged(10, [0.2], usual=0.02))

    def test_no_try_may_hang(self):
        self.assertTrue(judged(0.1, [0.02, 0.02, 0.95], usual=0.02))
        self.assertFalse(judged(0.1, [0.02, 0.02, 1.1], usual=0.02))
        self.assertTrue(judged(1, [0.02, 0.02, 8.9]))
        self.assertFalse(judged(1, [0.02, 0.02, 9.1]))
        self.assertTrue(judged(1, [5.02, 5.02, 13.9], clock=5))
        self.assertFalse(judged(0.1, [5.02, 5.02, 6.1], clock=5))

    def test_who_is_late_is_told_all_figures(self):
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaisesRegex(
                AssertionError, r"too late: the end: 9\.000 s of 9\.000; promised 0\.6 s, bound \d"):
            promise.judge("the end", 0.1, [9.0], 1.0, 0.5)

    def test_a_change_that_makes_it_slower_is_seen(self):
        """Ten times what is promised does not pass on the busiest machine, whatever it makes of the sleep itself."""
        if promise.SLACK == 3:
            with contextlib.redirect_stdout(io.StringIO()), self.assertRaises(AssertionError):
                promise.promise("a nap", 0.02, lambda: nap(0.25))


def nap(seconds):
    begin = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - begin


class Machine(unittest.TestCase):
    def factor(self, spawn, message):
        yardstick = promise.Yardstick()
        yardstick.seconds = {"spawn": [spawn * promise.REFERENCE_S["spawn"]] * 10,
                             "message": [message * promise.REFERENCE_S["message"]] * 10}
        return yardstick.factor()

    def test_the_slower_of_both_counts_between_one_and_the_cap(self):
        self.assertEqual(self.factor(0.1, 0.2), 1)
        self.assertAlmostEqual(self.factor(2, 1), 2)
        self.assertAlmostEqual(self.factor(1, 3), 3)
        self.assertEqual(self.factor(100, 1), promise.MOST_FACTOR)

    def test_one_accident_is_no_slow_machine(self):
        self.assertEqual(promise.usual([1] * 19 + [1000]), 1)
        self.assertGreater(promise.usual([1] * 10 + [10] * 10), 4)

    def test_it_is_measured(self):
        yardstick = promise.Yardstick()
        yardstick.look(spawns=3, messages=5)
        self.assertEqual({name: len(seconds) for name, seconds in yardstick.seconds.items()}, {"spawn": 3, "message": 5})
        self.assertTrue(all(0 < one for seconds in yardstick.seconds.values() for one in seconds))
        self.assertTrue(1 <= yardstick.factor() <= promise.MOST_FACTOR)


class Promised(unittest.TestCase):
    RECORD = {"bounds": {"ended": {"seconds": 1, "clock": 5}, "said": {"seconds": 0.5}}}

    def test_what_the_page_promises_becomes_arguments(self):
        with mock.patch.object(promise, "failures", lambda: {"host-vanishes": self.RECORD}):
            self.assertEqual(promise.promised("host-vanishes"), {"seconds": 1, "clock": 5, "usual": None})
            self.assertEqual(promise.promised("host-vanishes", "said", clock=2, usual=0.1), {"seconds": 0.5, "clock": 2, "usual": 0.1})
            with self.assertRaises(KeyError):
                promise.promised("host-vanishes", "heard")

    def test_the_records_are_found(self):
        for record in promise.failures().values():
            for name in record.get("bounds", {}):
                self.assertGreater(promise.promised(record["id"], name)["seconds"], 0)


class Written(unittest.TestCase):
    def test_one_try_is_no_median(self):
        with self.assertRaises(TypeError):
            promise.kept("hasty", 1, [0.5])

    def test_a_line_for_each_promise_also_for_one_that_is_not_kept(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            path = os.path.join(folder, "promises")
            with mock.patch.dict(os.environ, MUSTER_TEST_PROMISES=path), mock.patch("sys.argv", ["/x/suite/a_test.py", "case"]):
                promise.kept("first", 1, [0.5, 0.25, 1])
                with self.assertRaises(AssertionError):
                    promise.kept("second", 0.001, [9], clock=0.002, one_try="a test")
            with open(path, encoding="utf-8") as file:
                first, second = map(json.loads, file)
        self.assertEqual([first[key] for key in ("suite", "name", "promise", "median", "tries")],
                         ["suite/a_test case", "first", 1, 0.5, 3])
        self.assertAlmostEqual(first["bound"], promise.SLACK * first["factor"])
        self.assertEqual((first["worst"], first["limit"]), (1, max(promise.ONE_TRY_S, promise.ONE_TRY_TIMES * first["bound"])))
        self.assertEqual((second["name"], second["median"], second["promise"]), ("second", 9, 0.003))

    def test_what_is_late_beside_others_is_measured_again(self):
        def judged_of(*measured):
            left = list(measured)
            with contextlib.redirect_stdout(io.StringIO()):
                try:
                    promise.kept_beside_others("name", 0.1, lambda: left.pop(0))
                except AssertionError:
                    return False, len(left)
            return True, len(left)

        good, one_hangs, slow = [0.1] * 3, [0.1, 0.1, 99], [99] * 3
        self.assertEqual(judged_of(good, slow, slow), (True, 2))
        self.assertEqual(judged_of(one_hangs, good, good), (True, 0))
        self.assertEqual(judged_of(one_hangs, one_hangs, good), (False, 0))
        self.assertEqual(judged_of(slow, slow, good), (False, 0))

    def test_what_is_too_late_is_done_again_and_what_is_wrong_is_not(self):
        for first, calls in (("too late: x", 2), ("another exit code", 1)):
            ends = mock.Mock(side_effect=[AssertionError(first), 0.5])
            with contextlib.suppress(AssertionError):
                self.assertEqual(promise.in_time(ends), 0.5)
            self.assertEqual(ends.call_count, calls)
        with self.assertRaises(AssertionError):
            promise.in_time(mock.Mock(side_effect=AssertionError("too late: x")))

    def test_each_try_is_made(self):
        tries = iter([0.1, 0.3, 0.2, 0.5, 0.4])
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(promise.promise("five", 1, lambda: next(tries), tries=5), 0.3)


if __name__ == "__main__":
    unittest.main()
