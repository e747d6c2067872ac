#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Applies each line of mutations.txt to a copy of worker_sdk/comm and expects ThreadSanitizer to notice."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[4]
COMM = ROOT / "worker_sdk" / "comm"
BASE = ROOT / "rendezvous" / "base"
LOOPS = ("reduce.cpp", "reduce_kernels.cpp", "reduce_kernels_avx2.cpp", "reduce_kernels_avx512.cpp", "reduce_kernels_base.cpp")
# What sees none of the mutated headers is built once.
INDEPENDENT = ("call.cpp", "call_queue.cpp", "process_group.cpp", "traffic.cpp", *LOOPS, "shm/memory.cpp", "shm/peer_watch.cpp")
# The others are built as one file with the probe, which is quicker than one by one.
TOGETHER = ("shm/collectives.cpp", "shm/messages.cpp", "shm/reductions.cpp", "shm/regions.cpp", "shm/roster.cpp",
            "shm/shm_backend.cpp", "shm/waiter.cpp")
FLAGS = ("-std=c++20", "-O0", "-g1", "-fsanitize=thread", "-pthread")
RUN_SECONDS = 60
# Whether a missing order is seen in one run is a matter of how the threads were scheduled: so often at least, and for so long.
ATTEMPTS = 20
ATTEMPTS_SECONDS = 60


# Smaller stages, so that the probe goes through many turns of them in little time.
SMALLER = (("shm/layout.hpp", "constexpr std::size_t kChunkBytes = std::size_t{512} << 10;", "constexpr std::size_t kChunkBytes = 12 * 1024;"),
           ("shm/layout.hpp", "constexpr std::size_t kSlotBytes = std::size_t{32} << 10;", "constexpr std::size_t kSlotBytes = 1024;"))


def replace_line(path, old, new, what):
    lines = path.read_text(encoding="utf-8").splitlines()
    places = [i for i, line in enumerate(lines) if line.strip() == old]
    if len(places) != 1:
        raise SystemExit(f"{what}: its line stands {len(places)} times in {path.name}, not once")
    lines[places[0]] = new
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


class Mutation:
    def __init__(self, block):
        self.name, self.file, self.old, self.new = (line.strip() for line in block)
        self.name = self.name.strip("[]")

    def apply(self, folder):
        replace_line(folder / self.file, self.old, self.new, f"mutation '{self.name}'")


def read_mutations():
    lines = [line for line in (HERE / "mutations.txt").read_text(encoding="utf-8").splitlines()
             if line.strip() and not line.startswith("#")]
    if len(lines) % 4:
        raise SystemExit("mutations.txt: a mutation is four lines")
    return [Mutation(lines[i:i + 4]) for i in range(0, len(lines), 4)]


def check_complete(mutations):
    """Every ordering of shm/sync.hpp is removed by one mutation, and there is none elsewhere in shm."""
    ordered = re.compile(r"memory_order_(acquire|release)\b")
    for path in sorted((COMM / "shm").glob("*.[ch]pp")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.search(r"memory_order_(acq_rel|seq_cst|consume)|atomic_thread_fence", line):
                raise SystemExit(f"{path.name}: '{line.strip()}': acquire and release only, no fences")
            if not ordered.search(line):
                continue
            if path.name != "sync.hpp":
                raise SystemExit(f"{path.name}: '{line.strip()}' belongs into shm/sync.hpp")
            if not any(line.strip() == mutation.old and not ordered.search(mutation.new) for mutation in mutations):
                raise SystemExit(f"shm/sync.hpp: no mutation removes the ordering of '{line.strip()}'")


def is_noticed(mutation, output, code):
    """Without a wait the result may be wrong before the race is seen; a lost ordering must be seen."""
    return has_race(output) or (code not in (0, 124) and "memory_order" not in mutation.new)


def has_race(output):
    return "ThreadSanitizer: data race" in output


class Builder:
    def __init__(self, compiler, folder):
        self.compiler, self.folder = compiler, folder
        parts_of_base = ("invariant.cpp", "posix.cpp", "process_stat.cpp", "text.cpp")
        sources = [*(COMM / name for name in INDEPENDENT), *(BASE / name for name in parts_of_base)]
        self.shared = [self.compile(source, folder / f"{source.parent.name}.{source.name}", ROOT) for source in sources]

    def compile(self, source, stem, first_include):
        target = f"{stem}.o"
        subprocess.run([self.compiler, *FLAGS, f"-I{first_include}", f"-I{ROOT}", f"-I{ROOT}/worker_sdk/include",
                        "-c", str(source), "-o", target], check=True)
        return target

    def run(self, number, mutation):
        """What the probe prints with `mutation` (none for None), and its exit code; the first run that notices it."""
        tree = self.folder / str(number)
        comm = tree / "worker_sdk" / "comm"
        shutil.copytree(COMM, comm)
        for file, old, new in SMALLER:
            replace_line(comm / file, old, new, "SMALLER")
        if mutation:
            mutation.apply(comm)
        everything = tree / "everything.cpp"
        names = [f"worker_sdk/comm/{name}" for name in TOGETHER] + [str(HERE / "probe.cpp")]
        everything.write_text("".join(f'#include "{name}"\n' for name in names), encoding="utf-8")
        objects = [*self.shared, self.compile(everything, tree / "everything", tree)]
        subprocess.run([self.compiler, *FLAGS, *objects, "-o", str(tree / "probe")], check=True)
        environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1 exitcode=66"}
        begin, attempts = time.monotonic(), 0
        try:
            while True:
                result = subprocess.run([str(tree / "probe")], env=environment, capture_output=True, text=True,
                                        check=False, timeout=RUN_SECONDS)
                output, code = result.stdout + result.stderr, result.returncode
                attempts += 1
                given_up = attempts >= ATTEMPTS and time.monotonic() - begin >= ATTEMPTS_SECONDS
                if not mutation or given_up or is_noticed(mutation, output, code):
                    return output, code
        except subprocess.TimeoutExpired:
            return "no end", 124
        finally:
            shutil.rmtree(tree)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", help="mutations whose name holds this text")
    arguments = parser.parse_args()
    mutations = read_mutations()
    check_complete(mutations)
    chosen = [mutation for mutation in mutations if not arguments.only or arguments.only in mutation.name]
    unnoticed = []
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        builder = Builder(arguments.compiler, pathlib.Path(folder))
        output, code = builder.run("unchanged", None)
        if code != 0:
            print(output)
            raise SystemExit(f"the unchanged code fails (exit code {code})")
        results = pool.map(lambda item: builder.run(*item), enumerate(chosen))
        for mutation, (output, code) in zip(chosen, results):
            noticed = is_noticed(mutation, output, code)
            print(f"{'race     ' if has_race(output) else 'failure  ' if noticed else 'UNNOTICED'} {mutation.name}", flush=True)
            if not noticed:
                unnoticed.append(mutation.name)
                print(f"  exit code {code}: {output[-500:]}")
    if unnoticed:
        sys.exit(f"{len(unnoticed)} of {len(chosen)} mutations unnoticed")
    print(f"all {len(chosen)} mutations reported, the unchanged code silent")


if __name__ == "__main__":
    main()
