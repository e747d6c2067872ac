#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of others against the installed SDK: CMake's find_package, pkg-config with plain cc, and a heat equation
solver that had an MPI call in each place where it now has one of ours; each bare, under muster run and under torchrun."""
import os
import re
import shutil
import unittest

import interop
from installed import BUILD, Prefix

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.join(HERE, "project")
GRID = ["96", "64", "300"]


def build(prefix):
    """The folder with the project's programs, built by CMake."""
    folder = os.path.join(prefix.work, "build")
    interop.run(["cmake", "-S", PROJECT, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix.path}", "-DCMAKE_BUILD_TYPE=Release",
                 "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"])
    interop.run(["cmake", "--build", folder, "--parallel", "2"])
    return folder


def page_blocks():
    """The five steps of docs/sdk.md: the first block of each language, and under "" all commands one after another."""
    with open(os.path.join(interop.ROOT, "docs", "sdk.md"), encoding="utf-8") as file:
        steps = re.search(r"^## Embed it in five steps\n(.*?)^## ", file.read(), re.S | re.M).group(1)
    found = re.findall(r"^```(\w*)\n(.*?)^```", steps, re.S | re.M)
    return {**dict(reversed(found)), "": "".join(text for language, text in found if not language)}


def contents(path):
    with open(path, "rb") as file:
        return file.read()


class Consumer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = Prefix()
        cls.prefix.__enter__()
        cls.addClassCleanup(cls.prefix.__exit__)
        cls.build = build(cls.prefix)
        cls.serial = os.path.join(cls.prefix.work, "serial.bin")
        said = interop.run([os.path.join(cls.build, "heat2d_serial"), *GRID, cls.serial]).stdout
        cls.iterations = re.search(r"\d+ iterations, last change .*", said).group()

    def heat(self, ranks, launch, program="heat2d"):
        """Runs the solver by `launch`; its field and its last change are, bit for bit, those of the serial program."""
        field = os.path.join(self.prefix.work, f"field-{ranks}.bin")
        result = interop.run([*launch, os.path.join(self.build, program), *GRID, field])
        self.assertIn(f"heat2d: {ranks} processes, {self.iterations}", result.stdout)
        self.assertEqual(contents(self.serial), contents(field))
        os.unlink(field)
        return result

    def ring(self, ranks, launch):
        result = interop.run([*launch, os.path.join(self.build, "ring")])
        total = ranks * (ranks - 1) // 2
        self.assertIn(f"ring: {ranks} ranks, sum {total} of {total}, {(ranks + 1) // 2} even, last rank {ranks - 1}",
                      result.stdout)

    def test_bare(self):
        self.heat(1, [])
        self.ring(1, [])

    def test_muster_run(self):
        for ranks in (2, 3, 8):
            launch = [interop.MUSTER, "run", "--nproc-per-node", ranks]
            self.heat(ranks, launch)
            self.ring(ranks, launch)

    def test_torchrun(self):
        if not os.path.exists(interop.TORCHRUN):
            self.skipTest(f"no PyTorch at {interop.TORCH_PYTHON}")
        self.heat(2, [interop.TORCHRUN, "--nproc-per-node", 2, "--no-python"])

    def test_mpirun(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun")
        launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", 2]
        self.heat(2, launch)
        self.ring(2, launch)

    def test_an_installed_plug_in(self):
        if not os.path.exists(os.path.join(self.prefix.library, "muster", "libmuster_gloo.so")):
            self.skipTest("built without Gloo")
        launch = ["env", "MUSTER_BACKEND=gloo", "LOGLEVEL=INFO", interop.MUSTER, "run", "--nproc-per-node", 2]
        self.assertIn("backend gloo", self.heat(2, launch).stderr)
        self.ring(2, launch)

    def test_as_it_was_under_mpirun(self):
        """The same file with its MPI calls: the program was one before we came."""
        if shutil.which("mpicc") is None or shutil.which("mpirun") is None:
            self.skipTest("no mpicc")
        interop.run(["mpicc", "-O2", "-DWITH_MPI", os.path.join(PROJECT, "heat2d.c"), "-o",
                     os.path.join(self.build, "heat2d_mpi"), "-lm"])
        self.heat(2, ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", 2], "heat2d_mpi")

    def need_networks(self):
        if not os.path.exists(os.path.join(self.prefix.library, "libmuster_nn.so")):
            self.skipTest("built without the trainer")

    def own_network(self, ranks, device, **environment):
        """Trains the network of docs/nn.md; what it says, and the tensors that it leaves."""
        left = os.path.join(self.prefix.work, f"own-{device}-{ranks}.safetensors")
        said = interop.run([interop.MUSTER, "run", "--nproc-per-node", ranks, os.path.join(self.build, "own_network"), device, left],
                           OMP_NUM_THREADS="1", **environment)
        loss, right = re.search(rf"{ranks} ranks: loss (\S+), (\S+) % right", said.stdout).groups()
        self.assertLess(float(loss), 0.1)
        self.assertGreater(float(right), 98)
        return said, interop.float_tensors(left)

    def test_a_network_of_ones_own(self):
        """One rank learns it, and two do, with the same bits in each run."""
        self.need_networks()
        self.own_network(1, "cpu")
        first, second = (self.own_network(2, "cpu") for _ in range(2))
        self.assertEqual(first[0].stdout, second[0].stdout)
        self.assertEqual(first[1], second[1])

    def test_a_network_of_ones_own_on_devices(self):
        """On the fakes of CUDA, cuDNN and NCCL."""
        fakes = os.path.join(BUILD, "tests", "fakes", "lib")
        if not all(os.path.exists(file) for file in (os.path.join(self.prefix.library, "muster", "libmuster_cuda.so"),
                                                     os.path.join(fakes, "libcudnn.so.9"), os.path.join(fakes, "libnccl.so.2"))):
            self.skipTest("no plug-in of GPUs, or no fakes")
        _, cpu = self.own_network(2, "cpu")
        folder = os.path.join(self.prefix.work, "fake_gpus")
        os.mkdir(folder)
        said, cuda = self.own_network(2, "cuda", LD_LIBRARY_PATH=fakes, FAKE_GPU_DIR=folder, LOGLEVEL="INFO")
        self.assertIn("backend nccl", said.stderr)
        self.assertFalse(os.path.exists(os.path.join(folder, "violations")))
        self.assertEqual(cpu.keys(), cuda.keys())
        self.assertIn("3.3.weight", cpu)
        for name, values in cpu.items():
            # The mean: Adam makes a whole step of the noise in a gradient that is nearly zero.
            difference = sum(abs(a - b) for a, b in zip(values, cuda[name], strict=True)) / len(values)
            self.assertLess(difference, 0.01, name)

    def test_the_network_of_the_page(self):
        """docs/nn.md shows that program, which has at most 60 lines."""
        self.need_networks()
        program = contents(os.path.join(PROJECT, "own_network.cpp")).decode()
        self.assertLessEqual(program.count("\n"), 60)
        with open(os.path.join(interop.ROOT, "docs", "nn.md"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("```cpp\n" + program[program.index("#include"):] + "```", page)
        for header in ("muster/nn.hpp", "muster/nn_layers.hpp"):
            for name in re.findall(r"^inline \w+ (\w+)\(", contents(os.path.join(self.prefix.path, "include", header)).decode(), re.M):
                if name not in ("quoted", "shuffled"):
                    self.assertIn(f"`{name}(", page)

    def test_older_cpp_is_told_in_a_line(self):
        """The headers that a program includes, by themselves; CMake's targets ask for C++20 where nobody did (the project above)."""
        for header in ("muster/muster.hpp", "muster/nn.hpp", "muster/elements.hpp", "muster/group.hpp", "muster/reducer.hpp"):
            result = interop.run(["c++", "-std=c++17", "-fsyntax-only", "-x", "c++", "-I" + os.path.join(self.prefix.path, "include"),
                                  "-include", header, "/dev/null"], check=False)
            self.assertEqual(result.returncode, 1, header)
            self.assertIn("C++ headers need C++20 (-std=c++20)", result.stderr)
            self.assertLess(result.stderr.count("\n"), 20, result.stderr)

    def test_c_alone(self):
        """A project that knows no C++ links the same target."""
        source = os.path.join(self.prefix.work, "c_alone")
        os.mkdir(source)
        with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.20)\nproject(Alone LANGUAGES C)\nfind_package(Muster REQUIRED)\n"
                       f"add_executable(heat2d {PROJECT}/heat2d.c)\ntarget_link_libraries(heat2d PRIVATE Muster::muster m)\n")
        interop.run(["cmake", "-S", source, "-B", os.path.join(source, "build"), f"-DCMAKE_PREFIX_PATH={self.prefix.path}"])

    def test_one_library_of_two(self):
        """Muster::nn holds the calls of Muster::muster: a program that links both is refused by CMake."""
        self.need_networks()
        source = os.path.join(self.prefix.work, "both")
        os.mkdir(source)
        with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.20)\nproject(Both LANGUAGES CXX)\nfind_package(Muster REQUIRED COMPONENTS nn)\n"
                       f"add_executable(both {PROJECT}/ring.cpp)\ntarget_link_libraries(both Muster::muster Muster::nn)\n")
        result = interop.run(["cmake", "-S", source, "-B", os.path.join(source, "build"), f"-DCMAKE_PREFIX_PATH={self.prefix.path}"],
                             check=False)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("MUSTER_LIBRARY", result.stderr)

    def test_pkg_config_and_plain_cc(self):
        if shutil.which("pkg-config") is None:
            self.skipTest("no pkg-config")
        said = interop.run(["pkg-config", "--cflags", "--libs", "muster"],
                           PKG_CONFIG_PATH=os.path.join(self.prefix.library, "pkgconfig"))
        program = os.path.join(self.prefix.work, "embed_c")
        source = os.path.join(interop.ROOT, "worker_sdk", "examples", "embed_c.c")
        interop.run(["cc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", source, "-o", program, *said.stdout.split(),
                     f"-Wl,-rpath,{self.prefix.library}"])
        result = interop.run([interop.MUSTER, "run", "--nproc-per-node", 4, program])
        self.assertIn("4 ranks: pi is 3.14159", result.stdout)

    def test_what_the_page_shows(self):
        """docs/sdk.md: its first program, its ten lines, the commands of its five steps with their output, its CMake project in C and C++."""
        blocks = page_blocks()
        folder = os.path.join(self.prefix.work, "page")
        os.makedirs(os.path.join(folder, "build"))
        os.symlink(BUILD, os.path.join(folder, "build", "release"))
        for name, language in (("pi.c", "c"), ("mean.cpp", "cpp"), ("CMakeLists.txt", "cmake")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(blocks[language])
        self.assertEqual(re.findall(r"// (\d+)", blocks["c"]), [str(number) for number in range(1, 11)])
        commands = "\n".join(line.removeprefix("$ ") for line in blocks[""].splitlines() if line.startswith("$ "))
        expected = "\n".join(line for line in blocks[""].splitlines() if not line.startswith("$ "))
        result = interop.run(["sh", "-e", "-c", f"cd {folder}\n{commands}\n"], PREFIX=os.path.join(folder, "prefix"),
                             PATH=os.path.dirname(interop.MUSTER) + ":" + os.environ["PATH"])
        said = [line for line in result.stdout.splitlines() if "pi is" in line]
        self.assertEqual("\n".join(said), expected)
        with open(os.path.join(interop.ROOT, "docs", "sdk.md"), encoding="utf-8") as file:
            first = re.search(r"^```cpp\n(.*?)^```", file.read().partition("\n## ")[0], re.S | re.M).group(1)
        program = os.path.join(folder, "first")
        with open(program + ".cpp", "w", encoding="utf-8") as file:
            file.write(first)
        interop.run(["c++", "-std=c++20", "-I" + os.path.join(self.prefix.path, "include"), program + ".cpp", "-o", program,
                     "-L" + self.prefix.library, "-lmuster", "-Wl,-rpath," + self.prefix.library])
        self.assertEqual(interop.run([program]).stdout, "the sum over 1 ranks is 1\n")
        interop.run(["cmake", "-S", folder, "-B", os.path.join(folder, "b"), f"-DCMAKE_PREFIX_PATH={self.prefix.path}"])
        interop.run(["cmake", "--build", os.path.join(folder, "b")])
        result = interop.run([interop.MUSTER, "run", "--nproc-per-node", 2, os.path.join(folder, "b", "mean")])
        self.assertIn("the mean over 2 ranks is 0.5", result.stdout)

    def test_a_backend_that_must_be_there(self):
        """find_package(Muster COMPONENTS ...): what this installation has is found, and nothing else."""
        source = os.path.join(self.prefix.work, "components")
        os.mkdir(source)
        with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.20)\nproject(Components LANGUAGES C)\n"
                       "find_package(Muster REQUIRED COMPONENTS ${wanted})\n")
        plugins = os.path.join(self.prefix.library, "muster")
        there = [name[len("libmuster_"):-len(".so")] for name in os.listdir(plugins)] if os.path.isdir(plugins) else []
        command = ["cmake", "-S", source, f"-DCMAKE_PREFIX_PATH={self.prefix.path}"]
        interop.run([*command, "-B", os.path.join(source, "a"), "-Dwanted=" + ";".join(["shm", *there])])
        result = interop.run([*command, "-B", os.path.join(source, "b"), "-Dwanted=carrier_pigeon"], check=False)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("this installation has no backend carrier_pigeon", " ".join(result.stderr.split()))

    def test_add_subdirectory(self):
        """Our tree in theirs: configured, with no package of the distribution found (Boost, JSON ... are the tools')."""
        source = os.path.join(self.prefix.work, "with_us")
        os.mkdir(source)
        with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.25)\nproject(WithUs LANGUAGES C CXX)\n"
                       f"add_subdirectory({interop.ROOT} muster)\nadd_executable(heat2d {PROJECT}/heat2d.c)\n"
                       "target_link_libraries(heat2d PRIVATE Muster::muster)\n")
        disabled = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON"
                    for name in ("Boost", "nlohmann_json", "spdlog", "CLI11", "dnnl", "Catch2", "OpenMP")]
        tree = os.path.join(source, "build")
        said = interop.run(["cmake", "-S", source, "-B", tree, *disabled]).stderr
        self.assertIn("CMAKE_BUILD_TYPE is empty, so libmuster.so is compiled without optimization", said)
        # What they install is theirs alone, unless they ask for ours.
        interop.run(["cmake", "--install", tree, "--prefix", os.path.join(source, "prefix")])
        self.assertFalse(os.path.exists(os.path.join(source, "prefix", "include")))

    def test_a_rank_that_dies_is_named(self):
        """The grid is refused on rank 1 alone: the others do not hang, and the job's exit code is the rank's."""
        result = interop.run([interop.MUSTER, "run", "--nproc-per-node", 2, "sh", "-c",
                              f'[ "$RANK" = 1 ] && set -- || set -- {" ".join(GRID)} /dev/null;'
                              f' exec {os.path.join(self.build, "heat2d")} "$@"'], check=False)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("rank 1: usage", result.stderr)


if __name__ == "__main__":
    unittest.main()
