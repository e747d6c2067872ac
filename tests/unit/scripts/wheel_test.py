#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/package/wheel.py writes a wheel that installers take, the same bytes each time."""
import base64
import csv
import hashlib
import os
import shutil
import subprocess
import unittest
import zipfile

from staged import Staged


class Wheel(Staged):
    def setUp(self):
        super().setUp()
        self.put(f"stage/lib/libmuster.so.{self.version}", "library")
        self.put("stage/lib/cmake/Muster/MusterTargets-relwithdebinfo.cmake", f"lib/libmuster.so.{self.version} libmuster.so.0")
        os.symlink(f"libmuster.so.{self.version}", self.path("stage/lib/libmuster.so.0"))
        self.put("stage/lib/muster/libmuster_gloo.so", "\x7fELF plug-in")

    def write(self, dist, kind="launch"):
        return self.written_by(["wheel.py", kind], "manylinux_2_28_x86_64", self.path(dist))

    def test_each_file_is_recorded_with_its_hash_and_programs_are_executable(self):
        path = self.write("dist")
        self.assertEqual(os.path.basename(path), f"muster_launch-{self.version}-py3-none-manylinux_2_28_x86_64.whl")
        data, info = f"muster_launch-{self.version}.data", f"muster_launch-{self.version}.dist-info"
        with zipfile.ZipFile(path) as file:
            names = file.namelist()
            rows = {row[0]: row[1:] for row in csv.reader(file.read(f"{info}/RECORD").decode().splitlines())}
            self.assertEqual(sorted(rows), sorted(names))
            for name in names:
                if name != f"{info}/RECORD":
                    digest = base64.urlsafe_b64encode(hashlib.sha256(file.read(name)).digest()).rstrip(b"=").decode()
                    self.assertEqual(rows[name], [f"sha256={digest}", str(file.getinfo(name).file_size)], name)
            self.assertEqual(file.getinfo(f"{data}/scripts/muster").external_attr >> 16, 0o100755)
            self.assertEqual(file.read(f"{data}/data/lib/libmuster.so.0"), b"library")
            self.assertEqual(file.read(f"{data}/data/lib/libmuster.so"), b"INPUT(libmuster.so.0)\n")
            self.assertEqual(file.read(f"{data}/data/lib/cmake/Muster/MusterTargets-relwithdebinfo.cmake"), b"lib/libmuster.so.0 libmuster.so.0")
            self.assertEqual(file.read(f"{data}/data/share/muster/schema/report.json"), b"schema")
            self.assertIn("muster/__init__.py", names)
            self.assertFalse([name for name in names if "__pycache__" in name])
            self.assertIn(f"Version: {self.version}\n", file.read(f"{info}/METADATA").decode())
            self.assertIn(f"{info}/licenses/libcxx.txt", names)
            self.assertEqual(file.read(f"{info}/licenses/gloo.txt"), b"of Gloo")
            self.assertEqual(file.getinfo(f"{data}/data/lib/muster/libmuster_gloo.so").external_attr >> 16, 0o100755)

    def test_the_trainer_is_a_wheel_of_its_own_that_asks_for_the_launcher_of_its_version(self):
        shutil.rmtree(self.path("stage"))
        self.put("stage/bin/muster-train", "program")
        self.put("stage/lib/muster/libmuster_omp.so.1", "\x7fELF runtime")
        licences = ("libomp.txt", "onednn.txt", "onednn-third-party-programs.txt")
        for name in licences[:2]:
            self.put(f"stage/licenses/{name}", "licence")
        with self.assertRaises(subprocess.CalledProcessError) as refused:
            self.write("dist", "train")
        self.assertIn(f"has no {licences[2]}", refused.exception.stderr)
        self.put(f"stage/licenses/{licences[2]}", "licence")
        path = self.write("dist", "train")
        base = f"muster_train-{self.version}"
        self.assertEqual(os.path.basename(path), f"{base}-py3-none-manylinux_2_28_x86_64.whl")
        with zipfile.ZipFile(path) as file:
            self.assertEqual([name for name in file.namelist() if "/licenses/" not in name],
                             [f"{base}.data/scripts/muster-train", f"{base}.data/data/lib/muster/libmuster_omp.so.1",
                              *(f"{base}.dist-info/{name}" for name in ("LICENSE", "METADATA", "WHEEL", "RECORD"))])
            for name in licences:
                self.assertEqual(file.read(f"{base}.dist-info/licenses/{name}"), b"licence")
            self.assertIn(f"Requires-Dist: muster-launch=={self.version}\n", file.read(f"{base}.dist-info/METADATA").decode())

    def test_the_same_inputs_give_the_same_bytes(self):
        with open(self.write("one"), "rb") as one, open(self.write("two"), "rb") as two:
            self.assertEqual(one.read(), two.read())


if __name__ == "__main__":
    unittest.main()
