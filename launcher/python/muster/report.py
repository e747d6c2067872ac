# SPDX-License-Identifier: Apache-2.0
"""How a job has ended, as data: the JSON object of `muster run --report` (schema muster.report, docs/report.md)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Optional


@dataclass(frozen=True)
class Worker:
    """A worker of the last round. `outcome` is succeeded, failed_by_itself, stopped_by_us or not_started."""

    rank: int
    local_rank: int
    pid: int
    host: str
    outcome: str
    exit_code: Optional[int]
    """None where a signal ended it, or it never ran."""
    signal: Optional[int]
    error_message: str
    """Of its error file: "ValueError: no such layer"; empty: it wrote none."""
    traceback: str
    last_lines: tuple[str, ...]
    """The last that it printed, where that went through muster."""
    data: dict[str, Any] = field(repr=False)
    """All that the report says of it."""


@dataclass(frozen=True)
class Report:
    """A job that has ended."""

    run_id: str
    outcome: str
    """succeeded, failed (by a worker), interrupted, deadline or launcher_error."""
    exit_code: int
    cause: str
    """One sentence; empty after a success."""
    advice: str
    duration_s: float
    restarts: int
    root_cause: Optional[Worker]
    """The worker that failed first; None: none did."""
    workers: tuple[Worker, ...]
    """Of every node that reported, by rank."""
    data: dict[str, Any] = field(repr=False)
    """The JSON object as it is."""
    results: dict[int, Any] = field(default_factory=dict)
    """What each rank of this host returned, where a function was launched."""


def read_report(path: "str | os.PathLike[str]") -> Report:
    """Reads the file of `muster run --report`. Raises OSError, or ValueError for what is no such report."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    if not isinstance(data, dict) or data.get("schema") != "muster.report" or data.get("version") != 1:
        raise ValueError(f"{os.fspath(path)} is no report of schema muster.report, version 1")
    workers = [_worker(one) for node in data["nodes"] for one in node["workers"]]
    return Report(
        run_id=data["run_id"],
        outcome=data["outcome"],
        exit_code=data["exit_code"],
        cause=data["cause"],
        advice=data["advice"],
        duration_s=data["duration_ms"] / 1000,
        restarts=max((node["restarts"] for node in data["nodes"]), default=0),
        root_cause=_worker(data["root_cause"]) if data["root_cause"] else None,
        workers=tuple(sorted(workers, key=lambda worker: worker.rank)),
        data=data,
    )


def _worker(data: dict[str, Any]) -> Worker:
    status = data.get("status") or {}
    error = data.get("error") or {}
    return Worker(
        rank=data["rank"],
        local_rank=data["local_rank"],
        pid=data["pid"],
        host=data["host"],
        outcome=data["outcome"],
        exit_code=status.get("value") if status.get("kind") == "exited" else None,
        signal=status.get("value") if status.get("kind") == "signaled" else None,
        error_message=error.get("message") or "",
        traceback=error.get("traceback") or "",
        last_lines=tuple(data.get("last_lines") or ()),
        data=data,
    )
