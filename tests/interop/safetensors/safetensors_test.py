#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of the safetensors package through our reader and writer, and back: safetensors_test.py COPY_PROGRAM"""
import sys

from interop import TORCH_PYTHON, need_torch, run, skip

# One process: importing PyTorch takes most of the test's time. Every type that both sides know, odd sizes, a single number,
# nothing at all, names that JSON has to escape.
CHECK = """
import os, subprocess, sys, tempfile, torch
try:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file, save_file
except ImportError:
    print("absent")
    sys.exit()

def bits(tensor):
    return tensor.reshape(-1).contiguous().view(torch.uint8)

def copy(*arguments):
    return subprocess.run([sys.argv[1], *arguments], timeout=60, capture_output=True, text=True)

torch.manual_seed(1)
types = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
         torch.uint8, torch.bool, torch.float8_e5m2, torch.float8_e4m3fn]
tensors = {f"t{i}.weight": (100 * torch.randn(3, i + 1)).to(t) for i, t in enumerate(types)}
tensors |= {"bn.num_batches_tracked": torch.tensor(7), "empty": torch.zeros(0, 4), 'a "name"\\\\ \\u00e9\\n': torch.ones(5)}
with tempfile.TemporaryDirectory() as folder:
    theirs, ours = os.path.join(folder, "theirs.safetensors"), os.path.join(folder, "ours.safetensors")
    save_file(tensors, theirs, metadata={"format": "pt", "who": "it's \\u00e9"})
    assert copy(theirs, ours).returncode == 0
    loaded = load_file(ours)
    assert loaded.keys() == tensors.keys(), loaded.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype and loaded[name].shape == tensor.shape, name
        assert torch.equal(bits(loaded[name]), bits(tensor)), name
    with safe_open(ours, "pt") as file:
        assert file.metadata() == {"format": "pt", "who": "it's \\u00e9"}, file.metadata()
    # What the package refuses, we refuse, too: a byte more than the tensors have.
    with open(theirs, "ab") as file:
        file.write(b"x")
    refused = copy(theirs, ours)
    assert refused.returncode == 1 and "the tensors end at byte" in refused.stderr, refused
    try:
        load_file(theirs)
        assert False, "the package takes it"
    except SafetensorError:
        print("done")
"""


def main(copy):
    need_torch()
    result = run([TORCH_PYTHON, "-c", CHECK, copy], check=False)
    if result.stdout.strip() == "absent":
        skip("no safetensors package beside PyTorch; scripts/make_venv.sh installs it where PyPI can be reached")
    assert result.returncode == 0 and result.stdout.strip() == "done", result.stderr


if __name__ == "__main__":
    main(sys.argv[1])
