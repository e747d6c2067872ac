# SPDX-License-Identifier: Apache-2.0
"""A host that is in somebody else's hands, and its ssh, may make a job fail, but not the launcher: it ends with a message of its
own, and nothing that was sent reaches the terminal or the report as anything but text."""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from interop import MUSTER, check, clean_environment

import hostile_node

NODE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hostile_node.py")
LIMIT_S = 150
VERSION = subprocess.run([MUSTER, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]


# What is said of the ones that are cut off, and of some others.
SAID = {
    "prints_more_than_it_may": r"h1.*: it sent what no muster sends \(channel 1 carries more bytes than it was given credit for",
    "says_too_many_lines": r"h1: \d{4} more lines of it were left out \(100 in 10 s",
    "says_too_many_lines_on_stderr": r"h1: \d{4} more lines of it were left out \(100 in 10 s",
    "speaks_for_another": r"(?m)^muster: warning: h1: h2: disk broken \(h1\)$(.|\n)*^muster: error: true stopped: h1: h2: no memory on h1$",
    "ends_in_no_frame": r"h1.*: it sent what no muster sends \(unknown message between launcher and agent: nonsense",
    "claims_to_be_the_coordinator_too_early": r"h1.*: it sent what no muster sends \(it claims to be the coordinator",
    "takes_what_it_was_not_sent": r"h1.*: it sent what no muster sends \(channel 1 was given more credit than bytes were sent",
    "opens_channels_for_nothing": r"h1.*: it sent what no muster sends \(a channel for nothing that an agent sends",
    "opens_a_channel_of_the_launcher": r"h1.*: it sent what no muster sends \(channel 2 is not the peer's to open",
    "second_claims_to_be_the_coordinator": r"h2.*: it sent what no muster sends \(it greets again, or claims to be the coordinator",
    "answers_what_was_not_asked": r"h1.*: it sent what no muster sends \(the status of a node: ",
    "counts_wrongly": r"h1.*: it sent what no muster sends \(the peer acknowledges message \d+ of the session, but only \d+ were",
    "sends_files_elsewhere": r"h1.*: it sent what no muster sends \(a log file that is not the node's own: h2/escaped",
}
HELPERS = ("send", "send_frame", "send_through", "open_channel", "give_credit", "receive", "hello", "greet", "listening", "report")


def read_slowly(fd):
    """Slower than a node prints that does not wait until it may. Returns the number of bytes."""
    count = 0
    while data := os.read(fd, 65536):
        count += len(data)
        time.sleep(0.05)
    os.close(fd)
    return count


def run_with(what):
    flags = ["--gather-logs", "/tmp/unused"] if "files" in what else []
    hosts = "h1,h2" if what.startswith("second") else "h1"
    with concurrent.futures.ThreadPoolExecutor(1) as pool, tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.json"
        command = [MUSTER, "run", "-H", hosts, "--ssh-command", f"{sys.executable} {NODE} {what} {VERSION}", "--report", report,
                   "--log-dir", f"{folder}/logs", "--shutdown-timeout", "2", *flags, "--no-python", "true"]
        reader, writer = os.pipe()
        printed = pool.submit(read_slowly, reader)
        try:
            result = subprocess.run(command, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=writer,
                                    stderr=subprocess.PIPE, timeout=LIMIT_S, check=False)
        finally:
            os.close(writer)
        said = result.stderr.decode()
        shown = f"{what}: exit code {result.returncode}\n{said!r}"
        check(0 < result.returncode < 128, "the launcher did not end in its own way", shown)
        check(not re.search("[^\t\n -~\u00a0-\uffff]", said), "a control character came through", shown)
        check(not re.search("(?m)^forged line", said), "a line of somebody else's came through", shown)
        check(re.search("(?m)^muster: ", said), "nothing is said", shown)
        check(re.search(SAID.get(what, ""), said), f"not said: {SAID.get(what)}", shown)
        check(printed.result() < 16 << 20, f"{printed.result()} bytes were printed", shown)
        check(len(re.findall("line [0-9]+", said)) <= 300, "too many lines of one node", shown)
        check(not what.startswith("says_hello") or "h1: it sent what no muster sends" in said, "the cause is not said", shown)
        with open(report, "rb") as file:
            written = file.read()
        json.loads(written)
        check(not re.search(rb"[^\n -~]", written), "the report is not plain ASCII", written)
        files = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
        check(not any("escaped" in path or "forged" in path for path in files), "a file that nobody asked for", files)


def main():
    cases = [name for name, function in vars(hostile_node).items()
             if callable(function) and name not in HELPERS]
    # Most of the time they wait.
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        runs = {name: pool.submit(run_with, name) for name in cases}
    failed = [name for name, run in runs.items() if run.exception()]
    for name in failed:
        print(f"FAILED {name}: {runs[name].exception()}")
    print(f"{len(cases) - len(failed)} of {len(cases)} hold")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
