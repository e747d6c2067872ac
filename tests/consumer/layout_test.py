#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The components as they are installed: stripped, under every name of the library folder, moved afterwards; then a job on two hosts runs from
there, over Gloo. What was stripped is found by its build ID in the component debug."""
import os
import re
import shlex
import subprocess
import tempfile
import unittest

import interop
from hosts import LAUNCHER, Hosts, Unavailable
from installed import BUILD, configured, library_folder

GLOO = os.path.join(BUILD, "lib", "muster", "libmuster_gloo.so")
EXAMPLE = os.path.join(interop.ROOT, "worker_sdk", "examples", "embed_c.c")
# The trees with library folders of other names hold what is needed for that alone.
WITHOUT = ["-DMUSTER_BUILD_TRAINER=OFF", *(f"-DMUSTER_WITH_{part}=OFF" for part in ("MPI", "NCCL", "GPU", "HWLOC", "PAGES"))]


def programs_below(folder):
    """Paths of the programs and libraries there; not of the links to them."""
    for top, _, names in os.walk(folder):
        for path in (os.path.join(top, name) for name in names):
            if os.path.islink(path):
                continue
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def sections(path):
    return set(re.findall(r"\] (\.[\w.]+)", interop.run(["readelf", "--wide", "--section-headers", path]).stdout))


class Installed:
    """The components of a build tree, each in a prefix of its own, below a folder that is renamed when they are there."""

    def __init__(self, tree, folder):
        first, self.folder = folder + "-first", folder
        for component in ("tools", "sdk"):
            interop.run(["cmake", "--install", tree, "--component", component, "--prefix", os.path.join(first, component), "--strip"])
        interop.run(["cmake", "--install", tree, "--component", "debug", "--prefix", os.path.join(first, "debug")])
        os.rename(first, folder)
        self.muster = os.path.join(folder, "tools", "bin", "muster")

    def debug_file(self, path):
        """Where a debugger looks for what was stripped from a file."""
        build_id = re.search(r"Build ID: (\w\w)(\w+)", interop.run(["readelf", "--notes", path]).stdout)
        return os.path.join(self.folder, "debug", "lib", "debug", ".build-id", build_id[1], build_id[2] + ".debug")


class Layout(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.path.exists(GLOO):
            raise unittest.SkipTest("built without Gloo")
        folder = tempfile.TemporaryDirectory(prefix="muster-layout-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        try:
            cls.hosts = Hosts(2, keep=(cls.folder,)).__enter__()
        except Unavailable as error:
            raise unittest.SkipTest(str(error)) from error
        cls.addClassCleanup(cls.hosts.close)

    def job(self, installed, *command):
        """On two hosts, one worker on each, over the plug-in that lies beside the library or the program."""
        result = self.hosts.run(LAUNCHER, [installed.muster, "run", "-H", ",".join(self.hosts.names), "--login-timeout", "60",
                                           "--export", "LOGLEVEL=INFO", "--no-python", *command],
                                env={"MUSTER_BACKEND": "gloo", "OMP_NUM_THREADS": "1"}, timeout=120)
        self.assertIn("backend gloo", result.stderr)
        return result.stdout

    def embed(self, installed, libraries):
        """A program in C, compiled with what pkg-config says of the moved library."""
        library = os.path.join(installed.folder, "sdk", libraries)
        said = interop.run(["pkg-config", "--cflags", "--libs", "muster"], PKG_CONFIG_PATH=os.path.join(library, "pkgconfig"))
        program = os.path.join(installed.folder, "embed_c")
        interop.run(["cc", "-std=c99", EXAMPLE, "-o", program, *shlex.split(said.stdout), f"-Wl,-rpath,{library}"])
        self.assertIn("2 ranks: pi is 3.14159", self.job(installed, program))

    def test_as_it_is(self):
        installed = Installed(BUILD, os.path.join(self.folder, "lib"))
        self.assertTrue(os.path.exists(os.path.join(installed.folder, "tools", "lib", "muster", "libmuster_gloo.so")))
        self.embed(installed, "lib")
        train = os.path.join(installed.folder, "tools", "bin", "muster-train")
        if os.path.exists(train):
            self.assertIn("steps", self.job(installed, train, "--data", "synthetic:64", "--max-steps", "2", "--batch-size", "16"))
        found = list(programs_below(os.path.join(installed.folder, "tools"))) + list(programs_below(os.path.join(installed.folder, "sdk")))
        self.assertLessEqual({"muster", "libmuster_gloo.so"}, {os.path.basename(path) for path in found})
        for path in found:
            with self.subTest(os.path.relpath(path, installed.folder)):
                self.assertEqual({name for name in sections(path) if name.startswith(".debug") or name == ".symtab"}, set())
                debug = installed.debug_file(path)
                self.assertLessEqual({".debug_info", ".symtab"}, sections(debug))
        self.names_a_line(installed.debug_file(installed.muster))

    def names_a_line(self, debug):
        """The debug file of muster, which knows where main() is written."""
        listing = subprocess.run(["nm", debug], capture_output=True, text=True, check=True).stdout
        address = re.search(r"^(\w+) T main$", listing, re.M)[1]
        self.assertRegex(interop.run(["addr2line", "--exe", debug, address]).stdout, r"launcher/main\.cpp:\d+")

    def test_where_the_library_folder_has_another_name(self):
        """As Fedora and Debian call it, in a folder with a space."""
        for libraries in sorted({"lib64", library_folder()}):
            with self.subTest(libraries):
                tree = os.path.join(self.folder, "tree of " + libraries.replace("/", " "))
                configured(tree, libraries, *WITHOUT)
                installed = Installed(tree, os.path.join(self.folder, libraries.replace("/", " ")))
                self.assertEqual(os.listdir(os.path.join(installed.folder, "tools", *libraries.split("/"))), ["muster"])
                self.assertFalse(os.path.exists(os.path.join(installed.folder, "sdk", "lib", "muster")))
                self.embed(installed, libraries)


if __name__ == "__main__":
    unittest.main()
