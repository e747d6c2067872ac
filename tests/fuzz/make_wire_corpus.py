#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the wire fuzzer into tests/fuzz/wire_corpus. Run it again after a change of the protocol or limits.

The first byte of a seed chooses the limits (odd: the small ones of wire_check.cpp) and how the bytes are cut.
"""
import pathlib
import struct

KEY, VALUE, KEYS, REQUEST = 16, 64, 4, 160  # small_limits()


def u64(number):
    return struct.pack("<Q", number)


def i64(number):
    return struct.pack("<q", number)


def text(data):
    return u64(len(data)) + data


def strings(items):
    return u64(len(items)) + b"".join(text(item) for item in items)


def op(number, *parts):
    return bytes([number]) + b"".join(parts)


VALIDATE = bytes.fromhex("00ce f785 3c".replace(" ", ""))


def modern(*requests):
    return VALIDATE + op(13, struct.pack("<I", 27149)) + b"".join(requests)


def seeds():
    key, value = text(b"/k"), text(b"value")
    every = {
        "set_get": modern(op(1, key, value), op(6, strings([b"/k"])), op(3, key)),
        "compare_set": modern(op(2, key, text(b""), value), op(2, key, value, text(b"new")), op(2, text(b"/m"), value, value)),
        "add": modern(op(4, key, i64(5)), op(4, key, i64(-7)), op(1, key, text(b"12abc")), op(4, key, i64(1))),
        "add_not_a_number": modern(op(1, key, text(b"x")), op(4, key, i64(1))),
        "check_wait": modern(op(5, strings([b"/k", b"/m"])), op(6, strings([b"/m", b"/m"])), op(1, text(b"/m"), value)),
        "cancel": modern(op(6, strings([b"/m"])), op(12), op(12)),
        "second_wait": modern(op(6, strings([b"/m"])), op(6, strings([b"/n"]))),
        "wait_nothing": modern(op(6, strings([]))),
        "counts": modern(op(7), op(8, key), op(1, key, value), op(7), op(8, key), op(17)),
        "append": modern(op(9, key, value), op(9, key, value), op(3, key)),
        "multi": modern(op(11, u64(2), text(b"/a"), text(b"1"), text(b"/b"), text(b"22")), op(10, strings([b"/a", b"/b", b"/c"]))),
        "queues": modern(op(14, key, value), op(16, key), op(15, key), op(15, key)),
        "barrier": modern(op(18, key, i64(2)), op(12), op(18, key, i64(2))),
        "list_keys": modern(op(1, key, value), op(17)),
        "long_value": modern(op(1, key, text(b"v" * 40)), op(3, key)),
        "long_desired": modern(op(2, key, text(b""), text(b"v" * 40)), op(14, key, text(b"q" * 40)), op(15, key)),
        "nul_in_key": modern(op(1, text(b"a\0b"), value), op(17)),
        "legacy": op(0, key, value) + op(2, key) + op(3, text(b"/n"), i64(1)) + op(4, strings([b"/k"])) +
                  op(5, strings([b"/k"])) + op(6) + op(8, key) + op(1, key, text(b""), value),
        "legacy_add_first": op(3, text(b"init/"), i64(1)) + op(5, strings([b"/m"])) + op(6),
        "legacy_watch": op(0, key, value) + op(7, key),
        "legacy_key_like_magic": op(0, u64(0xCE)),
        "split_validate": VALIDATE[:3],
        "nothing_known": bytes([0x16, 3, 1]),
        "unknown_op": modern(op(19)),
        "second_validate_wrong": modern(op(0, bytes(4))),
        "half_value": modern(op(1, key, u64(60), b"vvv")),
        "key_at_limit": modern(op(3, text(b"k" * KEY))),
        "key_over_limit": modern(op(3, u64(KEY + 1))),
        "value_at_limit": modern(op(1, key, text(b"v" * VALUE))),
        "value_over_limit": modern(op(1, key, u64(VALUE + 1))),
        "keys_at_limit": modern(op(5, strings([b"/k"] * KEYS))),
        "keys_over_limit": modern(op(5, u64(KEYS + 1))),
        "request_at_limit": modern(op(11, u64(2), key, text(b"v" * VALUE), key,
                                      text(b"v" * (REQUEST - 1 - 8 - 2 * 10 - 2 * 8 - VALUE)))),
        "request_over_limit": modern(op(11, u64(2), key, text(b"v" * VALUE), key,
                                        u64(REQUEST - 1 - 8 - 2 * 10 - 2 * 8 - VALUE + 1))),
        "huge_length": modern(op(1, u64(2**64 - 1))),
    }
    for name, data in every.items():
        yield name, b"\x01" + data
        yield name + "_real_limits", b"\x02" + data
    yield "real_key_over_limit", b"\x00" + modern(op(3, u64(8 * 1024 + 1)))
    yield "real_value_at_limit", b"\x00" + modern(op(1, key, u64(8 << 20), b"begun"))
    yield "real_value_over_limit", b"\x00" + modern(op(1, key, u64((8 << 20) + 1)))
    yield "real_keys_at_limit", b"\x00" + modern(op(6, u64(131072)))
    yield "real_keys_over_limit", b"\x00" + modern(op(6, u64(131073)))


def main():
    folder = pathlib.Path(__file__).parent / "wire_corpus"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, data in seeds():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
