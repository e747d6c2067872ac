#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command of docs/training.md that users start from, as it is typed there: weights that PyTorch saved, CIFAR-10's files, two
workers; only its end and what it says come sooner. Afterwards PyTorch reads what was exported and finds the loss and the accuracy that were
told."""
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile

from interop import MUSTER, ROOT, TORCH_PYTHON, need_torch, run, skip

PAGE = os.path.join(ROOT, "docs", "training.md")
NETWORKS = os.path.join(ROOT, "tests", "interop", "networks")
STEPS, TEST_IMAGES = 5, 60
IMAGES = STEPS * 768

SAVE = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import models
from safetensors.torch import save_file
torch.manual_seed(1)
network = models.resnet18(True, classes=1000)
save_file({name: value.contiguous() for name, value in network.state_dict().items()}, sys.argv[2])
"""

SCORE = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import cifar10, models
from safetensors.torch import load_file
network = models.resnet18(True)
network.load_state_dict(load_file(sys.argv[2]), strict=True)
network.eval()
pixels, labels = cifar10.load([sys.argv[3]])
with torch.no_grad():
    logits = network(cifar10.normalized(pixels, "per-image"))
print((logits.argmax(1) == labels).sum().item(), torch.nn.functional.cross_entropy(logits, labels).item(),
      int(network.bn1.num_batches_tracked))
"""


def python(code, *arguments):
    result = subprocess.run([TORCH_PYTHON, "-W", "ignore", "-c", code, NETWORKS, *arguments], capture_output=True, text=True,
                            check=False, timeout=120)
    if result.returncode != 0 and "No module named 'safetensors'" in result.stderr:
        skip("no safetensors for the Python of the tests; scripts/make_venv.sh makes it")
    assert result.returncode == 0, result.stderr
    return result.stdout


def write_images(path, count):
    """Records of CIFAR-10's binary version: images whose colours tell their class, the same again after 60."""
    records = []
    for i in range(60):
        label = i % 10
        planes = bytes((17 * label * (c + 1) + 5 * (i // 10) + p % 7) % 256 for c in range(3) for p in range(1024))
        records.append(struct.pack("B", label) + planes)
    with open(path, "wb") as file:
        file.write(b"".join(records) * (count // 60))


def documented_command():
    """The words of the page's example, which says how far it is once in STEPS."""
    with open(PAGE, encoding="utf-8") as file:
        block = re.search(r"## The example to start from.*?```\n(muster run .*?)```", file.read(), re.DOTALL)[1]
    words = shlex.split(block.replace("\\\n", " "))
    words[words.index("--log-every") + 1] = str(STEPS)
    return words


def check_lines(text):
    assert f"subset: {IMAGES} of 50,000 training images, {TEST_IMAGES} test images" in text, text
    assert re.search(r"fc\.weight.*\[10, 512\].*\[1000, 512\]", text), text  # the head that was replaced, with both shapes
    assert "resnet18-imagenet-stem, 11,181,642 parameters, fp32, sgd at rate 0.1 (constant), 768 images per step" in text, text
    lines = re.findall(rf"^epoch 1/10  step (\d+)/{STEPS}  loss \S+  accuracy \S+ %  \d+ images/s  batch (\S+) s", text, re.M)
    assert [step for step, _ in lines] == [str(STEPS)], text
    seconds = float(re.search(r"^epoch 1/10  loss .*  (\d+\.\d) s$", text, re.M)[1])
    # The batches make the epoch: nothing is left out of them.
    assert abs(STEPS * float(lines[0][1]) - seconds) <= 0.05 * seconds + 0.1, text


def check_time_table(text):
    """Its rows are the parts of a step."""
    rows = {name.strip(): float(ms) for name, ms in re.findall(r"^  (\S[a-z ]+?) +(\d+\.\d+) ms +\d+\.\d %$", text, re.M)}
    assert list(rows) == ["waiting for data", "forward", "backward", "waiting for late ranks", "exposed communication", "optimizer",
                          "rest", "step"], text
    parts = sum(rows.values()) - rows["step"]
    assert abs(parts - rows["step"]) < 0.01 and rows["rest"] < 0.1 * rows["step"], text


def main():
    need_torch()
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "cifar-10-batches-bin")
        os.mkdir(data)
        write_images(os.path.join(data, "data_batch_1.bin"), IMAGES)
        write_images(os.path.join(data, "test_batch.bin"), TEST_IMAGES)
        python(SAVE, os.path.join(folder, "resnet18.safetensors"))
        exported, metrics = os.path.join(folder, "out.safetensors"), os.path.join(folder, "metrics.jsonl")
        text = run([*documented_command(), "--max-steps", STEPS, "--export", exported, "--metrics", metrics], cwd=folder, timeout=240,
                   PATH=os.path.dirname(MUSTER) + ":" + os.environ["PATH"]).stdout
        check_lines(text)
        check_time_table(text)
        events = os.listdir(os.path.join(folder, "run1", "events"))
        assert sorted(os.listdir(os.path.join(folder, "run1"))) == [".lock", f"000001-step-{STEPS}", "events"] and len(events) == 1, events
        with open(metrics, encoding="utf-8") as file:
            told = next(entry for entry in map(json.loads, file) if entry["event"] == "evaluation")
        correct, loss, batches = python(SCORE, exported, os.path.join(data, "test_batch.bin")).split()
        assert int(batches) == STEPS, batches
        # Rounding: 20 layers in other orders of addition. A tie of two logits may go to the other side.
        assert abs(float(loss) - told["test_loss"]) < 1e-3 * told["test_loss"], (loss, told)
        assert abs(int(correct) - told["test_accuracy"] * TEST_IMAGES) <= 1.01, (correct, told)
        print(f"test loss {told['test_loss']}, PyTorch {loss}")
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
