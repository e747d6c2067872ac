# SPDX-License-Identifier: Apache-2.0
"""The folder of a call: for this user alone, and removed after it. Its name tells whose it is, so that the next call removes those of
programs that were killed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import Optional


@contextlib.contextmanager
def call_folder() -> Iterator[str]:
    """A new folder of mode 0700."""
    namespace, start = _namespace(), _start_of(os.getpid())
    if namespace is not None:
        _remove_left(namespace)
    maker = f"{namespace}{os.getpid()}.{start}-" if namespace and start else ""
    with tempfile.TemporaryDirectory(prefix=maker or "muster-call-") as folder:
        yield folder


def _namespace() -> Optional[str]:
    """What the names of all processes begin with that can be judged from here: those of this boot and PID namespace."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read(8)
        return f"muster-call-{boot}-{os.stat('/proc/self/ns/pid').st_ino}-"
    except OSError:
        return None


def _start_of(pid: int) -> Optional[int]:
    """Clock ticks since boot, which tell a process from an earlier one of its number; 0: there is none, or it has ended. None: unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except OSError:
        return None


def _remove_left(namespace: str) -> None:
    maker = re.compile(re.escape(namespace) + r"(\d+)\.(\d+)-")
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            made = maker.match(entry.name)
            if not made or _start_of(int(made[1])) in (None, int(made[2])):
                continue
            if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                shutil.rmtree(entry.path, ignore_errors=True)
