#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The first process of the virtual machine of yama_test.py: runs a job under each scope of Yama, asks for its stacks, and says on the
console what it was told, a line "RESULT {...}" each. Then the machine ends."""
import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys

LIMIT_S = 60
SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
MUSTER = "/usr/bin/muster"
RESTART = 0x01234567
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
PR_SET_DUMPABLE = 4
LIBC = ctypes.CDLL(None, use_errno=True)
WORKER = """\
import ctypes, os, sys, threading
def held():
    os.write(1, b"ready\\n")
    threading.Event().wait()
if sys.argv[1] == "undumpable":
    ctypes.CDLL(None).prctl(%d, 0)
held()
""" % PR_SET_DUMPABLE
ROUNDS = [(0, 0, "plain"), (0, 1000, "plain"), (1, 0, "plain"), (1, 1000, "plain"), (1, 1000, "undumpable"), (2, 0, "plain"), (2, 1000, "plain")]


def mount(kind, at, flags=0):
    if LIBC.mount(kind.encode(), at.encode(), kind.encode(), flags, b"mode=1777" if kind == "tmpfs" else None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {at}")


def asked(scope, uid, kind):
    with open(SCOPE, "w", encoding="ascii") as file:
        file.write(str(scope))
    who = {"user": uid, "group": uid, "extra_groups": [], "cwd": "/tmp", "env": {"PATH": "/usr/bin", "HOME": f"/tmp/home{uid}", "LANG": "C.UTF-8"}}
    with subprocess.Popen([MUSTER, "run", "--nproc-per-node", "1", "/tmp/worker.py", kind], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **who) as job:
        try:
            ready = job.stdout.readline()
            answer = subprocess.run([MUSTER, "stacks"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    timeout=LIMIT_S, check=False, **who)
        finally:
            job.terminate()
            rest = job.communicate(timeout=LIMIT_S)[0]
    if ready != "ready\n":
        return f"the job did not start: {ready}{rest}"
    return answer.stdout


def main():
    for kind, at in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")):
        mount(kind, at)
    os.makedirs("/dev/shm", exist_ok=True)
    mount("tmpfs", "/dev/shm")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    with open("/tmp/worker.py", "w", encoding="ascii") as file:
        file.write(WORKER)
    for uid in (0, 1000):
        os.mkdir(f"/tmp/home{uid}", 0o700)
        os.chown(f"/tmp/home{uid}", uid, uid)
    for scope, uid, kind in ROUNDS:
        try:
            said = asked(scope, uid, kind)
        except (OSError, subprocess.SubprocessError) as error:
            said = repr(error)
        sys.stdout.write("\nRESULT " + json.dumps({"scope": scope, "uid": uid, "kind": kind, "said": said}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    finally:
        sys.stdout.flush()
        os.sync()
        LIBC.reboot(RESTART)
