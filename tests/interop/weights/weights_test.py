#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/convert_weights.py: weights that PyTorch saved, as people name and wrap them, become muster-train's, which then finds PyTorch's
loss on real images; what is no file of tensors, or of another network, is refused and named."""
import json
import os
import subprocess
import sys

from interop import CIFAR10, ROOT, TORCH_PYTHON, TRAIN, check, need_cifar10, need_torch, run, run_tests, skip

SCRIPT = os.path.join(ROOT, "scripts", "convert_weights.py")
sys.path[:0] = [os.path.dirname(SCRIPT), os.path.join(ROOT, "tests", "interop", "networks")]
IMAGES = 80


def images_in(folder):
    """A folder in it with a few real images to score."""
    data = os.path.join(folder, "images")
    os.mkdir(data)
    with open(os.path.join(CIFAR10, "test_batch.bin"), "rb") as file, open(os.path.join(data, "test_batch.bin"), "wb") as few:
        few.write(file.read(IMAGES * 3073))
    return data


def network(model, seed=1):
    """Of random parameters, and with running statistics that are none of a new network."""
    import models
    import torch
    torch.manual_seed(seed)
    made = models.make(model)
    for name, value in made.state_dict().items():
        if name.endswith(("running_mean", "bias")):
            value.uniform_(-0.2, 0.2)
        elif name.endswith("running_var"):
            value.uniform_(0.5, 2)
    with torch.no_grad():
        list(made.parameters())[-2].mul_(10)  # the head's weights: classes lie apart, and the loss tells one network from another
    return made.eval()


def torch_loss(made, data):
    import cifar10
    import torch
    pixels, labels = cifar10.load([os.path.join(data, "test_batch.bin")])
    with torch.no_grad():
        return torch.nn.functional.cross_entropy(made(cifar10.normalized(pixels)), labels).item()


def muster_loss(model, weights, folder, data):
    metrics = os.path.join(folder, "metrics.jsonl")
    run([TRAIN, "--model", model, "--data", data, "--eval-only", "--init-from", weights, "--device", "cpu", "--metrics", metrics], timeout=100)
    with open(metrics, encoding="utf-8") as file:
        told = next(entry for entry in map(json.loads, file) if entry["event"] == "evaluation")
    os.remove(metrics)
    return told["test_loss"]


def require_same_loss(model, made, value, folder, data, **keywords):
    """Saved by PyTorch as `value`, converted, and scored by both."""
    import convert_weights
    import torch
    theirs, ours = os.path.join(folder, "saved.pth"), os.path.join(folder, "converted.safetensors")
    torch.save(value, theirs)
    told = convert_weights.convert(theirs, ours, **keywords)
    check(told[0] == f"{ours}: {len(made.state_dict())} tensors of {model}", "another model", told)
    expected, loss = torch_loss(made, data), muster_loss(model, ours, folder, data)
    print(f"{model}: loss {loss}, PyTorch {expected}", flush=True)
    # Rounding: layers in other orders of addition.
    check(abs(loss - expected) < 1e-4 * expected, "PyTorch finds another loss", (loss, expected))
    return ours


def test_torchvisions_names(folder):
    """By the program, as users call it; and back."""
    import torch
    data = images_in(folder)
    made = network("resnet18-imagenet-stem")
    theirs, ours, back = (os.path.join(folder, name) for name in ("resnet18.pth", "resnet18.safetensors", "back.pth"))
    torch.save(made.state_dict(), theirs)
    said = run([TORCH_PYTHON, SCRIPT, theirs, ours]).stdout
    check(said == f"{ours}: 122 tensors of resnet18-imagenet-stem\n", "what it says", said)
    loss, expected = muster_loss("resnet18-imagenet-stem", ours, folder, data), torch_loss(made, data)
    print(f"loss {loss}, PyTorch {expected}", flush=True)
    check(abs(loss - expected) < 1e-4 * expected, "PyTorch finds another loss", (loss, expected))
    import convert_weights
    convert_weights.convert(ours, back)
    loaded = torch.load(back, weights_only=True)
    check(loaded.keys() == made.state_dict().keys(), "names", loaded.keys())
    check(all(torch.equal(value, made.state_dict()[name]) for name, value in loaded.items()), "values")
    left = sorted(os.listdir(folder))
    check(left == ["back.pth", "images", "resnet18.pth", "resnet18.safetensors"], "other files", left)
    check(os.stat(ours).st_mode == os.stat(theirs).st_mode, "who may read it", oct(os.stat(ours).st_mode))


def test_a_checkpoint_of_other_names(folder):
    """As of a script for CIFAR-10 that many start from: DataParallel, shortcut and linear, accuracy and epoch beside the weights."""
    data = images_in(folder)
    made = network("resnet18")
    state = {"module." + name.replace("downsample", "shortcut").replace("fc.", "linear."): value
             for name, value in made.state_dict().items()}
    require_same_loss("resnet18", made, {"net": state, "acc": 95.47, "epoch": 199}, folder, data)


def test_one_entry_of_several(folder):
    import convert_weights
    data = images_in(folder)
    made = network("vit-tiny")
    states = {"model": network("vit-tiny", 2).state_dict(), "ema": {"_orig_mod." + name: v for name, v in made.state_dict().items()}}
    ours = require_same_loss("vit-tiny", made, states, folder, data, entry="ema")
    for entry, words in ((None, "choose one with --entry: model, ema"), ("best", "in best; there are: model, ema")):
        refused(words, os.path.join(folder, "saved.pth"), ours, entry=entry)
    check(len(convert_weights.convert(ours, os.path.join(folder, "back.pth"))) == 1, "nothing else to be said")


def test_the_order_of_flattened_maps(folder):
    """PyTorch's flatten has the channels first; the network of the tests takes muster-train's order."""
    import models
    import torch

    class Plain(models.SmallCnn):
        def forward(self, x):
            x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
            x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
            return self.fc2(torch.relu(self.fc1(torch.flatten(x.contiguous(), 1))))

    import convert_weights
    data = images_in(folder)
    made = network("small-cnn")
    require_same_loss("small-cnn", made, made.state_dict(), folder, data, flatten="channels-last")
    plain = Plain()
    plain.load_state_dict(made.state_dict())
    ours, back = require_same_loss("small-cnn", plain, plain.state_dict(), folder, data), os.path.join(folder, "back.pth")
    convert_weights.convert(ours, back)
    check(torch.equal(torch.load(back, weights_only=True)["fc1.weight"], plain.fc1.weight), "the order is not the first one again")


def test_the_table_of_models():
    import convert_weights
    import models
    check(convert_weights.MODELS.keys() == models.MODELS.keys(), "the models")
    for model, tensors in convert_weights.MODELS.items():
        state = models.make(model).state_dict()
        check(tensors == {name: tuple(value.shape) for name, value in state.items() if not name.endswith("num_batches_tracked")}, model)
        check(convert_weights.differences(model, state) == [], "its own tensors")


def refused(words, source, destination, **keywords):
    """With these words; nothing is left of it, and what was there stays."""
    import convert_weights
    folder = os.path.dirname(destination)

    def content():
        return {entry.name: (entry.stat().st_mtime_ns, entry.stat().st_size) for entry in os.scandir(folder)}

    before = content()
    try:
        convert_weights.convert(source, destination, **keywords)
    except convert_weights.Unusable as error:
        check(words in str(error), f"not said: {words}", str(error))
        check(source in str(error) or "PyTorch" in str(error), "the file is not named", str(error))
        check("`False`" not in str(error), "advice to read everything", str(error))
    else:
        raise AssertionError(f"not refused: {words}")
    check(content() == before, "something was left or changed")


class Runs:
    """Its pickle calls os.mkdir."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_what_is_no_file_of_tensors(folder):
    import torch
    source, ours, told = (os.path.join(folder, name) for name in ("it.pth", "it.safetensors", "called"))
    with open(ours, "wb") as file:
        file.write(b"of an earlier run")
    made = network("small-cnn")
    for value, words in ((made, "no file of tensors alone, so it is not read (it names models.SmallCnn)"),
                         ({"a": Runs(told)}, "(it names posix.mkdir)"),
                         ({"optimizer": {"lr": 0.1}}, "holds no tensors by name, as a state_dict does"), (torch.zeros(3), "no tensors by name")):
        torch.save(value, source)
        refused(words, source, ours)
        check(not os.path.exists(told), "a pickle's function was called")
    torch.jit.trace(made, torch.zeros(1, 3, 32, 32)).save(source)
    refused("with TorchScript archives", source, ours)
    torch.save(made.state_dict(), source)
    os.truncate(source, os.path.getsize(source) // 2)
    refused("cannot read", source, ours)
    version, torch.__version__ = torch.__version__, "2.9.1+cpu"
    try:
        refused("PyTorch 2.9.1+cpu may be harmed by a file that it reads; give 2.10 or later", source, ours)
    finally:
        torch.__version__ = version
    refused("cannot read", ours, os.path.join(folder, "back.pth"))


def test_what_does_not_fit(folder):
    import torch
    source, ours = os.path.join(folder, "it.pth"), os.path.join(folder, "it.safetensors")
    state = network("resnet18").state_dict()
    state["bn2.weight"] = state.pop("bn1.weight")
    state["layer4.1.bn2.bias"] = torch.zeros(7)
    state["layer1.0.conv1.weight"] = state["layer1.0.conv1.weight"].to(torch.int8)
    torch.save(state, source)
    words = ("\n  bn1.weight [64] is missing\n  layer1.0.conv1.weight is torch.int8 (torch.strided), none of torch.float32, torch.float64, "
             "torch.float16, torch.bfloat16\n  layer4.1.bn2.bias is [7], not [512]\n  bn2.weight [64] is none of its tensors")
    refused("fits no model of muster-train; to the nearest, resnet18, these tensors are different:" + words, source, ours)
    refused("does not fit resnet18, these tensors are different:" + words, source, ours, model="resnet18")
    torch.save(network("resnet18").state_dict(), source)
    refused("does not fit resnet18-imagenet-stem, these tensors are different:\n  conv1.weight is [64, 3, 3, 3], not [64, 3, 7, 7]", source, ours,
            model="resnet18-imagenet-stem")
    torch.save({"a.linear.weight": torch.zeros(1), "a.fc.weight": torch.zeros(1)}, source)
    refused("two tensors that would become fc.weight", source, ours)


def test_a_head_for_other_classes(folder):
    import convert_weights
    import models
    import torch
    data = images_in(folder)
    source, ours = os.path.join(folder, "it.pth"), os.path.join(folder, "it.safetensors")
    torch.save(models.resnet18(True, classes=1000).state_dict(), source)
    told = convert_weights.convert(source, ours)
    check(told[1:] == ["fc.weight is [1000, 512], for another number of classes: muster-train begins with a new one",
                       "fc.bias is [1000], for another number of classes: muster-train begins with a new one"], "what it says", told)
    muster_loss("resnet18-imagenet-stem", ours, folder, data)


def test_the_hash_in_a_name(folder):
    import hashlib
    import torch
    source, ours = os.path.join(folder, "resnet18-f37072fd.pth"), os.path.join(folder, "it.safetensors")
    torch.save(network("resnet18").state_dict(), source)
    with open(source, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    refused(f"is not the file of its name: its SHA-256 is {digest}, and does not begin with f37072fd", source, ours)
    import convert_weights
    right = os.path.join(folder, f"resnet18-{digest[:8]}.pth")
    os.rename(source, right)
    check(convert_weights.convert(right, ours)[0].endswith("122 tensors of resnet18"), "the right hash")


def test_the_command_line(folder):
    theirs, ours = os.path.join(folder, "absent.pth"), os.path.join(folder, "it.safetensors")
    for words, code, text in (([theirs, theirs], 2, "give a .pth or .pt and a .safetensors"), ([ours, ours], 2, "give a .pth or .pt and a"),
                              ([ours, theirs, "--entry", "ema"], 2, "--entry chooses from a .pth"), ([theirs, ours], 1, "No such file"),
                              ([ours, theirs], 1, "No such file")):
        result = run([TORCH_PYTHON, SCRIPT, *words], check=False)
        check(result.returncode == code and text in result.stderr and "Traceback" not in result.stderr, text, result)
    result = run([TORCH_PYTHON, "-S", SCRIPT, theirs, ours], check=False)  # without its packages
    check(result.returncode == 1 and "No module named 'torch'; pip install torch safetensors" in result.stderr, "no PyTorch", result)
    check(os.listdir(folder) == [], "something was left")


def main():
    need_torch()
    need_cifar10()
    if "TORCH_SIDE" not in os.environ:
        if run([TORCH_PYTHON, "-c", "import safetensors.torch"], check=False).returncode != 0:
            skip("no safetensors for the Python of the tests; scripts/make_venv.sh installs it where PyPI can be reached")
        # Threads that wait for each other sleep soon: beside other tests each would else spin for its time slice.
        environment = {"GOMP_SPINCOUNT": "1000", **os.environ, "TORCH_SIDE": "1"}
        return subprocess.run([TORCH_PYTHON, "-W", "ignore", __file__, *sys.argv[1:]], env=environment, check=False).returncode
    import torch
    torch.set_num_threads(2)
    run_tests(globals())
    return 0


if __name__ == "__main__":
    sys.exit(main())
