# SPDX-License-Identifier: Apache-2.0
"""What a stranger on the network gets from a job: nothing, and nobody notices."""
import json
import signal
import sys
import time

from multi_node import Hosts, Job, check, main


STRANGER = """
import json, socket, ssl, struct, sys, time
address = (sys.argv[1], int(sys.argv[2]))
# From connection to hello, by the rules; and what a busy machine may add.
LIMIT_S, SLACK_S = 5, 5


def rest_of(s):
    # What comes until the other side ends it; "open" if it does not in time.
    said, begin = b"", time.monotonic()
    s.settimeout(LIMIT_S + SLACK_S)
    try:
        while piece := s.recv(4096):
            said += piece
    except TimeoutError:
        return {"end": "open", "said": said.hex()}
    except OSError as error:
        return {"end": type(error).__name__, "said": said.hex(), "after": time.monotonic() - begin}
    return {"end": "EOF", "said": said.hex(), "after": time.monotonic() - begin}


def talk(data):
    with socket.create_connection(address, LIMIT_S + SLACK_S) as s:
        try:
            s.sendall(data)
        except ConnectionError:
            pass
        return rest_of(s)


def established():
    with open("/proc/self/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in list(table)[1:]]
    return sum(row[3] == "01" and int(row[2].split(":")[1], 16) == address[1] for row in rows)


def word(text):
    return struct.pack("<Q", len(text)) + text


# The c10d handshake, a set, and a get of it.
STORE = b"\\0" + struct.pack("<I", 0x3C85F7CE) + b"\\x01" + word(b"key") + word(b"value") + b"\\x03" + word(b"key")
answers = {"text": talk(b"hello there\\r\\n" * 4), "http": talk(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"), "store": talk(STORE),
           "zeros": talk(bytes(100000)), "frame": talk(b"\\x16\\x03\\x01\\xff\\xff" + bytes(70000))}
for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    try:
        with socket.create_connection(address, LIMIT_S + SLACK_S) as raw, context.wrap_socket(raw):
            answers[version.name] = {"end": "HANDSHAKE", "said": ""}
    except OSError as error:
        answers[version.name] = {"end": type(error).__name__, "said": ""}
begin = time.monotonic()
held = []
for _ in range(300):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(address)
    held.append(s)
fewest = 300
silent = list(held)  # then each says one byte
while time.monotonic() < begin + LIMIT_S - 1:
    for s in list(silent):
        try:
            s.send(b"\\x16" if s.fileno() % 2 else b"\\0")
            silent.remove(s)
        except OSError:
            pass
    fewest = min(fewest, established())
    time.sleep(0.1)
looked = time.monotonic() - begin
for s in held:
    s.setblocking(True)
ends = [rest_of(s)["end"] for s in held]
print(json.dumps({"answers": answers, "fewest": fewest, "looked": looked, "open": ends.count("open")}))
"""


def strangers_get_nothing(hosts, source, address, port, most):
    """`most`: so many connections of that host may be held at once, at least now and then."""
    said = json.loads(hosts.run(source, [sys.executable, "-c", STRANGER, address, str(port)], timeout=120).stdout)
    print(f"{source}: {said}")
    for name, answer in said["answers"].items():
        check(answer["end"] not in ("HANDSHAKE", "open"), f"{name}: not refused in time", said)
        # At most an alert of TLS.
        check(answer["said"] == "" or (answer["said"].startswith("15") and len(answer["said"]) <= 14), f"an answer to {name}", said)
    check(said["open"] == 0, "silent connections are held for ever", said)
    # Later they would be gone for their silence.
    if said["looked"] < 4.5:
        check(said["fewest"] <= most, "more connections of one stranger are held than the rules allow", said)


def strangers_at_the_port_of_a_job():
    with Hosts(3) as hosts:
        worker = ["bash", "-c", "echo ready $RANK; until [ -e /tmp/go ]; do sleep 0.2; done; echo done $RANK"]
        job = Job(hosts, at="n00,n01", worker=worker).ready(2)
        (address, port), = [e for e in hosts.listeners("n00") if e[1] != 22 and not e[0].startswith("127.")]
        strangers_get_nothing(hosts, "n02", address, port, 32)  # a host of no job
        strangers_get_nothing(hosts, "n01", address, port, 300)  # a stranger on a host of the job
        for name in ("n00", "n01"):
            hosts.write(name, "/tmp/go", "")
        begin = time.monotonic()
        job.expect(0, "done 0", "done 1")
        for name in ("n00", "n01"):
            hosts.run(name, ["rm", "/tmp/go"])
        check(time.monotonic() - begin < 60, "the job was held up", job.shown())
        check(len(job.err.splitlines()) < 60, "more than a line now and then about strangers", job.shown())
        job.nothing_left()


def strangers_while_nodes_are_missing():
    """No store yet: who speaks its protocol gets no answer from any host, and is a stranger on all of them."""
    with Hosts(2, shared_home=True) as hosts:  # and one key for both
        job = Job(hosts, "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-id", "J", "--rdzv-endpoint", "n00:29400", on="n00")
        job.wait_for(r"1 of 2|waiting", name="err")
        (address, port), = [e for e in hosts.listeners("n00") if e[1] == 29400]
        strangers_get_nothing(hosts, "n01", address, port, 32)
        job.send(signal.SIGINT)
        job.expect(130)
        check(not hosts.leftovers(), "left behind")


if __name__ == "__main__":
    main(untimed=(strangers_at_the_port_of_a_job, strangers_while_nodes_are_missing))
