#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/package/tarball.py writes one folder with all that is staged, the same bytes each time."""
import os
import tarfile
import unittest

from staged import Staged


class Tarball(Staged):
    def setUp(self):
        super().setUp()
        self.put("stage/lib/libmuster.so.0.1.0", "\x7fELF library")
        os.symlink("libmuster.so.0.1.0", self.path("stage/lib/libmuster.so.0"))

    def write(self, dist):
        return self.written_by(["tarball.py"], self.path(dist))

    def test_everything_lies_in_one_folder_and_belongs_to_root(self):
        path = self.write("dist")
        top = f"muster-{self.version}-linux-x86_64"
        self.assertEqual(os.path.basename(path), top + ".tar.gz")
        with tarfile.open(path) as tar:
            members = {member.name: member for member in tar.getmembers()}
            text = {name: tar.extractfile(member).read().decode() for name, member in members.items() if member.isfile()}
        self.assertEqual({name.split("/")[0] for name in members}, {top})
        self.assertEqual({(member.uid, member.gid, member.mtime) for member in members.values()}, {(0, 0, 1700000000)})
        self.assertEqual(members[f"{top}/bin/muster"].mode, 0o755)
        self.assertEqual(members[f"{top}/include/muster/muster.h"].mode, 0o644)
        self.assertEqual(members[f"{top}/lib/libmuster.so.0"].linkname, "libmuster.so.0.1.0")
        self.assertEqual(text[f"{top}/licenses/gloo.txt"], "of Gloo")
        self.assertIn("libmuster.so", text[f"{top}/README"])
        self.assertIn(f"Muster {self.version} ", text[f"{top}/README"])
        for name in ("LICENSE", "licenses/libssl-dev.copyright", "licenses/libcxx.txt", "python/muster/__init__.py", "share/muster/schema/report.json"):
            self.assertIn(f"{top}/{name}", text)
        self.assertFalse([name for name in members if "__pycache__" in name])

    def test_the_same_inputs_give_the_same_bytes(self):
        with open(self.write("one"), "rb") as one, open(self.write("two"), "rb") as two:
            self.assertEqual(one.read(), two.read())


if __name__ == "__main__":
    unittest.main()
