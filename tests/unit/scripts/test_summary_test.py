#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/test_summary.py and scripts/compile_times.py on files as CTest and ninja write them."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "scripts")
CASES = {
    "passed": '<testcase name="passed" status="run"><system-out>fine</system-out></testcase>',
    "failed": '<testcase name="failed" status="fail"><failure message=""/><system-out>bad</system-out></testcase>',
    "reported": '<testcase name="failed" status="fail"><failure message=""/><system-out>WARNING: ThreadSanitizer: data race'
                "</system-out></testcase>",
    "not started": '<testcase name="failed" status="notrun"><skipped message="Unable to find executable"/><system-out/></testcase>',
    "passed later": '<testcase name="failed" status="run"><system-out>fine</system-out></testcase>',
    "skipped": '<testcase name="skipped" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
               "<system-out>start\nskipped: no PyTorch here\n</system-out></testcase>",
}


class Scripts(unittest.TestCase):
    def run_script(self, name, *arguments):
        command = [sys.executable, os.path.join(SCRIPTS, name), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def summary(self, *names, again=()):
        """Of two trees with the same outcomes, and of a second run of one."""
        files = {"release.xml": names, "asan.xml": names, "release.again.xml": again}
        with tempfile.TemporaryDirectory() as folder:
            for file_name, cases in files.items():
                with open(os.path.join(folder, file_name), "w", encoding="utf-8") as file:
                    file.write("<testsuite>" + "".join(CASES[name] for name in cases) + "</testsuite>")
            return self.run_script("test_summary.py", *(os.path.join(folder, file_name) for file_name in files))

    def test_sums_all_files_and_gives_reasons(self):
        result = self.summary("passed", "skipped")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout.splitlines()[-1], "2 passed, 0 failed, 2 skipped")
        self.assertIn("release: skipped: skipped: no PyTorch here", result.stdout)

    def test_a_failure_is_named_and_decides_the_exit_code(self):
        result = self.summary("passed", "failed")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.splitlines()[-1], "2 passed, 2 failed, 0 skipped")
        self.assertIn("  release: failed", result.stdout)

    def test_one_that_could_not_be_started_has_failed(self):
        result = self.summary("passed", "not started")
        self.assertIn("2 passed, 2 failed, 0 skipped", result.stdout)
        self.assertEqual(result.returncode, 1)

    def test_one_that_passes_alone_is_named_and_excused(self):
        result = self.summary("passed", "failed", again=["passed later"])
        self.assertEqual(result.stdout.splitlines()[-1], "3 passed, 1 failed, 0 skipped")
        unsteady, failures = result.stdout.split("Failed:")
        self.assertIn("Unsteady: failed, then passed alone; each is a defect to look into:\n  release: failed", unsteady)
        self.assertIn("asan: failed", failures)

    def test_one_that_fails_twice_has_failed(self):
        self.assertIn("2 passed, 2 failed", self.summary("passed", "failed", again=["failed"]).stdout)

    def test_a_report_of_a_sanitizer_is_never_excused(self):
        result = self.summary("passed", "reported", again=["passed later"])
        self.assertIn("2 passed, 2 failed", result.stdout)
        self.assertEqual(result.returncode, 1)

    def test_no_results_is_zero_tests(self):
        result = self.run_script("test_summary.py")
        self.assertEqual(result.stdout, "0 passed, 0 failed, 0 skipped\n")

    def test_slowest_files_of_the_last_build_first(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, ".ninja_log"), "w", encoding="utf-8") as log:
                log.write("# ninja log v5\n0\t90000\t1\ta.o\tx\n0\t2000\t1\tb.o\tx\n"
                          "10\t1010\t2\ta.o\tx\n0\t99000\t1\tbin/muster\tx\n")
            with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as commands:
                commands.write("[]")
            result = self.run_script("compile_times.py", folder, "--top", "5", "--limit", "15")
        self.assertEqual([line.split()[-1] for line in result.stdout.splitlines()], ["b.o", "a.o"])
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_file_over_the_limit_is_measured_again(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, ".ninja_log"), "w", encoding="utf-8") as log:
                log.write("# ninja log v5\n0\t20000\t1\ta.o\tx\n")
            with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as commands:
                commands.write('[{"directory": "/", "output": "a.o", '
                               '"command": "ccache %s -c \'sum(range(10**7))\' -o a.o"}]' % sys.executable)
            self.assertEqual(self.run_script("compile_times.py", folder, "--limit", "15").returncode, 0)
            slow = self.run_script("compile_times.py", folder, "--limit", "0.001")
        self.assertEqual(slow.returncode, 1)
        self.assertIn("a.o", slow.stdout)

    def test_the_limit_grows_on_a_slow_machine(self):
        yardstick = "tests/support/CMakeFiles/muster_test_main.dir/test_main.cpp.o"
        command = sys.executable + " -c 'sum(range(10**%d))' -o %s"
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, ".ninja_log"), "w", encoding="utf-8") as log:
                log.write("# ninja log v5\n0\t20000\t1\ta.o\tx\n")
            with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as commands:
                json.dump([{"directory": "/", "output": name, "command": command % (size, name)}
                           for name, size in (("a.o", 1), (yardstick, 7))], commands)
            script = os.path.join(SCRIPTS, "compile_times.py")
            with open(script, encoding="utf-8") as file:  # as if the yardstick took a thousandth of a second elsewhere
                text = file.read().replace("YARDSTICK_S = 7.0", "YARDSTICK_S = 0.001").replace("MOST_TIMES = 4", "MOST_TIMES = 1000")
            self.assertIn("YARDSTICK_S = 0.001", text)
            for source, code in ((text, 0), (text.replace("max(1, yardstick_s", "max(1, 0 * yardstick_s"), 1)):
                result = subprocess.run([sys.executable, "-c", source, folder, "--limit", "0.002"], capture_output=True,
                                        text=True, check=False)
                self.assertEqual(result.returncode, code, result)


if __name__ == "__main__":
    unittest.main()
