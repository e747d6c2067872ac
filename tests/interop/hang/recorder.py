# SPDX-License-Identifier: Apache-2.0
"""Plays the part of PyTorch's legacy NCCL backend without a GPU: a rank that seems to compute, and a flight recorder with a pipe.

As in PyTorch the pipe is <TORCH_NCCL_DEBUG_INFO_PIPE_FILE><rank>.pipe, any byte in it makes the recorder write its pickle to
<TORCH_FR_DUMP_TEMP_FILE><rank>, and the program goes on. Rank 1 has never entered the collective in which the others are."""
import os
import pickle
import sys
import threading
import time

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ODD = 1


def entry(sequence, state):
    return {"record_id": sequence - 1, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": sequence, "p2p_seq_id": 0,
            "op_id": sequence, "profiling_name": "nccl:all_reduce", "time_created_ns": 1, "input_sizes": [[4, 8]], "input_dtypes": ["Float"],
            "output_sizes": [[4, 8]], "output_dtypes": ["Float"], "state": state, "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None, "retired": state == "completed", "timeout_ms": 600000, "is_p2p": False,
            "frames": [{"name": "step", "filename": "train.py", "line": 41}]}


def dump():
    entries = [entry(sequence, "completed") for sequence in range(1, 41)]
    if RANK != ODD:
        entries.append(entry(41, "started"))
    return {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(RANKS)))}}, "pg_status": {},
            "entries": entries, "nccl_comm_state": {}}


def record():
    path = f"{os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{RANK}.pipe"
    os.mkfifo(path, 0o600)
    # A reader that also holds the other end sees no end of the file, and can wait for bytes.
    pipe = os.open(path, os.O_RDWR)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while os.read(pipe, 128):
        with open(f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{RANK}", "wb") as file:
            pickle.dump(dump(), file, 2)


threading.Thread(target=record, daemon=True).start()
# As one that waits for a GPU it takes a good part of a core.
while True:
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
    time.sleep(0.005)
