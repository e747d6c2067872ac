# SPDX-License-Identifier: Apache-2.0
"""The SDK installed into a temporary prefix, for the tests of this folder."""
import os
import shutil
import subprocess
import tempfile

import interop

BUILD = os.path.dirname(os.path.dirname(interop.MUSTER))


def cached(name, tree=BUILD):
    """A variable in the cache of a build tree; "" if it has none of that name."""
    with open(os.path.join(tree, "CMakeCache.txt"), encoding="utf-8") as cache:
        return next((line.strip().split("=", 1)[1] for line in cache if line.startswith(name + ":")), "")


def library_folder():
    """What Debian calls the library folder under /usr, and elsewhere what Fedora does."""
    triple = subprocess.run(["cc", "-print-multiarch"], capture_output=True, text=True, check=False).stdout.strip()
    return "lib/" + triple if triple else "lib64"


def configured(tree, libraries, *arguments):
    """A build tree whose library folder has another name, as in a distribution's package. It is configured only: what it would build is built
    already."""
    interop.run(["cmake", "-S", interop.ROOT, "-B", tree, "-DMUSTER_BUILD_TESTS=OFF", f"-DCMAKE_INSTALL_LIBDIR={libraries}",
                 "-DMUSTER_SANITIZE=" + cached("MUSTER_SANITIZE"), *arguments], timeout=240)
    for name in ("bin", "lib"):
        shutil.rmtree(os.path.join(tree, name), ignore_errors=True)
        os.symlink(os.path.join(BUILD, name), os.path.join(tree, name))


class Prefix:
    """with Prefix() as prefix: a folder with the component sdk; `library` is its lib folder."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="muster-consumer-")
        self.path = os.path.join(self._folder.name, "prefix")
        self.work = os.path.join(self._folder.name, "work")
        os.mkdir(self.work)
        interop.run(["cmake", "--install", BUILD, "--component", "sdk", "--prefix", self.path, "--strip"])
        self.library = next(os.path.join(self.path, name) for name, _, files in
                            ((os.path.relpath(root, self.path), d, f) for root, d, f in os.walk(self.path))
                            if "libmuster.so" in files)
        return self

    def __exit__(self, *_):
        self._folder.cleanup()
