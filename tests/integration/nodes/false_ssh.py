#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for ssh: runs the remote command on this machine and copies its streams, so that killing it is a cut line.

usage: false_ssh.py [options of ssh] HOST COMMAND; its pid goes to $FALSE_SSH_DIR/HOST; that of $FALSE_SSH_NOISY has much
to say on stderr after the host's first words
"""
import os
import subprocess
import sys
import threading


def copy(source, target, noise=b""):
    while data := os.read(source, 65536):
        os.write(target, data)
        while noise:
            noise = noise[os.write(2, noise):]
    os.close(target)


def main():
    host = sys.argv[-2].split("@")[-1]
    noise = b"noise on the line\n" * 5000 if host == os.environ.get("FALSE_SSH_NOISY") else b""
    with open(os.path.join(os.environ["FALSE_SSH_DIR"], host), "w") as file:
        file.write(str(os.getpid()))
    remote = subprocess.Popen(["sh", "-c", sys.argv[-1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    threading.Thread(target=copy, args=(0, remote.stdin.fileno()), daemon=True).start()
    copy(remote.stdout.fileno(), 1, noise)
    return remote.wait()


if __name__ == "__main__":
    sys.exit(main())
