# SPDX-License-Identifier: Apache-2.0
"""A PyTorch script with data loader workers saves, however it is told to stop.

usage: preemption_test.py [REPEATS] [WAY]    each way, or one, so often; 1 if not said, and a soak says 20
"""

import os
import signal
import subprocess
import sys
import tempfile

from interop import MUSTER, TORCH_PYTHON, check, clean_environment, need_torch
from processes import name_of, tree, wait_until

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train_preempted.py")
LIMIT_S = 60


def agent_of(launcher):
    return next(pid for pid in tree(launcher) if name_of(pid) == "muster:agent")


RUN = [MUSTER, "run", "--nproc-per-node", "2", "--shutdown-timeout", "20"]


def terminate(job):
    job.send_signal(signal.SIGTERM)


# The command, what is done to the job, its exit code, and the ranks that must have saved.
WAYS = {
    "SIGTERM": (RUN, terminate, 143, (0, 1)),
    "SIGTERM at timeout": (["timeout", "300", *RUN], terminate, 143, (0, 1)),
    "the agent is told to stop": (RUN, lambda job: os.kill(agent_of(job.pid), signal.SIGTERM), 125, (0, 1)),
    "another rank fails": (RUN, None, 9, (0,)),
}


def run_once(way):
    command, act, code, savers = WAYS[way]
    with tempfile.TemporaryDirectory() as folder:
        if way == "another rank fails":
            open(os.path.join(folder, "fail"), "w").close()
        job = subprocess.Popen([*command, SCRIPT, folder], env=clean_environment(PYTHON_EXEC=TORCH_PYTHON), stderr=subprocess.PIPE, text=True)
        if act:
            wait_until(lambda: all(os.path.exists(os.path.join(folder, f"ready{rank}")) for rank in range(2)), "both ranks train")
            act(job)
        _, err = job.communicate(timeout=LIMIT_S)
        check(job.returncode == code, f"{way}: exit code {job.returncode} instead of {code}", err)
        missing = [rank for rank in savers if not os.path.exists(os.path.join(folder, f"saved{rank}.pt"))]
        check(not missing, f"{way}: not saved: ranks {missing}", err)
        check("DataLoader worker" not in err, f"{way}: a data loader's worker was ended first", err)


def main():
    need_torch()
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    for way in sys.argv[2:] or WAYS:
        for _ in range(repeats):
            run_once(way)
        print(f"{way}: {repeats} of {repeats} saved")


if __name__ == "__main__":
    main()
