# SPDX-License-Identifier: Apache-2.0
"""A worker that talks to the store in the plain wire protocol: round 0 leaves a key and a connection open and fails,
round 1 must find neither."""

import os
import socket
import struct
import sys
import time


def connect():
    store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), timeout=20)
    store.sendall(struct.pack("<BI", 0, 0x3C85F7CE) + struct.pack("<BI", 13, os.getpid()))
    assert struct.unpack("<I", store.recv(4))[0] == os.getpid()
    return store


def text(value):
    return struct.pack("<Q", len(value)) + value


def add(store, key):
    store.sendall(b"\x04" + text(key) + struct.pack("<q", 1))
    return struct.unpack("<q", store.recv(8))[0]


def main():
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    store = connect()
    print(f"port {os.environ['MASTER_PORT']}", flush=True)
    count = add(store, b"/workers")
    while count < 2:  # until both ranks of this round are here
        store.sendall(b"\x03" + text(b"/workers"))
        size = struct.unpack("<Q", store.recv(8))[0]
        count = int(store.recv(size))
        time.sleep(0.001)
    if count != 2:
        print("the store of this round was not empty: %d" % count, file=sys.stderr)
        return 2
    return 3 if first else 0


if __name__ == "__main__":
    sys.exit(main())
