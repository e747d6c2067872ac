#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The component tools by itself: whole under every prefix and every name of the library folder, also after it was moved, and for
older systems than the one it was built on."""
import os
import re
import tempfile
import unittest

import interop
from installed import BUILD, configured, library_folder

# The oldest glibc that our programs shall run on: RHEL 9's. Ubuntu 22.04 has 2.35, Debian 12 2.36.
OLDEST_GLIBC = (2, 34)
# Newer headers name newer functions for what is as old as C (strtol is __isoc23_strtol from 2.38 on).
NEWEST_TO_BUILD_ON = (2, 36)
GLOO = os.path.join(BUILD, "lib", "muster", "libmuster_gloo.so")


def version(text):
    return tuple(int(number) for number in text.split("."))


def newest_glibc(path):
    """Of the versioned symbols that a program or a library needs."""
    listing = interop.run(["objdump", "-T", path]).stdout
    return max(version(found) for found in re.findall(r"\(?GLIBC_(2\.[\d.]+)\)? ", listing))


class Tools(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-tools-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def install(self, tree):
        """The component tools of `tree`, moved after it was installed."""
        first, path = os.path.join(self.folder, "first"), os.path.join(self.folder, "another place")
        interop.run(["cmake", "--install", tree, "--component", "tools", "--prefix", first, "--strip"])
        os.rename(first, path)
        return path

    def train(self, prefix):
        """Two ranks of the installed program over a plug-in."""
        program = os.path.join(prefix, "bin", "muster-train")
        result = interop.run([os.path.join(prefix, "bin", "muster"), "run", "--nproc-per-node", 2, program,
                              "--data", "synthetic:64", "--max-steps", "2", "--batch-size", "16"], MUSTER_BACKEND="gloo")
        self.assertIn("steps", result.stdout)

    def test_as_it_is(self):
        if not os.path.exists(GLOO):
            self.skipTest("built without Gloo")
        prefix = self.install(BUILD)
        self.assertEqual(sorted(os.listdir(os.path.join(prefix, "bin"))), ["muster", "muster-train"])
        share = os.path.join(prefix, "share")
        self.assertIn("report.json", os.listdir(os.path.join(share, "muster", "schema")))
        if os.path.exists(os.path.join(BUILD, "pages")):
            for path in ("man/man1/muster-run.1", "man/man1/muster-train.1", "bash-completion/completions/muster", "zsh/site-functions/_muster",
                         "fish/vendor_completions.d/muster.fish"):
                self.assertTrue(os.path.exists(os.path.join(share, path)), path)
        self.train(prefix)

    def test_where_the_library_folder_has_another_name(self):
        if not os.path.exists(GLOO):
            self.skipTest("built without Gloo")
        tree, folder = os.path.join(self.folder, "tree"), library_folder()
        configured(tree, folder)
        prefix = self.install(tree)
        self.assertIn("libmuster_gloo.so", os.listdir(os.path.join(prefix, folder, "muster")))
        self.assertFalse(os.path.exists(os.path.join(prefix, "lib", "muster")))
        self.train(prefix)

    def test_it_runs_on_older_systems(self):
        if interop.sanitized():
            self.skipTest("a sanitizer's library is of this system")
        built_on = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
        if version(built_on) > NEWEST_TO_BUILD_ON:
            self.skipTest(f"built with glibc {built_on}, whose headers name newer functions")
        plugins = os.path.dirname(GLOO)
        files = [os.path.join(BUILD, "bin", "muster"), os.path.join(BUILD, "bin", "muster-train"),
                 os.path.join(BUILD, "lib", "libmuster.so")]
        files += [os.path.join(plugins, name) for name in os.listdir(plugins)] if os.path.isdir(plugins) else []
        for path in files:
            with self.subTest(os.path.basename(path)):
                self.assertLessEqual(newest_glibc(path), OLDEST_GLIBC)


if __name__ == "__main__":
    unittest.main()
