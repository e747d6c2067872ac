# SPDX-License-Identifier: Apache-2.0
"""A worker with PyTorch's watchdog timers; rank 1 hangs inside of one if its argument says so."""
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
if what == "in time" or (what == "hang once" and not first):
    print(f"rank{rank}:{done}", flush=True)
elif rank == 1:
    with timer.expires(after=SHORT_S, scope=None if what == "unnamed" else "evaluation"):
        time.sleep(LONG_S)
else:
    time.sleep(LONG_S)
