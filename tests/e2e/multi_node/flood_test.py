# SPDX-License-Identifier: Apache-2.0
"""Hosts that all flood their output at once (F10 of the fault matrix over many hosts): the launcher's memory stays bounded,
lines stay whole, a quiet host is heard at once, nothing is lost, and Ctrl-C still ends the job in time."""
import os
import re
import signal
import threading
import time

from multi_node import LAUNCHER, Hosts, Job, check, kept, main, promised
from processes import wait_until

GO = "/tmp/muster-test-go"
# Lines of 60 bytes that say whose they are and which.
FLOOD = "seq -f 'rank '$RANK' line %09.0f of a flood, and some more words' 1000000000"
# Windows of 256 KiB for each host's stdout and stderr, what lies in pipes and buffers, and what a small process needs.
MEMORY_MAX_KB = 120_000
# Each needs a flood of its own.
COSTLY = "each try is a flood of its own: seconds in which ten processes fill the machine"


class Reader:
    """Reads what comes out of a pipe, no faster than told, and keeps little of it."""

    def __init__(self, fd, pause_s=0.0):
        self.fd, self.pause_s = fd, pause_s
        self.counts, self.torn, self.broken, self.others, self.bytes = {}, {}, [], [], 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        rest = b""
        while piece := os.read(self.fd, 65536):
            self.bytes += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self.take(line.decode(errors="replace"))
            if self.pause_s:
                time.sleep(self.pause_s)

    def take(self, line):
        rank = line[:4]
        if rank in self.torn:
            self.broken.append(f"{self.torn[rank]} and then {line}")
        match = re.fullmatch(r"\[(\d)\]: rank (\d) line (\d{9}) of a flood, and some more words", line)
        if match:
            own, number = match[2], int(match[3])
            if match[1] != own or number != self.counts.get(own, 0) + 1:
                self.broken.append(f"{line} after number {self.counts.get(own, 0)}")
            self.counts[own] = number
        elif re.fullmatch(r"\[\d\]: (ready \d|a quiet word)", line):
            self.others.append(line)
        else:
            self.torn[rank] = line  # by the end of who printed it, if it is its last

    def wait_for(self, condition, what, job, timeout=60):
        deadline = time.monotonic() + timeout
        while not condition():
            check(time.monotonic() < deadline and job.process.poll() is None, f"never: {what}", (self.counts, self.others, job.err))
            time.sleep(0.01)


def flood(hosts, pause_s=0.0):
    """Ranks 0 to 3 on four hosts flood; rank 4 on the fifth is quiet until told."""
    reading, writing = os.pipe()
    quiet = f"for i in 1 2 3; do until [ -e {GO}-$i ]; do sleep 0.05; done; echo a quiet word; done; exec sleep 1000"
    job = Job(hosts, worker=["bash", "-c", f"echo ready $RANK; [ $RANK = 4 ] || {FLOOD}; {quiet}"], out=writing)
    os.close(writing)
    return job, Reader(reading, pause_s)


def memory_kb(job, hosts):
    """The most that the launcher has used so far, and that any of our processes on the hosts has."""
    most = {}
    for host in (LAUNCHER, *hosts.names):
        for process in hosts.processes(host):
            if process["comm"].startswith("muster"):
                text = hosts.run(host, ["cat", f"/proc/{process['pid']}/status"], check=False).stdout
                found = re.search(r"VmHWM:\s+(\d+) kB", text)
                if found:
                    most[f"{host} {process['comm']}"] = int(found[1])
    return most


def four_hosts_flood():
    with Hosts(5) as hosts:
        job, reader = flood(hosts)
        reader.wait_for(lambda: all(reader.counts.get(str(rank), 0) > 50_000 for rank in range(4)), "a flood of every host", job)
        quiet_s = []
        for word in (1, 2, 3):
            hosts.write("n04", f"{GO}-{word}", "")
            begin = time.monotonic()
            reader.wait_for(lambda: reader.others.count("[4]: a quiet word") == word, "the quiet word", job)  # pylint: disable=cell-var-from-loop
            quiet_s.append(time.monotonic() - begin)
        most = memory_kb(job, hosts)
        check(most and max(most.values()) < MEMORY_MAX_KB, "more memory than windows explain", most)
        end_s = job.ended(job.send(signal.SIGINT))
        job.expect(130)
        kept("a quiet host while four flood: heard", took=quiet_s, **promised("all-hosts-flood", "heard"))
        kept("Ctrl-C while four hosts flood", took=[end_s], one_try=COSTLY, **promised("all-hosts-flood"))
        reader.thread.join(10)
        check(not reader.broken, "lines that are not whole or in order", reader.broken[:5])
        job.nothing_left()
        print(f"{reader.bytes / 1e6:.0f} MB; quiet word after {max(quiet_s):.2f} s, end {end_s:.2f} s after Ctrl-C, at most {most} kB")


def four_hosts_flood_a_slow_reader():
    """Who reads our output hardly reads: everybody waits, nobody loses anything or takes memory, and Ctrl-C is heard."""
    with Hosts(5) as hosts:
        job, reader = flood(hosts, pause_s=0.2)
        reader.wait_for(lambda: len(reader.counts) == 4, "something of every host", job)
        seen = reader.bytes
        reader.wait_for(lambda: reader.bytes > seen + 1_000_000, "a megabyte more", job)
        most = memory_kb(job, hosts)
        check(most and max(most.values()) < MEMORY_MAX_KB, "more memory than windows explain", most)
        job.send(signal.SIGINT)
        # Their output still waits.
        wait_until(lambda: not any(p["comm"] == "seq" for name in hosts.names for p in hosts.processes(name)), "the end of the workers")
        # What they had printed still comes, for as long as it is taken, unless it is not wanted any more.
        begin = time.monotonic()
        if job.process.poll() is None:
            job.send(signal.SIGINT)
        job.end()
        end_s = time.monotonic() - begin
        job.expect(130)
        kept("Ctrl-C a second time while four hosts flood", took=[end_s], one_try=COSTLY, **promised("ctrl-c-on-many-hosts", "twice"))
        check(not reader.broken, "lines that are not whole or in order", reader.broken[:5])
        job.nothing_left()
        print(f"{reader.bytes / 1e6:.1f} MB; end {end_s:.2f} s after the second Ctrl-C, at most {most} kB")


def floods_that_end():
    """Two hosts' floods come whole to their last byte, while two other hosts speak."""
    with Hosts(4) as hosts:
        words = ("case $RANK in 0|2) head -c 20000000 /dev/zero | tr '\\0' x | fold -w 99;; "
                 "*) for i in $(seq 50); do echo word $i; done;; esac")
        job = Job(hosts, worker=["bash", "-c", words])
        job.end(120)
        job.expect(0)
        for rank in (0, 2):
            count = sum(len(line) for line in re.findall(rf"^\[{rank}\]: (x+)$", job.out, re.M))
            check(count == 20_000_000, f"{count} bytes of rank {rank}", job.err)
        check(all(len(re.findall(rf"^\[{rank}\]: word ", job.out, re.M)) == 50 for rank in (1, 3)), "words are missing", job.err)
        job.nothing_left()


if __name__ == "__main__":
    main(timed=(four_hosts_flood, four_hosts_flood_a_slow_reader), untimed=(floods_that_end,), parallel=1)
