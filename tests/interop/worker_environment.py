# SPDX-License-Identifier: Apache-2.0
"""Writes its environment to DIR/<rank>.json: worker_environment.py DIR"""
import json
import os
import sys

with open(os.path.join(sys.argv[1], os.environ["RANK"] + ".json"), "w", encoding="utf-8") as file:
    json.dump(dict(os.environ), file)
