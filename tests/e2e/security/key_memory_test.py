# SPDX-License-Identifier: Apache-2.0
"""Where the keys of a job started from one place are in memory: the job's secret in the launcher and the store process of the
coordinator's node only, a node's key in no other node's processes."""
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time

from interop import MUSTER, clean_environment, skip
from processes import tree
from secret_search_test import derived

LIMIT_S = 60
KEY_BYTES = 32
JOB = "J"
# The last argument is the remote command.
CLIENT = '#!/bin/bash\nexec sh -c "${@: -1}"\n'


def node_key(secret, node):
    return derived(secret, f"v1/agent/{JOB}/{node}/1")


def read(path):
    with open(path, "rb", 0) as file:
        return file.read()


def regions(pid):
    """(bytes, whether it is a page for keys) of what the process can write to."""
    found, begin, end, wanted = [], 0, 0, False
    for line in read(f"/proc/{pid}/smaps").decode().splitlines():
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+\s*(.*)", line)
        if head:
            begin, end = int(head[1], 16), int(head[2], 16)
            wanted = head[3].startswith("rw") and not head[4].startswith("[v") and end - begin < 1 << 28
        elif line.startswith("VmFlags") and wanted:
            found.append((begin, end, " dd" in line))
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for begin, end, for_keys in found:
            memory.seek(begin)
            try:
                yield memory.read(end - begin), for_keys
            except OSError:
                pass  # nothing behind it


def places(pid):
    """Candidates for keys: what is in the pages for them."""
    pages = [content for content, for_keys in regions(pid) if for_keys]
    cut = [page[at:at + KEY_BYTES] for page in pages for at in range(0, len(page), KEY_BYTES)]
    return {place for place in cut if any(place)}


def job_secret(launcher, nodes):
    """The one from which the launcher has the nodes' keys."""
    held = places(launcher)
    found = [place for place in held if all(node_key(place, node) in held for node in nodes)]
    assert len(found) == 1, f"{len(found)} of {len(held)} places of the launcher are the job's secret"
    return found[0]


def look(pids, nodes, secret):
    """{(process name, node it holds the key of or "secret"): whether all copies are in the pages for keys}, by process."""
    keys = {"secret": secret, **{node: node_key(secret, node) for node in nodes}}
    seen = {}
    for pid in pids:
        try:
            name = read(f"/proc/{pid}/comm").decode().strip()
            content = list(regions(pid))
        except OSError:
            continue  # it ended
        has = {what: all(for_keys for text, for_keys in content if key in text)
               for what, key in keys.items() if any(key in text for text, _ in content)}
        seen[pid] = (name, has)
    return seen


def wait_for(path, workers, launcher, shown):
    deadline = time.monotonic() + LIMIT_S
    while len(os.listdir(path)) < workers:
        assert launcher.poll() is None and time.monotonic() < deadline, f"the workers do not start: {shown()}"
        time.sleep(0.02)


def look_at_job(folder, nodes):
    client = f"{folder}/ssh"
    with open(client, "w") as file:
        file.write(CLIENT)
    os.chmod(client, stat.S_IRWXU)
    ready = tempfile.mkdtemp(dir=folder)
    command = [MUSTER, "run", "-H", ",".join(f"{node}:1" for node in nodes), "--interface", "lo", "--rdzv-id", JOB,
               "--ssh-command", client, "--no-python", "sh", "-c", f"touch {ready}/$RANK; exec sleep 1000"]
    with tempfile.TemporaryFile() as out:
        launcher = subprocess.Popen(command, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder)
        try:
            wait_for(ready, len(nodes), launcher, lambda: os.pread(out.fileno(), 1 << 20, 0).decode())
            secret = job_secret(launcher.pid, nodes)
            return launcher.pid, look(tree(launcher.pid), nodes, secret)
        finally:
            launcher.send_signal(signal.SIGINT)
            launcher.wait(LIMIT_S)


def check(nodes):
    with tempfile.TemporaryDirectory() as folder:
        launcher, seen = look_at_job(folder, nodes)
    shown = "\n".join(f"{pid} {name}: {has}" for pid, (name, has) in seen.items())
    names = [name for name, _ in seen.values()]
    assert names.count("muster:agent") == names.count("muster:guardian") == len(nodes) and "muster:store" in names, shown
    owners = {}
    for pid, (name, has) in seen.items():
        if pid == launcher:
            continue
        if name == "muster:store":
            continue  # the coordinator's: it derives every node's key
        assert "secret" not in has, f"the job's secret is in {name}\n{shown}"
        assert len(has) <= (name == "muster:agent"), f"{name} holds {list(has)}\n{shown}"
        for node in has:
            assert owners.setdefault(node, pid) == pid, f"the key of {node} is in two processes\n{shown}"
    assert seen[launcher][1]["secret"], f"the launcher has a copy of the secret outside the pages for keys\n{shown}"
    print(f"ok {nodes}\n{shown}", flush=True)


def main():
    if os.geteuid() != 0:
        skip("only root reads the memory of processes that are closed to their own user")
    # The coordinator's node is forked here in one of them, in the other it has the key from its standard input.
    for nodes in (("localhost", "other"), ("other", "localhost")):
        check(nodes)


if __name__ == "__main__":
    sys.exit(main())
