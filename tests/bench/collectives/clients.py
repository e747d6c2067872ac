# SPDX-License-Identifier: Apache-2.0
"""How each library is started, and what it then prints: lines "CLIENT OP BYTES MICROSECONDS"."""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RUN_SECONDS = 120


class Clients:
    def __init__(self, folder, torch_python):
        self.folder = folder
        self.torch_python = torch_python
        self.left_out = set()

    def program(self, name):
        return os.path.join(self.folder, name)

    def under_muster(self, ranks):
        return [self.program("muster"), "run", "--nproc-per-node", str(ranks)]

    def under_mpirun(self, ranks):
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)]

    def ours(self, ranks, name, backend, group="world", memory="any", algorithm="direct"):
        start = self.under_mpirun(ranks) if backend == "mpi" else self.under_muster(ranks)
        return ["env", f"MUSTER_BACKEND={backend}", f"MUSTER_ALGORITHM={algorithm}", *start, self.program("collectives_muster"), name, group, memory]

    def command(self, client, ranks, meeting):
        """The words before "BUDGET_MS OP:BYTES...", or None where this machine has no such library. meeting: an empty folder."""
        if client == "shm":
            return self.ours(ranks, client, "shm", memory="both")
        if client in ("our-gloo", "our-mpi"):
            return self.ours(ranks, client, client.removeprefix("our-"))
        if client in ("gloo-ring", "gloo-tree"):
            return self.ours(ranks, client, "gloo", algorithm=client.removeprefix("gloo-"))
        if client == "hierarchical":
            return self.ours(ranks, client, "hierarchical", group="hosts")
        if client in ("inside", "between"):
            return self.ours(ranks, client, "hierarchical", group=client)
        if client == "gloo" and os.access(self.program("all_reduce_gloo"), os.X_OK):
            return [*self.under_muster(ranks), self.program("all_reduce_gloo"), meeting]
        if client == "openmpi" and os.access(self.program("collectives_mpi"), os.X_OK) and shutil.which("mpirun"):
            return [*self.under_mpirun(ranks), self.program("collectives_mpi")]
        if client == "torch" and self.torch_python and os.access(self.torch_python, os.X_OK):
            return [*self.under_muster(ranks), self.torch_python, os.path.join(HERE, "torch_all_reduce.py")]
        return None

    def run(self, client, ranks, budget_ms, cases):
        """{(client's row, op, bytes): microseconds}; empty where it cannot run here, which is said once."""
        with tempfile.TemporaryDirectory() as meeting:
            return self.times_of(client, ranks, self.command(client, ranks, meeting), budget_ms, cases)

    def times_of(self, client, ranks, command, budget_ms, cases):
        if command is None or client in self.left_out:
            return {}
        command += [str(budget_ms), *(f"{op}:{size}" for op, size in cases)]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
            failure = result.stderr.strip().splitlines()[-1:] if result.returncode != 0 else None
        except subprocess.TimeoutExpired:
            result, failure = None, [f"not done after {RUN_SECONDS} s"]
        if failure is not None:
            print(f"{client}, {ranks} ranks: left out: {' '.join(failure)}", file=sys.stderr)
            self.left_out.add(client)
            return {}
        times = {}
        for line in result.stdout.splitlines():
            words = line.split()
            if len(words) == 4:
                times[words[0], words[1], int(words[2])] = float(words[3])
        return times

    def measure(self, wanted, ranks, budget_ms, cases):
        """Medians over the rounds of each client, all taking turns. `wanted`: {client: rounds}."""
        samples = {}
        for turn in range(max(wanted.values())):
            for client, rounds in wanted.items():
                if turn < rounds:
                    for key, value in self.run(client, ranks, budget_ms, cases).items():
                        samples.setdefault(key, []).append(value)
        return {key: statistics.median(values) for key, values in samples.items()}
