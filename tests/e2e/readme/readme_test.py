#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What README.md shows is true: its commands are accepted, its links lead somewhere, its scripts exist."""
import json
import os
import re
import shlex
import tempfile
import unittest

import interop

with open(os.path.join(interop.ROOT, "README.md"), encoding="utf-8") as file:
    README = file.read()
BLOCKS = [text for language, text in re.findall(r"^```(\w*)\n(.*?)^```", README, re.S | re.M) if not language]
LINES = [line.removeprefix("$ ").split("  #")[0].strip() for block in BLOCKS for line in block.splitlines()]


class Readme(unittest.TestCase):
    def test_every_run_command_is_a_valid_job(self):
        commands = [line for line in LINES if re.match(r"(build/release/bin/)?muster run ", line)]
        self.assertGreater(len(commands), 3)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("train.py", "pair.py"):
                with open(os.path.join(folder, name), "w", encoding="utf-8"):
                    pass
            for command in commands:
                words = shlex.split(command)[command.split().index("run") + 1:]
                words = [os.path.join(os.path.dirname(interop.MUSTER), word.removeprefix("build/release/bin/"))
                         if word.startswith("build/release/bin/") else word for word in words]
                words = ["1" if word == "gpu" else os.path.join(folder, word) if word in ("train.py", "pair.py") else word
                         for word in words]
                result = interop.run([interop.MUSTER, "run", "--dry-run", *words])
                self.assertIsInstance(json.loads(result.stdout), dict, command)

    def test_every_script_exists_and_explains_itself(self):
        scripts = {line.split()[0] for line in LINES if line.startswith("scripts/")}
        self.assertLessEqual({"scripts/quickstart.sh", "scripts/test.sh", "scripts/lint.sh", "scripts/bench.sh"}, scripts)
        for script in scripts:
            result = interop.run([os.path.join(interop.ROOT, script), "--help"])
            self.assertIn(script, result.stdout)

    def test_every_link_leads_somewhere(self):
        links = re.findall(r"\]\(([^)#]+)\)", README)
        self.assertGreater(len(links), 4)
        for link in links:
            self.assertTrue(os.path.exists(os.path.join(interop.ROOT, link)), link)


if __name__ == "__main__":
    unittest.main()
