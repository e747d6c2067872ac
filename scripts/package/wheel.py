# SPDX-License-Identifier: Apache-2.0
"""Writes the wheel muster-launch or muster-train from an installed tree (PEP 427; metadata as of PEP 566). The same inputs give the same bytes.

usage: wheel.py launch|train STAGE SOURCE LIBRARIES TAG DIST

STAGE is what `cmake --install` has made (bin, lib, include, share), and `licenses` of what else is linked in; SOURCE the root of the sources,
LIBRARIES where the compiler has those that it links, TAG the platform tag; the wheel goes to the directory DIST, and its path to stdout. SOURCE_DATE_EPOCH is the time of its files.
"""

import base64
import hashlib
import os
import re
import stat
import sys
import time
import zipfile
from typing import NamedTuple


class Distribution(NamedTuple):
    name: str
    summary: str
    program: str
    requires: tuple
    module: str  # the top level of what Python imports, below launcher/python; "" for none
    licences: tuple  # of what is linked in or lies beside it, which the stage must have


DISTRIBUTIONS = {
    # Functions of notebooks and scripts are sent to workers with cloudpickle.
    "launch": Distribution("muster_launch", "Starts, watches and ends multi-GPU training jobs: a drop-in for torchrun", "muster",
                           ("cloudpickle>=2",), "muster", ("gloo.txt",)),
    "train": Distribution("muster_train", "Trains networks on many processors, started by muster", "muster-train",
                          ("muster-launch=={version}",), "", ("libomp.txt", "onednn.txt", "onednn-third-party-programs.txt")),
}
REQUIRES_PYTHON = ">=3.9"
# Whose code is in the programs: of packages, whose copyright files Debian has (Boost's under one of two names), and of what the compiler brings.
LINKED = (("libboost1.81-dev", "libboost-dev"), ("libssl-dev",), ("libspdlog-dev",), ("libfmt-dev",), ("nlohmann-json3-dev",), ("libcli11-dev",))
COMPILED_IN = ("libcxx", "libcxxabi", "libunwind")


def version_of(source):
    """Returns the version that CMakeLists.txt names."""
    with open(os.path.join(source, "CMakeLists.txt"), encoding="utf-8") as file:
        found = re.search(r"^project\(Muster VERSION ([0-9.]+)", file.read(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"wheel.py: {source}/CMakeLists.txt names no version of the project")
    return found[1]


def metadata(distribution, source, version):
    with open(os.path.join(source, "docs", "install.md"), encoding="utf-8") as file:
        text = file.read()
    fields = [("Metadata-Version", "2.1"), ("Name", distribution.name.replace("_", "-")), ("Version", version), ("Summary", distribution.summary),
              ("License", "Apache-2.0"), ("License-File", "LICENSE"), ("Requires-Python", REQUIRES_PYTHON),
              *(("Requires-Dist", one.format(version=version)) for one in distribution.requires), ("Description-Content-Type", "text/markdown")]
    return "".join(f"{name}: {value}\n" for name, value in fields) + "\n" + text


def files_below(folder):
    """Yields paths of regular files below the folder, relative to it, in order."""
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            yield os.path.relpath(os.path.join(path, name), folder)


def read(*parts):
    with open(os.path.join(*parts), "rb") as file:
        return file.read()


def staged_files(stage, version):
    """Yields path and content of lib, include and share. A wheel has no symbolic links: the library has the name that programs load, and the name
    that they are linked with is a script of the linker."""
    soname = f"libmuster.so.{version.split('.', maxsplit=1)[0]}"
    whole = f"libmuster.so.{version}"
    for top in ("include", "lib", "share"):
        for path in files_below(os.path.join(stage, top)):
            place = os.path.join(top, path)
            if os.path.islink(os.path.join(stage, place)):
                continue
            data = read(stage, place)
            if place.endswith(".cmake"):
                data = data.replace(whole.encode(), soname.encode())
            yield place.replace(whole, soname), data
    if os.path.exists(os.path.join(stage, "lib", whole)):
        yield "lib/libmuster.so", f"INPUT({soname})\n".encode()


def copyright_of(names):
    """Returns the copyright file of the first of these packages that is installed."""
    for name in names:
        path = f"/usr/share/doc/{name}/copyright"
        if os.path.exists(path):
            return read(path)
    raise SystemExit(f"wheel.py: there is no /usr/share/doc/{names[0]}/copyright, and what is linked in may not go without its licence; install "
                     f"{' or '.join(names)} with its documents")


def licences_of_parts(stage, libraries):
    """Names and contents of the licences of what is linked in."""
    for names in LINKED:
        yield f"{names[0]}.copyright", copyright_of(names)
    for file in files_below(os.path.join(stage, "licenses")):
        yield file, read(stage, "licenses", file)
    for library in COMPILED_IN:
        yield f"{library}.txt", read(libraries, library, "LICENSE.TXT")


class Wheel:
    """A wheel that is being written."""

    def __init__(self, path, date):
        self._file = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self._date = time.gmtime(date)[:6]
        self._record = []

    def add(self, name, data, executable=False):
        entry = zipfile.ZipInfo(name, self._date)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
        self._file.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(data)}\n")

    def close(self, record):
        self.add(record, ("".join(self._record) + f"{record},,\n").encode())
        self._file.close()


def main(kind, stage, source, libraries, tag, dist):
    distribution, version = DISTRIBUTIONS[kind], version_of(source)
    for licence in distribution.licences:
        if not os.path.exists(os.path.join(stage, "licenses", licence)):
            raise SystemExit(f"wheel.py: {stage}/licenses has no {licence}, and what is in the wheel may not go without its licence")
    base = f"{distribution.name}-{version}"
    info, data = f"{base}.dist-info", f"{base}.data"
    name = f"py3-none-{tag}"
    path = os.path.join(dist, f"{base}-{name}.whl")
    os.makedirs(dist, exist_ok=True)
    wheel = Wheel(path, max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))  # a zip knows no year before 1980
    if distribution.module:
        module = os.path.join(source, "launcher", "python")
        for file in files_below(module):
            wheel.add(file, read(module, file))
        wheel.add(f"{info}/top_level.txt", f"{distribution.module}\n".encode())
    wheel.add(f"{data}/scripts/{distribution.program}", read(stage, "bin", distribution.program), executable=True)
    for file, content in staged_files(stage, version):
        wheel.add(f"{data}/data/{file}", content, executable=content.startswith(b"\x7fELF"))
    wheel.add(f"{info}/LICENSE", read(source, "LICENSE"))
    for file, content in licences_of_parts(stage, libraries):
        wheel.add(f"{info}/licenses/{file}", content)
    wheel.add(f"{info}/METADATA", metadata(distribution, source, version).encode())
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: muster {version}\nRoot-Is-Purelib: false\nTag: {name}\n".encode())
    wheel.close(f"{info}/RECORD")
    print(path)


if __name__ == "__main__":
    if len(sys.argv) != 7 or sys.argv[1] not in DISTRIBUTIONS:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
