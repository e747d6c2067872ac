# SPDX-License-Identifier: Apache-2.0
"""In place of ssh: a host that says what no host should. Arguments: what it does, the version it claims, then ssh's own."""
import json
import struct
import sys
import time

EVIL = "\x1b]0;title\x07\u009b2J\x1b[8m\r\nforged line\x00\x7f"
RAW = EVIL.encode() + b"\xff\xfe\x9b\xc3("
OUT = sys.stdout.buffer


def send(kind, number=0, body=b""):
    payload = f"{kind} {number}\n".encode() + (body if isinstance(body, bytes) else json.dumps(body).encode())
    send_frame((b"\x07" if kind in ("hello", "listening", "notice") else b"") + payload)  # 7: an aside


def send_frame(body):
    OUT.write(struct.pack(">I", len(body)) + body)
    OUT.flush()


def send_through(channel, data):
    send_frame(b"\x01" + struct.pack(">I", channel) + data)


def open_channel(channel, what):
    send_frame(b"\x02" + struct.pack(">I", channel) + what)


def give_credit(channel, count):
    send_frame(b"\x03" + struct.pack(">IQ", channel, count))


def receive():
    """The next frame's kind."""
    (length,) = struct.unpack(">I", sys.stdin.buffer.read(4))
    return sys.stdin.buffer.read(length).lstrip(b"\x07").partition(b" ")[0].decode()


def hello(**changes):
    send("hello", 0, {"version": sys.argv[2], "host": "h1", "pid": 1, "addresses": ["127.0.0.1"], "cpus": 1, "gpus": 0, **changes})


def greet(version=None):
    OUT.write(b"\nmuster-agent 3 " + (version or sys.argv[2].encode()) + b"\n")
    OUT.flush()


def listening(host="127.0.0.1", port=9):
    greet()
    hello()
    while receive() != "spec":
        pass
    send("listening", 0, {"host": host, "port": port})


def report(**changes):
    worker = {"rank": 0, "local_rank": 0, "pid": 1, "host": EVIL, "outcome": "failed_by_itself", "stop_signal": 0, "arrival": 1, "ended_at_ms": 0,
              "status": {"kind": "exited", "value": 1, "core_dumped": False}, "error_file": EVIL, "last_lines": [EVIL],
              "error": {"message": EVIL, "traceback": EVIL + ".", "timestamp_s": 0}, "stdout_log": EVIL, "stderr_log": EVIL,
              "start_error": EVIL,
              "call": {"text": EVIL, "state": EVIL, "group": EVIL, "name": EVIL, "sequence": 1, "completed": 0, "for_ms": 1, "step": 0,
                       "process": EVIL, "recent": [EVIL]}}
    send("report", 0, {"host": EVIL, "node": "h1", "node_rank": 0, "round": 0, "restarts": 0, "max_restarts": 1, "outcome": "failed",
                       "decisions": [{"round": 0, "cause": EVIL, "decision": EVIL, "again": False, "restarts": 0, "delay_ms": 0}],
                       "error": EVIL, "workers": [worker], "calls": [EVIL], "leftovers": [EVIL], "notes": [EVIL],
                       "ended_by": {"node": "", "host": EVIL, "rank": -1, "exit_code": 0, "text": EVIL}, **changes})


def says_on_stderr():
    sys.stderr.buffer.write(RAW + b"\n")
    sys.exit(255)


def says_before_its_greeting():
    OUT.write(RAW * 100)


def claims_a_version():
    greet(EVIL.replace("\n", " ").encode())
    hello(version=EVIL)


def claims_a_host():
    greet()
    hello(host=EVIL, addresses=[EVIL])
    sys.stderr.buffer.write(RAW + b"\n")


def says_hello_in_no_json():
    greet()
    send("hello", 0, RAW)
    time.sleep(1000)


def says_hello_of_wrong_types():
    greet()
    hello(pid="one", cpus=[], addresses=EVIL)
    time.sleep(3)


def notices():
    greet()
    hello()
    send("notice", 1, RAW)


def listens_nowhere():
    listening(host=EVIL, port=9)
    time.sleep(1)


def listens_at_a_port_that_is_none():
    listening(port=1 << 20)
    time.sleep(1)


def reports():
    listening()
    send("status", 0, RAW)
    send("notice", 0, RAW)
    send("failed", 0, {"host": EVIL, "rank": 0, "exit_code": 1, "text": EVIL, "node": EVIL})
    open_channel(1, b"stdout")
    send_through(1, b"printed\n")
    report()
    send("bye")
    time.sleep(2)


def reports_numbers_that_are_none():
    listening()
    report(node_rank=1 << 62, round=-5, restarts=-1, workers=[{"rank": -(1 << 40)}])
    report(node_rank="one")
    send("bye")
    time.sleep(2)


def reports_again_and_again():
    listening()
    for _ in range(200):
        report()
    send("bye")
    time.sleep(2)


def sends_files_elsewhere():
    listening()
    for number, name in enumerate(("h2/escaped", "../escaped", "/tmp/escaped", "a/../../escaped", EVIL)):
        open_channel(2 * number + 1, f"file {name}".encode())
        send_through(2 * number + 1, b"content")
    time.sleep(3)


def sends_a_huge_frame():
    listening()
    OUT.write(struct.pack(">I", 0xFFFFFFFF))
    while OUT.write(bytes(1 << 16)):
        OUT.flush()


def prints_more_than_it_may():
    listening()
    open_channel(1, b"stdout")
    for _ in range(2000):
        send_through(1, b"x" * 60000 + b"\n")
    time.sleep(1000)


def says_too_many_lines():
    listening()
    for number in range(5000):
        send("log", 0, f"line {number}".encode())
    send("bye")


def says_too_many_lines_on_stderr():
    listening()
    for number in range(5000):
        sys.stderr.write(f"line {number}\n")
    sys.stderr.flush()
    send("bye")


def speaks_for_another():
    listening()
    send("log", 0, b"h2: disk broken (h1)")
    send("notice", 0, b"h2: no memory on h1")
    time.sleep(1)


def ends_in_no_frame():
    listening()
    send("nonsense", 0, RAW)
    time.sleep(1000)


def claims_to_be_the_coordinator_too_early():
    greet()
    send("listening", 0, {"host": "127.0.0.1", "port": 9})
    time.sleep(1000)


def takes_what_it_was_not_sent():
    listening()
    open_channel(1, b"stdout")
    give_credit(1, 1)
    time.sleep(1000)


def opens_channels_for_nothing():
    listening()
    open_channel(1, RAW)
    time.sleep(1000)


def opens_a_channel_of_the_launcher():
    listening()
    open_channel(2, b"stdout")
    time.sleep(1000)


def second_claims_to_be_the_coordinator():
    """h1 is it, and waits for h2, whose spec comes first."""
    if "h2" not in sys.argv:
        listening()
        time.sleep(1000)
    greet()
    hello()
    while receive() != "spec":
        pass
    send("listening", 0, {"host": "127.0.0.1", "port": 9})
    time.sleep(1000)


def sends_what_a_launcher_sends():
    listening()
    for kind in ("key", "spec", "coordinator", "stop", "kill", "resize", "status", "hello", "nonsense"):
        send(kind, -1, RAW)
    time.sleep(3)


def answers_what_was_not_asked():
    listening()
    send("answer", 1 << 62, {"host": EVIL, "doing": EVIL})
    send("answer", 1, RAW)
    time.sleep(3)


def counts_wrongly():
    listening()
    for number in (-1, 1 << 62):
        send_frame(b"\x05" + struct.pack(">Q", number % (1 << 64)))  # ack
        give_credit(1, number % (1 << 64))
        send_frame(b"\x06" + struct.pack(">Q", number % (1 << 64)))  # resume
    send_through(7, b"printed\n")
    time.sleep(3)


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]]()
    except (BrokenPipeError, struct.error):
        pass
