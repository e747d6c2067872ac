# SPDX-License-Identifier: Apache-2.0
"""What the workers of module_test.py are given."""

import os
import signal
import sys
import threading
import time


class Unhappy(Exception):
    """Raised by a rank."""


def add(one, two=0):
    return one + two + int(os.environ["RANK"])


def where():
    return os.getcwd(), list(sys.path), os.environ["WORLD_SIZE"], os.environ.get("MODULE_TEST")


def fail(rank):
    if os.environ["RANK"] == str(rank):
        raise Unhappy(f"no luck on {rank}")


def fail_in_first_round(value):
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if os.environ["RANK"] == "1":
            raise Unhappy("once")
        return "of the first round"
    return value


def fail_and_be_killed():
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    raise Unhappy("of the first round")


def unsendable():
    return threading.Lock()


def refuse_to_end(folder):
    """Says that it runs, and that it is told to stop, and goes on."""
    rank = os.environ["RANK"]

    def say(name):
        with open(os.path.join(folder, name), "w", encoding="utf-8"):
            pass

    signal.signal(signal.SIGINT, lambda *_: say("told" + rank))
    say(rank)
    while True:
        time.sleep(0.1)  # pause() would wait for ever if the signal came just before it.


def wait_for_the_end(folder):
    """Says that it runs, and waits for SIGTERM or SIGINT."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with open(os.path.join(folder, os.environ["RANK"]), "w", encoding="utf-8"):
        pass
    while True:
        time.sleep(0.1)  # pause() would wait for ever if the signal came just before it.
