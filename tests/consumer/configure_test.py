#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What somebody meets who configures the tree for the first time: presets, defaults, and packages that are not there."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import interop
from installed import cached

# Open MPI's programs as a distribution packs them without mpi.h: mpicc is there and names a folder that is not.
MPICC = """#!/bin/sh
case "$1" in
  -showme:version) echo "mpicc: Open MPI 4.1.4 (Language: C)" ;;
  -showme:compile | -showme:incdirs) echo "-I/nowhere/openmpi/include" ;;
  -showme:link) echo "-L{folder} -lmpi" ;;
  -showme:libdirs) echo "{folder}" ;;
  -showme:libs) echo mpi ;;
  -showme*) ;;
  *) exec cc -I/nowhere/openmpi/include "$@" ;;
esac
"""


def without(*packages):
    return [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in packages]


class Configure(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-configure-")
        self.addCleanup(folder.cleanup)
        self.tree = os.path.join(folder.name, "tree")
        self.folder = folder.name

    def configure(self, *arguments, check=True, **environment):
        return interop.run(["cmake", "-S", interop.ROOT, "-B", self.tree, *arguments], check=check, timeout=240, **environment)

    def test_without_a_build_type(self):
        """As `cmake -B build`: optimized, and a warning of a newer compiler stops nobody."""
        self.configure("-DMUSTER_BUILD_TOOLS=OFF")
        self.assertEqual(cached("CMAKE_BUILD_TYPE", self.tree), "RelWithDebInfo")
        self.assertEqual(cached("MUSTER_WARNINGS_AS_ERRORS", self.tree), "OFF")

    def test_warnings_are_errors_for_developers_only(self):
        for preset, expected in (("release", False), ("debug", False), ("asan", True), ("tsan", True)):
            with self.subTest(preset):
                said = self.configure("--preset", preset, "-N").stdout
                self.assertIn("CMAKE_BUILD_TYPE", said)
                self.assertEqual('MUSTER_WARNINGS_AS_ERRORS="ON"' in said, expected, said)

    def test_mpi_programs_without_headers(self):
        mpicc = os.path.join(self.folder, "mpicc")
        with open(mpicc, "w", encoding="utf-8") as file:
            file.write(MPICC.format(folder=self.folder))
        os.chmod(mpicc, 0o755)
        os.symlink(mpicc, os.path.join(self.folder, "mpiexec"))
        subprocess.run(["cc", "-shared", "-o", os.path.join(self.folder, "libmpi.so"), "-x", "c", "/dev/null"], check=True)
        path = self.folder + ":" + os.environ["PATH"]
        said = self.configure("-DMUSTER_BUILD_TOOLS=OFF", PATH=path).stdout
        self.assertIn(f"mpi: not built: {mpicc} finds no mpi.h", said)
        refused = self.configure("-DMUSTER_BUILD_TOOLS=OFF", "-DMUSTER_WITH_MPI=ON", check=False, PATH=path)
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn(f"MUSTER_WITH_MPI is ON, but {mpicc} finds no mpi.h", re.sub(r"\s+", " ", refused.stderr))

    def test_headers_of_nccl(self):
        """Those of the oldest version that runs are enough."""
        def write(name, text):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(text)

        header = "#define NCCL_MAJOR 2\n#define NCCL_MINOR {}\n#define NCCL_PATCH 5\n"
        write("cuda_runtime_api.h", "")
        write("nccl.h", header.format(19))
        where = [f"-DMUSTER_{name}_INCLUDE={self.folder}" for name in ("NCCL", "CUDART")]
        without_others = [f"-DMUSTER_WITH_{part}=OFF" for part in ("GLOO", "MPI", "GPU")]
        said = self.configure("-DMUSTER_BUILD_TOOLS=OFF", *where, *without_others).stdout
        self.assertIn(f"nccl: 2.19.5, {self.folder}\n", said)
        write("nccl.h", header.format(18))
        refused = self.configure("-DMUSTER_WITH_NCCL=ON", check=False)
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn(f"MUSTER_WITH_NCCL is ON, but {self.folder}/nccl.h is 2.18.5, and 2.19 is needed", re.sub(r"\s+", " ", refused.stderr))

    def test_parts_that_are_not_wanted(self):
        parts = ("GLOO", "GPU", "HWLOC", "MPI", "NCCL", "PAGES")
        said = self.configure("-DMUSTER_BUILD_TRAINER=OFF", "-DMUSTER_BUILD_TESTS=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                              *(f"-DMUSTER_WITH_{part}=OFF" for part in parts)).stdout
        lines = [f"--   {part.lower()}: not built: MUSTER_WITH_{part} is OFF\n" for part in parts]
        self.assertIn(f"with (MUSTER_WITH_NAME=ON|OFF|AUTO):\n{''.join(lines)}", said)
        with open(os.path.join(self.tree, "compile_commands.json"), encoding="utf-8") as commands:
            self.assertIn("MUSTER_HWLOC=0", commands.read(), "muster version --json names a part that is not there")
        refused = self.configure("-DMUSTER_WITH_GLOO=maybe", check=False)
        self.assertIn("MUSTER_WITH_GLOO is maybe; give ON, OFF or AUTO", refused.stderr)

    def test_a_build_for_another_kind_of_machine_has_no_man_pages(self):
        """They are made by running the programs."""
        said = self.configure("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=riscv64", "-DMUSTER_BUILD_TRAINER=OFF", "-DMUSTER_BUILD_TESTS=OFF",
                              *(f"-DMUSTER_WITH_{part}=OFF" for part in ("GLOO", "GPU", "HWLOC", "MPI", "NCCL"))).stdout
        self.assertIn("pages: not built: this machine cannot run muster to ask it, which is built for Linux on riscv64\n", said)

    def test_clang_knows_the_flags_of_single_files(self):
        """They stand beside the loops that are compiled for one instruction set, and g++ has warnings of its own."""
        if shutil.which("clang++-16") is None:
            self.skipTest("no clang++-16")
        self.configure("-G", "Ninja", "-DMUSTER_BUILD_TOOLS=OFF", "-DMUSTER_WARNINGS_AS_ERRORS=ON", "-DCMAKE_C_COMPILER=clang-16",
                       "-DCMAKE_CXX_COMPILER=clang++-16")
        interop.run(["cmake", "--build", self.tree, "--target",
                     "worker_sdk/comm/CMakeFiles/muster_comm.dir/reduce_kernels_base.cpp.o"], timeout=240)

    def test_the_launcher_alone(self):
        """It needs neither oneDNN nor what comes with it; who has no oneDNN is told so."""
        absent = without("dnnl", "OpenCL", "OpenMP", "Catch2")
        said = self.configure("-DMUSTER_BUILD_TRAINER=OFF", "-DMUSTER_BUILD_TESTS=OFF", *absent).stdout
        self.assertIn("pages: man pages, completion for bash, zsh and fish\n", said)
        result = self.configure("-DMUSTER_BUILD_TRAINER=ON", "-DMUSTER_BUILD_TESTS=OFF", *without("dnnl"), check=False)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(re.sub(r"\s+", " ", result.stderr), r"dnnl was not found .*-DMUSTER_BUILD_TRAINER=OFF builds without")


if __name__ == "__main__":
    unittest.main()
