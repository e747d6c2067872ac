#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/plot.py draws what was recorded, and says of a file what is wrong with it."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from interop import ROOT, TORCH_PYTHON

SCRIPT = os.path.join(ROOT, "scripts", "plot.py")
sys.path.insert(0, os.path.dirname(SCRIPT))
import plot

# A run that was killed behind step 40, began again from its checkpoint of step 20, and was killed while it wrote.
METRICS = """{"event": "start", "model": "small-cnn", "ranks": 2, "restart": 0}
{"event": "step", "seconds": 1.5, "step": 20, "epoch": 1, "loss": 2.3, "images_per_second": 900}
{"event": "step", "seconds": 3.0, "step": 40, "epoch": 1, "loss": 2.0, "images_per_second": 950}
{"event": "start", "model": "small-cnn", "ranks": 2, "restart": 1}
{"event": "step", "seconds": 1.5, "step": 40, "epoch": 1, "loss": 2.1, "images_per_second": 940}
{"event": "step", "seconds": 3.0, "step": 60, "epoch": 1, "loss": null, "images_per_second": 945}
{"event": "step", "seco"""


def name_of(rank, lane, name):
    return {"ph": "M", "name": "thread_name", "pid": rank, "tid": lane, "args": {"name": name}}


def span(rank, lane, name, begin, length, step):
    return {"ph": "X", "name": name, "pid": rank, "tid": lane, "ts": begin, "dur": length, "args": {"step": step}}


TRACE = {"displayTimeUnit": "ms", "traceEvents": [
    name_of(0, 0, "compute"), name_of(0, 1, "communication"), name_of(1, 0, "compute"),
    span(0, 0, "forward", 1000, 400, 1), span(0, 0, "forward", 2000, 400, 2), span(0, 0, "backward", 2400, 800, 2),
    span(0, 1, "all_reduce", 2700, 300, 2), span(1, 0, "forward", 2050, 390, 2), span(0, 0, "forward", 4000, 400, 3),
    {"ph": "i", "name": "one rank", "pid": 0, "tid": 0, "ts": 0, "s": "g"}]}
ROWS = {"rows": [
    {"network": "mlp-8", "form": "ddp", "ranks": 2, "images_per_second": 190, "memory": {"parameters": 33e6, "gradients": 33e6}},
    {"network": "mlp-8", "form": "ddp", "ranks": 1, "images_per_second": 100},
    {"network": "mlp-8", "form": "zero1", "ranks": 2, "memory": {"parameters": 33e6, "optimizer": 16e6}}]}


def drawing_python():
    """A Python with matplotlib."""
    for python in (sys.executable, TORCH_PYTHON):
        command = [python, "-c", "import matplotlib"]
        if os.access(python, os.X_OK) and subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return python
    return None


class Plot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.metrics = self.write("run.jsonl", METRICS)
        self.trace = self.write("trace.json", json.dumps(TRACE))
        self.bench = self.write("bench.json", json.dumps(ROWS))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_the_last_line_of_a_step_counts(self):
        self.assertEqual([(line["step"], line["loss"]) for line in plot.read_metrics(self.metrics)], [(20, 2.3), (40, 2.1), (60, None)])

    def test_a_step_of_a_trace_begins_at_0(self):
        step, spans = plot.read_step(self.trace, None)
        self.assertEqual(step, 2)
        self.assertEqual(spans, [(0, "compute", "forward", 0, 0.4), (0, "compute", "backward", 0.4, 0.8),
                                 (0, "communication", "all_reduce", 0.7, 0.3), (1, "compute", "forward", 0.05, 0.39)])
        self.assertEqual(plot.read_step(self.trace, 3)[0], 3)

    def test_what_cannot_be_drawn_is_named(self):
        for read, path, words in ((plot.read_metrics, self.write("a", "x\n" + METRICS), "line 1, is no JSON"),
                                  (plot.read_metrics, self.write("b", METRICS[:60]), "holds no step"),
                                  (plot.read_metrics, os.path.join(self.folder, "none"), "No such file"),
                                  (lambda path: plot.read_step(path, 7), self.trace, "has no step 7, but steps 1 to 3"),
                                  (plot.read_rows, self.write("c", '{"rows": [{"form": "ddp"}]}'), "has no network, ranks")):
            with self.assertRaisesRegex(plot.Unusable, words) as error:
                read(path)
            self.assertIn(path, str(error.exception))

    def test_pictures(self):
        python = drawing_python()
        if python is None:
            self.skipTest("no matplotlib; scripts/make_venv.sh installs it where PyPI can be reached")
        result = subprocess.run([python, SCRIPT, "--metrics", self.metrics, "--trace", self.trace, "--bench", self.bench,
                                 "--output", os.path.join(self.folder, "out"), "--format", "svg"],
                                capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        pictures = {}
        for path in result.stdout.split():
            with open(path, encoding="utf-8") as file:
                pictures[os.path.basename(path)] = file.read()
        self.assertEqual(list(pictures), ["loss.svg", "speed.svg", "timeline.svg", "scaling.svg", "memory.svg"])
        # Matplotlib writes each text into the picture as a comment.
        for name, words in (("loss", ("Training loss", "run.jsonl")), ("timeline", ("Step 2", "rank 0, communication", "backward")),
                            ("scaling", ("mlp-8, ddp",)), ("memory", ("optimizer", "zero1"))):
            for word in words:
                self.assertIn(word, pictures[name + ".svg"])
        self.assertNotIn("zero1", pictures["scaling.svg"])


if __name__ == "__main__":
    unittest.main()
