# SPDX-License-Identifier: Apache-2.0
"""What the tests of wheel.py and tarball.py have in common: an installed tree and a compiler's licences, of a few words each."""

import os
import subprocess
import sys
import tempfile
import unittest

from interop import ROOT

PACKAGE = os.path.join(ROOT, "scripts", "package")
sys.path.insert(0, PACKAGE)

import wheel


class Staged(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.version = wheel.version_of(ROOT)
        self.put("stage/bin/muster", "program")
        self.put("stage/include/muster/muster.h", "header")
        self.put("stage/share/muster/schema/report.json", "schema")
        self.put("stage/licenses/gloo.txt", "of Gloo")
        for library in wheel.COMPILED_IN:
            self.put(f"compiler/{library}/LICENSE.TXT", library)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def put(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def written_by(self, script, *arguments):
        """The path of what the script, with the words that it begins with, makes of the tree."""
        ran = subprocess.run([sys.executable, os.path.join(PACKAGE, script[0]), *script[1:], self.path("stage"), ROOT, self.path("compiler"), *arguments],
                             env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}, capture_output=True, text=True, timeout=60, check=True)
        return ran.stdout.strip()
