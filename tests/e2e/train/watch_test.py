#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a job of two ranks shows and writes: a bar on a terminal, metrics, events, a trace of both ranks; from rank 0 alone."""
import json
import os
import re
import subprocess

from interop import MUSTER, TRAIN, muster_run, run_on_terminal, run_tests

STEPS = 10
SHOWN_STEPS = 250
JOB = ["--nproc-per-node", "2", TRAIN, "--threads", "1", "--data", f"synthetic:{16 * STEPS}", "--batch-size", "8", "--epochs", "1"]


def test_bar(_folder):
    # It is drawn anew every 0.1 s of an epoch, and a fast machine makes 5,000 images a second.
    code, seen = run_on_terminal([MUSTER, "run", *JOB, "--data", f"synthetic:{16 * SHOWN_STEPS}", "--epochs", "2"],
                                 on=("stdin", "stdout"), stderr=subprocess.DEVNULL)
    assert code == 0, seen
    seen = seen.decode()
    bars = re.findall(r"\r\x1b\[Kepoch (\d+)/2  \[=* *\] (\d+)/250  loss \S+  accuracy \S+ %  (\d+) images/s  ETA \d+:\d\d", seen)
    assert bars, seen
    assert all(1 <= int(step) <= SHOWN_STEPS and int(speed) > 0 for _, step, speed in bars), bars
    # One rank draws: never back to an earlier place.
    places = [(int(epoch), int(step)) for epoch, step, _ in bars]
    assert places == sorted(set(places)), places


def test_files(folder):
    metrics, trace, events = (os.path.join(folder, name) for name in ("metrics.jsonl", "trace.json", "events"))
    text = muster_run([*JOB, "--metrics", metrics, "--metrics-every", "1", "--profile", trace, "--tensorboard", events]).stdout
    assert len(os.listdir(events)) == 1, os.listdir(events)
    with open(metrics, encoding="utf-8") as file:
        steps = [entry for entry in map(json.loads, file) if entry["event"] == "step"]
    assert [entry["step"] for entry in steps] == list(range(1, STEPS + 1)), steps
    for entry in steps:
        assert 0 < entry["communication_ms"] and 0 <= entry["exposed_communication_ms"] <= entry["communication_ms"] * 1.001, entry
    check_trace(trace, text)


def check_trace(path, text):
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    straggler = re.search(rf"^trace in {re.escape(path)}: (rank [01] arrives last in (\d+) of {STEPS} steps, .*)$", text, re.M)
    assert straggler and int(straggler[2]) >= STEPS / 2 and content["otherData"]["straggler"] == straggler[1], text
    spans = [event for event in content["traceEvents"] if event["ph"] == "X"]
    for name in ("forward", "backward"):
        for rank in (0, 1):
            mine = [span["args"]["step"] for span in spans if span["name"] == name and span["pid"] == rank]
            assert mine == list(range(1, STEPS + 1)), (name, rank, mine)
    # What one rank does in a step is not over before the other begins to sum with it: the clocks are one.
    ends = {(span["pid"], span["args"]["step"]): span["ts"] + span["dur"] for span in spans if span["name"] == "wait for gradients"}
    begins = {(span["pid"], span["args"]["step"]): span["ts"] for span in spans if span["name"] == "forward"}
    assert all(ends[0, step] >= begins[1, step] and ends[1, step] >= begins[0, step] for step in range(1, STEPS + 1)), spans


if __name__ == "__main__":
    run_tests(globals())
