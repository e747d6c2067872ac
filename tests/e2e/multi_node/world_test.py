# SPDX-License-Identifier: Apache-2.0
"""Training on 2, 4 and 16 hosts ends as on one host with as many ranks, and its collectives go over the network."""
import os
import re

import interop
from multi_node import LAUNCHER, TRAIN, Hosts, Job, check, main

HERE = os.path.dirname(os.path.abspath(__file__))
DDP = os.path.join(HERE, "train_small_ddp.py")
LONG_S = 400


def trained(job, world):
    """(loss, test accuracy, hash) of a muster-train job."""
    job.end(LONG_S)
    job.expect(0, rf"{world} ranks")
    loss = re.search(r"loss (\S+)", job.out)
    end = re.search(r"test accuracy (\S+) %[\s\S]*parameter hash ([0-9a-f]{16})", job.out)
    check(loss and end and job.out.count("parameter hash") == 1, "no result", job.shown())
    return float(loss[1]), float(end[1]), end[2]


def train(hosts, images, batch, at, world):
    """The same training on these hosts and on one; returns the bytes that n01 received meanwhile and the steps."""
    command = [TRAIN, "--data", f"synthetic:{images}", "--epochs", "1", "--batch-size", str(batch), "--threads", "1"]
    before = hosts.veth_bytes("n01")[0]
    there = trained(Job(hosts, at=at, worker=command), world)
    received = hosts.veth_bytes("n01")[0] - before
    before = hosts.veth_bytes(LAUNCHER)[0]
    here = trained(Job(hosts, "--nproc-per-node", str(world), at="", worker=command), world)
    check(hosts.veth_bytes(LAUNCHER)[0] - before < 100_000, "one host's job used the network")
    # The order of sums differs between one host and many: equal within rounding.
    check(abs(there[0] - here[0]) < 0.02 and abs(there[1] - here[1]) < 5, f"another result: {there}, on one host {here}")
    steps = -(-images // (batch * world))
    check(received > steps * 545_098 * 4 * 0.9, f"only {received} bytes crossed to n01 in {steps} steps: not the gradients")
    hosts_left = hosts.leftovers()
    check(not hosts_left, f"left behind: {hosts_left}")
    print(f"{at}: {received / 1e6:.1f} MB to n01 in {steps} steps; loss {there[0]}, on one host {here[0]}")


def muster_train_on_two_hosts():
    with Hosts(2) as hosts:
        train(hosts, 2000, 64, "n00:2,n01:2", 4)


def muster_train_on_four_hosts():
    with Hosts(4) as hosts:
        train(hosts, 2048, 32, "n[00-03]:2", 8)


def muster_train_on_sixteen_hosts():
    with Hosts(16) as hosts:
        train(hosts, 512, 8, "n[00-15]", 16)


def pytorch(hosts, world, *flags, at):
    """The digest of the parameters after training, their norm, and the bytes that n01 received meanwhile."""
    before = hosts.veth_bytes("n01")[0]
    job = Job(hosts, *flags, at=at, worker=[DDP], python=True, env={"PYTHON_EXEC": interop.TORCH_PYTHON, "OMP_NUM_THREADS": "1"})
    job.end(LONG_S)
    job.expect(0, rf"after 10 steps of {world} ranks")
    job.nothing_left()
    count, digest, norm = re.search(r"(\d+) parameters ([0-9a-f]{64}) of norm (\S+)", job.out).groups()
    received = hosts.veth_bytes("n01")[0] - before
    check(not at or received > 10 * int(count) * 4 * 0.9, f"only {received} bytes crossed to n01: not the gradients")
    return digest, float(norm)


def pytorch_on_two_and_four_hosts():
    """With as many ranks in the same order: the same bits. With twice as many: equal within rounding."""
    interop.need_torch()
    with Hosts(4) as hosts:
        here = pytorch(hosts, 4, "--nproc-per-node", "4", at="")
        two = pytorch(hosts, 4, at="n00:2,n01:2")
        four = pytorch(hosts, 8, at="n[00-03]:2")
        check(two == here, f"other parameters than on one host: {two}, {here}")
        check(abs(four[1] - here[1]) < 1e-3 * here[1], f"other parameters with eight ranks: {four}, {here}")


if __name__ == "__main__":
    main((muster_train_on_two_hosts, muster_train_on_four_hosts, muster_train_on_sixteen_hosts, pytorch_on_two_and_four_hosts),
         parallel=1, limit_s=220)
