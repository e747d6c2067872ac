# SPDX-License-Identifier: Apache-2.0
"""The checks of a machine with GPUs, each with the seconds that it may take. tests/gpu/run_checks.py runs them."""
import dataclasses
import os
import re
import sys

PARTS = {
    1: "Right results on one GPU",
    2: "Memory and races, by compute-sanitizer",
    3: "Speed on one GPU",
    4: "PyTorch's speed, eager and compiled",
    5: "PyTorch's speed with max-autotune and CUDA graphs, large batches",
    6: "PyTorch's speed with max-autotune and CUDA graphs, small batches",
    7: "Two ranks on one GPU, over NCCL",
    8: "All GPUs of the machine, over NCCL",
}
MODELS = ("small-cnn", "resnet18", "resnet18-imagenet-stem", "resnet50", "mlp", "mlp-8", "vit-tiny")
# Two ranks on one GPU meet through the loopback interface.
SHARED_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_MNNVL_ENABLE": "0"}


@dataclasses.dataclass
class Place:
    """Where things are."""
    programs: str  # with bin, lib and tests: a build tree, or a kit of scripts/pack_gpu_check.sh
    tree: str  # with tests/gpu and what its programs in Python use
    python: str  # a Python that may have PyTorch
    gpus: int
    sanitizer: str  # "" where there is none
    environment: dict  # in which our programs find their libraries
    precisions: tuple  # what muster-train offers

    def bin(self, name):
        return os.path.join(self.programs, "bin", name)

    def test(self, name):
        return os.path.join(self.programs, "tests", name)

    def source(self, path):
        return os.path.join(self.tree, "tests", path)

    def plugin(self, name):
        return os.path.join(self.programs, "lib", "muster", f"libmuster_{name}.so")


@dataclasses.dataclass
class Check:
    """A command that passes with exit code 0, and is skipped with 77."""
    name: str
    part: int
    limit_s: int
    command: list
    environment: dict = dataclasses.field(default_factory=dict)
    needs: tuple = ()  # files without which it is skipped
    wants: tuple = ()  # rows of the preflight without which it cannot be run
    skip: str = ""  # why it cannot be run here
    skip_if: str = ""  # words of its output by which it says that it cannot be done here
    expect: str = ""  # a regular expression that its output must have
    table: str = ""  # what rows of a table in its output are: "rates", "calls"
    rate: tuple = ()  # (model, batch, program): a row of rates, whose images/s are those of muster-train's last epoch
    show: bool = False  # its output belongs into the report
    libraries: bool = True  # whether it gets the libraries of our programs


def all_checks(place):
    return [*correctness(place), *sanitized(place), *speed(place), *pytorch(place), *shared_gpu(place), *all_gpus(place)]


def trained(place, name, part, arguments, ranks=1, limit_s=60, **more):
    """muster-train on GPUs, alone or with a rank for each."""
    command = [place.bin("muster-train"), "--device", "cuda", *arguments]
    needs, wants = (place.bin("muster-train"), place.plugin("cuda")), ("cuDNN",)
    if ranks > 1:
        command = [place.bin("muster"), "run", "--nproc-per-node", str(ranks), "--no-python", *command]
        needs, wants = needs + (place.bin("muster"), place.plugin("nccl")), ("cuDNN", "NCCL")
    return Check(name, part, limit_s, command, needs=needs, wants=wants, **more)


def checked(place, name, part, limit_s, arguments, **more):
    """muster-gpu-check, which computes with cuDNN."""
    checker = place.test("muster-gpu-check")
    return Check(name, part, limit_s, [checker, *arguments], needs=(checker,), wants=("cuDNN",), **more)


def correctness(place):
    tests = place.test("device_tests")
    checks = [Check("the programs start", 1, 30, [place.bin("muster-train"), "--help"], needs=(place.bin("muster-train"),))]
    checks += [trained(place, f"smoke: {model}, {precision}", 1,
                       ["--model", model, "--precision", precision, "--data", "synthetic:2000", "--batch-size", "64", "--max-steps", "20"],
                       expect=r"GPU (?s:.*)parameter hash [0-9a-f]{16}")
               for model in MODELS for precision in place.precisions]
    checks += [
        Check("cuDNN takes what the networks describe", 1, 60, [tests, "[cudnn]"], needs=(tests,), wants=("cuDNN",)),
        checked(place, "cuDNN's plans for 32-bit floats keep their bits", 1, 60, ["plans"]),
        checked(place, "layers of rows beside the host's", 1, 60, ["rows"], show=True),
        checked(place, "steps beside those of the CPU", 1, 180, ["steps"], show=True),
    ]
    return checks + whole_runs(place)


def whole_runs(place):
    """A check for each test of the file, so that one that is slow or fails hides none of the others."""
    script = place.source("integration/train/muster_train_device_test.py")
    with open(script, encoding="utf-8") as file:
        tests = re.findall(r"^def (test_\w+)", file.read(), re.M)
    environment = {"CUDA_VISIBLE_DEVICES": "0", "MUSTER_TEST_REAL_GPU": "1", "MUSTER_TEST_DEVICE_PLUGIN": os.path.dirname(place.plugin("cuda"))}
    return [Check("muster-train on a GPU beside the CPU: " + test[len("test_"):].replace("_", " "), 1, 120,
                  [sys.executable, script, test], environment, needs=(place.bin("muster"), place.plugin("cuda")), wants=("cuDNN",))
            for test in tests]


def sanitized(place):
    """Steps call by call. Our calls of the runtime are checked by ourselves, and cuDNN makes some that fail on purpose. Races are looked
    for in our own kernels alone, and in f32: beside racecheck the driver refuses cuDNN's kernels of Hopper for bf16, of which those of
    ours differ from those for f32 in their element type only."""
    checker, checks = place.test("muster-gpu-check"), []
    for tool, more, precision in (("memcheck", ["--report-api-errors", "no"], []), ("synccheck", [], []), ("initcheck", [], []),
                                  ("racecheck", ["--kernel-name", "kns=muster_"], ["f32"])):
        for model in ("small-cnn", "resnet18", "vit-tiny"):
            checks.append(Check(
                f"{tool}: {model}", 2, 230,
                [place.sanitizer, "--tool", tool, "--error-exitcode", "9", *more, checker, "eager", model, "8", *precision],
                needs=(checker,), wants=("cuDNN",), skip="" if place.sanitizer else "there is no compute-sanitizer that starts",
                skip_if="Device not supported",
                expect=r"(ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)"))
    return checks


def epochs(place, name, part, batch, ranks=1):
    return trained(place, name, part,
                   ["--precision", "auto", "--model", "resnet18", "--batch-size", str(batch), "--data", "synthetic:50000",
                    "--crop-padding", "4", "--flip", "--epochs", "3"],
                   ranks, 90, rate=("resnet18", batch, "muster-train, whole epochs" + (f", {ranks} GPUs" if ranks > 1 else "")))


def speed(place):
    # What is autotuned measures up to 480 plans first, and is not to cost the plain figure.
    checks = [checked(place, f"images/s at batch {batch}{'' if how == 'plain' else ', ' + how}", 3, limit_s,
                      ["measure", "resnet18", str(batch), how], table="rates")
              for how, limit_s in (("plain", 45), ("autotuned", 90)) for batch in (768, 4096, 128, 16)]
    checks += [checked(place, f"calls of a step at batch {batch}: {model}", 3, 60, ["kernels", model, str(batch)], table="calls")
               for model, batch in (("resnet18", 768), ("resnet18", 4096), ("vit-tiny", 768))]
    checks += [checked(place, "calls of layers of rows at batch 768", 3, 60, ["row-kernels", "768"], table="calls")]
    checks += [epochs(place, f"epochs of muster-train at batch {batch}", 3, batch) for batch in (768, 4096, 128)]
    return checks


def pytorch(place):
    """What is compiled needs a C compiler on the machine; eager always gives a figure."""
    script = place.source("gpu/torch_rate.py")
    runs = ((4, "eager", 60, (768, 4096, 128, 16)), (4, "default", 120, (768, 4096, 128, 16)), (5, "max-autotune", 235, (768, 4096)),
            (6, "max-autotune", 235, (128, 16)))
    return [Check(f"PyTorch, {mode}, at batch {batch}", part, limit_s, [place.python, script, "resnet18", str(batch), mode], table="rates",
                  wants=("PyTorch",) if mode == "eager" else ("PyTorch", "C compiler"), libraries=False)
            for part, mode, limit_s, batches in runs for batch in batches]


def nccl_tests(place, part, gpus, environment):
    tests, environment = place.test("nccl_tests"), {**environment, "MUSTER_TEST_GPUS": str(gpus)}
    return [Check(f"{name} on {gpus} GPU{'s' if gpus > 1 else ''}", part, limit_s, [tests, "--filenames-as-tags", cases], environment,
                  needs=(tests, place.plugin("nccl")), wants=("NCCL",), show=name == "bandwidth")
            for name, cases, limit_s in (("contract", "[#contract_test]~[.]", 150), ("streams and graphs", "[#streams_test]~[.]", 120),
                                         ("faults", "[#faults_test][gpu]", 150), ("bandwidth", "[#bandwidth_test]~[.]", 120))]


def ranks_beside_one(place, part, ranks, arguments, environment):
    return [Check(f"gradients of {ranks} ranks through NCCL: {model}", part, 120,
                  [sys.executable, place.source("gpu/compare_ranks.py"), model, str(ranks), *arguments], environment,
                  needs=(place.bin("muster"), place.plugin("cuda"), place.plugin("nccl")), wants=("cuDNN", "NCCL"))
            for model in ("small-cnn", "resnet18")]


def shared_gpu(place):
    return ranks_beside_one(place, 7, 2, ["--share-gpu"], SHARED_GPU) + nccl_tests(place, 7, 1, SHARED_GPU)


def all_gpus(place):
    counts = [count for count in (2, 4, 8, 16) if count < place.gpus] + ([place.gpus] if place.gpus > 1 else [])
    checks = ranks_beside_one(place, 8, max(place.gpus, 2), [], {}) + nccl_tests(place, 8, max(place.gpus, 2), {})
    checks += [epochs(place, f"epochs of muster-train on {count} GPUs", 8, 768, count) for count in counts or [2]]
    for check in checks:
        check.skip = check.skip or ("" if place.gpus > 1 else "this machine has one GPU")
    return checks
