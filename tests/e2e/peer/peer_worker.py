# SPDX-License-Identifier: Apache-2.0
"""A worker: prints its environment, then does what JOB_DO says ("exit": ends; "fail:RANK:CODE"; "wait:FILE";
"notice:FILE": the same, and says when it gets SIGUSR1)."""
import json
import os
import signal
import sys
import time

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
         "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID")

print(json.dumps({"host": os.uname().nodename, "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""), **{name: os.environ[name] for name in NAMES}}), flush=True)
what, *arguments = os.environ.get("JOB_DO", "exit").split(":")
if what == "fail" and os.environ["RANK"] == arguments[0]:
    sys.exit(int(arguments[1]))
if what == "notice":
    signal.signal(signal.SIGUSR1, lambda *_: print(f"noticed {os.environ['RANK']}", flush=True))
    print(f"ready {os.environ['RANK']}", flush=True)
if what in ("fail", "wait", "notice"):
    end = time.monotonic() + 120
    while time.monotonic() < end and not (what != "fail" and os.path.exists(arguments[0])):
        time.sleep(0.02)
