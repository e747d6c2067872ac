#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What starting, holding and ending a job costs, beside mpirun and torchrun. Prints Markdown.

usage: run.py --bin DIR --torch-python FILE [--rounds N]
"""
import argparse
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from processes import tree  # noqa: E402


def program(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def wait_for_workers(launcher, count):
    """Pids of the job's `sleep` processes, once there are `count`."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        pids = tree(launcher.pid)
        workers = [pid for pid in pids if program(pid) == "sleep"]
        if len(workers) == count:
            return workers, [pid for pid in pids if pid not in workers]
        if launcher.poll() is not None:
            break
        time.sleep(0.005)
    raise RuntimeError(f"{launcher.args}: {count} workers did not start within 30 s")


def pss_mb(pids):
    kilobytes = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            kilobytes += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return kilobytes / 1024


def start(command):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wall(command):
    begin = time.perf_counter()
    code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode
    if code != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {code}")
    return time.perf_counter() - begin


def resident(command):
    """Memory of every process of the launcher while its two workers run, and how many processes that is."""
    launcher = start(command)
    try:
        _, own = wait_for_workers(launcher, 2)
        time.sleep(0.5)  # let start-up finish: this measures the steady state
        return pss_mb(own), len(own)
    finally:
        launcher.send_signal(signal.SIGTERM)
        launcher.wait()


def seconds_to_stop(command):
    """From SIGKILL of one worker to the end of the other, and to the end of the launcher."""
    launcher = start(command)
    workers, _ = wait_for_workers(launcher, 2)
    time.sleep(0.3)
    poller = select.poll()
    other = os.pidfd_open(workers[1])
    poller.register(other, select.POLLIN)
    begin = time.perf_counter()
    os.kill(workers[0], signal.SIGKILL)
    if not poller.poll(60000):
        raise RuntimeError(f"{command}: the other worker still runs after 60 s")
    stopped = time.perf_counter() - begin
    os.close(other)
    launcher.wait()
    return stopped, time.perf_counter() - begin


def step_ms(command, muster=None):
    """A step of train_steps.py; with `muster` its stacks are asked for ten times a second meanwhile."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as job:
        asked = 0
        while muster and job.poll() is None:
            asked += subprocess.run([muster, "stacks", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, check=False).returncode == 0
            time.sleep(0.1)
        out = job.communicate()[0]
    if job.returncode != 0 or muster and not asked:
        raise RuntimeError(f"{' '.join(command)}: exit code {job.returncode}, {asked} answers")
    return float(out)


def print_steps(torch_python, muster, torchrun):
    steps = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train_steps.py")
    ours = [muster, "run", "--nproc-per-node", "2"]
    env = ["env", f"PYTHON_EXEC={torch_python}"]
    variants = {"`torchrun`": lambda: step_ms([torchrun, "--nproc-per-node", "2", steps]),
                "`muster run --hang-timeout 0`: nobody looks at stacks": lambda: step_ms([*env, *ours, "--hang-timeout", "0", steps]),
                "`muster run`": lambda: step_ms([*env, *ours, steps]),
                "`muster run`, and `muster stacks` ten times a second": lambda: step_ms([*env, *ours, steps], muster)}
    took = {name: [] for name in variants}
    for _ in range(5):
        for name, measure in variants.items():
            took[name].append(measure())
    print("\n### A step of a training by DistributedDataParallel on Gloo, two ranks (`train_steps.py`)\n")
    print("| launcher | median of the runs' median step (min to max) | this / `torchrun` |\n|---|---|---|")
    base = statistics.median(took["`torchrun`"])
    for name, values in took.items():
        middle = statistics.median(values)
        print(f"| {name} | {middle:.3f} ms ({min(values):.3f} to {max(values):.3f}) | {middle / base:.3f} |")


def milliseconds(values):
    return f"{statistics.median(values) * 1000:.1f} ms ({min(values) * 1000:.1f} to {max(values) * 1000:.1f})"


def verdict(value, goal):
    return f"{value:.3g} (goal <= {goal:g}: {'met' if value <= goal else '**missed**'})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--torch-python", required=True)
    parser.add_argument("--rounds", type=int, default=25)
    arguments = parser.parse_args()
    muster = [os.path.join(arguments.bin, "muster"), "run", "--nproc-per-node", "2"]
    torchrun_path = os.path.join(os.path.dirname(arguments.torch_python), "torchrun")
    torchrun = [torchrun_path, "--nproc-per-node", "2", "--no-python"] if os.path.exists(torchrun_path) else None
    mpirun = ["mpirun", "-np", "2", "--oversubscribe"] if shutil.which("mpirun") else None
    if mpirun and os.geteuid() == 0:
        mpirun.append("--allow-run-as-root")

    times = {"muster": [], "mpirun": [], "torchrun": []}
    wall([*muster, "true"])
    for number in range(arguments.rounds):
        times["muster"].append(wall([*muster, "true"]))
        if mpirun:
            times["mpirun"].append(wall([*mpirun, "true"]))
        if torchrun and number % 5 == 0:
            times["torchrun"].append(wall([*torchrun, "true"]))
    print("### Wall time of a job of two workers that do nothing (`run --nproc-per-node 2 true`)\n")
    print("| launcher | median (min to max) | muster's median / this |\n|---|---|---|")
    print(f"| `muster run` | {milliseconds(times['muster'])} | |")
    for name, goal in (("mpirun", 0.2), ("torchrun", 0.02)):
        if times[name]:
            ratio = statistics.median(times["muster"]) / statistics.median(times[name])
            print(f"| `{name}` | {milliseconds(times[name])} | {verdict(ratio, goal)} |")

    print("\n### Memory of the launcher's own processes while two workers run (sum of PSS)\n")
    print("| launcher | processes | MiB |\n|---|---|---|")
    memories, counts = zip(*(resident([*muster, "sleep", "1000"]) for _ in range(5)))
    print(f"| `muster run`, median of 5 jobs | {max(counts)} | {verdict(statistics.median(memories), 5)} |")
    for name, command in (("mpirun", mpirun), ("torchrun", torchrun)):
        if command:
            memory, count = resident([*command, "sleep", "1000"])
            print(f"| `{name}` | {count} | {memory:.1f} |")

    print("\n### From `kill -9` of one worker to the end of the other (`sleep`, which ends on SIGTERM)\n")
    print("| launcher | other worker gone | launcher gone |\n|---|---|---|")
    for name, command, rounds in (("muster run", muster, 10), ("torchrun", torchrun, 3)):
        if command:
            stopped, ended = zip(*(seconds_to_stop([*command, "sleep", "1000"]) for _ in range(rounds)))
            goal = f", goal <= 50 ms: {'met' if statistics.median(stopped) <= 0.05 else '**missed**'}" if command is muster else ""
            print(f"| `{name}` | {milliseconds(stopped)}{goal} | {milliseconds(ended)} |")
    if torchrun:
        print_steps(arguments.torch_python, muster[0], torchrun_path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
