# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine, as /proc shows them. What has ended meanwhile is left out."""
import fcntl
import os
import signal
import struct
import termios
import time


def read(pid, item):
    """A file of the process, or "" if it has ended."""
    try:
        with open(f"/proc/{pid}/{item}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def name_of(pid):
    return read(pid, "comm").strip()


def children(pid, name=None):
    """Its children, those of all its threads; of that name only, if one is given."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found = [int(word) for thread in threads for word in read(pid, f"task/{thread}/children").split()]
    return [child for child in found if name is None or name_of(child) == name]


def tree(pid):
    """It and all that descend from it."""
    return [pid, *(member for child in children(pid) for member in tree(child))]


def state(pid):
    """Its letter in /proc, as T where it is stopped; "" if it has ended."""
    return "".join(read(pid, "stat").rpartition(")")[2].split()[:1])


def lives(pid):
    """False for a zombie, too, which its parent may leave for a while."""
    return state(pid) not in ("", "Z", "X")


def having(variable):
    """Pids of the living processes with this NAME=VALUE in their environment."""
    return [int(entry) for entry in os.listdir("/proc")
            if entry.isdigit() and variable in read(entry, "environ").split("\0") and lives(entry)]


def marked(mark):
    """Pids of the living processes with MUSTER_TEST_MARK=<mark> in their environment."""
    return having(f"MUSTER_TEST_MARK={mark}")


def cpu_seconds(pid):
    fields = read(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bytes_waiting(pipe):
    """How many nobody has read yet."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


def interrupt_until_it_ends(process, seconds=60):
    """Ctrl-C again and again: two that come before the first is taken count as one."""
    give_up = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < give_up:
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)


def wait_until(condition, what, seconds=60, pause_s=0.01):
    """Returns what `condition` returns once that is true."""
    give_up = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > give_up:
            raise AssertionError(f"waited {seconds:.1f} s for {what}")
        time.sleep(pause_s)
    return result
