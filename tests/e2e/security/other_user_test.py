# SPDX-License-Identifier: Apache-2.0
"""Another user of a job's hosts gets nothing from the workers' store, and cannot fill the log: neither at the one port that is on
the network, nor at the agents' own ports under --store-proxy. Nor does a program of the same user that is not of the job."""
import os
import re
import sys
import tempfile
import time

from hosts import LAUNCHER, Hosts, need_hosts
from interop import MUSTER, check

LIMIT_S = 60
TRIES = 60
WORKER = ["bash", "-c", "echo store $RANK $MASTER_ADDR $MASTER_PORT; exec sleep 1000"]
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
# The store's handshake and a request (the number of keys), as PyTorch's clients have them; how many bytes come back.
STRANGER = r"""
for i in $(seq $3); do
  exec 3<>/dev/tcp/$1/$2 || { echo no port; exit 1; }
  printf '\x00\x07\x2f\x7d\x3c\x06' >&3 2>/dev/null
  echo "got $(timeout 10 cat <&3 2>/dev/null | wc -c)"
  exec 3>&- 3<&-
done
"""


def try_store(hosts, flags, of_user):
    with tempfile.TemporaryFile() as out:
        job = hosts.popen(LAUNCHER, [MUSTER, "run", "-H", "n00,n01", *flags, "--no-python", *WORKER], cwd="/tmp", stdout=out, stderr=out)

        def text():
            return os.pread(out.fileno(), 1 << 20, 0).decode(errors="replace")

        deadline = time.monotonic() + LIMIT_S
        while len(stores := dict(re.findall(r"store (\d) (\S+ \d+)", text()))) < 2:
            check(job.poll() is None and time.monotonic() < deadline, "no workers", text())
            time.sleep(0.01)
        begin = time.monotonic()
        for rank, host in enumerate(("n00", "n01")):
            address, port = stores[str(rank)].split()
            said = hosts.run(host, [*of_user, "bash", "-c", STRANGER, "stranger", address, port, str(TRIES)], cwd="/").stdout
            check(re.findall(r"got (\d+)", said) == ["0"] * TRIES, f"on {host} a stranger got an answer", said + text())
        job.terminate()
        job.wait(LIMIT_S)
        refused = re.findall(r".*refused a connection.*", text())
        # Of each host one line in 10 s, however many come; on a slow machine they come for longer.
        check(1 <= len(refused) <= 8 + (time.monotonic() - begin) / 5, f"{len(refused)} lines about {2 * TRIES} connections", text())
        print(f"{' '.join(flags) or 'on the network'}: {len(refused)} lines, one of them: {refused[0]}", flush=True)


def main():
    need_hosts()
    with Hosts(2) as hosts:
        for flags in ([], ["--store-proxy"]):
            for of_user in (NOBODY, []):
                try_store(hosts, flags, of_user)


if __name__ == "__main__":
    sys.exit(main())
