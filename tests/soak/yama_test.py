#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whose stacks may be read under each scope of Yama, shown in a virtual machine with Debian's kernel. usage: yama_test.py

Taken is qemu-system-x86_64 of PATH, or else Debian's package, which is downloaded into a folder of the test with the kernel's. 77: not to
be had. The machine's first process is yama_guest.py, which says on the console what it found."""
import glob
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile

import interop
from interop import check

HERE = os.path.dirname(os.path.abspath(__file__))
DOWNLOAD_S, GUEST_S = 300, 400
PYTHON = "/usr/bin/python3"
# Of each kind of user what the first line of its answer holds, by the scope: the function that its worker is in, or why it is not told.
READ = "held"
EXPECTED = {
    (0, 0, "plain"): READ, (0, 1000, "plain"): READ, (1, 0, "plain"): READ, (1, 1000, "plain"): READ, (2, 0, "plain"): READ,
    (2, 1000, "plain"): "Yama scope 2 lets administrators alone read another process",
    (1, 1000, "undumpable"): "it has made itself unreadable (not dumpable)",
}


def unpacked(folder, name):
    """The folder of a Debian package, and of those that it needs and this system lacks."""
    archives, root = os.path.join(folder, name), os.path.join(folder, f"{name}.root")
    os.makedirs(os.path.join(archives, "partial"))
    try:
        subprocess.run(["apt-get", "install", "--yes", "--download-only", "--no-install-recommends", "-o", "Debug::NoLocking=1",
                        "-o", f"Dir::Cache::archives={archives}", name], capture_output=True, text=True, timeout=DOWNLOAD_S, check=True)
        for package in glob.glob(os.path.join(archives, "*.deb")):
            subprocess.run(["dpkg", "-x", package, root], capture_output=True, text=True, timeout=DOWNLOAD_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"skipped: Debian's package {name} cannot be had: {error}\n{getattr(error, 'stderr', '') or ''}")
        sys.exit(77)
    return root


def machine(folder):
    """Command and environment of the emulator."""
    if found := shutil.which("qemu-system-x86_64"):
        return [found], os.environ
    root = unpacked(folder, "qemu-system-x86")
    libraries = ":".join(glob.glob(f"{root}/usr/lib/*-linux-gnu") + glob.glob(f"{root}/lib/*-linux-gnu"))
    command = [f"{root}/usr/bin/qemu-system-x86_64"]
    for data in ("qemu", "seabios"):
        command += ["-L", f"{root}/usr/share/{data}"]
    return command, {**os.environ, "LD_LIBRARY_PATH": libraries}


def kernel(folder):
    depends = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True, timeout=60, check=False).stdout
    names = [word for word in depends.split() if word.startswith("linux-image-")][1:]
    if not names:
        print("skipped: Debian's kernel is not known to apt here")
        sys.exit(77)
    image, = glob.glob(f"{unpacked(folder, names[0])}/boot/vmlinuz-*")
    return image


def libraries_of(files):
    """What the dynamic linker would load for these, itself included."""
    listed = subprocess.run(["ldd", *files], capture_output=True, text=True, timeout=60, check=False).stdout
    return sorted({word for word in listed.split() if word.startswith("/") and not word.endswith(":")})


class Archive:
    """The files of the machine, in the format newc of cpio, which the kernel's documentation "initramfs buffer format" describes."""

    def __init__(self, path):
        self.file = open(path, "wb")  # pylint: disable=consider-using-with
        self.names = {""}

    def entry(self, name, mode, content=b"", device=(0, 0)):
        name = name.strip("/")
        if name in self.names:
            return
        self.names.add(name)
        if os.path.dirname(name):
            self.entry(os.path.dirname(name), stat.S_IFDIR | 0o755)
        fields = [len(self.names), mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0]
        self.padded(b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0")
        self.padded(content)

    def padded(self, data):
        self.file.write(data + b"\0" * (-len(data) % 4))

    def add(self, path, name=None, mode=None):
        with open(path, "rb") as source:
            self.entry(name or path, stat.S_IFREG | (mode or os.stat(path).st_mode & 0o777), source.read())

    def close(self):
        self.entry("TRAILER!!!", 0)
        self.file.close()


def make_files(folder, path):
    """muster, Debian's Python with its library, and what both need."""
    muster = os.path.join(folder, "muster")
    subprocess.run(["strip", "-o", muster, interop.MUSTER], check=True, timeout=60)
    where = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    library = subprocess.run([PYTHON, "-c", where], capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    archive = Archive(path)
    archive.entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.entry("tmp", stat.S_IFDIR | 0o1777)
    for name in ("proc", "sys", "root"):
        archive.entry(name, stat.S_IFDIR | 0o755)
    archive.entry("etc/passwd", stat.S_IFREG | 0o644, b"root:x:0:0::/tmp:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n")
    archive.add(os.path.join(HERE, "yama_guest.py"), "init", 0o755)
    archive.add(muster, "usr/bin/muster", 0o755)
    archive.add(os.path.realpath(PYTHON), PYTHON, 0o755)
    loaded = [PYTHON, muster]
    for at, folders, files in os.walk(library):
        folders[:] = [each for each in folders if each not in ("__pycache__", "test", "dist-packages", "idlelib", "tkinter", "ensurepip", "lib2to3")]
        for name in files:
            archive.add(os.path.join(at, name))
            if name.endswith(".so"):
                loaded.append(os.path.join(at, name))
    for needed in libraries_of(loaded):
        archive.add(os.path.realpath(needed), needed, 0o755)
    archive.close()


def main():
    if not os.path.exists(PYTHON):
        print(f"skipped: there is no {PYTHON}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        command, environment = machine(folder)
        image = kernel(folder)
        files = os.path.join(folder, "files.cpio")
        make_files(folder, files)
        command += ["-accel", "tcg", "-cpu", "max", "-m", "1024", "-smp", "2", "-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio",
                    "-kernel", image, "-initrd", files, "-append", "console=ttyS0 panic=-1 quiet random.trust_cpu=on"]
        result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                timeout=GUEST_S, check=False)
    found = {}
    for line in result.stdout.splitlines():
        if "RESULT " in line:
            answer = json.loads(line.partition("RESULT ")[2])
            found[answer["scope"], answer["uid"], answer["kind"]] = answer
    check(found.keys() == EXPECTED.keys(), f"the machine gave answers for {sorted(found)}\n{result.stdout[-6000:]}\n{result.stderr[-2000:]}")
    for key, words in EXPECTED.items():
        check(words in found[key]["said"], f"scope {key[0]}, uid {key[1]}, {key[2]}: '{words}' is missing in: {found[key]}")
        print(f"scope {key[0]}, uid {key[1]}, {key[2]} worker: {words}")


if __name__ == "__main__":
    main()
