# SPDX-License-Identifier: Apache-2.0
"""What of a machine fits the checks, and what each miss means: facts, which are read from the machine, and rows, which follow from them alone.

A row says `what`, `found`, how it `fits` ("fits", "misses", "note"), and what that means. A miss `stops` "everything", "what needs it", whose
checks are then not run, or "parts", which are then skipped. `ask` is commands.output_of with an end of time."""
import glob
import json
import os
import platform
import re
import shutil
import sys
import textwrap

OLDEST = {"capability": "7.5", "driver": "535", "driver_cuda": "12.2", "NCCL": "2.19", "Python": "3.8"}
EVERYTHING, WHAT_NEEDS_IT, PARTS = "everything", "what needs it", "parts"
WIDTH = 118  # of the screen
# What the loader of our programs finds, by the names and variables that our programs know.
LIBRARIES = r"""
import ctypes, json, os, re
found = {"driver_error": "", "driver_cuda": "", "cudnn": {"version": "", "cuda": "", "error": ""}, "nccl": {"version": "", "error": ""},
         "glibc": "", "glibcxx_path": ""}
def load(variable, name): return ctypes.CDLL(os.environ.get(variable) or name)
def asked(library, function):
    value = ctypes.c_int()
    return 0 if getattr(library, function)(ctypes.byref(value)) else value.value
def size(library, function):
    call = getattr(library, function)
    call.restype = ctypes.c_size_t
    return call()
def short(value): return "%d.%d" % (value // 1000, value % 1000 // 10) if value else ""
def full(value): return "%d.%d.%d" % (value // 10000, value // 100 % 100, value % 100) if value else ""
def driver(): found["driver_cuda"] = short(asked(load("MUSTER_CUDA_DRIVER_LIBRARY", "libcuda.so.1"), "cuDriverGetVersion"))
def cudnn():
    library = load("MUSTER_CUDNN_LIBRARY", "libcudnn.so.9")
    found["cudnn"]["version"] = full(size(library, "cudnnGetVersion"))
    found["cudnn"]["cuda"] = short(size(library, "cudnnGetCudartVersion"))
def nccl(): found["nccl"]["version"] = full(asked(load("MUSTER_NCCL_LIBRARY", "libnccl.so.2"), "ncclGetVersion"))
def glibc():
    call = ctypes.CDLL(None).gnu_get_libc_version
    call.restype = ctypes.c_char_p
    found["glibc"] = call().decode()
def glibcxx():
    ctypes.CDLL("libstdc++.so.6")
    found["glibcxx_path"] = re.search(r"(/\S*libstdc\+\+\.so\S*)", open("/proc/self/maps").read()).group(1)
def note(part, error): found[part] = {**found[part], "error": error} if isinstance(found[part], dict) else error
for ask, part in ((driver, "driver_error"), (cudnn, "cudnn"), (nccl, "nccl"), (glibc, ""), (glibcxx, "")):
    try: ask()
    except OSError as error: part and note(part, str(error))
    except AttributeError: pass
print(json.dumps(found))
"""
# PyTorch is not imported: that takes up to a minute where the disk is slow, and its versions stand in a file.
TORCH = r"""
import importlib.util, json, os, runpy, sysconfig
place = importlib.util.find_spec("torch")
version = runpy.run_path(os.path.join(os.path.dirname(place.origin), "version.py"))
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
print(json.dumps({"version": str(version["__version__"]), "cuda": version.get("cuda") or "", "lacks": "" if os.path.exists(header) else header}))
"""


def numbers(version):
    """2.28.9 as (2, 28, 9); what follows the numbers, as in 2.11.0+cu130, is left out."""
    return tuple(int(word) for word in re.findall(r"\d+", re.match(r"[\d.]*", version).group()))


def read_gpus(ask):
    """Name, memory, driver and compute capability of each GPU, which old drivers do not tell."""
    for last in ("compute_cap", ""):
        fields = "name,memory.total,driver_version" + (f",{last}" if last else "")
        lines = ask(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]).splitlines()
        cells = [[cell.strip() for cell in line.rsplit(",", fields.count(","))] for line in lines if line.strip()]
        if cells and all(len(row) == fields.count(",") + 1 for row in cells):
            return [{"name": row[0], "memory": row[1], "driver": row[2],
                     "capability": row[3] if last and re.match(r"\d+\.\d+$", row[3]) else ""} for row in cells]
    return []


def starts_programs(sanitizer, ask):
    """PyPI's package lacks the program that starts others, and so has a version, but is of no use. The exit code says nothing: one that
    looks at a program without CUDA may complain of that."""
    return re.search(r"^started$", ask([sanitizer, "--tool", "memcheck", "/bin/echo", "started"], any_code=True), re.M) is not None


def read_sanitizer(ask):
    """Path and version of the machine's first compute-sanitizer that starts a program; no path where none does."""
    places = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer",
              *sorted(glob.glob("/usr/local/cuda-*/bin/compute-sanitizer"))]
    for path in places:
        if path and starts_programs(path, ask):
            version = re.search(r"^Version (\S+)", ask([path, "--version"]), re.M)
            return {"path": path, "version": version.group(1) if version else "its version is not told"}
    return {"path": "", "version": ""}


def newest_glibcxx(path):
    """The newest version of its symbols that a libstdc++ has; "" where there is none."""
    try:
        with open(path, "rb") as file:
            found = re.findall(rb"GLIBCXX_(\d+(?:\.\d+)+)\0", file.read())
    except OSError:
        return ""
    return max((version.decode() for version in found), key=numbers, default="")


def glibcxx_of(program, environment, otherwise, ask):
    """Of the libstdc++ that the loader finds for one of our programs, which is not always the one that it finds for Python."""
    traced = ask([program], {**environment, "LD_TRACE_LOADED_OBJECTS": "1"})
    path = re.search(r"libstdc\+\+\.so\.6 => (/\S+)", traced)
    return newest_glibcxx(path.group(1) if path else otherwise)


def read_needs(programs):
    """What kit.json says that the programs need; nothing of what was built here."""
    try:
        with open(os.path.join(programs, "kit.json"), encoding="utf-8") as file:
            kit = json.load(file)
    except FileNotFoundError:
        kit = {}
    return {"glibc": kit.get("glibc", ""), "glibcxx": kit.get("glibcxx", "")}


def read_facts(gpus, programs, python, environment, ask):
    """What the rows are made of. Raises TimeoutError where not even the loader has answered."""
    said = ask([sys.executable, "-c", LIBRARIES], environment)
    if not said:
        raise TimeoutError("NVIDIA's libraries could not be asked for their versions: one of them ends the program, or the call needs more --seconds")
    found = json.loads(said)
    torch = json.loads(ask([python, "-c", TORCH], timeout=60) or "{}")
    glibcxx = glibcxx_of(os.path.join(programs, "bin", "muster-train"), environment, found["glibcxx_path"], ask)
    compilers = [os.environ.get("CC"), "gcc", "clang", "cc"]
    return {"gpus": gpus, "driver": gpus[0]["driver"] if gpus else "", "driver_error": found["driver_error"],
            "driver_cuda": found["driver_cuda"], "cudnn": found["cudnn"], "nccl": found["nccl"], "torch": torch,
            "compiler": next((path for path in map(shutil.which, filter(None, compilers)) if path), ""),
            "has": {"glibc": found["glibc"], "glibcxx": glibcxx}, "needs": read_needs(programs),
            "python": platform.python_version(), "sanitizer": read_sanitizer(ask)}


def row(what, found, fits, meaning="", stops=""):
    return {"what": what, "found": found, "fits": fits, "meaning": meaning, "stops": stops}


def gpu_row(facts):
    gpus = facts["gpus"]
    if not gpus:
        return row("GPUs", "none", "misses", "nvidia-smi shows no GPU, or is not installed: nothing can be checked here", EVERYTHING)
    kinds = [f"{gpu['name']}, {gpu['memory']}, compute capability {gpu['capability'] or 'not told'}" for gpu in gpus]
    found = "; ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))
    old = [number for number, gpu in enumerate(gpus) if gpu["capability"] and numbers(gpu["capability"]) < numbers(OLDEST["capability"])]
    if len(old) == len(gpus):
        return row("GPUs", found, "misses", f"{OLDEST['capability']} is the oldest that Muster's kernels are made for: nothing can be checked "
                   "here", EVERYTHING)
    if old:
        return row("GPUs", found, "note", f"checks that use GPU {', '.join(map(str, old))} fail: {OLDEST['capability']} is needed; hide it from "
                   "them with CUDA_VISIBLE_DEVICES")
    if any(not gpu["capability"] for gpu in gpus):
        return row("GPUs", found, "note", f"{OLDEST['capability']} or later is needed; this nvidia-smi does not tell it")
    return row("GPUs", found, "fits")


def driver_row(facts):
    driver, cuda = facts["driver"], facts["driver_cuda"]
    found = (driver or "not found") + (f", for CUDA {cuda}" if cuda else "")
    if facts["driver_error"]:
        return row("driver", found, "misses", f"the loader does not find its library ({facts['driver_error']}): no program here can use a GPU; "
                   "in a container, start it with the GPUs (docker run --gpus all)", EVERYTHING)
    # NVIDIA's package cuda-compat brings a newer libcuda.so.1 than the driver's, which is what programs use: so CUDA's version decides.
    known, oldest = (cuda, OLDEST["driver_cuda"]) if cuda else (driver, OLDEST["driver"])
    if not known or numbers(known) < numbers(oldest):
        return row("driver", found, "misses", f"{OLDEST['driver']} or later, for CUDA {OLDEST['driver_cuda']}, is needed: update the driver; with "
                   "data-center GPUs NVIDIA's package cuda-compat does, too", EVERYTHING)
    return row("driver", found, "fits")


def driver_major(facts):
    """The CUDA that the driver is for; 0 where that is not known."""
    if facts["driver_cuda"]:
        return numbers(facts["driver_cuda"])[0]
    return 0 if not facts["driver"] else 13 if numbers(facts["driver"]) >= (580,) else 12


def cudnn_row(facts):
    cudnn = facts["cudnn"]
    version, cuda = cudnn.get("version", ""), cudnn.get("cuda", "")
    install = "pip install nvidia-cudnn-cu12, or nvidia-cudnn-cu13 with a driver of 580 or later"
    if not version:
        said = f" ({cudnn['error']})" if cudnn.get("error") else ""
        return row("cuDNN", "not found", "misses", f"no check of training on GPUs can be run{said}: {install}", WHAT_NEEDS_IT)
    found = version + (f", made for CUDA {cuda}" if cuda else "")
    if numbers(version)[0] != 9:
        return row("cuDNN", found, "misses", f"cuDNN 9 is needed, or no check of training on GPUs can be run: {install}", WHAT_NEEDS_IT)
    if cuda and driver_major(facts) and numbers(cuda)[0] > driver_major(facts):
        return row("cuDNN", found, "misses", f"the driver is for CUDA {driver_major(facts)}, so no check of training on GPUs can be run: pip install "
                   f"nvidia-cudnn-cu{driver_major(facts)}, or update the driver to 580 or later", WHAT_NEEDS_IT)
    return row("cuDNN", found, "fits")


def nccl_row(facts):
    version = facts["nccl"].get("version", "")
    if not version or numbers(version) < numbers(OLDEST["NCCL"]):
        return row("NCCL", version or "not found", "misses", f"parts 7 and 8 are skipped; they need {OLDEST['NCCL']} or later: pip install "
                   "nvidia-nccl-cu12, or nvidia-nccl-cu13 with a driver of 580 or later", PARTS)
    return row("NCCL", version, "fits")


def torch_row(facts):
    version, cuda = facts["torch"].get("version", ""), facts["torch"].get("cuda", "")
    beside = "parts 4 to 6 are skipped, and nothing is measured beside PyTorch"
    if not version:
        return row("PyTorch", "not found", "misses", f"{beside}; MUSTER_TORCH_PYTHON names a Python that has it", PARTS)
    found = version + (f", for CUDA {cuda}" if cuda else "")
    if not cuda:
        return row("PyTorch", found, "misses", f"it is built without CUDA: {beside}", PARTS)
    if driver_major(facts) and numbers(cuda)[0] > driver_major(facts):
        return row("PyTorch", found, "misses", f"the driver is for CUDA {driver_major(facts)}, so that it sees no GPU: {beside}; install one for "
                   f"CUDA {driver_major(facts)}, or update the driver", PARTS)
    return row("PyTorch", found, "fits")


def compiler_row(facts):
    lacks = facts["torch"].get("lacks", "")
    skipped = "skipped, so that ratios to PyTorch's speed are 'eager only'"
    if not facts["compiler"]:
        return row("C compiler", "not found", "misses", f"PyTorch's compiled modes need one and are {skipped}: install gcc, or name one by CC", PARTS)
    if lacks:
        return row("C compiler", facts["compiler"], "note", f"there is no {lacks}: PyTorch's compiled modes are likely to be {skipped}; it "
                   "comes with a package such as python3-dev")
    return row("C compiler", facts["compiler"], "fits")


def library_row(what, name, facts):
    has, needs = facts["has"][name], facts["needs"][name]
    found = (has or "not found") + (f", {needs} needed" if needs else "")
    if needs and (not has or numbers(has) < numbers(needs)):
        return row(what, found, "misses", "the programs of this archive cannot start here: make one on an older system, or build on this "
                   "machine (scripts/check_gpu.sh without --prebuilt)", EVERYTHING)
    return row(what, found, "fits")


def python_row(facts):
    if numbers(facts["python"]) < numbers(OLDEST["Python"]):
        return row("Python", facts["python"], "misses", f"the checks are written for {OLDEST['Python']} or later: let python3 be a newer one",
                   EVERYTHING)
    return row("Python", facts["python"], "fits")


def sanitizer_row(facts):
    if not facts["sanitizer"]["path"]:
        return row("compute-sanitizer", "none that starts", "misses", "part 2 is skipped; it comes with CUDA's toolkit (PyPI's package lacks the "
                   "program that starts others)", PARTS)
    return row("compute-sanitizer", facts["sanitizer"]["version"], "fits")


def rows_of(facts):
    """The preflight, from facts alone."""
    return [gpu_row(facts), driver_row(facts), cudnn_row(facts), nccl_row(facts), torch_row(facts), compiler_row(facts),
            library_row("glibc", "glibc", facts), library_row("GLIBCXX", "glibcxx", facts), python_row(facts), sanitizer_row(facts)]


def misses(rows, stops=None):
    """What misses, by its name; only what stops that, if it is given."""
    return {one["what"]: one for one in rows if one["fits"] == "misses" and stops in (None, one["stops"])}


def screen(rows):
    """The rows for a terminal."""
    lines = ["== Preflight"]
    for one in rows:
        lines += textwrap.wrap(f"{one['fits']:7} {one['what']:18} {one['found']}", WIDTH, initial_indent="  ", subsequent_indent=" " * 29)
        lines += textwrap.wrap(one["meaning"], WIDTH, initial_indent=" " * 10 + "-> ", subsequent_indent=" " * 13)
    return "\n".join(lines)
