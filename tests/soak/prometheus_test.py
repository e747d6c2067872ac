#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus scrapes a running job (--metrics-listen), and answers questions about it. usage: prometheus_test.py

Taken is the program of that name in PATH, or else that of Debian's package, which is downloaded into a folder of the test. 77: neither."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import interop
from interop import check

LIMIT_S, DOWNLOAD_S = 60, 180
# Its own proxy settings are for the package, not for loopback.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
PROGRAM = """\
import sys, threading
sys.stdout.write("ready\\n")
sys.stdout.flush()
threading.Event().wait()
"""
CONFIG = """\
global:
  scrape_interval: 1s
  scrape_timeout: 1s
scrape_configs:
  - job_name: muster
    static_configs:
      - targets: ["127.0.0.1:{port}"]
"""


def prometheus(folder):
    """The path of the program."""
    if found := shutil.which("prometheus"):
        return found
    try:
        subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, text=True, timeout=DOWNLOAD_S, check=True)
        package, = [name for name in os.listdir(folder) if name.endswith(".deb")]
        subprocess.run(["dpkg", "-x", package, "root"], cwd=folder, capture_output=True, text=True, timeout=DOWNLOAD_S, check=True)
        return os.path.join(folder, "root/usr/bin/prometheus")
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        print(f"skipped: there is no prometheus, and its package cannot be had: {error}\n{getattr(error, 'stderr', '') or ''}")
        sys.exit(77)


def ask(port, path):
    with OPENER.open(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return json.load(answer)["data"]


def until(what, found):
    """Waits for something true; returns it."""
    deadline = time.monotonic() + LIMIT_S
    last = None
    while time.monotonic() < deadline:
        try:
            if last := found():
                return last
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            last = error
        time.sleep(0.2)
    raise AssertionError(f"after {LIMIT_S} s: {what}: {last!r}")


def value_of(port, question):
    """The only value, or none."""
    result = ask(port, "/api/v1/query?" + urllib.parse.urlencode({"query": question}))["result"]
    return float(result[0]["value"][1]) if len(result) == 1 else None


def check_scraped(server, port):
    def active():
        targets = ask(server, "/api/v1/targets")["activeTargets"]
        return [target for target in targets if target["health"] == "up"]

    (target,) = until("the job is not scraped", active)
    check(target["lastError"] == "" and target["scrapeUrl"] == f"http://127.0.0.1:{port}/metrics", "another target", target)
    until("it is not said to run", lambda: value_of(server, 'muster_job_state{state="running"}') == 1)
    check(value_of(server, 'sum(muster_job_state) by (muster_job)') == 1, "there is not one state")
    check(value_of(server, 'count(muster_job_info{name="scraped", job="muster"})') == 1, "the job's name is not told, or not as a label of its own")
    for rank in "01":
        check(value_of(server, f'muster_rank_memory_bytes{{rank="{rank}"}}') > 1 << 20, f"no memory of rank {rank}")
    check(value_of(server, "1 - sum(muster_lost_seconds_total) / max(muster_job_duration_seconds)") <= 1, "the useful share is none")
    # It knows what kind each metric is, which only OpenMetrics with its types tells.
    kinds = ask(server, "/api/v1/metadata")
    for name, kind in (("muster_job", "info"), ("muster_job_state", "gauge"), ("muster_restarts", "counter"), ("muster_rank_hung", "gauge")):
        told = [entry["type"] for entry in kinds.get(name, kinds.get(name + "_total", kinds.get(name + "_info", [])))]
        check(told == [kind], f"{name} is {told}, and not {kind}", sorted(kinds))


def main():
    with tempfile.TemporaryDirectory() as folder:
        program = prometheus(folder)
        script = os.path.join(folder, "program.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        job = subprocess.Popen([interop.MUSTER, "run", "--name", "scraped", "--nproc-per-node", "2", "--metrics-listen", "127.0.0.1:0", script],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=interop.clean_environment(PYTHON_EXEC=sys.executable))
        try:
            port = int(re.search(r"http://127\.0\.0\.1:(\d+)/metrics", job.stderr.readline())[1])
            config, server = os.path.join(folder, "prometheus.yml"), interop.free_port()
            with open(config, "w", encoding="utf-8") as file:
                file.write(CONFIG.format(port=port))
            with open(os.path.join(folder, "log"), "w+", encoding="utf-8") as log:
                scraper = subprocess.Popen([program, "--config.file", config, "--storage.tsdb.path", os.path.join(folder, "data"), "--web.listen-address",
                                            f"127.0.0.1:{server}"], stdout=log, stderr=subprocess.STDOUT)
                try:
                    check_scraped(server, port)
                except (AssertionError, OSError):
                    log.seek(0)
                    print(log.read())
                    raise
                finally:
                    scraper.terminate()
                    scraper.wait(LIMIT_S)
        finally:
            job.terminate()
            job.stderr.close()
            job.wait(LIMIT_S)
    print("scraped")


if __name__ == "__main__":
    main()
