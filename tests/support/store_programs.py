# SPDX-License-Identifier: Apache-2.0
"""Programs for workers that talk to the store without PyTorch."""

# Waits for a key that nobody sets, in PyTorch's protocol: set, then get, which waits.
WAITS_FOR_KEY = """import os, socket, struct
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
text = lambda value: struct.pack("<Q", len(value)) + value
store.sendall(struct.pack("<BIBI", 0, 0x3C85F7CE, 13, 7) + b"\\x01" + text(b"epoch") + text(b"1"))
store.sendall(b"\\x06" + struct.pack("<Q", 1) + text(b"epcoh"))
store.recv(4)
store.recv(1)
"""
