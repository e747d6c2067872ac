#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks.svg is what scripts/benchmarks_picture.py draws from docs/benchmarks.md, and has the figures of its tables."""
import contextlib
import io
import os
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import benchmarks_picture  # noqa: E402

PAGE = """# Benchmarks

<!-- begin launch -->
Made 2026-11-28 at 24f5c7e46ddd on 2 cores of a processor (avx2), Linux 6, by `scripts/bench.sh launch`.

### Wall time of a job of two workers that do nothing (`run --nproc-per-node 2 true`)

| launcher | median (min to max) | muster's median / this |
|---|---|---|
| `muster run` | 10.1 ms (8.4 to 20.1) | |
| `torchrun` | 2200.2 ms (1894.2 to 2748.2) | 0.00459 (goal <= 0.02: met) |

### Memory of the launcher's own processes while two workers run (sum of PSS)

| launcher | processes | MiB |
|---|---|---|
| `muster run`, median of 5 jobs | 4 | 3.28 (goal <= 5: met) |
| `mpirun` | 1 | 10.3 |
<!-- end launch -->

<!-- begin collectives -->
Made 2026-11-26 at 53ecba688f78 on 2 cores of a processor (avx2), Linux 6, by `scripts/bench.sh collectives`.

### all_reduce, 2 ranks

| buffer | shm, any memory | Gloo |
|---|---|---|
| 1 MiB | 289.33 µs | 888.60 µs |
| 25 MiB | 821.5 µs | 27.5 ms |
<!-- end collectives -->
"""


class Picture(unittest.TestCase):
    def run_main(self, page, *arguments, before=None):
        """Exit code, what was said on stderr, and the picture."""
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, "docs"))
            for path, text in ((benchmarks_picture.PAGE, page), (benchmarks_picture.PICTURE, before)):
                if text is not None:
                    with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                        file.write(text)
            with contextlib.redirect_stderr(io.StringIO()) as said:
                code = benchmarks_picture.main([*arguments, root])
            path = os.path.join(root, benchmarks_picture.PICTURE)
            if not os.path.exists(path):
                return code, said.getvalue(), None
            with open(path, encoding="utf-8") as file:
                return code, said.getvalue(), file.read()

    def test_the_committed_picture_is_that_of_the_committed_page(self):
        self.assertEqual(benchmarks_picture.main(["--check", ROOT]), 0)

    def test_bars_are_in_proportion_to_the_figures_of_the_page(self):
        code, said, drawn = self.run_main(PAGE)
        self.assertEqual(code, 0, said)
        xml.etree.ElementTree.fromstring(drawn)
        bars = [(whose, float(width)) for whose, width in re.findall(r'<rect class="(\w+)".*?width="([\d.]+)" height="16"', drawn)]
        figures = re.findall(r">([\d.,]+) (ms|MiB)</text>", drawn)
        self.assertEqual(figures, [("10.1", "ms"), ("2,200", "ms"), ("3.28", "MiB"), ("10.3", "MiB"), ("0.822", "ms"), ("27.5", "ms")])
        self.assertEqual([whose for whose, _ in bars], ["ours", "other"] * 3)
        self.assertAlmostEqual(bars[2][1] / bars[3][1], 3.28 / 10.3, places=2)
        self.assertIn("2026-11-26, 2 cores of a processor, 53ecba6", drawn)

    def test_an_old_picture_is_told(self):
        drawn = self.run_main(PAGE)[2]
        self.assertEqual(self.run_main(PAGE, "--check", before=drawn), (0, "", drawn))
        code, said, after = self.run_main(PAGE.replace("27.5 ms", "26.5 ms"), "--check", before=drawn)
        self.assertEqual((code, after), (1, drawn))
        self.assertIn("run scripts/benchmarks_picture.py", said)

    def test_a_page_without_our_figures_is_refused(self):
        for old, new, words in (("| `muster run` | 10.1", "| `other` | 10.1", "no figure of '`muster run`'"),
                                ("| 25 MiB |", "| 24 MiB |", "no figure of 'shm, any memory'"),
                                ("### all_reduce, 2 ranks", "### all_reduce", "no table"),
                                ("Made 2026-11-26 at", "By hand, at", "does not say when"), ("10.1 ms", "soon", "begins with no number"),
                                ("begin collectives", "begin others", "no section 'collectives'")):
            code, said, drawn = self.run_main(PAGE.replace(old, new))
            self.assertEqual((code, drawn), (1, None), old)
            self.assertIn(words, said)


if __name__ == "__main__":
    unittest.main()
