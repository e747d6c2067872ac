#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/bench_report.py replaces what a section's marks enclose and nothing else."""
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "scripts", "bench_report.py")
DOCUMENT = "# Benchmarks\n\n<!-- begin launch -->\nold table\n<!-- end launch -->\n\nA remark by hand.\n"


class BenchReport(unittest.TestCase):
    def report(self, section, text):
        with tempfile.TemporaryDirectory() as folder:
            document, result = os.path.join(folder, "benchmarks.md"), os.path.join(folder, "result.md")
            for path, content in ((document, DOCUMENT), (result, text)):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            subprocess.run([sys.executable, SCRIPT, document, f"{section}={result}"], check=True)
            with open(document, encoding="utf-8") as file:
                return file.read()

    def test_a_known_section_is_replaced(self):
        document = self.report("launch", r"new table \1 with a backslash")
        self.assertNotIn("old table", document)
        self.assertIn(r"new table \1 with a backslash", document)
        self.assertTrue(document.endswith("<!-- end launch -->\n\nA remark by hand.\n"))
        self.assertIn("by `scripts/bench.sh launch`", document)

    def test_a_new_section_is_appended(self):
        document = self.report("store", "store table")
        self.assertTrue(document.startswith(DOCUMENT.rstrip()))
        self.assertIn("## Store", document)
        self.assertTrue(document.endswith("store table\n<!-- end store -->\n"))


if __name__ == "__main__":
    unittest.main()
