#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An exception in a function under PyTorch's @record is shown by our report, with its traceback."""
import json
import os
import tempfile
import unittest

import interop

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker_record.py")


class Record(unittest.TestCase):
    def test_report_shows_the_traceback(self):
        result = interop.muster_run(["--nproc-per-node", "2", WORKER], check=False)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("rank 1", result.stderr)
        self.assertIn("ValueError: shard train-00017 has a bad checksum", result.stderr)
        self.assertIn("in load_shard", result.stderr)

    def test_error_file_is_copied_for_an_outer_launcher(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "error.json")
            interop.muster_run(["--nproc-per-node", "2", WORKER], check=False, TORCHELASTIC_ERROR_FILE=path)
            with open(path, encoding="utf-8") as file:
                message = json.load(file)["message"]
        self.assertEqual(message["message"], "ValueError: shard train-00017 has a bad checksum")
        self.assertIn("load_shard", message["extraInfo"]["py_callstack"])
        self.assertEqual(message["errorCode"], 1)


if __name__ == "__main__":
    interop.need_torch()
    unittest.main()
