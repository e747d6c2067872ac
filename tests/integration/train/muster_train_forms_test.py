#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster-train --parallel from outside: the bits of ddp over Gloo, restarts in other forms, metrics, and what is refused."""
import json
import os
import re
import shutil

import rank_peaks
from interop import MUSTER, TRAIN, run, run_tests

TASK = ["--data", "synthetic:45", "--batch-size", "8", "--epochs", "2", "--clip-norm", "0.5"]
FORMS = ["zero1", "zero2", "fsdp", "fsdp --unit-mb 1 --prefetch-units 2"]


def train(*arguments, ranks=2, check=True, **environment):
    return run([MUSTER, "run", "-n", str(ranks), TRAIN, *arguments], check=check, OMP_NUM_THREADS="1", **environment)


def parameter_hash(output):
    return re.search(r"^parameter hash ([0-9a-f]{16})$", output, re.MULTILINE)[1]


def test_bits_over_gloo():
    expected = parameter_hash(train(*TASK, MUSTER_BACKEND="gloo").stdout)
    for form in FORMS:
        assert parameter_hash(train(*TASK, "--parallel", *form.split(), MUSTER_BACKEND="gloo").stdout) == expected, form


def test_shards_within_a_host():
    """On one host these are all ranks; on several: tests/e2e/multi_node/world_test.py."""
    wanted = parameter_hash(train(*TASK, "--parallel", "fsdp").stdout)
    assert parameter_hash(train(*TASK, "--parallel", "fsdp", "--shard-within", "host").stdout) == wanted


def on_hosts(hosts, *arguments, ranks=4, **environment):
    """As if the ranks were on hosts: `hosts` is the number of a rank's host, an expression of the shell."""
    script = f'export MUSTER_HOST_NAME=h$(({hosts})); exec "$@"'
    return run([MUSTER, "run", "-n", str(ranks), "--no-python", "sh", "-c", script, "sh", TRAIN, *arguments], check=False, OMP_NUM_THREADS="1",
               **environment)


def test_copies_of_hosts(folder):
    """The export of ddp, which adds within hosts first, too."""
    weights = {}
    for form in ("ddp", "zero1 --shard-within host", "fsdp --shard-within host"):
        path = os.path.join(folder, form.replace(" ", "_"))
        result = on_hosts("RANK/2", *TASK, "--accumulate", "2", "--ema", "0.5", "--parallel", *form.split(), "--export", path)
        assert result.returncode == 0, result
        with open(path, "rb") as file:
            weights[form] = file.read()
    assert len(set(weights.values())) == 1, weights.keys()


def test_hosts_that_cannot_have_copies():
    for hosts, ranks, text in (("RANK%2", 4, "ranks 0 and 2 are on h0, and rank 1 is on h1"), ("RANK>0", 3, "h0 has 1, h1 has 2")):
        result = on_hosts(hosts, *TASK, "--parallel", "fsdp", "--shard-within", "host", ranks=ranks)
        assert result.returncode != 0 and "--shard-within host needs as many ranks on each host" in result.stderr, result
        assert text in result.stderr, result.stderr


def test_a_rank_of_the_second_copy_is_named_by_its_number_in_the_world():
    result = on_hosts("RANK/2", *TASK, "--parallel", "fsdp", "--shard-within", "host", MUSTER_FAULT="kill@3:reduce_scatter:2")
    told = [line for line in result.stderr.splitlines() if "has died" in line or "has left" in line]
    assert result.returncode != 0 and "rank 3" in result.stderr, result.stderr
    assert not any(re.search(r"rank [012] \(process \d+\) has", line) for line in told), result.stderr


def test_restarts(folder):
    """In another form each time, up to one rank, which has no shards."""
    keep = ["--checkpoint-dir", os.path.join(folder, "keep")]
    whole = train(*TASK).stdout
    for form, steps in (("fsdp", 2), ("zero1", 4), ("zero2", 6)):
        output = train(*TASK, *keep, "--parallel", form, "--max-steps", str(steps)).stdout
    assert "resumed from" in output and parameter_hash(output) == parameter_hash(whole), (output, whole)
    weights = os.path.join(folder, "weights")
    alone = train(*TASK, *keep, "--parallel", "fsdp", "--export", weights, ranks=1).stdout
    assert parameter_hash(alone) == parameter_hash(whole) and os.path.getsize(weights) > 2_000_000, alone


def test_export_is_one_file(folder):
    """The same bytes in every form, averaged weights and running statistics among them."""
    weights = {}
    for form in ("ddp", "zero1", "zero2", "fsdp"):
        path = os.path.join(folder, form)
        train("--data", "synthetic:10", "--batch-size", "5", "--epochs", "1", "--model", "resnet18", "--ema", "0.5", "--parallel", form, "--export", path)
        with open(path, "rb") as file:
            weights[form] = file.read()
    assert len(set(weights.values())) == 1 and len(weights["ddp"]) > 40_000_000, {form: len(bytes) for form, bytes in weights.items()}


TASK_OF_PEAKS = ["--data", "synthetic:16", "--batch-size", "2", "--model", "mlp-8", "--optimizer", "adamw"]


def peaks(folder, *arguments):
    """The peak of each rank's process, as the kernel counts it."""
    run([MUSTER, "run", "-n", "4", *rank_peaks.measured(folder), TRAIN, *TASK_OF_PEAKS, *arguments], OMP_NUM_THREADS="1")
    return [peak.resident for peak in rank_peaks.read(folder, 4)]


# Of a process before it makes anything: its heap.
EMPTY = 1.5e6


def law(form, ranks):
    """The bytes that a rank keeps of mlp-8 with AdamW: docs/parallel.md. Two of its units that follow one another have a quarter of P."""
    p, o = 4 * 8_407_050, 8 * 8_407_050
    return {"ddp": 2 * p + o, "zero1": 2 * p + o / ranks, "zero2": p + (p + o) / ranks + p / 4, "fsdp": (2 * p + o) / ranks + p / 2}[form]


def test_memory_of_every_rank(folder):
    """What a form saves is within 10 % of its law on each rank, and what --dry-run says within 10 % of what the process takes."""
    for ranks in (2, 4, 8):
        for form in ("ddp", *FORMS[:3]):
            job = [TRAIN, "--data", f"synthetic:{12 * ranks}", "--batch-size", "2", "--model", "mlp-8", "--optimizer", "adamw", "--epochs", "1",
                   "--parallel", form]
            run([MUSTER, "run", "-n", str(ranks), *rank_peaks.measured(folder), *job], OMP_NUM_THREADS="1")
            taken = [peak.own - EMPTY for peak in rank_peaks.read(folder, ranks)]
            if form == "ddp":
                whole = min(taken)
                assert 0.9 * law(form, ranks) < whole and max(taken) < 1.1 * law(form, ranks), (ranks, taken)
            saved = law("ddp", ranks) - law(form, ranks)
            assert form == "ddp" or all(abs(whole - own - saved) <= 0.1 * saved for own in taken), (form, ranks, whole, taken, saved)
            if ranks != 4:
                continue
            answer = run([MUSTER, "run", "-n", "4", *job, "--dry-run", "--json"], OMP_NUM_THREADS="1").stdout
            total = json.loads(answer)["bytes"]["total"]
            assert all(0.9 < total / own < 1.1 for own in taken), (form, total, taken)


def test_memory_of_a_checkpoint(folder):
    """Saving costs a rank a copy of its part, P + O over 4 with Adam's O = 2P, and a unit at the most; so do loading, and the export."""
    parameters, unit = 4 * 8_407_050, 4 * 3072 * 1024
    keep = ["--checkpoint-dir", os.path.join(folder, "keep"), "--checkpoint-every", "1"]
    without = peaks(folder, "--parallel", "fsdp", "--epochs", "2")
    for arguments in (["--epochs", "1", *keep], ["--epochs", "2", *keep], ["--epochs", "2", "--export", os.path.join(folder, "weights")]):
        found = peaks(folder, "--parallel", "fsdp", *arguments)
        most = [peak + 3 * parameters / 4 + unit for peak in without]
        assert all(a <= b for a, b in zip(found, most)), (without, found, most)


def test_a_rank_killed_while_it_saves_or_loads(folder):
    """At its first broadcasts, at which ranks tell each other of checkpoints that they read and write, and at sums of steps."""
    run_of = [*TASK, "--optimizer", "adamw", "--lr", "0.01"]
    whole = parameter_hash(train(*run_of).stdout)
    run_of += ["--checkpoint-every", "1"]
    in_first_round = 'test "$TORCHELASTIC_RESTART_COUNT" = 0 || unset MUSTER_FAULT; exec "$@"'
    for form in ("zero1", "zero2", "fsdp"):
        keep = os.path.join(folder, form)
        train(*run_of, "--checkpoint-dir", keep, "--max-steps", "1", "--parallel", form)
        for fault in ("1:broadcast:2", "0:broadcast:16", "1:broadcast:29", "0:all_reduce:9"):
            shutil.rmtree(keep + "-now", ignore_errors=True)
            shutil.copytree(keep, keep + "-now")
            result = run([MUSTER, "run", "-n", "2", "--max-restarts", "1", "--no-python", "sh", "-c", in_first_round, "sh", TRAIN, *run_of,
                          "--checkpoint-dir", keep + "-now", "--parallel", form], OMP_NUM_THREADS="1", MUSTER_FAULT="kill@" + fault)
            output = result.stdout + result.stderr
            assert "MUSTER_FAULT: rank" in output and "resumed from" in output, (form, fault, output)
            assert parameter_hash(result.stdout) == whole, (form, fault, output)


def test_metrics(folder):
    """What a rank sends and keeps, by form."""
    found = {}
    for form in ("ddp", "fsdp"):
        path = os.path.join(folder, form)
        train(*TASK, "--model", "mlp-8", "--max-steps", "1", "--parallel", form, "--metrics", path)
        with open(path, encoding="utf-8") as file:
            lines = {line["event"]: line for line in map(json.loads, file)}
        found[form] = lines["memory"] | {"payload": lines["step"]["payload_bytes"]}
    assert found["ddp"]["parameters"] > 1.3 * found["fsdp"]["parameters"], found
    assert found["ddp"]["optimizer_state"] > 1.9 * found["fsdp"]["optimizer_state"], found
    assert 1.49 < found["fsdp"]["payload"] / found["ddp"]["payload"] < 1.51, found


def test_trace(folder):
    """Gathers are in the trace, and sums have the name of their call."""
    found = {}
    for form in ("ddp", "zero1", "fsdp"):
        path = os.path.join(folder, form)
        train(*TASK, "--max-steps", "2", "--parallel", form, "--profile", path)
        with open(path, encoding="utf-8") as file:
            found[form] = {event["name"] for event in json.load(file)["traceEvents"] if event["ph"] == "X"}
    assert "all_reduce" in found["ddp"] and "reduce_scatter" not in found["ddp"] and "all_gather" not in found["ddp"], found
    assert "reduce_scatter" in found["zero1"] and "all_reduce" not in found["zero1"], found
    assert {"reduce_scatter", "all_gather", "wait for a unit"} <= found["fsdp"], found


def test_a_report_names_the_unit():
    """A call that fails says which parameters it was to gather."""
    result = train(*TASK, "--model", "mlp-8", "--parallel", "fsdp", check=False, MUSTER_FAULT="error@1:all_gather:4")
    assert result.returncode != 0 and re.search("the call was to gather the parameters of (fc|layer)", result.stderr), result.stderr


def test_refused():
    for arguments, text in ((["--compress", "bf16"], "--parallel fsdp cannot have --compress bf16"),
                            (["--deterministic-world", "--global-batch", "16"], "cannot have --deterministic-world"),
                            (["--device", "cuda"], "cannot have --device cuda")):
        result = run([TRAIN, "--data", "synthetic:45", "--parallel", "fsdp", *arguments], check=False)
        assert result.returncode == 2 and text in result.stderr and result.stdout == "", result
    result = run([TRAIN, "--data", "synthetic:45", "--shard-within", "host"], check=False)
    assert result.returncode == 2 and "--parallel ddp has none; give --parallel zero1, zero2 or fsdp" in result.stderr, result
    result = run([TRAIN, "--data", "synthetic:45", "--parallel", "zero4"], check=False)
    assert result.returncode == 2 and "--parallel" in result.stderr and "zero2" in result.stderr, result
    script = f'exec {TRAIN} {" ".join(TASK)} --parallel $([ $RANK = 0 ] && echo zero1 || echo fsdp)'
    result = run([MUSTER, "run", "-n", "2", "sh", "-c", script], check=False)
    assert "rank 0 has --parallel zero1, rank 1 has --parallel fsdp" in result.stderr, result.stderr


def test_a_run_that_diverges_says_so():
    for form in ("ddp", "fsdp"):
        result = train("--data", "synthetic:200", "--batch-size", "8", "--lr", "1000", "--parallel", form, check=False)
        said = re.search(r"^(?:\[\d\]: )?muster-train: rank (\d): .*no longer a number", result.stderr, re.MULTILINE)
        assert result.returncode == 1 and said, result.stderr
        # The rank that spoke is the cause.
        assert f"muster-train failed: rank {said[1]} on " in result.stderr, result.stderr


if __name__ == "__main__":
    run_tests(globals())
