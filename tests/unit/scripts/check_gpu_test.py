#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_gpu.sh --prebuilt on a kit whose programs are stubs, with a stub of nvidia-smi: parts, their report, failures, time."""
import array
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
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
  measure) echo "| $2 | $3 | muster | 30000 |"
           echo "| $2 | $3 | muster, autotuned | 40000 |" ;;
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
    "tests/nccl_tests": '[ -z "$STUB_HANGS" ] || exec sleep 100\necho "all_reduce busbw 1.00 GB/s"\n',
    "lib/muster/libmuster_cuda.so": "",
    "lib/muster/libmuster_nccl.so": "",
}
SMI = """case "$*" in
  *query-gpu=index*) echo 0 ;;
  *query-gpu=name*) echo "Stub GPU, 1 MiB" ;;
  *) echo 999.1 ;;
esac
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
        write(os.path.join(self.folder, "bin", "nvidia-smi"), SMI)
        write(os.path.join(self.folder, "bin", "torch-python"), TORCH)

    def set_commit(self, commit):
        write(os.path.join(self.kit, "kit.json"), json.dumps({"commit": commit, "clean": True}), program=False)

    def check(self, *arguments, code, **environment):
        """scripts/check_gpu.sh of the kit with these arguments; what it says."""
        environment = {**os.environ, "STUB_FAILS": "", "STUB_HANGS": "", "MUSTER_TORCH_PYTHON": os.path.join(self.folder, "bin", "torch-python"),
                       "PATH": os.path.join(self.folder, "bin") + ":" + os.environ["PATH"], "LD_LIBRARY_PATH": FAKES, **environment}
        result = subprocess.run([os.path.join(self.kit, "scripts", "check_gpu.sh"), *arguments], env=environment, capture_output=True, text=True,
                                timeout=60, check=False, cwd=self.folder)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
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

    def test_parts_add_to_one_report(self):
        self.part("1")
        report, page = self.read()
        self.assertTrue(report["verdict"].startswith("INCOMPLETE"), report["verdict"])
        self.assertIn("| contract on 1 GPU | not run | 0 | part 7 was not run yet |", page)
        self.part("3")
        self.part("all")
        report, page = self.read()
        self.assertEqual({check["part"] for check in report["checks"]}, set(range(1, PARTS + 1)))
        bad = [check for check in report["checks"] if check["status"] not in ("passed", "skipped")]
        self.assertEqual(bad, [])
        self.assertTrue(report["verdict"].startswith("passed"), report["verdict"])
        self.assertEqual(len(report["checks"]), len({check["name"] for check in report["checks"]}))
        self.assertEqual({check["reason"] for check in report["checks"] if check["part"] == PARTS}, {"this machine has one GPU"})
        self.assertEqual(report["about"]["gpus"], ["Stub GPU, 1 MiB"])
        for line in ("| commit | abc |", "| driver | 999.1 |", "| resnet18 | 768 | muster, autotuned | 40000 | 2.00 |",
                     "| resnet18 | 4096 | PyTorch 0, max-autotune | 20000 |  |", "| resnet18 | 4096 | PyTorch 0, eager | 20000 |  |", "| moments_bf16 | 12.5 |",
                     "| resnet18 | 768 | muster-train, whole epochs | 6000 | 0.30 |", "all_reduce busbw 1.00 GB/s"):
            self.assertIn(line + "\n", page)

    @unittest.skipUnless(os.path.exists(os.path.join(FAKES, "libnccl.so.2")), "the fakes of NCCL and CUDA are not built")
    def test_the_versions_are_those_of_the_libraries_that_the_loader_finds(self):
        self.part("8")
        versions = self.read()[0]["about"]["versions"]
        self.assertRegex(versions["NCCL"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(versions["PyTorch"], "not found")

    def test_a_failure_is_told_with_its_last_lines(self):
        said = self.part("1", code=1, STUB_FAILS="steps")
        self.assertIn("failed or not run: steps beside those of the CPU", said)
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
        self.assertIn("skipped     0.0 s  contract on 1 GPU: there is no lib/muster/libmuster_nccl.so", self.part("7"))

    def test_parts_without_time_name_what_they_did_not_run(self):
        said = self.part("7,1", "--part-seconds", "5", code=1, STUB_HANGS="1")
        self.assertRegex(said, "(?s)== Part 7.*== Part 1")
        self.assertRegex(said, r"not run .*contract on 1 GPU: the part's time ended \d s after this check began")
        self.assertIn("bandwidth on 1 GPU: the part's time had ended", said)
        self.assertEqual(self.status_of("contract on 1 GPU", "faults on 1 GPU", "gradients of 2 ranks through NCCL: small-cnn",
                                        "the programs start"), ["not run", "not run", "passed", "not run"])
        self.assertTrue(self.read()[0]["verdict"].startswith("INCOMPLETE"))

    def test_each_whole_run_is_a_check(self):
        self.part("1")
        name = "muster-train on a GPU beside the CPU: "
        self.assertEqual(self.status_of(name + "whole", name + "stopped"), ["passed", "passed"])

    def test_a_sanitizer_that_cannot_be_used_is_skipped(self):
        write(os.path.join(self.folder, "bin", "compute-sanitizer"), "[ $1 != --version ] || exec echo Version 1\nexit 9\n")
        self.assertRegex(self.part("2"), "skipped .*memcheck: resnet18: there is no compute-sanitizer that starts\n")
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
        for wrong in ("9", "1,", "1,all", ""):
            self.assertIn("is no part; give one of 1 to 8", self.part(wrong, code=2))


def module_of(name):
    """A program of tests/gpu as a module."""
    sys.path[:0] = [os.path.join(ROOT, "tests", folder) for folder in ("support", "gpu")]
    spec = importlib.util.spec_from_file_location(name, os.path.join(ROOT, "tests", "gpu", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class RunChecks(unittest.TestCase):
    def test_what_outlives_a_check_is_ended(self):
        module = module_of("run_checks")
        module.END_SECONDS = 0.3
        with subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 100 >&- & echo $!"], stdout=subprocess.PIPE, text=True,
                              start_new_session=True) as process:
            pid = process.stdout.read().strip()
            process.wait(30)
            module.end_group(process)
        # Killed, but not ended at once on a busy machine.
        wait_until(lambda: self.has_ended(pid), f"the end of process {pid}")

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
