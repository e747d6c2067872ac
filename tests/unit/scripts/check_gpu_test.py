#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_gpu.sh --prebuilt on a kit whose programs are stubs, with a stub of nvidia-smi: the report that
each call adds to, calls that are killed, failures, time, what the preflight says, and that its programs are written for Python 3.8."""
import ast
import fcntl
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from processes import wait_until

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
CHECK, PACK = os.path.join(ROOT, "scripts", "check_gpu.sh"), os.path.join(ROOT, "scripts", "pack_gpu_check.sh")
FAKES = os.path.join(os.path.dirname(os.environ.get("MUSTER_BIN_DIR", "")), "tests", "fakes", "lib")
PARTS = 8

TRAIN = """case "$*" in
  *--help*) echo "--precision fp32, bf16" ;;
  *) echo "1 rank, GPU stub"
     echo "epoch 3/3  loss 0.1  train 1.0 %  6000 images/s  1.0 s"
     echo "parameter hash 0123456789abcdef" ;;
esac
"""
CHECKER = """case "$1" in
  measure) case "$4" in
             plain) echo "| $2 | $3 | muster | 30000 |" ;;
             *) echo "| $2 | $3 | muster, autotuned | 40000 |" ;;
           esac ;;
  *kernels) printf '| call | us a step |\\n|---|---|\\n| moments_bf16 | 12.5 |\\n' ;;
  *) echo "steps of a stub" ;;
esac
[ "$1" != "$STUB_FAILS" ] || { echo "the gradient of fc.weight is off"; exit 1; }
"""
STUBS = {
    "bin/muster": TRAIN,
    "bin/muster-train": TRAIN,
    "tests/muster-gpu-check": CHECKER,
    "tests/device_tests": "exit 0\n",
    "tests/nccl_tests": 'echo "all_reduce busbw 1.00 GB/s"\n',
    "lib/muster/libmuster_cuda.so": "",
    "lib/muster/libmuster_nccl.so": "",
}
SMI = """echo "Stub GPU, 1 MiB, 999.1, 9.0"
"""
# Of a machine on which everything fits.
FACTS = {"gpus": [{"name": "Stub GPU", "memory": "1 MiB", "driver": "999.1", "capability": "9.0"}], "driver": "999.1", "driver_error": "",
         "driver_cuda": "13.0", "cudnn": {"version": "9.19.0", "cuda": "13.0", "error": ""}, "nccl": {"version": "2.28.9", "error": ""},
         "torch": {"version": "2.11.0+cu130", "cuda": "13.0", "lacks": ""}, "compiler": "/usr/bin/gcc",
         "has": {"glibc": "2.36", "glibcxx": "3.4.30"}, "needs": {"glibc": "2.34", "glibcxx": "3.4.30"}, "python": "3.11.7",
         "sanitizer": {"path": "", "version": ""}}
# Stands in the kit behind the functions that read facts from the machine, which a stub of it does not have. GPUs and compute-sanitizer are asked for.
READ_FACTS = """

def read_facts(gpus, programs, python, environment, ask):
    with open(os.path.join(programs, "facts.json"), encoding="utf-8") as file:
        return {**json.load(file), "gpus": gpus, "driver": gpus[0]["driver"] if gpus else "", "sanitizer": read_sanitizer(ask)}
"""
# As tests/gpu/torch_rate.py prints it; asked for anything else, it is a Python without packages.
TORCH = '[ "$1" != -c ] || exit 1\necho "| $2 | $3 | PyTorch 0, $4 | 20000 |"\n'
# They start whole runs of muster-train, which a stub is not.
WHOLE_RUNS = ("tests/gpu/compare_ranks.py", "tests/integration/train/muster_train_device_test.py")


def write(path, text, *, program=True):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(("#!/bin/sh\n" if program else "") + text)
    os.chmod(path, 0o755)


def packed_sources():
    """The files of the tree that scripts/pack_gpu_check.sh puts into the archive."""
    with open(PACK, encoding="utf-8") as file:
        return re.search(r"^sources=\(\n(.*?)^\)", file.read(), re.M | re.S).group(1).split()


class CheckGpu(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        self.kit, self.report = os.path.join(self.folder, "kit"), os.path.join(self.folder, "report")
        for path, text in STUBS.items():
            write(os.path.join(self.kit, path), text)
        for path in packed_sources():
            os.makedirs(os.path.dirname(os.path.join(self.kit, path)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, path), os.path.join(self.kit, path))
        for path in WHOLE_RUNS:
            self.assertTrue(os.path.exists(os.path.join(self.kit, path)), f"{path} is not packed")
            write(os.path.join(self.kit, path), "def test_whole(): pass\ndef test_stopped(): pass\n", program=False)
        self.set_commit("abc")
        self.set_facts()
        with open(os.path.join(self.kit, "tests", "gpu", "preflight.py"), "a", encoding="utf-8") as file:
            file.write(READ_FACTS)
        write(os.path.join(self.folder, "bin", "nvidia-smi"), SMI)
        write(os.path.join(self.folder, "bin", "torch-python"), TORCH)

    def set_commit(self, commit):
        write(os.path.join(self.kit, "kit.json"), json.dumps({"commit": commit, "clean": True}), program=False)

    def set_facts(self, **more):
        write(os.path.join(self.kit, "facts.json"), json.dumps({**FACTS, **more}), program=False)

    def environment(self, **more):
        return {**os.environ, "STUB_FAILS": "", "MUSTER_TORCH_PYTHON": os.path.join(self.folder, "bin", "torch-python"),
                "PATH": os.path.join(self.folder, "bin") + ":" + os.environ["PATH"], "LD_LIBRARY_PATH": FAKES, **more}

    def check(self, *arguments, code, **environment):
        """scripts/check_gpu.sh of the kit with these arguments; what it says. Its exit code is one of `code`, if that is a tuple."""
        result = subprocess.run([os.path.join(self.kit, "scripts", "check_gpu.sh"), *arguments], env=self.environment(**environment),
                                capture_output=True, text=True, timeout=60, check=False, cwd=self.folder)
        self.assertIn(result.returncode, code if isinstance(code, tuple) else (code,), result.stdout + result.stderr)
        return result.stdout + result.stderr

    def part(self, part, *more, code=0, **environment):
        return self.check("--prebuilt", "kit", "--report", "report", "--part", part, *more, code=code, **environment)

    def read(self):
        """The report as data, and as Markdown."""
        texts = []
        for name in ("gpu-report.json", "gpu-report.md"):
            with open(os.path.join(self.report, name), encoding="utf-8") as file:
                texts.append(file.read())
        return json.loads(texts[0]), texts[1]

    def status_of(self, *names):
        checks = {check["name"]: check for check in self.read()[0]["checks"]}
        return [checks[name]["status"] for name in names]

    def test_without_a_gpu_it_is_skipped_and_says_why(self):
        write(os.path.join(self.folder, "bin", "nvidia-smi"), "exit 9\n")
        for arguments in ((), ("--prebuilt", "kit")):
            self.assertIn("skipped: nvidia-smi shows no GPU", self.check(*arguments, code=77))
        self.assertFalse(os.path.exists(self.report))

    def test_calls_add_to_one_report(self):
        self.part("1")
        report, page = self.read()
        self.assertTrue(report["verdict"].startswith("INCOMPLETE"), report["verdict"])
        self.assertIn("| contract on 1 GPU | not run | 0 | it was not run yet |", page)
        name = "muster-train on a GPU beside the CPU: "  # each whole run is a check
        self.assertEqual(self.status_of(name + "whole", name + "stopped"), ["passed", "passed"])
        said = self.part("all")
        self.assertRegex(said, r"\d+ checks passed or skipped in earlier calls")
        self.assertNotIn("the programs start", said)
        self.assertIn("nothing is left", said)
        report, page = self.read()
        self.assertEqual({check["part"] for check in report["checks"]}, set(range(1, PARTS + 1)))
        bad = [check for check in report["checks"] if check["status"] not in ("passed", "skipped")]
        self.assertEqual(bad, [])
        self.assertTrue(report["verdict"].startswith("passed"), report["verdict"])
        self.assertEqual(len(report["checks"]), len({check["name"] for check in report["checks"]}))
        self.assertEqual({check["reason"] for check in report["checks"] if check["part"] == PARTS}, {"this machine has one GPU"})
        self.assertEqual(report["about"]["gpus"], ["Stub GPU, 1 MiB"])
        for line in ("| commit | abc |", "| driver | 999.1 |", "| cuDNN | 9.19.0, made for CUDA 13.0 | fits |  |",
                     "| resnet18 | 768 | muster, autotuned | 40000 | 2.00 |",
                     "| resnet18 | 4096 | PyTorch 0, max-autotune | 20000 |  |", "| resnet18 | 4096 | PyTorch 0, eager | 20000 |  |",
                     "| moments_bf16 | 12.5 |", "| resnet18 | 768 | muster-train, whole epochs | 6000 | 0.30 |", "all_reduce busbw 1.00 GB/s"):
            self.assertIn(line + "\n", page)

    @unittest.skipUnless(os.path.exists(os.path.join(FAKES, "libnccl.so.2")), "the fakes of NCCL and CUDA are not built")
    def test_the_versions_are_those_of_the_libraries_that_the_loader_finds(self):
        shutil.copy(os.path.join(ROOT, "tests", "gpu", "preflight.py"), os.path.join(self.kit, "tests", "gpu"))
        said = self.check("--prebuilt", "kit", "--preflight", code=(0, 1))
        self.assertRegex(said, r"fits +NCCL +\d+\.\d+\.\d+\n")
        self.assertRegex(said, r"cuDNN +9\.\d+\.\d+")
        self.assertRegex(said, r"fits +glibc +\d+\.\d+\n")
        self.assertRegex(said, r"fits +GLIBCXX +3\.4\.\d+\n")
        self.assertRegex(said, r"misses +PyTorch +not found\n")

    def test_a_miss_ends_the_call_or_skips_what_needs_it(self):
        self.set_facts(nccl={"version": "2.18.1"}, compiler="", cudnn={"version": "", "error": "no such file"})
        self.check("--prebuilt", "kit", "--preflight", code=1)
        self.assertFalse(os.path.exists(self.report))
        said = self.part("1,4,5,7", code=1)
        self.assertRegex(said, r"not run  \d+ checks of part 1: the preflight misses cuDNN \(not found\)\n")
        self.assertRegex(said, r"skipped  4 checks of part 4: the preflight misses C compiler \(not found\)\n")
        self.assertRegex(said, r"skipped  4 checks of part 7: the preflight misses NCCL \(2\.18\.1\)\n")
        self.assertEqual(self.status_of("the programs start", "PyTorch, eager, at batch 16"), ["passed", "passed"])
        # What is there now is checked now. A figure beside eager PyTorch is said to be one.
        self.set_facts(compiler="")
        self.part("3,7")
        self.assertEqual(self.status_of("contract on 1 GPU", "bandwidth on 1 GPU"), ["passed", "passed"])
        report, page = self.read()
        self.assertIn("| resnet18 | 768 | muster | 30000 | 1.50 (eager only) |\n", page)
        self.assertEqual({rate["eager_only"] for rate in report["rates"] if "times_pytorch" in rate}, {True})
        self.set_facts(needs={"glibc": "2.99", "glibcxx": ""})
        said = self.part("all", code=1)
        self.assertIn("nothing can be checked on this machine as it is", said)
        self.assertNotIn("steps beside those of the CPU", said)

    def kill_a_call(self, log, seconds):
        """Begins a call, and kills it so many seconds after its first check has begun; whether it ran until then."""
        command = [os.path.join(self.kit, "scripts", "check_gpu.sh"), "--prebuilt", "kit", "--report", "report"]
        known = len(self.lines_of(log))
        with subprocess.Popen(command, env=self.environment(STUB_LOG=log), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
                              start_new_session=True) as process:
            wait_until(lambda: len(self.lines_of(log)) > known or process.poll() is not None, "the first check of a call")
            time.sleep(seconds)
            if process.poll() is not None:
                return False
            os.killpg(process.pid, signal.SIGKILL)
        return True

    def test_calls_that_are_killed_are_continued(self):
        """Each check writes a line when it begins; one that has passed begins no more."""
        log = os.path.join(self.folder, "log")
        write(log, "", program=False)
        for path in ("bin/muster-train", "tests/muster-gpu-check", "tests/nccl_tests"):
            write(os.path.join(self.kit, path), f'[ "$*" = --help ] || echo "{path} $*" >>"$STUB_LOG"\n' + STUBS[path])
        write(os.path.join(self.folder, "bin", "torch-python"), '[ "$1" = -c ] || echo "torch $*" >>"$STUB_LOG"\n' + TORCH)
        chance = random.Random(9)
        killed = sum(self.kill_a_call(log, chance.uniform(0, 0.2)) for _ in range(10))
        self.assertGreater(killed, 5)
        before = {check["name"]: check for check in self.read()[0]["checks"] if check["status"] == "passed"}
        self.check("--prebuilt", "kit", "--report", "report", code=0, STUB_LOG=log)
        report = self.read()[0]
        after = {check["name"]: check for check in report["checks"]}
        self.assertEqual(len(report["checks"]), len(after))
        self.assertEqual({check["status"] for check in report["checks"]} - {"passed", "skipped"}, set())
        self.assertEqual({name: after[name] for name in before}, before)
        # A kill stops one check at most, which may have been done but for its place in the report. The others have begun once.
        lines = self.lines_of(log)
        self.assertLessEqual(len(lines) - len(set(lines)), killed)
        self.assertGreater(len(set(lines)), 30)

    @staticmethod
    def lines_of(path):
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()

    def test_a_failure_is_told_with_its_last_lines(self):
        said = self.part("1", code=1, STUB_FAILS="steps")
        self.assertIn("\nfailed: steps beside those of the CPU\n", said)
        report, page = self.read()
        self.assertTrue(report["verdict"].startswith("FAILED ("), report["verdict"])
        self.assertIn("| steps beside those of the CPU | failed |", page)
        self.assertIn("the gradient of fc.weight is off", page)
        self.part("1")
        self.assertEqual(self.status_of("steps beside those of the CPU"), ["passed"])

    def test_what_lacks_the_words_of_success_fails(self):
        write(os.path.join(self.kit, "bin", "muster-train"), "exit 0\n")
        self.assertIn("smoke: resnet18, fp32: its output lacks", self.part("1", code=1))
        write(os.path.join(self.kit, "tests", "muster-gpu-check"), "exit 0\n")
        self.assertIn("images/s at batch 768: its output has no table", self.part("3", code=1))

    def test_what_is_not_there_is_skipped_by_name(self):
        os.remove(os.path.join(self.kit, "lib", "muster", "libmuster_nccl.so"))
        write(os.path.join(self.kit, "tests", "device_tests"), "echo 'skipped: no cuDNN'\nexit 77\n")
        write(os.path.join(self.kit, "tests", "muster-gpu-check"), "echo 'skipped: no bf16 here'\n")
        said = self.part("1")
        self.assertRegex(said, "skipped .* cuDNN takes what the networks describe: no cuDNN\n")
        self.assertRegex(said, "passed .* steps beside those of the CPU: without a part: no bf16 here\n")
        self.assertIn("6 checks of part 7: there is no lib/muster/libmuster_nccl.so\n", self.part("7"))
        # What a program says of itself is said for good; what this program looks for, it looks for in each call.
        write(os.path.join(self.kit, "lib", "muster", "libmuster_nccl.so"), "")
        said = self.part("1,7")
        self.assertNotIn("no cuDNN", said)
        self.assertRegex(said, "passed .* contract on 1 GPU\n")

    def test_what_there_is_no_time_for_is_left_with_its_command(self):
        """A call of a minute begins none of what takes up to 150 s; the command that it prints goes on, and --again begins anew."""
        said = self.part("7", "--seconds", "60", code=1)
        self.assertRegex(said, r"contract on 1 GPU: it needs up to 150 s, and \d+ s are left: call it again with --seconds 170 or more\n")
        self.assertRegex(said, r"2 checks are left, which need at most 300 s:\n")
        command = re.search(r"to continue: (.*)\n", said).group(1)
        self.assertRegex(command, r"^\S*/kit/scripts/check_gpu.sh --prebuilt kit --report report --part 7 --seconds 170$")
        self.assertEqual(self.status_of("contract on 1 GPU", "faults on 1 GPU", "bandwidth on 1 GPU"), ["not run", "not run", "passed"])
        said = self.check(*command.split()[1:], "--again", code=0)
        self.assertRegex(said, r"passed .* bandwidth on 1 GPU\n")
        self.assertEqual(self.status_of("contract on 1 GPU", "faults on 1 GPU"), ["passed", "passed"])

    def test_two_calls_do_not_share_a_report(self):
        self.part("8")
        with open(os.path.join(self.report, "gpu-report.lock"), "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assertIn("another call is writing to the report", self.part("8", code=2))

    def test_a_sanitizer_that_cannot_be_used_is_skipped(self):
        write(os.path.join(self.folder, "bin", "compute-sanitizer"), "[ $1 != --version ] || exec echo Version 1\nexit 9\n")
        self.assertRegex(self.part("2"), r"skipped  12 checks of part 2: there is no compute-sanitizer that starts\n")
        write(os.path.join(self.folder, "bin", "compute-sanitizer"),
              "[ $1 != --version ] || exec echo Version 1\n[ $4 != started ] || exec echo started\n"
              "echo '========= Error: Device not supported.'\nexit 9\n")
        self.assertRegex(self.part("2"), r"skipped .*memcheck: resnet18: Error: Device not supported\.\n")
        self.assertEqual(self.read()[0]["about"]["versions"]["compute-sanitizer"], "1")

    def test_reports_of_several_machines_become_one(self):
        for number, folder in ((1, "report"), (8, "other")):
            write(os.path.join(self.folder, "bin", "nvidia-smi"), SMI.replace("999.1", f"999.{number}"))
            self.check("--prebuilt", "kit", "--report", folder, "--part", str(number), code=0)
        merge = [sys.executable, os.path.join(self.kit, "tests", "gpu", "run_checks.py"), "--report", "report", "--merge"]
        result = subprocess.run([*merge, "other"], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith("INCOMPLETE"), result.stdout)
        self.assertEqual(self.status_of("the programs start", "contract on 2 GPUs", "contract on 1 GPU"), ["passed", "skipped", "not run"])
        self.assertIn("| driver | 999.1, 999.8 |\n", self.read()[1])
        result = subprocess.run([*merge, "nowhere"], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 2, result.stdout)

    def test_a_report_of_another_commit_is_left_alone(self):
        self.part("8")
        self.set_commit("def")
        self.assertIn("holds a report of something else (commit)", self.part("8", code=2))
        self.assertEqual(self.read()[0]["about"]["commit"], "abc")

    def test_wrong_use_is_refused(self):
        self.assertIn("it has no kit.json", self.check("--prebuilt", "bin", code=2))
        self.assertIn("unknown argument '--fast'", self.check("--fast", code=2))
        self.assertIn("'9' is no part; give one of 1 to 8", self.part("9", code=2))
        self.assertIn("'59' is no whole number of seconds from 60 on", self.part("1", "--seconds", "59", code=2))


FUNCTOOLS_CACHE = ast.dump(ast.parse("functools.cache").body[0].value)


class Python38(unittest.TestCase):
    def test_packed_programs_are_written_for_python_3_8(self):
        programs = [path for path in packed_sources() if path.endswith(".py")]
        self.assertGreater(len(programs), 8)
        for path in programs:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                tree = ast.parse(file.read(), path, feature_version=(3, 8))
            found = [f"line {node.lineno}: {self.newer_name(node)}" for node in ast.walk(tree) if self.newer_name(node)]
            self.assertEqual(found, [], path)

    @staticmethod
    def newer_name(node):
        """What a part of a program names that Python 3.8 lacks."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip" and node.keywords:
            return "zip(strict=...)"
        if isinstance(node, ast.Attribute) and (node.attr in ("removeprefix", "removesuffix") or ast.dump(node) == FUNCTOOLS_CACHE):
            return node.attr
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in ("dict", "list", "set", "tuple", "type"):
            return f"{node.value.id}[...]"
        return ""

    def test_what_is_newer_is_found(self):
        for text in ("zip(a, b, strict=True)", "a.removeprefix(b)", "functools.cache", "list[int]"):
            self.assertNotEqual("".join(map(self.newer_name, ast.walk(ast.parse(text)))), "", text)
        self.assertEqual("".join(map(self.newer_name, ast.walk(ast.parse("zip(a, b); a.cache; values[1]")))), "")


if __name__ == "__main__":
    unittest.main()
