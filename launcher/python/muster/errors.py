# SPDX-License-Identifier: Apache-2.0
"""What a job that did not succeed raises."""

from __future__ import annotations

from typing import Optional

from muster.report import Report, Worker


class LaunchError(RuntimeError):
    """The job did not succeed. `exit_code` is that of `muster run` (docs/report.md); `report` is None where the job never began."""

    def __init__(self, text: str, exit_code: int, report: Optional[Report] = None):
        super().__init__(text)
        self.exit_code = exit_code
        self.report = report


class UsageError(LaunchError, ValueError):
    """`muster run` has refused what it was told, and started nothing."""


class WorkerFailed(LaunchError):
    """A worker failed. The text has its rank, its host, how it ended, and its traceback where it told one.

    `worker` is the one that failed first. Where a function was launched and its exception can be pickled, that exception is the
    `__cause__`.
    """

    def __init__(self, text: str, exit_code: int, report: Report, worker: Worker):
        super().__init__(text, exit_code, report)
        self.worker = worker

    def get_first_failure(self) -> tuple[int, Worker]:
        """Returns the global rank and the worker that failed first, as torch's ChildFailedError does."""
        return self.worker.rank, self.worker


def error_of(report: Report) -> LaunchError:
    """Returns what to raise for a job that has ended so."""
    text = report.cause or f"muster run has ended with exit code {report.exit_code}"
    worker = report.root_cause
    if worker is not None and worker.error_message and worker.error_message not in text:
        text += f": {worker.error_message}"
    if report.advice:
        text += f"\n{report.advice}"
    if worker is None or report.outcome != "failed":
        return LaunchError(text, report.exit_code, report)
    if worker.traceback:
        text += f"\n\nrank {worker.rank} on {worker.host}:\n{worker.traceback.rstrip()}"
    elif worker.last_lines:
        text += f"\n\nthe last lines of rank {worker.rank} on {worker.host}:\n" + "\n".join(worker.last_lines)
    return WorkerFailed(text, report.exit_code, report, worker)
