# SPDX-License-Identifier: Apache-2.0
"""Runs jobs over hosts each of which has a system of its own, with the wheel in /venv there; started from the first one. Run by
scripts/package.sh --check.

usage: try_hosts.py NAME=ROOT...

ROOT is the folder with the system of the host NAME.
"""

import os
import re
import sys
import time

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "support")
sys.path.insert(0, SUPPORT)

from hosts import Hosts, Unavailable

MUSTER, LIBRARY = "/venv/bin/muster", "/venv/lib/libmuster.so.0"

# Rank 1 fails in the first round; what it prints says on which system it runs.
RESTARTED = """
import os, platform, socket, sys
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(3 if os.environ["RANK"] == "1" else 0)
print("rank", os.environ["RANK"], "on", socket.gethostname(), *platform.libc_ver(), sys.prefix)
"""


class Trial:
    def __init__(self, hosts):
        self.hosts, self.first = hosts, hosts.names[0]

    def run(self, *arguments, **environment):
        """`muster run` over all hosts, from the first one."""
        return self.hosts.run(self.first, [MUSTER, "run", "-H", ",".join(self.hosts.names), *arguments], cwd="/", timeout=240, check=False,
                              env=environment)

    def check(self, what, ran, holds):
        print(f"ok: {what}" if holds else f"try_hosts.py: {what}\nexit code {ran.returncode}\n{ran.stdout}\n{ran.stderr}", flush=True)
        if not holds:
            raise SystemExit(1)

    def script(self, name, text):
        for host in self.hosts.names:
            self.hosts.write(host, name, text)
        return name

    def try_restart(self):
        ran = self.run("--max-restarts", "1", self.script("/tmp/restarted.py", RESTARTED))
        lines = re.findall(r"rank \d+ on .*", ran.stdout)
        self.check("a script on each host, by the python of its environment, with a restart: " + "; ".join(sorted(lines)), ran,
                   ran.returncode == 0 and "restart 1 of 1" in ran.stderr and len(lines) == len(self.hosts.names)
                   and all(line.endswith(" /venv") for line in lines))

    def try_error(self):
        ran = self.run("--no-python", "sh", "-c", '[ "$RANK" != 2 ] || exit 7; exec sleep 600')
        last = self.hosts.names[2]
        self.check(f"a worker that fails on {last} ends the job, which says so", ran, ran.returncode == 7 and f"rank 2 on {last}: " in ran.stderr)

    def try_library(self):
        worker = self.hosts.run(self.first, ["/venv/bin/python", "-c", "import try_installed; print(try_installed.WORKER)"], cwd="/muster").stdout
        count = len(self.hosts.names)
        for backend in ("gloo", "hierarchical"):
            ran = self.run(self.script("/tmp/sum.py", worker), LIBRARY, MUSTER_BACKEND=backend)
            self.check(f"an all_reduce over {backend}", ran, ran.returncode == 0 and ran.stdout.count(f"sum {count * (count + 1) / 2}") == count)

    def try_nothing_is_left(self):
        left = self.hosts.leftovers()
        print(f"try_hosts.py: left behind: {left}" if left else "ok: no process is left on any host", flush=True)
        if left:
            raise SystemExit(1)


def timed(function, *arguments):
    begin = time.monotonic()
    function(*arguments)
    print(f"   {time.monotonic() - begin:.1f} s", flush=True)


def main(*hosts):
    roots = dict(host.split("=", 1) for host in hosts)
    try:
        with Hosts(names=list(roots), roots=roots) as made:
            trial = Trial(made)
            timed(trial.try_restart)
            timed(trial.try_error)
            timed(trial.try_library)
            trial.try_nothing_is_left()
    except Unavailable as error:
        raise SystemExit(f"try_hosts.py: {error}") from error


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
