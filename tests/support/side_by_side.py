# SPDX-License-Identifier: Apache-2.0
"""The cases of one test program, several at once: most of their time is waiting."""
import concurrent.futures
import subprocess
import sys
import time

CASE_S = 300


def run_side_by_side(names, parallel, limit_s=CASE_S):
    """Starts this program again for each name, with it as the only argument, and ends: with 0 if each ended with 0 or 77, a skip, with
    77 if all skipped."""
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        codes = list(pool.map(lambda name: run_case(sys.argv[0], name, limit_s), names))
    sys.exit(1 if set(codes) - {0, 77} else min(codes))


def run_case(script, name, limit_s):
    begin = time.monotonic()
    try:
        result = subprocess.run([sys.executable, script, name], timeout=limit_s, capture_output=True, text=True, check=False)
        code, text = result.returncode, result.stdout + result.stderr  # all figures, also of what went well
    except subprocess.TimeoutExpired as error:
        code, text = 1, f"not done within {limit_s} s\n{(error.stdout or b'').decode()}{(error.stderr or b'').decode()}"
    word = {0: "ok", 77: "skipped"}.get(code, "FAILED")
    print(f"{word:7} {time.monotonic() - begin:6.2f} s  {name}\n{text}", end="", flush=True)
    return code
