#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions of the programs that scripts/check_gpu.sh runs, alone: which checks a call runs, what the preflight says, ratios, programs
that hang or are left behind, and what two of the checks judge by."""
import argparse
import array
import importlib.util
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest

from check_gpu_test import FACTS, PARTS, ROOT
from processes import wait_until


def module_of(name):
    """A program of tests/gpu as a module."""
    sys.path[:0] = [os.path.join(ROOT, "tests", folder) for folder in ("support", "gpu")]
    spec = importlib.util.spec_from_file_location(name, os.path.join(ROOT, "tests", "gpu", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CallPlan(unittest.TestCase):
    """What a call runs, by the times of checks and of the call alone."""

    @classmethod
    def setUpClass(cls):
        cls.plan = module_of("call_plan")

    def setUp(self):
        self.results = {}

    def check(self, name, limit_s, status="not run", **more):
        self.results[name] = {"name": name, "status": status, **more}
        return types.SimpleNamespace(name=name, limit_s=limit_s)

    def run_call(self, checks, seconds, took):
        """The names of those that a call begins of which each takes `took` of its name, in seconds; notes how they ended."""
        begun, left, waiting = [], seconds, self.plan.in_order(checks, self.results)
        while True:
            check, allowed = self.plan.next_check(waiting, self.results, left, seconds)
            if check is None:
                return begun
            waiting.remove(check)
            begun.append(check.name)
            cut = took[check.name] > allowed
            self.results[check.name] = {"status": "not run", "tried_s": allowed} if cut else {"status": "passed"}
            left -= min(allowed + self.plan.ENDING_SECONDS, took[check.name] + self.plan.ENDING_SECONDS if cut else took[check.name])
            self.assertGreaterEqual(left, 0)

    def test_shortest_first_and_what_failed_last(self):
        checks = [self.check("long", 230), self.check("failed", 30, "failed"), self.check("a", 60), self.check("passed", 30, "passed"),
                  self.check("b", 60), self.check("cut", 30, tried_s=20), self.check("skipped", 30, "skipped"),
                  self.check("skipped here", 90, "skipped", standing=True)]
        self.assertEqual([check.name for check in self.plan.in_order(checks, self.results)],
                         ["a", "b", "skipped here", "long", "cut", "failed"])

    def test_a_check_is_begun_only_with_the_time_for_its_limit(self):
        checks = [self.check("a", 60), self.check("b", 60), self.check("long", 230)]
        took = {"a": 55, "b": 2, "long": 200}
        self.assertEqual(self.run_call(checks, 260, took), ["a", "b"])  # 203 s are left for what may take 242
        self.assertEqual(self.run_call(checks, 260, took), ["long"])
        self.assertEqual(self.run_call(checks, 260, took), [])
        self.results["long"] = {"status": "not run"}
        self.assertEqual(self.plan.reason(checks[2], self.results["long"], 203, 260, 5), "it needs up to 230 s, and 203 s are left: call it again")
        self.assertEqual(self.plan.reason(checks[2], self.results["long"], 41, 60, 5),
                         "it needs up to 230 s, and 41 s are left: call it again with --seconds 250 or more")

    def test_calls_without_the_time_for_a_limit_try_it_and_end(self):
        """Of most checks the limit is far more than they take. What was cut is not tried again for the same time."""
        checks = [self.check("quick", 60), self.check("slow", 60), self.check("never", 230)]
        took = {"quick": 3, "slow": 50, "never": 10}
        self.assertEqual(self.run_call(checks, 58, took), ["quick", "slow"])
        self.assertEqual(self.results["slow"]["tried_s"], 43)
        self.assertEqual(self.run_call(checks, 58, took), [])
        self.assertFalse(any(self.plan.can_continue(check, self.results[check.name], 58) for check in checks[1:]))
        self.assertEqual(self.plan.reason(checks[1], self.results["slow"], 58, 58, 2),
                         "it was not done after 43 s; it needs up to 60 s, and 58 s are left: call it again with --seconds 80 or more")
        self.assertEqual(self.run_call(checks, 250, took), ["never", "slow"])

    def test_calls_of_any_length_end(self):
        for seconds in (58, 70, 100, 200, 1000, math.inf):
            checks = [self.check(str(number), limit) for number, limit in enumerate((30, 60, 60, 90, 120, 150, 180, 230, 235) * 8)]
            chance = random.Random(5)
            took = {check.name: chance.uniform(1, check.limit_s) for check in checks}
            calls = 0
            while any(self.plan.can_continue(check, self.results[check.name], seconds) and self.plan.state_of(self.results[check.name]) != "done"
                      for check in checks):
                self.assertTrue(self.run_call(checks, seconds, took), seconds)
                calls += 1
                self.assertLess(calls, 400)
            left = [check for check in checks if self.results[check.name]["status"] != "passed"]
            self.assertEqual([check for check in left if check.limit_s + self.plan.ENDING_SECONDS <= seconds], [])

    def test_exit_codes(self):
        for states, can_go_on, code in ((["done"], False, 0), ([], False, 0), (["done", "left"], True, 3), (["done", "left"], False, 1),
                                        (["failed", "left"], True, 1), (["failed"], False, 1)):
            self.assertEqual(self.plan.exit_code(states, can_go_on), code, (states, can_go_on))


class Arguments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.module = module_of("run_checks")

    def test_parts_and_seconds(self):
        self.assertEqual(self.module.parts_of("7,1"), [7, 1])
        self.assertEqual(self.module.parts_of("all"), list(range(1, PARTS + 1)))
        self.assertEqual((self.module.seconds_of("60"), self.module.seconds_of("999999")), (60, 999999))
        for function, wrong in ((self.module.parts_of, ("9", "1,", "1,all", "")), (self.module.seconds_of, ("59", "-60", "1e3", "90.5", "٩٩", ""))):
            for text in wrong:
                self.assertRaises(argparse.ArgumentTypeError, function, text)

    def test_the_command_that_goes_on(self):
        for command, seconds, expected in ((["a b/x.sh", "--again", "--seconds", "60"], 170, "'a b/x.sh' --seconds 170"),
                                           (["x.sh", "--seconds=60", "--part", "1"], 90, "x.sh --seconds=90 --part 1"),
                                           (["x.sh", "--part", "1"], math.inf, "x.sh --part 1")):
            self.assertEqual(self.module.continuation(command, seconds), expected)


class Preflight(unittest.TestCase):
    """Each miss, by facts alone."""

    @classmethod
    def setUpClass(cls):
        cls.module = module_of("preflight")

    def rows(self, **facts):
        return {row["what"]: row for row in self.module.rows_of({**FACTS, "sanitizer": {"path": "/bin/x", "version": "2025.1"}, **facts})}

    def test_what_fits(self):
        self.assertEqual({row["fits"] for row in self.rows().values()}, {"fits"})
        # PyTorch's packages for CUDA 12 with a driver of today, and with the oldest.
        twelve = {"cudnn": {"version": "9.10.2", "cuda": "12.9"}, "torch": {"version": "2.8.0+cu128", "cuda": "12.8", "lacks": ""}}
        for driver in ("13.0", "12.2"):
            self.assertEqual({row["fits"] for row in self.rows(driver_cuda=driver, **twelve).values()}, {"fits"})
        # cuda-compat brings a newer CUDA than the driver's number says; without CUDA's version the number decides.
        self.assertEqual(self.rows(driver="470.1", driver_cuda="12.4", **twelve)["driver"]["fits"], "fits")
        self.assertEqual(self.rows(driver="535.104.05", driver_cuda="", **twelve)["driver"]["fits"], "fits")

    def test_each_miss_says_what_it_means(self):
        gpu = FACTS["gpus"][0]
        for what, stops, meaning, facts in (
                ("GPUs", "everything", "shows no GPU", {"gpus": []}),
                ("GPUs", "everything", "7.5 is the oldest", {"gpus": [{**gpu, "capability": "7.0"}]}),
                ("driver", "everything", "update the driver", {"driver": "525.1", "driver_cuda": "12.0"}),
                ("driver", "everything", "update the driver", {"driver": "525.1", "driver_cuda": ""}),
                ("driver", "everything", "docker run --gpus all", {"driver_error": "libcuda.so.1: no such file"}),
                ("cuDNN", "what needs it", "no such file", {"cudnn": {"version": "", "error": "no such file"}}),
                ("cuDNN", "what needs it", "cuDNN 9 is needed", {"cudnn": {"version": "8.9.7", "cuda": "12.2"}}),
                ("cuDNN", "what needs it", "nvidia-cudnn-cu12, or update the driver to 580", {"driver_cuda": "12.9"}),
                ("NCCL", "parts", "parts 7 and 8 are skipped", {"nccl": {"version": "", "error": "no such file"}}),
                ("NCCL", "parts", "2.19 or later", {"nccl": {"version": "2.18.3"}}),
                ("PyTorch", "parts", "parts 4 to 6 are skipped", {"torch": {}}),
                ("PyTorch", "parts", "built without CUDA", {"torch": {"version": "2.8.0+cpu", "cuda": ""}}),
                ("PyTorch", "parts", "it sees no GPU", {"driver_cuda": "12.9"}),
                ("C compiler", "parts", "'eager only'", {"compiler": ""}),
                ("glibc", "everything", "cannot start", {"has": {"glibc": "2.31", "glibcxx": "3.4.30"}}),
                ("GLIBCXX", "everything", "cannot start", {"has": {"glibc": "2.36", "glibcxx": "3.4.9"}}),
                ("Python", "everything", "3.8 or later", {"python": "3.7.16"}),
                ("compute-sanitizer", "parts", "part 2 is skipped", {"sanitizer": {"path": "", "version": ""}})):
            row = self.rows(**facts)[what]
            self.assertEqual((row["fits"], row["stops"]), ("misses", stops), row)
            self.assertIn(meaning, row["meaning"])

    def test_what_may_matter_is_a_note(self):
        gpu = FACTS["gpus"][0]
        for what, meaning, facts in (("GPUs", "GPU 1 fail", {"gpus": [gpu, {**gpu, "capability": "6.1"}]}),
                                     ("GPUs", "does not tell it", {"gpus": [{**gpu, "capability": ""}]}),
                                     ("C compiler", "there is no /x/Python.h", {"torch": {**FACTS["torch"], "lacks": "/x/Python.h"}})):
            row = self.rows(**facts)[what]
            self.assertEqual(row["fits"], "note", row)
            self.assertIn(meaning, row["meaning"])

    def test_it_is_one_screen(self):
        for facts in ({}, {"torch": {}, "compiler": "", "nccl": {}, "cudnn": {}, "sanitizer": {"path": "", "version": ""}}):
            lines = self.module.screen(list(self.rows(**facts).values())).splitlines()
            self.assertLess(len(lines), 25)
            self.assertLess(max(map(len, lines)), 120)

    def test_gpus_are_read_from_drivers_that_tell_less(self):
        new = lambda command: "A, 1 MiB, 570.1, 9.0\nA, 1 MiB, 570.1, [N/A]\n" if "compute_cap" in command[1] else ""
        self.assertEqual([gpu["capability"] for gpu in self.module.read_gpus(new)], ["9.0", ""])
        old = lambda command: "" if "compute_cap" in command[1] else "A, 1 MiB, 460.1\n"
        self.assertEqual(self.module.read_gpus(old), [{"name": "A", "memory": "1 MiB", "driver": "460.1", "capability": ""}])
        self.assertEqual(self.module.read_gpus(lambda command: ""), [])

    def test_old_gpus_are_checked_in_what_they_compute_in(self):
        precisions = module_of("run_checks").precisions_of
        self.assertEqual(precisions([{"capability": "9.0"}, {"capability": ""}]), ("fp32", "bf16", "tf32", "fp16"))
        self.assertEqual(precisions([{"capability": "9.0"}, {"capability": "7.5"}]), ("fp32", "fp16"))

    def test_the_newest_symbols_of_a_library(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"x\0GLIBCXX_3.4.9\0GLIBCXX_3.4.30\0GLIBCXX_DEBUG_MESSAGE_LENGTH\0GLIBCXX_3.4\0")
            file.flush()
            self.assertEqual(self.module.newest_glibcxx(file.name), "3.4.30")
        self.assertEqual(self.module.newest_glibcxx(file.name), "")


class Environment(unittest.TestCase):
    def test_libraries_of_packages_for_cuda_12_and_13_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("cublas/lib", "cudnn/lib", "cu13/lib", "cudnn/include", "nccl/lib"):
                os.makedirs(os.path.join(folder, "nvidia", name))
            found = module_of("environment").library_folders(folder, "python3", lambda command: os.path.join(folder, "nvidia") + "\n/nowhere\n")
        self.assertEqual([os.path.relpath(path, os.path.join(folder, "nvidia")) for path in found],
                         ["cu13/lib", "cublas/lib", "cudnn/lib", "nccl/lib"])


class Report(unittest.TestCase):
    def test_a_ratio_to_eager_steps_alone_is_said_to_be_one(self):
        module = module_of("gpu_report")
        rows = [["resnet18", "16", "muster", "300"], ["resnet18", "16", "PyTorch 2, eager", "200"], ["resnet18", "768", "muster", "300"],
                ["resnet18", "768", "PyTorch 2, eager", "200"], ["resnet18", "768", "PyTorch 2, default", "250"], ["mlp", "768", "muster", "1"]]
        found = module.rates({"checks": [{"table": "rates", "rows": rows}]})
        self.assertEqual([(rate["batch"], rate["eager_only"]) for rate in found if "eager_only" in rate], [(16, True), (768, False)])
        page = "\n".join(module.rates_markdown(found))
        for line in ("| mlp | 768 | muster | 1 |  |", "| resnet18 | 16 | muster | 300 | 1.50 (eager only) |",
                     "| resnet18 | 768 | muster | 300 | 1.20 |"):
            self.assertIn(line, page)


class Commands(unittest.TestCase):
    def test_what_outlives_a_check_is_ended(self):
        module = module_of("commands")
        module.END_SECONDS = 0.3
        with subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 100 >&- & echo $!"], stdout=subprocess.PIPE, text=True,
                              start_new_session=True) as process:
            pid = process.stdout.read().strip()
            process.wait(30)
            module.end_group(process)
        # Killed, but not ended at once on a busy machine.
        wait_until(lambda: self.has_ended(pid), f"the end of process {pid}")

    def test_a_program_that_hangs_is_ended_in_time(self):
        module, begin = module_of("commands"), time.monotonic()
        self.assertEqual(module.execute(["sh", "-c", "echo here; sleep 100"], None, 0.3), (None, "here\n"))
        self.assertEqual(module.output_of(["sleep", "100"], timeout=0.1), "")
        self.assertEqual(module.output_of(["sleep", "100"], end=begin), "")
        self.assertEqual([module.output_of(["sh", "-c", "echo a; exit 1"], any_code=some) for some in (False, True)], ["", "a\n"])
        self.assertEqual(module.execute(["/nowhere/x"], None, 1)[0], 127)
        self.assertLess(time.monotonic() - begin, 5)

    def test_what_a_killed_call_has_left_running_is_ended(self):
        module, mark = module_of("commands"), f"MUSTER_GPU_CHECK_REPORT=/test/{os.getpid()}"
        name, value = mark.split("=")
        with subprocess.Popen(["sleep", "100"], env={**os.environ, name: value}) as process:
            wait_until(lambda: module.having(mark) == [process.pid], "the mark of a process")
            module.end_leftovers(mark + "0")
            self.assertIsNone(process.poll())
            module.end_leftovers(mark)
            self.assertEqual(process.wait(30), -signal.SIGKILL)

    @staticmethod
    def has_ended(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return file.read().rsplit(")", 1)[1].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True  # somebody has taken note of it


class TorchRate(unittest.TestCase):
    def test_what_compiling_lacks_is_told_from_other_errors(self):
        lacking = module_of("torch_rate").lacking
        with tempfile.NamedTemporaryFile() as present:
            absent, failed = present.name + ".h", "CalledProcessError: Command '['gcc']' returned non-zero exit status 1."
            self.assertEqual(lacking(RuntimeError("backend:\nFailed to find C compiler. Set CC.\nmore"), present.name),
                             "Failed to find C compiler. Set CC.")
            self.assertEqual(lacking(RuntimeError(failed), absent), f"there is no {absent}")
            self.assertEqual(lacking(RuntimeError(failed), present.name), "")
            self.assertEqual(lacking(RuntimeError("CUDA out of memory"), absent), "")


class CompareRanks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.module = module_of("compare_ranks")

    def differences(self, first, one, many):
        wrap = lambda values: {"fc.weight": array.array("f", values)}
        return self.module.differences(wrap(first), wrap(one), wrap(many))[0]

    def test_rounding_passes_and_half_of_the_gradients_do_not(self):
        self.assertEqual(self.differences([1, 2], [1.5, 2.5], [1.5001, 2.4999]), [])
        self.assertEqual(len(self.differences([1, 2], [1.5, 2.5], [1.25, 2.25])), 1)
        self.assertEqual(len(self.differences([1, 2], [1.5, 2.5], [1.5, float("nan")])), 1)
        self.assertTrue(self.module.differences({}, {}, {})[0])

    def test_gradients_must_go_through_nccl(self):
        class Options:
            device = "cuda"

        right = "muster: backend nccl: 2 ranks on one host, as asked for\n2 ranks, GPU H200\n"
        self.module.check_way(right, Options)
        for wrong in (right.replace("nccl", "shm"), right.replace("GPU", "CPU"), right + "through the memory of the host"):
            with self.assertRaises(SystemExit):
                self.module.check_way(wrong, Options)


if __name__ == "__main__":
    unittest.main()
