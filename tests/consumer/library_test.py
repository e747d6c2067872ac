#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is installed: the library's exports and dependencies, and headers of which each compiles alone."""
import glob
import os
import re
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor

import installed
import interop

# What any C++ program has loaded already.
SYSTEM = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
          "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-x"]


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = installed.Prefix()
        cls.prefix.__enter__()
        cls.addClassCleanup(cls.prefix.__exit__)
        cls.library = os.path.join(cls.prefix.library, "libmuster.so")
        cls.include = os.path.join(cls.prefix.path, "include")

    def headers(self, ending):
        found = [os.path.relpath(os.path.join(root, name), self.include)
                 for root, _, names in os.walk(self.include) for name in names if name.endswith(ending)]
        self.assertGreater(len(found), 5)
        return found

    def test_it_needs_the_standard_libraries_alone(self):
        if interop.sanitized():
            self.skipTest("a sanitizer's library is one more")
        listing = interop.run(["readelf", "-d", self.library]).stdout
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", listing))
        self.assertLessEqual(needed, SYSTEM)
        self.assertIn("libc.so.6", needed)
        self.assertRegex(listing, r"SONAME.*\[libmuster\.so\.0\]")
        self.assertNotRegex(listing, r"R(UN)?PATH")

    def test_it_exports_what_the_header_declares(self):
        listing = interop.run(["nm", "-D", "--defined-only", self.library]).stdout
        exported = {line.split()[2].split("@")[0] for line in listing.splitlines()} - {"MUSTER_0"}
        declared = set()
        of_networks = set()  # which the other library has, with all of this one
        for header in self.headers(".h"):
            with open(os.path.join(self.include, header), encoding="utf-8") as file:
                found = set(re.findall(r"MUSTER_API [^;(]*?\b(muster_\w+)\(", file.read()))
            declared |= found
            if header == "muster/abi/nn.h":
                of_networks = found
        self.assertGreater(len(declared), 50)
        self.assertEqual(exported, declared - of_networks)
        if of_networks:
            listing = interop.run(["nm", "-D", "--defined-only", self.library.replace("libmuster", "libmuster_nn")]).stdout
            self.assertEqual({line.split()[2].split("@")[0] for line in listing.splitlines()} - {"MUSTER_0"}, declared)

    def test_plug_ins_export_no_symbol_of_other_libraries(self):
        """Those of Gloo and of the C++ library would meet the ones that a program, as PyTorch, brings itself."""
        plugins = glob.glob(os.path.join(self.prefix.library, "muster", "libmuster_*.so"))
        if not plugins:
            self.skipTest("no plug-in was built")
        for plugin in plugins:
            names = {line.split()[2].split("@")[0] for line in interop.run(["nm", "-D", "--defined-only", plugin]).stdout.splitlines()}
            self.assertTrue(any(name.endswith("_entry") for name in names), plugin)
            self.assertEqual([name for name in names - {"MUSTER_0"} if not name.startswith("muster_")], [], plugin)

    def test_the_page_names_every_call(self):
        with open(os.path.join(interop.ROOT, "docs", "sdk.md"), encoding="utf-8") as file:
            page = file.read()
        listing = interop.run(["nm", "-D", "--defined-only", self.library]).stdout
        self.assertEqual([name for name in re.findall(r"\b(muster_\w+)", listing) if name not in page], [])

    def test_each_header_compiles_alone(self):
        """The C headers in C99, the C++ ones in C++20; all of the C ones in C++20, too, through muster.h."""
        jobs = [("cc", "-std=c99", "c", name) for name in self.headers(".h")]
        jobs += [("c++", "-std=c++20", "c++", name) for name in ["muster/muster.h", *self.headers(".hpp")]]

        def compile_alone(job):
            compiler, standard, language, header = job
            return job, subprocess.run([compiler, standard, "-I" + self.include, *WARNINGS, language, "-"], text=True,
                                       input=f"#include <{header}>\n#include <{header}>\n", capture_output=True, check=False)

        with ThreadPoolExecutor(2) as pool:
            for job, result in pool.map(compile_alone, jobs):
                self.assertEqual((result.returncode, result.stderr), (0, ""), job)

    def test_they_bring_no_other_library(self):
        included = subprocess.run(["c++", "-std=c++20", "-I" + self.include, "-M", "-x", "c++", "-"], text=True, check=True,
                                  input="#include <muster/muster.hpp>\n", capture_output=True).stdout
        self.assertIn("muster/abi/collectives.h", included)
        self.assertNotRegex(included, r"/(boost|nlohmann|spdlog|fmt|asio|catch2)/")

    def test_internals_stay_at_home(self):
        for root, _, names in os.walk(self.include):
            for name in names:
                with open(os.path.join(root, name), encoding="utf-8") as file:
                    self.assertNotIn('"worker_sdk/', file.read(), name)

    def test_nothing_else_is_installed(self):
        suffixes = {os.path.splitext(re.sub(r"\.so[.\d]*$", ".so", name))[1]
                    for _, _, names in os.walk(self.prefix.path) for name in names}
        self.assertLessEqual(suffixes, {".h", ".hpp", ".so", ".cmake", ".pc"})


if __name__ == "__main__":
    unittest.main()
