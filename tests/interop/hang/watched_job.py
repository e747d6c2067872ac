# SPDX-License-Identifier: Apache-2.0
"""What the tests of hung and of slow programs share: a `muster run`, each line of which is noted with its moment."""
import os
import re
import signal
import subprocess
import threading
import time

import interop

FOLDER = os.path.dirname(os.path.abspath(__file__))
# From the start until all ranks are ready: eight of them import PyTorch, on two cores that others use, too.
START_S = 180
# With several hosts each line names its rank.
READY, DONE = r"^(?:\[\d+\]: )?ready$", r"^(?:\[\d+\]: )?done$"
HUNG = re.compile(r"\b(?:is|are|may be) hung\b")
ROUND_ENDED = re.compile(r"round \d+ ended|restart")


def marked_lines(script, mark):
    """The numbers of the lines of a script with a comment "# NAME: ... KIND ..."; `mark` is "NAME: KIND"."""
    name, kind = mark.split(": ")
    with open(os.path.join(FOLDER, script), encoding="utf-8") as file:
        found = [number for number, line in enumerate(file, 1) if re.search(rf"# {name}:.*\b{kind}\b", line)]
    interop.check(found, f"no line of {script} is marked '{mark}'")
    return found


def place_pattern(script, mark):
    """What a report says of these lines: file and line, and perhaps the function."""
    return rf"{re.escape(script)}:(?:{'|'.join(map(str, marked_lines(script, mark)))})(?: in \w+)?"


class Job:
    """`ranks` on this machine, or those of `at` on hosts of the test bed. A context, which ends the job."""

    def __init__(self, script, arguments, *flags, ranks, hosts=None, at=None, stdin=subprocess.DEVNULL, terminal=None):
        command = [interop.MUSTER, "run", *(["-H", at, "--login-timeout", "60"] if at else ["--nproc-per-node", str(ranks)]),
                   "--shutdown-timeout", "1", *flags, os.path.join(FOLDER, script), *arguments]
        extra = {"PYTHON_EXEC": interop.TORCH_PYTHON, "OMP_NUM_THREADS": "1", "MUSTER_REPORT_AFTER": "0"}
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.ranks, self.lines, self.news = ranks, [], threading.Condition()
        if hosts:
            self.process = hosts.popen("login", command, env=extra, **pipes)
        elif terminal is not None:
            # Typed into and read from by the test; the job is in its foreground.
            self.process = subprocess.Popen(["/usr/bin/setsid", "--ctty", "--wait", *command], stdin=terminal, stdout=terminal,
                                            stderr=subprocess.PIPE, env=interop.clean_environment(**extra))
        else:
            self.process = subprocess.Popen(command, env=interop.clean_environment(**extra), start_new_session=True, **pipes)
        self.readers = []
        self.begin = time.monotonic()
        for name in ("stdout", "stderr"):
            if getattr(self.process, name):
                self.read(name, getattr(self.process, name))

    def read(self, name, stream):
        """Notes the lines of a stream from now on."""
        def note():
            try:
                for line in stream:
                    with self.news:
                        self.lines.append((time.monotonic(), name, line.decode(errors="replace").rstrip()))
                        self.news.notify_all()
            except OSError:
                pass  # so a terminal ends
            with self.news:
                self.news.notify_all()

        self.readers.append(threading.Thread(target=note, daemon=True))
        self.readers[-1].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Tells the job to stop; a rank that does not hear it is killed by the launcher 1 s later."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the job did not end\n{self.shown()}") from None
        finally:
            for reader in self.readers[:2]:
                reader.join(5)

    def found(self, pattern, since=0.0):
        """The lines that have it: (moment, text)."""
        with self.news:
            return [(at, text) for at, _, text in self.lines if at >= since and re.search(pattern, text)]

    def wait_for(self, pattern, limit_s, count=1):
        """So many lines with the pattern, or fewer if the time was up or the job has ended: (moment, text)."""
        deadline = time.monotonic() + limit_s
        while len(self.found(pattern)) < count and (left := deadline - time.monotonic()) > 0:
            if self.process.poll() is not None and not any(reader.is_alive() for reader in self.readers):
                break
            with self.news:
                self.news.wait(min(left, 0.2))
        return self.found(pattern)

    def ready(self):
        """Waits until all ranks are ready; returns the moment."""
        told = self.wait_for(READY, START_S, self.ranks)
        interop.check(len(told) >= self.ranks, "not all ranks are ready", self.shown())
        return told[-1][0]

    def shown(self):
        return "".join(f"{at - self.begin:7.2f} s {name}: {text}\n" for at, name, text in self.lines) + f"exit code {self.process.poll()}"
