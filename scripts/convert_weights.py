#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts weights between PyTorch's files and those of muster-train.

  convert_weights.py resnet18.pth resnet18.safetensors   for muster-train --init-from
  convert_weights.py run1.safetensors run1.pth           from muster-train --export

The tensors must be those of one of muster-train's models, whose names are torchvision's; a head for another number of classes is left as
it is. What all names begin with (module. of DistributedDataParallel, _orig_mod. of torch.compile) is taken off, and shortcut and linear of
other ResNets become downsample and fc. Everything else that does not fit is named.

A .pth is read by PyTorch's weights-only reader, or not at all. Needs PyTorch 2.10 or later, and safetensors."""
import argparse
import hashlib
import os
import pickle
import re
import shutil
import signal
import sys
import tempfile

# Before it, a file could corrupt memory through the weights-only reader: CVE-2026-24747, github.com/pytorch/pytorch GHSA-63cw-57p8-fm3p.
OLDEST_PYTORCH = (2, 10)
TYPES = ("torch.float32", "torch.float64", "torch.float16", "torch.bfloat16")  # what muster-train reads
COUNTER = ".num_batches_tracked"  # PyTorch's alone: muster-train writes it and does not read it


class Unusable(Exception):
    """Weights that cannot be converted; the text says why and names the file."""


def linear(name, outputs, inputs):
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def convolution(name, outputs, inputs, kernel):
    return {f"{name}.weight": (outputs, inputs, kernel, kernel)}


def batch_norm(name, width):
    return {f"{name}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")}


def small_cnn():
    return {**convolution("conv1", 32, 3, 3), "conv1.bias": (32,), **convolution("conv2", 64, 32, 3), "conv2.bias": (64,),
            **linear("fc1", 128, 4096), **linear("fc2", 10, 128)}


def block(name, inputs, channels, deep):
    """Of a ResNet: what its convolutions and batch norms hold."""
    outputs = 4 * channels if deep else channels
    kernels = ((1, channels), (3, channels), (1, outputs)) if deep else ((3, channels), (3, channels))
    tensors, width = {}, inputs
    for number, (kernel, out) in enumerate(kernels, 1):
        tensors.update({**convolution(f"{name}.conv{number}", out, width, kernel), **batch_norm(f"{name}.bn{number}", out)})
        width = out
    if inputs != outputs:
        tensors.update({**convolution(f"{name}.downsample.0", outputs, inputs, 1), **batch_norm(f"{name}.downsample.1", outputs)})
    return tensors, outputs


def resnet(depths, deep, stem):
    tensors, width = {**convolution("conv1", 64, 3, stem), **batch_norm("bn1", 64)}, 64
    for stage, depth in enumerate(depths):
        for number in range(depth):
            more, width = block(f"layer{stage + 1}.{number}", width, 64 << stage, deep)
            tensors.update(more)
    return {**tensors, **linear("fc", 10, width)}


def perceptron(*widths):
    tensors = {}
    for number, (inputs, outputs) in enumerate(zip((1024, *widths), widths), 1):
        tensors.update(linear(f"fc{number}", outputs, inputs))
    return {**tensors, **linear("head", 10, widths[-1])}


def vit_tiny():
    width = 192
    tensors = {**convolution("conv_proj", width, 3, 4), "conv_proj.bias": (width,), "positions.weight": (64, width)}
    for number in range(6):
        name = f"layers.{number}"
        tensors.update({f"{name}.self_attn.in_proj_weight": (3 * width, width), f"{name}.self_attn.in_proj_bias": (3 * width,),
                        **linear(f"{name}.self_attn.out_proj", width, width), **linear(f"{name}.linear1", 4 * width, width),
                        **linear(f"{name}.linear2", width, 4 * width)})
        tensors.update({f"{name}.norm{i}.{part}": (width,) for i in (1, 2) for part in ("weight", "bias")})
    return {**tensors, "norm.weight": (width,), "norm.bias": (width,), **linear("head", 10, width)}


# The models of muster-train: the shapes of their tensors.
MODELS = {"small-cnn": small_cnn(), "resnet18": resnet((2, 2, 2, 2), False, 3), "resnet18-imagenet-stem": resnet((2, 2, 2, 2), False, 7),
          "resnet50": resnet((3, 4, 6, 3), True, 3), "mlp": perceptron(4096, 1024), "mlp-8": perceptron(*[1024] * 8),
          "vit-tiny": vit_tiny()}


def head_of(model):
    """The layer that tells the classes apart: the last one."""
    return list(MODELS[model])[-1].rpartition(".")[0] + "."


def is_other_head(model, name, shape):
    """Whether a tensor differs by its number of classes only."""
    expected = MODELS[model][name]
    return name.startswith(head_of(model)) and len(shape) == len(expected) and shape[1:] == expected[1:]


def differences(model, tensors):
    """What does not fit a model, a text each."""
    texts = []
    for name, shape in MODELS[model].items():
        if name not in tensors:
            texts.append(f"{name} {list(shape)} is missing")
            continue
        tensor = tensors[name]
        found = tuple(tensor.shape)
        if found != shape and not is_other_head(model, name, found):
            texts.append(f"{name} is {list(found)}, not {list(shape)}")
        elif str(tensor.dtype) not in TYPES or str(tensor.layout) != "torch.strided":
            texts.append(f"{name} is {tensor.dtype} ({tensor.layout}), none of {', '.join(TYPES)}")
    known = {name.rpartition(".")[0] for name in MODELS[model] if name.endswith(".running_mean")}
    for name, tensor in tensors.items():
        if name not in MODELS[model] and not (name.endswith(COUNTER) and name[:-len(COUNTER)] in known):
            texts.append(f"{name} {list(tensor.shape)} is none of its tensors")
    return texts


def model_of(path, tensors, wanted):
    """The model whose tensors these are."""
    found = {model: differences(model, tensors) for model in ([wanted] if wanted else MODELS)}
    nearest = min(found, key=lambda model: len(found[model]))
    if not found[nearest]:
        return nearest
    title = f"{path} does not fit {nearest}" if wanted else f"{path} fits no model of muster-train; to the nearest, {nearest}"
    raise Unusable("\n  ".join([f"{title}, these tensors are different:", *found[nearest]]))


def require_name_hash(path):
    """torchvision's files have the first digits of their SHA-256 in the name."""
    match = re.fullmatch(r"resnet\d+-([0-9a-f]{8})\.pth", os.path.basename(path))
    if not match:
        return
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    if not digest.hexdigest().startswith(match[1]):
        raise Unusable(f"{path} is not the file of its name: its SHA-256 is {digest.hexdigest()}, and does not begin with {match[1]}; "
                       "download it again, or give it another name")


def read_pth(path):
    import torch
    version = tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", torch.__version__).groups())
    if version < OLDEST_PYTORCH:
        raise Unusable(f"PyTorch {torch.__version__} may be harmed by a file that it reads; give 2.10 or later")
    require_name_hash(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # PyTorch's own text advises to read everything, which would run what the file says.
        found = re.search(r"GLOBAL (\S+)", str(error))
        raise Unusable(f"{path} is no file of tensors alone, so it is not read{f' (it names {found[1]})' if found else ''}; save the "
                       "weights with torch.save(model.state_dict(), FILE)") from error
    except OSError:
        raise
    except Exception as error:  # a damaged file, or a TorchScript archive, of which PyTorch advises the same
        raise Unusable(f"cannot read {path}: {(str(error) or repr(error)).splitlines()[0].partition(' In PyTorch 2.6')[0]}") from error


def is_state(value):
    import torch
    return isinstance(value, dict) and bool(value) and all(isinstance(name, str) and isinstance(tensor, torch.Tensor)
                                                           for name, tensor in value.items())


def state_of(path, value, entry):
    """The tensors by name: all of a file, or one entry of a checkpoint."""
    if entry is None and is_state(value):
        return value
    states = {name: state for name, state in value.items() if is_state(state)} if isinstance(value, dict) else {}
    if entry is None and len(states) == 1:
        return next(iter(states.values()))
    if entry in states:
        return states[entry]
    names = ", ".join(map(str, states))
    if entry is None and states:
        raise Unusable(f"{path} holds several sets of tensors; choose one with --entry: {names}")
    raise Unusable(f"{path} holds no tensors by name" + (f" in {entry}; there are: {names}" if states else ", as a state_dict does"))


def renamed(path, tensors):
    """With muster-train's names, and what was changed in them."""
    first = next(iter(tensors)).partition(".")[0] + "."
    while all(name.startswith(first) and name != first for name in tensors) and not first.startswith("."):
        tensors = {name[len(first):]: tensor for name, tensor in tensors.items()}
        first = next(iter(tensors)).partition(".")[0] + "."
    result = {}
    for name, tensor in tensors.items():
        new = re.sub(r"^linear\.", "fc.", re.sub(r"(?<=\.)shortcut\.", "downsample.", name))
        if new in result:
            raise Unusable(f"{path} holds two tensors that would become {new}")
        result[new] = tensor
    return result


def reordered(weight, to_muster):
    """The columns of small-cnn's fc1.weight: PyTorch's flatten makes channels, height, width of a map of 64 x 8 x 8, muster-train height,
    width, channels."""
    rows = weight.shape[0]
    if to_muster:
        return weight.reshape(rows, 64, 8, 8).permute(0, 2, 3, 1).reshape(rows, 4096)
    return weight.reshape(rows, 8, 8, 64).permute(0, 3, 1, 2).reshape(rows, 4096)


def write(path, save):
    """A file that is there whole or not at all; one that was there is replaced."""
    above, name = os.path.split(os.path.abspath(path))
    folder = tempfile.mkdtemp(prefix=f".{name}-", dir=above)
    try:
        part = os.path.join(folder, name)
        save(part)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def convert(source, destination, model=None, entry=None, flatten="channels-first"):
    """The lines that say what was done. Throws Unusable or OSError, and then leaves nothing behind."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save_file
    to_muster = destination.endswith(".safetensors")
    if to_muster:
        tensors = renamed(source, state_of(source, read_pth(source), entry))
    else:
        try:
            tensors = load_file(source)
        except SafetensorError as error:
            raise Unusable(f"cannot read {source}: {error}") from error
    model = model_of(source, tensors, model)
    told = [f"{destination}: {len(tensors)} tensors of {model}"]
    # Copies: tensors that share memory, or are parts of others, are written as if they did not.
    tensors = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    if model == "small-cnn" and flatten == "channels-first":
        tensors["fc1.weight"] = reordered(tensors["fc1.weight"], to_muster).contiguous()
        told.append(f"the columns of fc1.weight are now in the order {'height, width, channels' if to_muster else 'channels, height, width'}")
    for name, tensor in tensors.items():
        if name in MODELS[model] and tuple(tensor.shape) != MODELS[model][name]:
            told.append(f"{name} is {list(tensor.shape)}, for another number of classes: muster-train begins with a new one")
    write(destination, (lambda path: save_file(tensors, path, metadata={"format": "pt"})) if to_muster
          else lambda path: torch.save(tensors, path))
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="FROM", help="a .pth or .pt for a .safetensors, or the other way round")
    parser.add_argument("destination", metavar="TO")
    parser.add_argument("--model", choices=MODELS, help="the model that the weights must fit; else the one that they fit")
    parser.add_argument("--entry", metavar="NAME", help="of a checkpoint with several sets of tensors: which one")
    parser.add_argument("--flatten", choices=("channels-first", "channels-last"), default="channels-first",
                        help="the order in which PyTorch's side of small-cnn flattens its maps (default: as torch.flatten does)")
    options = parser.parse_args()
    # As Ctrl-C does: what was begun is removed.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    endings = [os.path.splitext(path)[1] for path in (options.source, options.destination)]
    if [ending == ".safetensors" for ending in endings].count(True) != 1 or not set(endings) <= {".safetensors", ".pth", ".pt"}:
        parser.error("give a .pth or .pt and a .safetensors")
    if options.entry and endings[0] == ".safetensors":
        parser.error("--entry chooses from a .pth")
    try:
        print("\n".join(convert(**vars(options))))
    except ImportError as error:
        print(f"convert_weights.py: {error}; pip install torch safetensors, or run scripts/make_venv.sh and use build/venv/bin/python",
              file=sys.stderr)
        return 1
    except (Unusable, OSError) as error:
        print(f"convert_weights.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
