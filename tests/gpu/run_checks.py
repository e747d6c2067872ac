#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the checks of tests/gpu/check_list.py on this machine's GPUs and adds their results to a report. Standard library only.

usage: run_checks.py --programs DIR --report DIR [--part N[,N]...|all] [--seconds N] [--again] [-- COMMAND...]
       run_checks.py --programs DIR --preflight      prints what of this machine fits, runs nothing
       run_checks.py --merge DIR... --report DIR     adds the reports of other folders, runs nothing

--programs: a build tree, or an unpacked kit of scripts/pack_gpu_check.sh (kit.json names its commit). A call goes on where the last one
stopped: what has passed in the report is not run again. COMMAND is how the caller was called, which is printed for the next call.

Exit code: 0 all wanted checks have passed or are skipped; 1 a check failed, or is left that the same command cannot run; 2 wrong use;
3 nothing failed, and the same command goes on with what is left; 77 there is no GPU.
"""
import argparse
import fcntl
import functools
import json
import math
import os
import platform
import re
import shlex
import signal
import sys
import time

import call_plan
import gpu_report
import preflight
from check_list import PARTS, Place, all_checks
from commands import END_SECONDS, end_leftovers, execute, output_of
from environment import TREE, environment_of

EPOCH = re.compile(r"^epoch (\d+)/\1  .*?  (\d+) images/s", re.M)
LAST_LINES = 40
LEAST_SECONDS = 60
# Of the seconds of a call, the preflight may take so much.
PREFLIGHT_SHARE = 0.5
# Processes of checks have this variable, with the report's folder, in their environment.
MARK = "MUSTER_GPU_CHECK_REPORT"


class Clock:
    """The seconds of a call."""

    def __init__(self, seconds):
        self.begin, self.seconds = time.monotonic(), seconds

    def left(self):
        return self.seconds - self.spent()

    def spent(self):
        return time.monotonic() - self.begin


def commit_of(programs, ask):
    """The commit of the programs, and whether the tree had no other changes."""
    try:
        with open(os.path.join(programs, "kit.json"), encoding="utf-8") as file:
            kit = json.load(file)
        return kit["commit"], kit["clean"]
    except FileNotFoundError:
        commit = ask(["git", "-C", TREE, "rev-parse", "HEAD"]).strip()
        return commit or "unknown", commit != "" and ask(["git", "-C", TREE, "status", "--porcelain"]) == ""


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine())
    except OSError:
        return platform.machine()


def describe(programs, facts, rows, ask):
    commit, clean = commit_of(programs, ask)
    return {"commit": commit, "clean": clean, "gpus": [f"{gpu['name']}, {gpu['memory']}" for gpu in facts["gpus"]],
            "driver": facts["driver"] or "?", "machine": f"{os.cpu_count()} cores of {processor()}, Linux {platform.release()}",
            "versions": {row["what"]: row["found"] for row in rows if row["what"] != "GPUs"}, "preflight": rows}


def precisions_of(gpus):
    """What muster-train computes in on all of them: GPUs before compute capability 8.0 have neither bf16 nor TF32."""
    old = any(gpu["capability"] and tuple(map(int, gpu["capability"].split("."))) < (8, 0) for gpu in gpus)
    return ("fp32", "fp16") if old else ("fp32", "bf16", "tf32", "fp16")


def place_of(programs, python, facts, environment):
    return Place(programs, TREE, python, len(facts["gpus"]), facts["sanitizer"]["path"], environment, precisions_of(facts["gpus"]))


def judge(check, code, text, limit_s):
    """Status and reason."""
    if code is None and limit_s < check.limit_s:
        return "not run", f"it was not done after {limit_s:.0f} s of its {check.limit_s}"
    if code is None:
        return "failed", f"it took longer than its {check.limit_s} s"
    reasons = [line[len("skipped: "):] for line in text.splitlines() if line.startswith("skipped: ")]
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


def empty_result(check, status, reason, **more):
    """Of a check that was not begun."""
    return {"name": check.name, "part": check.part, "status": status, "reason": reason, "seconds": 0,
            "table": "rates" if check.rate else check.table, "rows": [], "output": [], **more}


def standing(check, place, missing_rows):
    """The result of a check that cannot be run here whatever time there is; None where it can. Each call looks anew."""
    absent = [path for path in check.needs if not os.path.exists(path)]
    if check.skip or absent:
        return empty_result(check, "skipped", check.skip or f"there is no {os.path.relpath(absent[0], place.programs)}", standing=True)
    for name in check.wants:
        if name in missing_rows:
            row = missing_rows[name]
            return empty_result(check, "skipped" if row["stops"] == preflight.PARTS else "not run",
                                f"the preflight misses {name} ({row['found']})", standing=True)
    return None


class Call:
    """One call of the checks: what it runs, and what it says."""

    def __init__(self, options, clock, place, report):
        self.options, self.clock, self.place, self.report = options, clock, place, report
        self.room_s, self.spent_s = clock.left(), clock.spent()
        self.begun = 0

    def results(self):
        return {result["name"]: result for result in self.report["checks"]}

    def keep(self, result, text=None):
        """Adds a result to the report, which is on the disk when this returns; a call that is killed leaves it for the next."""
        gpu_report.add(self.report, {**result, "driver": self.report["about"]["driver"]})
        gpu_report.save(self.report, self.options.report)
        if text is not None:
            with open(os.path.join(self.options.report, "gpu-report.log"), "a", encoding="utf-8") as log:
                log.write(f"== {result['name']}: {result['status']} {result['reason']}\n{text}\n")

    def run(self, check, limit_s):
        """One check, for `limit_s` seconds at most."""
        mark = {MARK: os.path.realpath(self.options.report)}
        environment = {**(self.place.environment if check.libraries else os.environ), **mark, **check.environment}
        begin = time.monotonic()
        code, text = execute(check.command, environment, limit_s)
        status, reason = judge(check, code, text, limit_s)
        lines, cut = text.splitlines(), {"tried_s": limit_s} if status == "not run" else {}
        self.keep({**empty_result(check, status, reason), "seconds": round(time.monotonic() - begin, 1),
                   "rows": table_rows(check, text) if status == "passed" and (check.rate or check.table) else [],
                   "output": lines if check.show and status == "passed" else lines[-LAST_LINES:] if status in ("failed", "not run") else [],
                   **cut}, text)
        result = self.results()[check.name]
        print(f"  {status:8} {result['seconds']:6.1f} s  part {check.part}  {check.name}{': ' if reason else ''}{reason}", flush=True)
        if result["output"] and status != "passed":
            print("\n".join("    " + line for line in result["output"][-10:]), flush=True)
        self.begun += 1

    def set_standing(self, checks, missing_rows):
        """Notes which checks cannot be run here, and returns the others. What has passed stays so."""
        groups, runnable = {}, []
        for check in checks:
            result = standing(check, self.place, missing_rows) if self.results()[check.name]["status"] != "passed" else None
            if result is None:
                runnable.append(check)
                continue
            gpu_report.add(self.report, {**result, "driver": self.report["about"]["driver"]})
            groups.setdefault((check.part, result["status"], result["reason"]), []).append(check)
        gpu_report.save(self.report, self.options.report)
        for (part, status, reason), found in groups.items():
            print(f"  {status:8} {len(found)} check{'s' if len(found) > 1 else ''} of part {part}: {reason}", flush=True)
        return runnable

    def run_all(self, checks):
        """Runs what there is time for, and notes why the rest is left."""
        waiting = call_plan.in_order(checks, self.results())
        done = len(checks) - len(waiting)
        if done:
            print(f"  {done} check{'s' if done > 1 else ''} passed or skipped in earlier calls; --again repeats them")
        left_s = self.room_s
        while True:
            check, limit_s = call_plan.next_check(waiting, self.results(), left_s, self.room_s)
            if check is None:
                break
            waiting.remove(check)
            self.run(check, limit_s)
            left_s = self.clock.left()
        for check in waiting:
            result = self.results()[check.name]
            if call_plan.state_of(result) == call_plan.LEFT:
                cut = {"tried_s": call_plan.tried_s(result)}
                why = call_plan.reason(check, result, left_s, self.room_s, self.spent_s)
                gpu_report.add(self.report, {**empty_result(check, "not run", why), "output": result["output"], **cut})
        gpu_report.save(self.report, self.options.report)

    def finish(self, wanted, runnable):
        """Says what is left and how to go on; the exit code."""
        results = self.results()
        states = {check.name: call_plan.state_of(results[check.name]) for check in runnable}
        impossible = [check for check in wanted if check not in runnable and results[check.name]["status"] == "not run"]
        failed = [name for name, state in states.items() if state == call_plan.FAILED]
        left = [check for check in runnable if states[check.name] == call_plan.LEFT]
        next_ones = [check for check in left if call_plan.can_continue(check, results[check.name], self.room_s)]
        can_go_on = self.begun > 0 and bool(next_ones)
        print(f"\n{self.report['verdict']}: {gpu_report.paths(self.options.report)[1]}")
        for text, checks in (("failed", failed), ("not run, see the preflight", [check.name for check in impossible])):
            if checks:
                print(f"{text}: " + "; ".join(checks))
        if left:
            print(f"{len(left)} check{'s are' if len(left) > 1 else ' is'} left, which need{'' if len(left) > 1 else 's'} at most "
                  f"{sum(check.limit_s for check in left)} s:")
            for check in left:
                print(f"  {check.name}: {results[check.name]['reason']}")
        elif not failed and not impossible:
            print("nothing is left")
        seconds = self.options.seconds
        if left and not can_go_on:  # where even what seemed to fit was not begun, more than in this call
            seconds = max(call_plan.enough_seconds(left, self.spent_s), seconds + LEAST_SECONDS if next_ones else 0)
        if left or failed:
            print("to continue: " + continuation(self.options.command, seconds))
        return call_plan.exit_code([*states.values(), *[call_plan.LEFT for _ in impossible]], can_go_on)


def continuation(command, seconds):
    """The command that goes on with `seconds` a call: that of this call, but for --again, which would begin anew."""
    words = [word for word in command if word != "--again"]
    for number, word in enumerate(words):
        if word == "--seconds" and number + 1 < len(words):
            words[number + 1] = str(seconds)
        elif word.startswith("--seconds="):
            words[number] = f"--seconds={seconds}"
    return " ".join(map(shlex.quote, words))


def parts_of(text):
    if text == "all":
        return list(PARTS)
    known = {str(number): number for number in PARTS}
    words = text.split(",")
    if not set(words) <= set(known):
        raise argparse.ArgumentTypeError(f"'{text}' is no part; give one of 1 to {max(PARTS)}, a list such as 1,7, or all")
    return [known[word] for word in words]


def seconds_of(text):
    if not re.match(r"\d{1,9}$", text, re.A) or int(text) < LEAST_SECONDS:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number of seconds from {LEAST_SECONDS} on")
    return int(text)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--programs")
    what.add_argument("--merge", nargs="+", metavar="DIR")
    parser.add_argument("--report")
    parser.add_argument("--part", default="all", type=parts_of)
    parser.add_argument("--seconds", default=math.inf, type=seconds_of)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--preflight", action="store_true")
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:split])
    options.command = arguments[split + 1:] or [sys.executable, sys.argv[0], *arguments]
    if not options.report and not options.preflight:
        parser.error("--report is needed")
    return options


def merge(options):
    os.makedirs(options.report, exist_ok=True)
    try:
        report = gpu_report.merge(options.merge, options.report)
    except (OSError, ValueError) as error:
        print(f"run_checks.py: {error}", file=sys.stderr)
        return 2
    print(f"{report['verdict']}: {gpu_report.paths(options.report)[1]}")
    return 0


def lock(folder):
    """An open file that no other call on this report has locked. It is free again when this process ends, however that happens."""
    file = open(os.path.join(folder, "gpu-report.lock"), "w", encoding="utf-8")  # closed by the end of the process
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"another call is writing to the report in {folder}") from None
    except OSError:
        pass  # a file system that cannot lock
    return file


def run_checks(options, clock, place, about, rows):
    """Runs what is wanted; the exit code. Raises ValueError where the report cannot be added to."""
    os.makedirs(options.report, exist_ok=True)
    locked = lock(options.report)
    end_leftovers(f"{MARK}={os.path.realpath(options.report)}")
    checks = all_checks(place)
    report = gpu_report.load(options.report, about)
    known = {result["name"] for result in report["checks"]}
    wanted = [check for check in checks if check.part in options.part]
    for check in checks:
        if check.name not in known or (options.again and check in wanted):
            gpu_report.add(report, empty_result(check, "not run", "it was not run yet"))
    gpu_report.save(report, options.report)
    if preflight.misses(rows, preflight.EVERYTHING):
        print(f"\nnothing can be checked on this machine as it is, see the preflight: {gpu_report.paths(options.report)[1]}")
        return 1
    print(f"\n== Checks of {'all parts' if len(set(options.part)) == len(PARTS) else 'part ' + ', '.join(map(str, options.part))}", flush=True)
    call = Call(options, clock, place, report)
    runnable = call.set_standing(wanted, preflight.misses(rows))
    call.run_all(runnable)
    code = call.finish(wanted, runnable)
    locked.close()
    return code


def main():
    options = parse(sys.argv[1:])
    if options.merge:
        return merge(options)
    clock = Clock(options.seconds)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    ask = functools.partial(output_of, end=clock.begin + PREFLIGHT_SHARE * clock.seconds - 2 * END_SECONDS)
    gpus = preflight.read_gpus(ask)
    if not gpus and not options.preflight:
        print("skipped: nvidia-smi shows no GPU, or is not installed")
        return 77
    programs, python = os.path.abspath(options.programs), os.environ.get("MUSTER_TORCH_PYTHON", "python3")
    try:
        environment = environment_of(programs, python, ask)
        facts = preflight.read_facts(gpus, programs, python, environment, ask)
        rows = preflight.rows_of(facts)
        print(preflight.screen(rows), flush=True)
        if options.preflight:
            return 1 if any(row["stops"] != preflight.PARTS for row in preflight.misses(rows).values()) else 0
        return run_checks(options, clock, place_of(programs, python, facts, environment), describe(programs, facts, rows, ask), rows)
    except TimeoutError as error:
        print(f"run_checks.py: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"run_checks.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
