# SPDX-License-Identifier: Apache-2.0
"""The step that a program tells stands in the report of a failure. usage: step_test.py <worker>..."""
import json
import os
import subprocess
import sys
import tempfile

from interop import MUSTER, check

RANKS, LIMIT_S = 3, 60


def step_of_a_failed_rank(worker):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        job = subprocess.run([MUSTER, "run", "--nproc-per-node", str(RANKS), "--report", path, worker],
                             env={**os.environ, "MUSTER_FAULT": "kill@1:all_reduce:2"}, capture_output=True, text=True,
                             timeout=LIMIT_S, check=False)
        check(job.returncode == 137, f"exit code {job.returncode}", job.stderr)
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    root = report["root_cause"]
    check(root["rank"] == 1 and root["call"]["step"] == 12, f"another rank or step: {root}", job.stderr)
    for other in report["nodes"][0]["workers"]:
        # The others may not have come out of the first call yet.
        check(other["call"]["step"] - 10 * other["rank"] in (1, 2), f"another step: {other}", job.stderr)
    print("ok", os.path.basename(worker))


def decisions_of(worker, fault):
    """What was decided at the end of each round, where rank 1 is killed in each."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        job = subprocess.run([MUSTER, "run", "--nproc-per-node", str(RANKS), "--report", path, "--max-restarts", "3",
                              "--restart-policy", "progress", worker],
                             env={**os.environ, "MUSTER_FAULT": fault}, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        check(job.returncode == 137, f"exit code {job.returncode}", job.stderr)
        with open(path, encoding="utf-8") as file:
            return json.load(file)["decisions"]


def a_step_is_progress(worker):
    """Three failures for the same reason end a job that tells no step, though its ranks are in calls of ours."""
    decisions = decisions_of(worker, "kill@1:all_reduce:2")
    check([one["again"] for one in decisions] == [True, True, True, False], f"other decisions: {decisions}")
    check(decisions[-1]["decision"] == "no restart is left (--max-restarts 3)", f"another reason: {decisions[-1]}")
    decisions = decisions_of(worker, "kill@1:init")
    check([one["again"] for one in decisions] == [True, True, False], f"other decisions without a step: {decisions}")
    check("without a step" in decisions[-1]["decision"], f"another reason: {decisions[-1]}")
    print("ok, a step is progress")


def work_is_done_again_until_the_step_that_was_reached(worker):
    """After a restart the time counts as lost until a rank tells the highest step of the round before, and no longer."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        script = '"$0" && [ "$TORCHELASTIC_RESTART_COUNT" != 0 ] && sleep 4'
        job = subprocess.run([MUSTER, "run", "--nproc-per-node", str(RANKS), "--report", path, "--max-restarts", "1", "--no-python",
                              "sh", "-c", script, worker], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        check(job.returncode == 0, f"exit code {job.returncode}", job.stderr)
        with open(path, encoding="utf-8") as file:
            spent = json.load(file)["time"]
    check(not spent["recompute_is_at_most"] and spent["recompute_ms"] > 0, spent)
    check(spent["useful_ms"] >= 1000, "the second round is useful from that step on", spent)
    print("ok, work that is done again")


def main():
    for worker in sys.argv[1:]:
        step_of_a_failed_rank(worker)
    a_step_is_progress(sys.argv[1])
    work_is_done_again_until_the_step_that_was_reached(sys.argv[1])


if __name__ == "__main__":
    main()
