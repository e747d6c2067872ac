# SPDX-License-Identifier: Apache-2.0
"""On three hosts a slow rank is named once for the job, with its host, and every node knows it."""
import json
import os
import re
import signal
import tempfile

from multi_node import LAUNCHER, MUSTER, Hosts, Job, check, main

WORKER = os.environ["MUSTER_PACE_WORKER"]


def a_slow_rank_on_three_hosts_is_told_once():
    with Hosts(3) as hosts, tempfile.TemporaryDirectory() as folder:
        job = Job(hosts, at="n00:2,n01:2,n02:2", worker=[WORKER, os.path.join(folder, "fast")])
        job.wait_for(r"(?m)^muster: warning: n00: rank 2 on n01 is slow: \d+ ms of its own a step, .*; the other ranks wait for it$", name="err")
        check(len(re.findall("is slow", job.err)) == 1, "it is told again", job.shown())
        answer = json.loads(hosts.run(LAUNCHER, [MUSTER, "status", "--json"]).stdout)
        check(answer["slow"].startswith("rank 2 on n01 is slow: "), answer)
        check([node["slow"] for node in answer["nodes"]] == 3 * [answer["slow"]], answer)
        job.send(signal.SIGTERM)
        job.end()
        check("\n  slow       " + answer["slow"] + "\n" in job.err, "not in the report", job.shown())
        job.nothing_left()


if __name__ == "__main__":
    main(untimed=(a_slow_rank_on_three_hosts_is_told_once,))
