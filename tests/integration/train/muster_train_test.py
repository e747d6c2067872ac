#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster-train (and hello_rank) from outside, alone: what it prints, its exit codes, its error file."""
import json
import os
import re
import subprocess
import sys
import tempfile

from interop import MUSTER, TRAIN, clean_environment, run, run_on_terminal, run_tests

QUICK = ["--data", "synthetic:640", "--epochs", "2"]


def train(*arguments, check=True, **environment):
    return run([TRAIN, *arguments], check=check, OMP_NUM_THREADS="1", **environment)


def last_lines(output):
    accuracy, parameters = output.splitlines()[-2:]
    assert re.fullmatch(r"test accuracy \d+\.\d %", accuracy), accuracy
    assert re.fullmatch(r"parameter hash [0-9a-f]{16}", parameters), parameters
    return accuracy, parameters


def test_output_and_determinism():
    first = train(*QUICK)
    assert first.stderr == "", first.stderr
    # A slow machine also says how far an epoch has come.
    lines = [line for line in first.stdout.splitlines() if not re.match(r"epoch \d+/\d+  step ", line)]
    assert lines[0].startswith("synthetic set, 640 training images"), lines[0]
    assert lines[1] == "1 rank, 1 thread each, 64 images per step and rank", lines[1]
    assert lines[2].startswith("small-cnn, 545,098 parameters, fp32, sgd at rate 0.04 (constant), 64 images"), lines[2]
    assert re.fullmatch(r"epoch 1/2  loss \S+  train \S+ %  test \S+ %  \d+ images/s  \S+ s", lines[3]), lines[3]
    assert "where a step went, mean of 20 steps:" in lines and "memory of a rank:" in lines, lines
    assert "\r" not in first.stdout
    expected = last_lines(first.stdout)
    assert last_lines(train(*QUICK).stdout) == expected, "the same seed gave other parameters"
    assert last_lines(train(*QUICK, "--seed", "1").stdout)[1] != expected[1], "the seed changes nothing"
    # A world of one by its environment is a world of one.
    world = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    assert last_lines(train(*QUICK, **world).stdout) == expected


def test_two_threads_are_deterministic():
    outputs = {last_lines(run([TRAIN, *QUICK, "--threads", "2"]).stdout) for _ in range(2)}
    assert len(outputs) == 1, outputs


def test_terminal():
    code, seen = run_on_terminal([TRAIN, *QUICK], extra={"OMP_NUM_THREADS": "1"})
    assert code == 0, seen
    assert b"\r\x1b[Kepoch 2/2" in seen, seen
    last_lines(seen.decode().replace("\r\n", "\n"))


def test_usage_errors():
    for arguments, text in (([], "--data is required"), (["--data", "synthetic", "--epochs", "0"], "--epochs"),
                            (["--data", "synthetic", "--lr", "fast"], "--lr"), (["--data", "x", "--modle"], "--modle"),
                            (["--data", "synthetic", "--model", "gpt"], "--model")):
        result = train(*arguments, check=False)
        assert result.returncode == 2, (arguments, result)
        assert text in result.stderr and "--help" in result.stderr and result.stderr.count("\n") == 1, result.stderr
        assert result.stdout == ""
    help_text = train("--help").stdout
    for option in ("--model", "--data", "--epochs", "--batch-size", "--lr", "--momentum", "--seed", "--threads"):
        assert option in help_text, option


def test_errors():
    with tempfile.TemporaryDirectory() as folder:
        error_file = os.path.join(folder, "error.json")
        result = train("--data", folder, check=False, TORCHELASTIC_ERROR_FILE=error_file)
        assert result.returncode == 1
        assert result.stderr.startswith(f"muster-train: rank 0: {folder} has none of data_batch_1.bin"), result.stderr
        assert result.stderr.count("\n") == 1
        with open(error_file, encoding="utf-8") as file:
            message = json.load(file)["message"]
        assert message["message"].startswith("muster::Error: "), message
        assert message["extraInfo"]["timestamp"].isdigit(), message
    result = train("--data", "synthetic:abc", check=False)
    assert result.returncode == 1 and "synthetic:N" in result.stderr, result
    result = train(*QUICK, check=False, RANK="0")
    assert result.returncode == 1 and "WORLD_SIZE is not set" in result.stderr, result
    with open("/dev/full", "w", encoding="ascii") as full:
        result = subprocess.run([TRAIN, *QUICK], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                env=clean_environment(OMP_NUM_THREADS="1"))
    assert result.returncode == 1 and "cannot write to stdout" in result.stderr, result


def environment_of_training(**environment):
    """Of the process once it trains, and its name."""
    given = clean_environment(OMP_NUM_THREADS="1", **environment)
    for name in ("GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_WAIT_POLICY"):
        if name not in environment:
            given.pop(name, None)
    with subprocess.Popen([TRAIN, "--data", "synthetic:6400", "--epochs", "100"], stdout=subprocess.PIPE, env=given) as process:
        process.stdout.readline()
        with open(f"/proc/{process.pid}/environ", "rb") as file:
            variables = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
        with open(f"/proc/{process.pid}/comm", encoding="utf-8") as file:
            name = file.read().strip()
        process.kill()
    return variables, name


def test_threads_wait_shortly():
    variables, name = environment_of_training()
    assert variables[b"GOMP_SPINCOUNT"] == b"2000" and variables[b"KMP_BLOCKTIME"] == b"50us" and name == "muster-train", (variables, name)
    assert environment_of_training(GOMP_SPINCOUNT="7")[0][b"GOMP_SPINCOUNT"] == b"7"
    assert b"KMP_BLOCKTIME" not in environment_of_training(GOMP_SPINCOUNT="7")[0]
    assert b"GOMP_SPINCOUNT" not in environment_of_training(OMP_WAIT_POLICY="passive")[0]
    assert b"GOMP_SPINCOUNT" not in environment_of_training(KMP_BLOCKTIME="0")[0]


def test_hello_rank():
    hello = run([os.path.join(os.path.dirname(MUSTER), "hello_rank")])
    assert hello.stdout == "rank 0 of 1: the sum of all ranks is 0\n", hello


if __name__ == "__main__":
    run_tests(globals(), without="two_threads" if "--one-thread" in sys.argv else "")
