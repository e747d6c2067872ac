# SPDX-License-Identifier: Apache-2.0
"""What comes from a node, through a pipe of four pages: once "going" was in it nothing more, until $FAKE_SSH_STATE/goes_on is there.
$FAKE_SSH_STATE/holds says that it holds what comes, and .../full that there is no room for more."""
import fcntl
import os
import struct
import termios
import time

STATE = os.environ["FAKE_SSH_STATE"]
LIMIT_S = 60
# More than the events that come before a report: what is there is the beginning of the report, whose rest has no room.
FULL = 10_000


def waiting():
    return struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, b"\0\0\0\0"))[0]


fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, 16384)
while data := os.read(0, 16384):
    os.write(1, data)
    if b"going" in data:
        open(f"{STATE}/holds", "w").close()
        deadline = time.monotonic() + LIMIT_S
        while not os.path.exists(f"{STATE}/goes_on") and time.monotonic() < deadline:
            if waiting() > FULL:
                open(f"{STATE}/full", "w").close()
            time.sleep(0.01)
