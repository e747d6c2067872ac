#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/test_summary.py and scripts/build_cost.py on files as CTest, ninja and ccache write them."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "scripts")
CASES = {
    "passed": '<testcase name="passed" time="25" status="run"><system-out>fine</system-out></testcase>',
    "part": '<testcase name="part" time="5" status="run"><system-out>fine\nskipped: no AVX-512 here\n</system-out></testcase>',
    "failed": '<testcase name="failed" status="fail"><failure message=""/><system-out>bad</system-out></testcase>',
    "late": '<testcase name="failed" status="fail"><failure message=""/><system-out>FAILED   1.00 s  agent_killed\n'
            "Traceback (most recent call last):\n  File x\nAssertionError: too late: the end: 9.000 s of 9.000\n</system-out></testcase>",
    "late in Catch2": '<testcase name="failed" status="fail"><failure message=""/><system-out>x/cost_test.cpp:57: FAILED:\n'
                      '  CHECK( late("a call") == "" )\nwith expansion:\n  "too late: a call: 9 s"\n  ==\n  ""</system-out></testcase>',
    "late in unittest": '<testcase name="failed" status="fail"><failure message=""/><system-out>FAIL: test_end (__main__.Ends)\n'
                        "AssertionError: too late: the end: 9.000 s\nRan 3 tests\n\nFAILED (failures=1)\n</system-out></testcase>",
    "late and wrong": '<testcase name="failed" status="fail"><failure message=""/><system-out>FAILED   1.00 s  agent_killed\n'
                      "AssertionError: too late: the end: 9.000 s\nFAILED   1.00 s  other\nAssertionError: left behind: 4711\n"
                      "</system-out></testcase>",
    "late and broken": '<testcase name="failed" status="fail"><failure message=""/><system-out>AssertionError: too late: the end\n'
                       "\nDuring handling of the above exception, another exception occurred:\n\nsubprocess.CalledProcessError: kill\n"
                       "</system-out></testcase>",
    "late and unfinished": '<testcase name="failed" status="fail"><failure message=""/><system-out>FAILED   1.00 s  agent_killed\n'
                           "AssertionError: too late: the end\nFAILED   300.00 s  other\nnot done within 300 s\n</system-out></testcase>",
    "late and cut": '<testcase name="failed" status="fail" time="150.01"><failure message=""/>'
                    "<system-out>AssertionError: too late: the end\n</system-out></testcase>",
    "late and reported": '<testcase name="failed" status="fail"><failure message=""/><system-out>AssertionError: too late: the end\n'
                         "WARNING: ThreadSanitizer: data race</system-out></testcase>",
    "reported": '<testcase name="failed" status="fail"><failure message=""/><system-out>WARNING: ThreadSanitizer: data race'
                "</system-out></testcase>",
    "not started": '<testcase name="failed" status="notrun"><skipped message="Unable to find executable"/><system-out/></testcase>',
    "passed later": '<testcase name="failed" status="run"><system-out>fine</system-out></testcase>',
    "skipped": '<testcase name="skipped" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
               "<system-out>start\nskipped: no PyTorch here\n</system-out></testcase>",
}
ROOMS = {"passed": "unit/a", "part": "unit/a"}  # of those that ran


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def run_script(name, *arguments, **keywords):
    command = [sys.executable, os.path.join(SCRIPTS, name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **keywords)


class Summary(unittest.TestCase):
    def summary(self, *names, again=(), promises=(), seconds=None, never_run=()):
        """Of two trees with the same outcomes, and of a second run of one."""
        files = {"release.tests.xml": names, "asan.tests.xml": names, "release.tests.again.xml": again}
        with tempfile.TemporaryDirectory() as folder:
            for file_name, cases in files.items():
                write(folder, file_name, "<testsuite>" + "".join(CASES[name] for name in cases) + "</testsuite>")
            tests = [{"name": test, "properties": [{"name": "LABELS", "value": ["unit", f"room={room}"]}]}
                     for test, room in ROOMS.items() if test in names or test in never_run]
            tests += [{"name": "failed", "properties": [{"name": "LABELS", "value": ["room=unit/a"]}, {"name": "TIMEOUT", "value": 150.0}]}
                      for name in names if 'name="failed"' in CASES[name]]
            for tree in ("release", "asan"):
                write(folder, f"{tree}.json", json.dumps({"tests": tests}))
            write(folder, "promises.jsonl", "".join(json.dumps(line) + "\n" for line in promises))
            if seconds is None:
                return run_script("test_summary.py", folder)
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as table:
                json.dump(seconds, table)
                table.flush()
                return run_script("test_summary.py", folder, "--rooms", table.name)

    def test_sums_all_files_and_gives_reasons(self):
        result = self.summary("passed", "skipped")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.splitlines()[-1], "2 passed, 0 failed, 2 skipped")
        self.assertIn("release: skipped: skipped: no PyTorch here", result.stdout)

    def test_a_case_that_skips_is_named_though_its_neighbours_ran(self):
        result = self.summary("passed", "part")
        self.assertEqual(result.stdout.splitlines()[-1], "4 passed, 0 failed, 0 skipped")
        self.assertIn("Skipped in part:\n  asan: part: skipped: no AVX-512 here", result.stdout)

    def test_one_that_was_never_run_has_failed(self):
        result = self.summary("passed", never_run=["part"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("  release: part: it was not run", result.stdout)

    def test_a_failure_is_named_and_decides_the_exit_code(self):
        result = self.summary("passed", "failed")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.splitlines()[-1], "2 passed, 2 failed, 0 skipped")
        self.assertIn("  release: failed", result.stdout)

    def test_one_that_could_not_be_started_has_failed(self):
        result = self.summary("passed", "not started")
        self.assertIn("2 passed, 2 failed, 0 skipped", result.stdout)
        self.assertEqual(result.returncode, 1)

    def test_one_that_was_late_and_passes_alone_is_named_and_excused(self):
        for late in ("late", "late in Catch2", "late in unittest"):
            result = self.summary("passed", late, again=["passed later"])
            self.assertEqual(result.stdout.splitlines()[-1], "3 passed, 1 failed, 0 skipped", late)
            unsteady, failures = result.stdout.split("Failed:")
            self.assertIn("Unsteady: late, then in time alone; each is a defect to look into:\n  release: failed", unsteady)
            self.assertIn("asan: failed", failures)

    def test_one_that_was_not_only_late_is_not_excused(self):
        for wrong in ("failed", "late and wrong", "late and broken", "late and unfinished", "late and cut", "late and reported", "reported", "not started"):
            result = self.summary("passed", wrong, again=["passed later"])
            self.assertIn("2 passed, 2 failed", result.stdout, wrong)
            self.assertEqual(result.returncode, 1)

    def test_one_that_is_late_twice_has_failed(self):
        self.assertIn("2 passed, 2 failed", self.summary("passed", "late", again=["late"]).stdout)

    def test_the_words_are_those_of_the_promises(self):
        support = os.path.join(SCRIPTS, "..", "tests", "support")
        for name in ("promise.py", "promise.cpp"):
            with open(os.path.join(support, name), encoding="utf-8") as file:
                self.assertIn('"too late: ', file.read(), name)

    def test_no_results_is_zero_tests(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run_script("test_summary.py", folder).stdout, "0 passed, 0 failed, 0 skipped\n")

    def test_a_room_that_takes_too_long_fails_the_run(self):
        self.assertEqual(self.summary("passed", "part", seconds={"unit/a": 70}).returncode, 0)
        late = self.summary("passed", "part", seconds={"unit/a": 39})
        self.assertEqual(late.returncode, 1)
        self.assertIn("Rooms that took too long:\n  unit/a took 60 s and may take 39", late.stdout)

    def test_a_room_that_takes_little_longer_is_named_alone(self):
        slow = self.summary("passed", "part", seconds={"in all": 70, "unit/a": 41})
        self.assertEqual(slow.returncode, 0)
        self.assertIn("beyond a half again:\n  unit/a took 60 s and may take 41", slow.stdout)

    def test_a_small_room_may_take_half_a_minute(self):
        self.assertEqual(self.summary("part", seconds={"unit/a": 5}).returncode, 0)
        self.assertIn("unit/a took 50 s and may take 30", self.summary("passed", seconds={"unit/a": 5}).stdout)

    def test_the_seconds_of_all_rooms_are_bounded_too(self):
        self.assertEqual(self.summary("passed", "part", seconds={"in all": 70, "unit/a": 70}).returncode, 0)
        late = self.summary("passed", "part", seconds={"in all": 50, "unit/a": 70})
        self.assertEqual(late.returncode, 1)
        self.assertIn("all rooms took 60 s and may take 50", late.stdout)
        self.assertIn('the seconds of the rooms add up to 70, more than "in all", 50', late.stdout)

    def test_the_table_of_the_tree_adds_up(self):
        with open(os.path.join(SCRIPTS, "..", "tests", "seconds.json"), encoding="utf-8") as file:
            table = json.load(file)
        self.assertLessEqual(sum(table.values()) - table["in all"], table["in all"])

    def test_a_room_that_is_not_in_the_table_fails_the_run(self):
        result = self.summary("passed", seconds={})
        self.assertEqual(result.returncode, 1)
        self.assertIn("unit/a is not in the table of seconds", result.stdout)

    def test_the_seconds_grow_on_a_slow_machine_which_the_promises_tell(self):
        promise = {"suite": "e2e/a", "name": "an agent is killed", "promise": 0.1, "median": 0.2, "bound": 0.6, "worst": 0.3, "limit": 2.0,
                   "factor": 2.0, "tries": 3}
        result = self.summary("passed", "part", seconds={"unit/a": 40}, promises=[promise])
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("0.100s    0.200s    0.600s    0.300s    2.000s   2.00x   3  e2e/a: an agent is killed\n", result.stdout)

    def test_one_try_that_hung_is_shown_as_late(self):
        promise = {"suite": "e2e/a", "name": "an agent is killed", "promise": 0.1, "median": 0.2, "bound": 0.6, "worst": 6.0, "limit": 2.0,
                   "factor": 2.0, "tries": 3}
        self.assertIn("e2e/a: an agent is killed  LATE\n", self.summary("passed", promises=[promise]).stdout)


class BuildCost(unittest.TestCase):
    """A "compiler" of a known cost: the Python program that the compile commands name."""

    def tree(self, folder):
        loop = f"{sys.executable} -I -S -c pass -o test_main.o"
        write(folder, "compile_commands.json", json.dumps([{"directory": folder, "file": "/x/test_main.cpp", "command": "ccache " + loop}]))
        write(folder, ".ninja_log", "# ninja log v5\n0\t9\t1\told.o\tx\n")

    def build(self, folder, log, loops=1, hits=0):
        code = (f"import os; [sum(range(10**6)) for _ in range({loops})]; open('.ninja_log', 'w').write({log!r}); "
                f"open(os.environ['CCACHE_STATSLOG'], 'a').write('direct_cache_hit\\n' * {hits})")
        return run_script("build_cost.py", "record", ".", sys.executable, "-c", code, cwd=folder)

    def check(self, log, **keywords):
        with tempfile.TemporaryDirectory() as folder:
            self.tree(folder)
            built = self.build(folder, log, **keywords)
            self.assertEqual(built.returncode, 0, built.stderr)
            return run_script("build_cost.py", "check", folder)

    def test_a_build_of_all_units_is_held_to_the_yardstick(self):
        all_units = "# ninja log v5\n0\t9\t2\told.o\tx\n0\t9\t2\tnew.o\tx\n"
        cheap = self.check(all_units)
        self.assertEqual(cheap.returncode, 0, cheap.stdout + cheap.stderr)
        self.assertIn("2 units took", cheap.stdout)
        dear = self.check(all_units, loops=300)
        self.assertEqual(dear.returncode, 1, dear.stdout + dear.stderr)

    def test_a_build_that_did_not_compile_all_is_not_measured(self):
        self.assertIn("compiled 1 of 2 units", self.check("# ninja log v5\n0\t9\t1\told.o\tx\n0\t9\t2\tnew.o\tx\n").stdout)
        self.assertIn("3 came from the cache", self.check("# ninja log v5\n0\t9\t2\told.o\tx\n", hits=3).stdout)

    def test_the_exit_code_of_the_build_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            self.tree(folder)
            self.assertEqual(run_script("build_cost.py", "record", folder, sys.executable, "-c", "raise SystemExit(3)").returncode, 3)
            self.assertIn("not measured", run_script("build_cost.py", "check", folder).stdout)


if __name__ == "__main__":
    unittest.main()
