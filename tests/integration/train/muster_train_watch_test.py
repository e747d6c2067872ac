#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What muster-train writes about a run: lines, metrics, events for TensorBoard, a trace; and its file of flags."""
import fcntl
import glob
import json
import os
import re
import subprocess

from interop import TORCH_PYTHON, TRAIN, absent, run, run_tests, skip

QUICK = ["--data", "synthetic:320", "--epochs", "2", "--batch-size", "32", "--loader-threads", "0"]
STEPS = 20

READ_EVENTS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
print(json.dumps({tag: [[e.step, e.value, e.wall_time] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""


def train(*arguments, check=True, **environment):
    return run([TRAIN, *arguments], check=check, OMP_NUM_THREADS="1", **environment)


def json_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def parameters(result):
    return re.search(r"^parameter hash (\S+)$", result.stdout, re.MULTILINE)[1]


def test_metrics_and_trace(folder):
    metrics, trace = os.path.join(folder, "metrics.jsonl"), os.path.join(folder, "trace.json")
    result = train(*QUICK, "--metrics", metrics, "--metrics-every", "4", "--profile", trace, "--log-every", "4")
    entries = json_lines(metrics)
    assert entries[0]["event"] == "start" and entries[0]["steps_per_epoch"] == 10, entries[0]
    steps = [entry for entry in entries if entry["event"] == "step"]
    assert [entry["step"] for entry in steps] == [4, 8, 10, 14, 18, 20], steps
    for entry in steps:
        parts = sum(entry[name] for name in ("data_wait_ms", "forward_ms", "backward_ms", "optimizer_ms"))
        assert 0 < parts <= entry["step_ms"] * 1.001, entry
        assert entry["learning_rate"] == 0.04 or abs(entry["learning_rate"] - 0.04) < 1e-8, entry
    assert [entry["event"] for entry in entries if entry["event"] != "step"] == [
        "start", "epoch", "epoch", "evaluation", "memory", "profile"], entries
    last = entries[-3]
    assert f"test accuracy {100 * last['test_accuracy']:.1f} %" in result.stdout, result.stdout
    lines = re.findall(r"^epoch 1/2  step (\d+)/10  loss \S+  accuracy \S+ %  \d+ images/s  batch \S+ s, of it data \S+ s"
                       r"  ETA \d+:\d\d$", result.stdout, re.MULTILINE)
    assert lines == ["4", "8"], result.stdout
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    forward = [event for event in events if event["ph"] == "X" and event["name"] == "forward"]
    assert len(forward) == STEPS and [event["args"]["step"] for event in forward] == list(range(1, STEPS + 1))
    assert all(a["ts"] + a["dur"] <= b["ts"] + 0.01 for a, b in zip(forward, forward[1:])), "spans overlap"


def test_tensorboard(folder):
    probe = subprocess.run([TORCH_PYTHON, "-c", "import tensorboard"], capture_output=True, check=False) \
        if os.access(TORCH_PYTHON, os.X_OK) else None
    if probe is None or probe.returncode != 0:
        return False
    events = os.path.join(folder, "runs", "a")
    metrics = os.path.join(folder, "same.jsonl")
    train(*QUICK, "--tensorboard", events, "--metrics", metrics, "--metrics-every", "5")
    assert len(glob.glob(os.path.join(events, "events.out.tfevents.*"))) == 1
    read = subprocess.run([TORCH_PYTHON, "-W", "ignore", "-c", READ_EVENTS, events], capture_output=True, text=True,
                          check=False, timeout=120)
    assert read.returncode == 0, read.stderr
    scalars = json.loads(read.stdout)
    steps = [entry for entry in json_lines(metrics) if entry["event"] == "step"]
    found = scalars["train/loss"]
    assert [item[0] for item in found] == [entry["step"] for entry in steps], found
    for item, entry in zip(found, steps):
        assert abs(item[1] - entry["loss"]) <= 1e-6 * abs(entry["loss"]), (item, entry)
    assert len(scalars["test/accuracy"]) == 2 and "time/exposed_communication_ms" in scalars, sorted(scalars)
    return True


def test_config_file(folder):
    path = os.path.join(folder, "config.json")

    def config(content):
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return ["--config", path]

    flags = ["--data", "synthetic:320", "--epochs", "1", "--nesterov", "--lr", "0.02", "--optimizer", "sgd"]
    same = {"data": "synthetic:320", "epochs": 1, "nesterov": True, "lr": 0.02, "optimizer": "sgd"}
    wanted = parameters(train(*flags))
    assert parameters(train(*config(same))) == wanted
    assert parameters(train("--lr", "0.02", *config({**same, "lr": 0.5}))) == wanted, "the command line does not win"
    assert parameters(train("--lr", "0.02", *config({**same, "nesterov": False}))) != wanted, "false means true"
    for content, text in (({**same, "epoch": 2}, 'no flag "epoch", did you mean \'epochs\'?'), ("{", "is not JSON"),
                          ("[1]", "holds no object"), ({**same, "lr": [1]}, "neither a text nor a number"),
                          ({**same, "lr": "fast"}, "--lr"), ({"zzzzzzzz": 1}, 'no flag "zzzzzzzz"; see')):
        result = train(*config(content), check=False)
        assert result.returncode == 2 and text in result.stderr and result.stderr.count("\n") == 1, (content, result)
    result = train("--config", os.path.join(folder, "none.json"), check=False)
    assert result.returncode == 2 and "none.json" in result.stderr, result


def without_batch_size(flags):
    place = flags.index("--batch-size")
    return flags[:place] + flags[place + 2:]


def test_stops_and_evaluation(folder):
    metrics = os.path.join(folder, "metrics.jsonl")
    result = train(*QUICK, "--max-steps", "3", "--metrics", metrics)
    assert "mean of 3 steps" in result.stdout and "test accuracy" in result.stdout, result.stdout
    assert [entry["step"] for entry in json_lines(metrics) if entry["event"] == "step"] == [3], "the last steps are missing"
    result = train(*QUICK[:2], "--epochs", "1000", "--time-limit", "0.5")
    assert "the time of 0.5 s is up after step" in result.stdout and "test accuracy" in result.stdout, result.stdout


def test_evaluation_alone(folder):
    """--eval-only scores what a run left, whether it is read as a checkpoint or as exported weights, and changes nothing."""
    checkpoints, weights = os.path.join(folder, "checkpoints"), os.path.join(folder, "weights.safetensors")
    wanted = score(train(*QUICK, "--lr", "0.1", "--checkpoint-dir", checkpoints, "--export", weights))
    before = os.listdir(checkpoints)
    for flags in (["--checkpoint-dir", checkpoints], ["--init-from", weights]):
        result = train(*QUICK, "--eval-only", *flags)
        assert "epoch 1/" not in result.stdout and "where a step went" not in result.stdout, result.stdout
        assert score(result) == wanted, (flags, wanted, result.stdout)
    assert os.listdir(checkpoints) == before
    # What is exported is what was scored: the average, where there is one.
    metrics = os.path.join(folder, "metrics.jsonl")
    for flags in (["--lr", "0.1", "--ema", "0.95", "--export", weights], ["--eval-only", "--init-from", weights]):
        train(*QUICK, *flags, "--metrics", metrics)
    first, second = (entry["test_loss"] for entry in json_lines(metrics) if entry["event"] == "evaluation")
    assert first == second, (first, second)
    # So is the average in a checkpoint; the run's seed, optimizer and training images do not matter.
    averaged = os.path.join(folder, "averaged")
    trained = train(*QUICK, "--lr", "0.1", "--ema", "0.95", "--checkpoint-dir", averaged, "--metrics", metrics)
    scored = train("--data", "synthetic:320", "--eval-only", "--checkpoint-dir", averaged, "--seed", "7", "--optimizer", "adamw",
                   "--lr", "0.001", "--normalization", "per-image", "--metrics", metrics)
    assert "average" in scored.stdout and "and is scored with (0.4914, 0.4822, 0.4465) (0.2023" in scored.stdout, scored.stdout
    scored = train("--data", "synthetic:320", "--eval-only", "--resume-from", newest(averaged), "--metrics", metrics)
    first, _, second = [entry["test_loss"] for entry in json_lines(metrics) if entry["event"] == "evaluation"][-3:]
    assert first == second, (first, second, trained.stdout, scored.stdout)
    # Nothing to score is an error, and nothing is made.
    none = os.path.join(folder, "none")
    os.makedirs(os.path.join(folder, "empty"))
    for flags, code, text in (([], 2, "--eval-only needs weights"),
                              (["--checkpoint-dir", none], 1, f"--checkpoint-dir: cannot read the folder {none}"),
                              (["--resume-from", none], 1, f"--resume-from: cannot open {none}/manifest.json"),
                              (["--init-from", none], 1, f"--init-from: cannot open {none}: No such file"),
                              (["--checkpoint-dir", os.path.join(folder, "empty")], 1, "no complete checkpoint"),
                              (["--checkpoint-dir", checkpoints, "--model", "resnet18"], 1, "of a run with model small-cnn"),
                              (["--resume-from", checkpoints], 1, f"--resume-from: {checkpoints} is a folder of checkpoints; give one of them: {newest(checkpoints)}")):
        result = train(*QUICK, "--eval-only", *flags, check=False)
        assert result.returncode == code and text in result.stderr, (flags, result)
    assert not os.path.exists(none) and not os.listdir(os.path.join(folder, "empty"))


def test_the_seed_draws_the_crops(folder):
    """From the same weights, at a rate of 0 and with all images in one step, nothing else of the seed is left."""
    weights, metrics = os.path.join(folder, "weights.safetensors"), os.path.join(folder, "metrics.jsonl")
    task = ["--data", "synthetic:64", "--batch-size", "64", "--epochs", "1"]
    train(*task, "--export", weights)
    for flags in ([], ["--crop-padding", "4", "--flip"]):
        for seed in ("1", "2"):
            train(*task, "--lr", "0", "--init-from", weights, "--seed", seed, "--metrics", metrics, *flags)
    plain, same, drawn, other = (entry["train_loss"] for entry in json_lines(metrics) if entry["event"] == "epoch")
    assert abs(plain - same) < 1e-5 and abs(drawn - other) > 1e-3, (plain, same, drawn, other)


def test_evaluation_beside_training(folder):
    """The folder may be written meanwhile, and only test images are needed."""
    data, checkpoints = os.path.join(folder, "data"), os.path.join(folder, "checkpoints")
    os.makedirs(data)
    for name, count in (("data_batch_1", 32), ("test_batch", 10)):
        with open(os.path.join(data, name + ".bin"), "wb") as file:
            file.write(b"".join(bytes([i % 10]) + bytes([i]) * 3072 for i in range(count)))
    train("--data", data, "--max-steps", "1", "--batch-size", "16", "--checkpoint-dir", checkpoints)
    os.remove(os.path.join(data, "data_batch_1.bin"))
    with open(os.path.join(checkpoints, ".lock"), "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = train("--data", data, "--eval-only", "--checkpoint-dir", checkpoints)
    assert "test accuracy" in result.stdout, result.stdout


def newest(folder):
    return os.path.join(folder, max(name for name in os.listdir(folder) if "-step-" in name))


def score(result):
    """Test accuracy and parameter hash."""
    return re.search(r"^test accuracy \S+ %\nparameter hash \S+$", result.stdout, re.MULTILINE)[0]


def test_memory_table(_folder):
    def table(*flags):
        text = train(*QUICK, "--max-steps", "2", *flags).stdout.partition("memory of a rank:\n")[2]
        return {name: float(size) for name, size in re.findall(r"^  (\S[a-z ]+?) +(\d+\.\d) MB$", text, re.MULTILINE)}

    # 545,098 numbers of four bytes, each parameter on cache lines of its own.
    rows = table()
    assert [rows[name] for name in ("parameters", "gradients", "optimizer state")] == [2.2, 2.2, 2.2], rows
    assert "average of weights" not in rows and rows["activations"] > 0 and rows["data"] > 0, rows
    # What the rows hold is what the run took (muster_train_dry_run_test.py says how nearly).
    taken = rows.pop("peak of the process") - rows.pop("process before the run")
    assert 0.8 * taken < sum(rows.values()) < 1.15 * taken, (taken, rows)
    more = table("--optimizer", "adamw", "--ema", "0.9")
    assert more["optimizer state"] == 4.4 and more["average of weights"] == 2.2, more
    assert "optimizer state" not in table("--momentum", "0")
    assert table("--checkpoint-activations", "2")["activations"] < rows["activations"], "nothing is computed again"


def test_recipes_change_what_they_should(_folder):
    base = parameters(train(*QUICK, "--max-steps", "4"))
    for flags in (["--optimizer", "adamw", "--lr", "0.001"], ["--schedule", "one-cycle"], ["--crop-padding", "4"], ["--flip"],
                  ["--normalization", "per-image"], ["--weight-decay", "0.01"], ["--warmup-epochs", "1"],
                  ["--clip-norm", "0.1"], ["--label-smoothing", "0.1"], ["--lr-per-256", "0.1"]):
        assert parameters(train(*QUICK, "--max-steps", "4", *flags)) != base, f"{flags} changes nothing"
    # 32 images are cut from an eighth of the rate for 256.
    assert parameters(train(*QUICK, "--max-steps", "4", "--lr-per-256", "0.32")) == base, "not the linear scaling rule"
    for flags in (["--loader-threads", "2", "--prefetch", "3"], ["--ema", "0.9"], ["--check-every", "1"],
                  ["--checkpoint-activations", "block"]):
        assert parameters(train(*QUICK, "--max-steps", "4", *flags)) == base, f"{flags} changes the parameters"
    assert parameters(train(*without_batch_size(QUICK), "--global-batch", "32", "--max-steps", "4")) == base


def test_bad_input(folder):
    for flags, code, text in (
            (["--schedule", "cosine", "--lr-min", "1"], 1, "the minimum must lie between 0 and the rate"),
            (["--schedule", "one-cycle", "--warmup-epochs", "1"], 1, "leave --warmup-epochs out"),
            (["--global-batch", "7", "--accumulate", "2"], 1, "give a multiple of 2"),
            (["--nesterov", "--momentum", "0"], 1, "needs a momentum"),
            (["--metrics", f"{absent()}/m.jsonl"], 1, f"cannot write metrics to {absent()}/m.jsonl"),
            (["--tensorboard", "/proc/none"], 1, "cannot write TensorBoard's events"),
            (["--profile", os.path.join(folder, "none", "t.json")], 1, "cannot write the trace"),
            (["--deterministic-world", "--global-batch", "32", "--micro-batches", "3"], 1, "power")):
        task = without_batch_size(QUICK) if "--global-batch" in flags else QUICK
        result = train(*task, "--max-steps", "8", *flags, check=False)
        assert result.returncode == code and text in result.stderr, (flags, result)
        assert result.stderr.count("\n") == 1, result.stderr


if __name__ == "__main__":
    if not run_tests(globals()):
        skip("no tensorboard for the Python of the tests; scripts/make_venv.sh makes it")
