# SPDX-License-Identifier: Apache-2.0
"""A terminal in which a test runs a command."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

LIMIT_S = 60


class Terminal:
    """A terminal of 80 columns and 24 rows in which a command runs; keeps what that prints."""

    def __init__(self, *command, **environment):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {"TERM": "xterm", **{name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}, **environment}
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=environment,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.text = ""

    def until(self, pattern):
        """Reads until something matches; returns all so far."""
        deadline = time.monotonic() + LIMIT_S
        while not re.search(pattern, self.text, re.S):
            if not self.read(deadline):
                raise AssertionError(f"{pattern!r} never came: {self.text!r}")
        return self.text

    def read(self, deadline):
        if not select.select([self.master], [], [], max(0, deadline - time.monotonic()))[0]:
            return False
        try:
            some = os.read(self.master, 65536).decode(errors="replace")
        except OSError:  # nobody holds the other end any more
            return False
        self.text += some
        return some != ""

    def end(self):
        """Waits for the command; returns its exit code."""
        deadline = time.monotonic() + LIMIT_S
        while self.read(deadline):
            pass
        return self.process.wait(LIMIT_S)

    def echoes(self):
        return bool(termios.tcgetattr(self.master)[3] & termios.ECHO)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(LIMIT_S)
        os.close(self.master)
