# SPDX-License-Identifier: Apache-2.0
"""In which environment our programs find their plug-ins and NVIDIA's libraries. Standard library only.

`ask` is commands.output_of with an end of time."""
import os
import sys

TREE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def library_folders(programs, python, ask):
    """Folders for LD_LIBRARY_PATH: what the kit brings, then NVIDIA's libraries in Python's packages, which PyTorch brings: for CUDA 12 each in
    a folder of its own, such as nvidia/cublas/lib, for CUDA 13 most of them in nvidia/cu13/lib."""
    folders = [os.path.join(programs, "lib")] if os.path.exists(os.path.join(programs, "kit.json")) else []
    for package in ask([python, "-c", "import nvidia; print(*nvidia.__path__, sep='\\n')"]).splitlines():
        for name in sorted(os.listdir(package) if os.path.isdir(package) else []):
            if os.path.isdir(os.path.join(package, name, "lib")):
                folders.append(os.path.join(package, name, "lib"))
    return folders


def is_found(library, environment, ask):
    """Whether the loader finds a library by its name."""
    return ask([sys.executable, "-c", f"import ctypes; ctypes.CDLL('{library}'); print(1)"], environment) != ""


def environment_of(programs, python, ask):
    """No variable names a library, unless the caller's does."""
    environment = dict(os.environ)
    folders = library_folders(programs, python, ask)
    given = environment.get("LD_LIBRARY_PATH", "")

    def use():
        environment["LD_LIBRARY_PATH"] = ":".join(folders + ([given] if given else []))

    use()
    # What only a machine without its own should get: of the kit, and what scripts/fetch_cuda_headers.sh has fetched.
    for library, folder in (("libibverbs.so.1", os.path.join(programs, "lib", "spare")), ("libnccl.so.2", os.path.join(TREE, "build/cuda/lib"))):
        if os.path.isdir(folder) and not is_found(library, environment, ask):
            folders.append(folder)
            use()
    environment["MUSTER_PLUGIN_PATH"] = os.path.join(programs, "lib", "muster")
    environment["MUSTER_BIN_DIR"] = os.path.join(programs, "bin")
    environment["PYTHONPATH"] = os.path.join(TREE, "tests", "support")
    environment["PYTHONDONTWRITEBYTECODE"] = environment["PYTHONUNBUFFERED"] = "1"
    return environment
