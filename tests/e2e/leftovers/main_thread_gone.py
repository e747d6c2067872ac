# SPDX-License-Identifier: Apache-2.0
"""Leaves a daemon behind whose main thread ends while another lives on."""

import ctypes
import os
import threading
import time

SYS_EXIT = 60  # of this thread only

if os.fork() == 0:
    os.setsid()
    for fd in (0, 1, 2):
        os.close(fd)
    threading.Thread(target=time.sleep, args=(987,)).start()
    ctypes.CDLL(None).syscall(SYS_EXIT, 0)
time.sleep(0.1)
print("ready", flush=True)
