# SPDX-License-Identifier: Apache-2.0
"""Training on 2, 4 and 16 hosts ends as on one host with as many ranks, and its collectives go over the network."""
import array
import json
import math
import os
import re
import struct

import interop
from multi_node import LAUNCHER, TRAIN, Hosts, Job, check, main

HERE = os.path.dirname(os.path.abspath(__file__))
DDP = os.path.join(HERE, "train_small_ddp.py")
LONG_S = 400
# Of the way from the first parameters. One addition rounds by 6e-8; what remains after some steps comes from maxima and zeros that
# this turns to a neighbour, each the gradient of one image out of 512 to 2,048. 2e-4 is found; another order of the ranks' images, or the
# gradients of one rank missing or doubled, is a tenth and more.
MOST_APART = 2e-3
MODEL = "/tmp/muster-test-model.safetensors"


class Trained:
    """What a muster-train job has made: the hash of its parameters, and they themselves."""

    def __init__(self, hosts, world, at, command, on=LAUNCHER, **environment):
        job = Job(hosts, *([] if at else ["--nproc-per-node", str(world)]), at=at, worker=[*command, "--export", MODEL], env=environment)
        job.end(LONG_S)
        job.expect(0, rf"{world} ranks")
        hashes = re.findall(r"parameter hash ([0-9a-f]{16})", job.out)
        check(len(hashes) == 1, "no result", job.shown())
        self.hash = hashes[0]
        with open(hosts.path(on, MODEL), "rb") as file:
            header, = struct.unpack("<Q", file.read(8))
            self.names = sorted(json.loads(file.read(header)))
            self.values = array.array("f", file.read())


def apart(one, other, start):
    """How far two trainings have come apart, as a share of the way that they went; and the same of the worst parameter."""
    way = math.dist(one.values, start.values)
    check(one.names == other.names == start.names and way > 0, "not the same parameters, or not trained")
    return math.dist(one.values, other.values) / way, max(abs(a - b) for a, b in zip(one.values, other.values)) / way


def train(hosts, images, batch, at, world):
    """The same training on these hosts and on one, with as many ranks."""
    command = [TRAIN, "--data", f"synthetic:{images}", "--epochs", "1", "--batch-size", str(batch), "--threads", "1"]
    steps = -(-images // (batch * world))
    before = hosts.veth_bytes("n01")[0]
    there = Trained(hosts, world, at, command, on="n00")
    received = hosts.veth_bytes("n01")[0] - before
    check(received > steps * 545_098 * 4 * 0.9, f"only {received} bytes crossed to n01 in {steps} steps: not the gradients")
    before = hosts.veth_bytes(LAUNCHER)[0]
    here = Trained(hosts, world, "", command)
    check(hosts.veth_bytes(LAUNCHER)[0] - before < 100_000, "one host's job used the network")
    # Over Gloo alone every gradient is the sum of the ranks' in their order, as in the memory of one host: the same bits.
    in_order = Trained(hosts, world, at, command, on="n00", MUSTER_BACKEND="gloo")
    check(in_order.hash == here.hash and in_order.values == here.values, f"other bits than on one host: {in_order.hash}, {here.hash}")
    # By default the sums of the hosts are added, which rounds otherwise.
    start = Trained(hosts, world, "", [*command, "--max-steps", "1", "--lr", "1e-30"])
    share, worst = apart(there, here, start)
    print(f"{at}: {received / 1e6:.1f} MB to n01 in {steps} steps; {share:.1e} of the way apart, {worst:.1e} at worst, hash {here.hash}")
    check(share < MOST_APART, f"{share} of the way apart from one host's, beyond what rounding explains")
    hosts_left = hosts.leftovers()
    check(not hosts_left, f"left behind: {hosts_left}")


def muster_train_on_two_hosts():
    with Hosts(2) as hosts:
        train(hosts, 1000, 64, "n00:2,n01:2", 4)


def muster_train_on_four_hosts():
    with Hosts(4) as hosts:
        train(hosts, 1024, 32, "n[00-03]:2", 8)


def muster_train_on_sixteen_hosts():
    with Hosts(16) as hosts:
        train(hosts, 512, 8, "n[00-15]", 16)


def shards_within_hosts():
    """The bits of ddp, which sums within hosts first, too, and only parts of gradients from host to host."""
    command = [TRAIN, "--data", "synthetic:256", "--epochs", "2", "--batch-size", "16", "--threads", "1", "--clip-norm", "0.5"]
    with Hosts(2) as hosts:
        received = {}
        hashes = {}
        for form in ("ddp", "fsdp --shard-within all", "zero1 --shard-within host", "fsdp --shard-within host"):
            before = hosts.veth_bytes("n01")[0]
            hashes[form] = Trained(hosts, 4, "n00:2,n01:2", [*command, "--parallel", *form.split()], on="n00").hash
            received[form] = hosts.veth_bytes("n01")[0] - before
        print(hashes, received)
        check(hashes["ddp"] == hashes["zero1 --shard-within host"] == hashes["fsdp --shard-within host"], f"other bits than ddp: {hashes}")
        check(received["fsdp --shard-within host"] < 0.6 * received["fsdp --shard-within all"], f"no less from host to host: {received}")
        job = Job(hosts, at="n00:2,n01:1", worker=[*command, "--parallel", "fsdp", "--shard-within", "host"])
        job.end(LONG_S)
        check(job.process.returncode != 0 and "--shard-within host needs as many ranks on each host, one after the other: n00 has 2, n01 has 1; "
              "start them so, or give --shard-within all" in job.err, "uneven hosts are not named", job.shown())


def pytorch(hosts, world, *flags, at):
    """The digest of the parameters after training."""
    before = hosts.veth_bytes("n01")[0]
    job = Job(hosts, *flags, at=at, worker=[DDP], python=True, env={"PYTHON_EXEC": interop.TORCH_PYTHON, "OMP_NUM_THREADS": "1"})
    job.end(LONG_S)
    job.expect_clean(0, rf"after 10 steps of {world} ranks")
    count, digest = re.search(r"(\d+) parameters ([0-9a-f]{64})", job.out).groups()
    received = hosts.veth_bytes("n01")[0] - before
    check(not at or received > 10 * int(count) * 4 * 0.9, f"only {received} bytes crossed to n01: not the gradients")
    return digest


def pytorch_on_two_and_four_hosts():
    """With as many ranks in the same order: the same bits."""
    interop.need_torch()
    with Hosts(4) as hosts:
        here = pytorch(hosts, 4, "--nproc-per-node", "4", at="")
        for at in ("n00:2,n01:2", "n[00-03]"):
            there = pytorch(hosts, 4, at=at)
            check(there == here, f"other parameters on {at} than on one host: {there}, {here}")


if __name__ == "__main__":
    main(untimed=(muster_train_on_two_hosts, muster_train_on_four_hosts, muster_train_on_sixteen_hosts, shards_within_hosts,
                  pytorch_on_two_and_four_hosts),
         parallel=1, limit_s=LONG_S)
