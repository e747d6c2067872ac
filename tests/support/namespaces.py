# SPDX-License-Identifier: Apache-2.0
"""The few system calls about namespaces that Python 3.11 has no names for."""
import contextlib
import ctypes
import os
import signal

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 1, 2, 4, 4096, 8192, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags):
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor, flags):
    """Enters namespaces of a process (a pidfd and several flags), or the one that a file of /proc/PID/ns names."""
    _check(_libc.setns(descriptor, flags), "setns")


def mount(source, target, kind="", flags=0, data=""):
    _check(_libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()),
           f"mount {kind} {source} on {target}")


def set_hostname(name):
    _check(_libc.sethostname(name.encode(), len(name.encode())), "sethostname")


def die_with_parent():
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def adopt_orphans():
    """Processes that lose their parent among our descendants become our children."""
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def set_process_name(name):
    _check(_libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0), "prctl")


@contextlib.contextmanager
def children_in(pidfd=None):
    """Processes that this thread forks meanwhile belong to the PID namespace of `pidfd`; without it, to a new one."""
    own, caller = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC), os.getpid()
    try:
        if pidfd is None:
            unshare(CLONE_NEWPID)
        else:
            setns(pidfd, CLONE_NEWPID)
        try:
            yield
        finally:
            if os.getpid() == caller:  # a child comes by here too
                setns(own, CLONE_NEWPID)
    finally:
        os.close(own)
