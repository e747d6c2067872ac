# SPDX-License-Identifier: Apache-2.0
"""Runs a job on three hosts with the muster that is installed, over ssh, whose ranks sum their numbers over Gloo. The hosts are made of namespaces
(tests/support/hosts.py, in PYTHONPATH), as root. Run by scripts/package.sh deb RELEASE --check.

usage: try_three_hosts.py LIBRARIES
"""

import os
import sys

from try_installed import WORKER, check

os.environ["MUSTER_BIN_DIR"] = "/usr/bin"
from hosts import Hosts


def main(libraries):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sum.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(WORKER)
    with Hosts(3) as hosts:
        ran = hosts.run("login", ["muster", "run", "-H", ",".join(hosts.names), script, os.path.join(libraries, "libmuster.so.0")], check=False)
        check(ran.returncode == 0 and ran.stdout.count("sum 6.0") == 3, f"a job on three hosts, over ssh and Gloo\n{ran.stderr}".rstrip())
        check(hosts.leftovers() == {}, "nothing is left on them")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
