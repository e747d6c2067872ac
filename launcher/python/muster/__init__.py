# SPDX-License-Identifier: Apache-2.0
"""Launches training jobs with muster from a Python program or a notebook.

    import muster

    report = muster.launch("train.py", "--epochs", "10", nproc_per_node=2)   # a script
    report = muster.launch(train, 1e-3, nproc_per_node=2)                    # a function; report.results has what each rank returned

A job that fails raises `WorkerFailed` with the traceback of the worker that failed first. `elastic_launch` and `LaunchConfig` take what
those of `torch.distributed.launcher.api` take. This module needs no PyTorch and opens no port.
"""

from muster._launch import launch
from muster.elastic import LaunchConfig, elastic_launch
from muster.errors import LaunchError, UsageError, WorkerFailed
from muster.report import Report, Worker

__all__ = ["LaunchConfig", "LaunchError", "Report", "UsageError", "Worker", "WorkerFailed", "elastic_launch", "launch"]
