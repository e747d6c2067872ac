# SPDX-License-Identifier: Apache-2.0
"""A worker with PyTorch's watchdog timers. If its argument says so, rank 1 hangs inside of one: a timer without a name in the first
round, and one with a name in the next."""
import os
import sys
import time

import torch.distributed.elastic.timer as timer

LONG_S = 600
SHORT_S = 1

what = sys.argv[1]
rank = int(os.environ["RANK"])
timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))

done = 0
for step in range(3):
    with timer.expires(after=LONG_S, scope="step"):
        with timer.expires(after=LONG_S):
            done += 1

first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
if what == "in time":
    print(f"rank{rank}:{done}", flush=True)
elif rank == 1:
    with timer.expires(after=SHORT_S, scope=None if first else "evaluation"):
        time.sleep(LONG_S)
else:
    time.sleep(LONG_S)
