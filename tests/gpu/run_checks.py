#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the checks of tests/gpu/check_list.py on this machine's GPUs and adds their results to a report. Standard library only.

usage: run_checks.py --programs DIR --report DIR [--part N[,N]...|all] [--part-seconds S]
       run_checks.py --merge DIR... --report DIR     adds the reports of other folders, runs nothing

--programs: a build tree, or an unpacked kit of scripts/pack_gpu_check.sh (kit.json names its commit). Exits 77 without a GPU, 1 if a
check of this run failed or was not run, 2 where the report cannot be added to.
"""
import argparse
import glob
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import gpu_report
from check_list import PART_SECONDS, PARTS, Place, all_checks

TREE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
EPOCH = re.compile(r"^epoch (\d+)/\1  .*?  (\d+) images/s", re.M)
LAST_LINES = 40
# A check that has less time left than this would show nothing.
LEAST_SECONDS = 0.5
# What a process may take to end after it was told to.
END_SECONDS = 5
# Libraries that are loaded by these names, and what says their version.
VERSIONS = """
import ctypes, sys
def number(library, function):
    value = ctypes.c_int()
    getattr(ctypes.CDLL(library), function)(ctypes.byref(value))
    return value.value
def cuda(value): return f"{value // 1000}.{value % 1000 // 10}"
def nccl(value): return f"{value // 10000}.{value // 100 % 100}.{value % 100}"
def cudnn():
    value = ctypes.CDLL("libcudnn.so.9").cudnnGetVersion()
    return f"{value // 10000}.{value // 100 % 100}.{value % 100}"
for name, version in (("CUDA runtime", lambda: cuda(number("libcudart.so.13", "cudaRuntimeGetVersion"))), ("cuDNN", cudnn),
                      ("NCCL", lambda: nccl(number("libnccl.so.2", "ncclGetVersion")))):
    try:
        print(name, version(), sep="\\t")
    except (OSError, AttributeError) as error:
        print(name, f"not found: {error}", sep="\\t")
"""


def output_of(command, environment=None, timeout=60):
    """What a command says; "" where it fails."""
    try:
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout if result.returncode == 0 else ""


def query_gpus(what):
    text = output_of(["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"])
    return [line.strip() for line in text.splitlines() if line.strip()]


def library_folders(programs, python, environment):
    """Folders for LD_LIBRARY_PATH: what the kit brings, then NVIDIA's libraries in Python's packages, which PyTorch brings."""
    folders = [os.path.join(programs, "lib")] if os.path.exists(os.path.join(programs, "kit.json")) else []
    for package in output_of([python, "-c", "import nvidia; print(*nvidia.__path__, sep='\\n')"], environment).splitlines():
        for name in sorted(os.listdir(package)):
            if os.path.isdir(os.path.join(package, name, "lib")):
                folders.append(os.path.join(package, name, "lib"))
    return folders


def is_found(library, environment):
    """Whether the loader finds a library by its name."""
    return output_of([sys.executable, "-c", f"import ctypes; ctypes.CDLL('{library}'); print(1)"], environment) != ""


def environment_of(programs, python):
    """In which our programs find their plug-ins and libraries. No variable names a library, unless the caller's does."""
    environment = dict(os.environ)
    folders = library_folders(programs, python, environment)
    given = environment.get("LD_LIBRARY_PATH", "")

    def use():
        environment["LD_LIBRARY_PATH"] = ":".join(folders + ([given] if given else []))

    use()
    # What only a machine without its own should get: of the kit, and what scripts/fetch_cuda_headers.sh has fetched.
    for library, folder in (("libibverbs.so.1", os.path.join(programs, "lib", "spare")), ("libnccl.so.2", os.path.join(TREE, "build/cuda/lib"))):
        if os.path.isdir(folder) and not is_found(library, environment):
            folders.append(folder)
            use()
    environment["MUSTER_PLUGIN_PATH"] = os.path.join(programs, "lib", "muster")
    environment["MUSTER_BIN_DIR"] = os.path.join(programs, "bin")
    environment["PYTHONPATH"] = os.path.join(TREE, "tests", "support")
    environment["PYTHONDONTWRITEBYTECODE"] = environment["PYTHONUNBUFFERED"] = "1"
    return environment


def starts_programs(sanitizer):
    """PyPI's package lacks the program that starts others, and so has a version, but is of no use."""
    try:
        result = subprocess.run([sanitizer, "--tool", "memcheck", "/bin/echo", "started"], capture_output=True, text=True, timeout=60,
                                check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "started" in result.stdout


def find_sanitizer():
    """The machine's first that starts a program; "" where none does."""
    places = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer",
              *sorted(glob.glob("/usr/local/cuda-*/bin/compute-sanitizer"))]
    return next((path for path in places if path and starts_programs(path)), "")


def versions(place):
    found = dict(line.split("\t", 1) for line in output_of([sys.executable, "-c", VERSIONS], place.environment).splitlines())
    found["PyTorch"] = output_of([place.python, "-c", "import torch; print(torch.__version__)"]).strip() or "not found"
    found["Python"] = platform.python_version()
    text = output_of([place.sanitizer, "--version"]) if place.sanitizer else ""
    found["compute-sanitizer"] = next((line for line in text.splitlines() if line.startswith("Version")), "not found").removeprefix("Version ")
    return found


def commit_of(programs):
    """The commit of the programs, and whether the tree had no other changes."""
    try:
        with open(os.path.join(programs, "kit.json"), encoding="utf-8") as file:
            kit = json.load(file)
        return kit["commit"], kit["clean"]
    except FileNotFoundError:
        commit = output_of(["git", "-C", TREE, "rev-parse", "HEAD"]).strip()
        return commit or "unknown", commit != "" and output_of(["git", "-C", TREE, "status", "--porcelain"]) == ""


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine())
    except OSError:
        return platform.machine()


def describe(place):
    commit, clean = commit_of(place.programs)
    return {"commit": commit, "clean": clean, "gpus": query_gpus("name,memory.total"), "driver": (query_gpus("driver_version") or ["?"])[0],
            "machine": f"{os.cpu_count()} cores of {processor()}, Linux {platform.release()}", "versions": versions(place)}


def end_group(process):
    """Ends what a check has started, also what outlives its first process; muster's own guardian ends its workers."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        if group_ends(process):
            return


def group_ends(process):
    """Whether nobody is left of the process group within END_SECONDS."""
    end = time.monotonic() + END_SECONDS
    while time.monotonic() < end:
        process.poll()  # the first process belongs to the group until its end is known here
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def execute(check, place, limit_s):
    """Exit code, None after `limit_s` seconds, and output."""
    environment = {**(place.environment if check.libraries else os.environ), **check.environment}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        try:
            with subprocess.Popen(check.command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                  start_new_session=True) as process:
                try:
                    code = process.wait(limit_s)
                except subprocess.TimeoutExpired:
                    code = None
                finally:
                    end_group(process)  # also where this program is told to end
        except OSError as error:
            return 127, f"cannot be started: {error}\n"
        output.seek(0)
        return code, output.read()


def judge(check, code, text, limit_s):
    """Status and reason."""
    if code is None and limit_s < check.limit_s:
        return "not run", f"the part's time ended {limit_s:.0f} s after this check began"
    if code is None:
        return "failed", f"it took longer than its {check.limit_s} s"
    reasons = [line.removeprefix("skipped: ") for line in text.splitlines() if line.startswith("skipped: ")]
    refusal = next((line for line in text.splitlines() if check.skip_if and check.skip_if in line), "")
    if refusal:
        return "skipped", refusal.strip("= ")
    if code == 77:
        return "skipped", (reasons or ["no reason given"])[-1]
    if code < 0:
        return "failed", f"ended by {signal.Signals(-code).name}"
    if code > 0:
        return "failed", f"exit code {code}"
    if check.expect and not re.search(check.expect, text):
        return "failed", f"its output lacks {check.expect}"
    if check.rate and not EPOCH.search(text):
        return "failed", "its output has no images/s of a last epoch"
    if check.table and not table_rows(check, text):
        return "failed", "its output has no table"
    return "passed", "without a part: " + "; ".join(reasons) if reasons else ""


def table_rows(check, text):
    if check.rate:
        return [[str(cell) for cell in check.rate] + [EPOCH.findall(text)[-1][1]]]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def run(check, place, left_s):
    """The result of one check, which has at most `left_s` seconds."""
    result = {"name": check.name, "part": check.part, "seconds": 0, "table": "rates" if check.rate else check.table, "rows": [], "output": []}
    missing = [path for path in check.needs if not os.path.exists(path)]
    if check.skip or missing:
        return {**result, "status": "skipped", "reason": check.skip or f"there is no {os.path.relpath(missing[0], place.programs)}"}, ""
    if left_s < LEAST_SECONDS:
        return {**result, "status": "not run", "reason": "the part's time had ended"}, ""
    limit_s, begin = min(check.limit_s, left_s), time.monotonic()
    code, text = execute(check, place, limit_s)
    status, reason = judge(check, code, text, limit_s)
    lines = text.splitlines()
    return {**result, "status": status, "reason": reason, "seconds": round(time.monotonic() - begin, 1),
            "rows": table_rows(check, text) if status == "passed" and result["table"] else [],
            "output": lines if check.show and status == "passed" else lines[-LAST_LINES:] if status in ("failed", "not run") else []}, text


def run_part(number, checks, place, report, options, end):
    """Runs a part, which may go on until `end`, and adds it to the report; those that failed or were not run."""
    print(f"\n== Part {number}: {PARTS[number]}", flush=True)
    bad = []
    for check in checks:
        result, text = run(check, place, end - time.monotonic())
        gpu_report.add(report, {**result, "driver": report["about"]["driver"]})
        gpu_report.save(report, options.report)
        with open(os.path.join(options.report, "gpu-report.log"), "a", encoding="utf-8") as log:
            log.write(f"== {check.name}: {result['status']} {result['reason']}\n{text}\n")
        print(f"  {result['status']:8} {result['seconds']:6.1f} s  {check.name}{': ' if result['reason'] else ''}{result['reason']}", flush=True)
        if result["status"] in ("failed", "not run"):
            bad.append(check.name)
            print("\n".join("    " + line for line in result["output"][-10:]), flush=True)
    return bad


def groups_of(text):
    """The parts that --part names, in groups that share --part-seconds: a list is one group; of `all`, each part is one."""
    if text == "all":
        return [[number] for number in PARTS]
    known = {str(number): number for number in PARTS}
    words = text.split(",")
    if not set(words) <= set(known):
        raise argparse.ArgumentTypeError(f"'{text}' is no part; give one of 1 to {max(PARTS)}, a list such as 1,7, or all")
    return [[known[word] for word in dict.fromkeys(words)]]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--programs")
    what.add_argument("--merge", nargs="+", metavar="DIR")
    parser.add_argument("--report", required=True)
    parser.add_argument("--part", default="all", type=groups_of)
    parser.add_argument("--part-seconds", type=float, default=PART_SECONDS)
    return parser.parse_args()


def merge(options):
    os.makedirs(options.report, exist_ok=True)
    try:
        report = gpu_report.merge(options.merge, options.report)
    except (OSError, ValueError) as error:
        print(f"run_checks.py: {error}", file=sys.stderr)
        return 2
    print(f"{report['verdict']}: {gpu_report.paths(options.report)[1]}")
    return 0


def main():
    options = parse()
    if options.merge:
        return merge(options)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    gpus = query_gpus("index")
    if not gpus:
        print("skipped: nvidia-smi shows no GPU, or is not installed")
        return 77
    programs, python = os.path.abspath(options.programs), os.environ.get("MUSTER_TORCH_PYTHON", "python3")
    place = Place(programs, TREE, python, len(gpus), find_sanitizer(), environment_of(programs, python))
    os.makedirs(options.report, exist_ok=True)
    checks = all_checks(place)
    try:
        report = gpu_report.load(options.report, describe(place))
    except ValueError as error:
        print(f"run_checks.py: {error}", file=sys.stderr)
        return 2
    known = {check["name"] for check in report["checks"]}
    for check in checks:
        if check.name not in known:
            gpu_report.add(report, {"name": check.name, "part": check.part, "status": "not run", "reason": f"part {check.part} was not run yet",
                                    "seconds": 0, "table": "", "rows": [], "output": []})
    bad = []
    for group in options.part:
        end = time.monotonic() + options.part_seconds
        for number in group:
            bad += run_part(number, [check for check in checks if check.part == number], place, report, options, end)
    print(f"\n{report['verdict']}: {gpu_report.paths(options.report)[1]}")
    if bad:
        print("failed or not run: " + "; ".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
