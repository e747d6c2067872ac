# SPDX-License-Identifier: Apache-2.0
"""`LaunchConfig` and `elastic_launch` with the fields and the manner of `torch.distributed.launcher.api` of PyTorch 2.15."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from muster._launch import launch
from muster._program import FlagValue


@dataclass
class LaunchConfig:
    """What an elastic job is launched with.

    Times are seconds. `rdzv_backend` is "c10d" or "static" (torch's default, "etcd", is no backend here). A job of one node without
    `rdzv_endpoint` meets on this machine. `rdzv_configs` are those of `--rdzv-conf`, and `rank`, the rank of this node under static.
    `logs_specs` may be torch's `DefaultLogsSpecs`. `start_method` and `monitor_interval` are taken and have no effect (docs/torchrun.md).
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: Optional[str] = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: Optional[str] = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: Optional[list[str]] = None
    duplicate_stderr_filters: Optional[list[str]] = None
    virtual_local_rank: bool = False
    shutdown_timeout: Optional[int] = None

    def __post_init__(self) -> None:
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        if self.metrics_cfg:
            raise ValueError("metrics_cfg names a Python plug-in of torch; see --metrics-listen and --metrics-textfile of muster run")


class elastic_launch:
    """Launches a function or a command on this node, as one of the nodes of the job: `elastic_launch(config, train)(1e-3)`.

    The call returns what each worker of this node returned, by its global rank (None for a command), and raises `muster.WorkerFailed`
    where torch raises `ChildFailedError`.
    """

    def __init__(self, config: LaunchConfig, entrypoint: Union[Callable[..., Any], str]):
        self._config = config
        self._entrypoint = entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        flags: dict[str, Any] = {**flags_of_config(self._config)}
        if not callable(self._entrypoint):
            flags["no_python"] = not self._entrypoint.endswith(".py")
        report = launch(self._entrypoint, *args, nproc_per_node=self._config.nproc_per_node, **flags)
        if callable(self._entrypoint):
            return report.results
        return {worker.rank: None for worker in report.workers}


def flags_of_config(config: LaunchConfig) -> dict[str, FlagValue]:
    """Returns the options of `muster.launch` for the config."""
    rendezvous = dict(config.rdzv_configs)
    flags: dict[str, FlagValue] = {
        "nnodes": f"{config.min_nodes}:{config.max_nodes}",
        "rdzv_id": config.run_id or None,
        "role": config.role,
        "max_restarts": config.max_restarts,
        "log_line_prefix_template": config.log_line_prefix_template,
        "local_addr": config.local_addr,
        "event_log_handler": None if config.event_log_handler == "null" else config.event_log_handler,
        "signals_to_handle": config.signals_to_handle,
        "duplicate_stdout_filters": config.duplicate_stdout_filters or None,
        "duplicate_stderr_filters": config.duplicate_stderr_filters or None,
        "virtual_local_rank": config.virtual_local_rank,
        "shutdown_timeout": config.shutdown_timeout,
        "numa_binding": _name_of(getattr(config.numa_options, "affinity_mode", None)),
        **_flags_of_logs(config.logs_specs),
    }
    if config.max_nodes == 1 and not config.rdzv_endpoint:
        return {**flags, "standalone": True}
    if config.rdzv_backend == "static":
        flags["node_rank"] = rendezvous.pop("rank", None)
    return {**flags, "rdzv_endpoint": config.rdzv_endpoint, "rdzv_backend": config.rdzv_backend, "rdzv_conf": rendezvous or None}


def _flags_of_logs(specs: Any) -> dict[str, FlagValue]:
    """`specs`: torch's DefaultLogsSpecs, or None."""
    if specs is None:
        return {}
    ranks = getattr(specs, "_local_ranks_filter", None)
    return {"log_dir": getattr(specs, "root_log_dir", None), "redirects": _streams(getattr(specs, "_redirects", None)),
            "tee": _streams(getattr(specs, "_tee", None)), "local_ranks_filter": sorted(ranks) if ranks else None}


def _streams(std: Any) -> FlagValue:
    """`std`: torch's Std (0 none, 1 stdout, 2 stderr, 3 both), or one for each local rank."""
    if std is None:
        return None
    if isinstance(std, dict):
        return [f"{rank}:{int(one)}" for rank, one in sorted(std.items())] or None
    return int(std) or None


def _name_of(mode: Any) -> Optional[str]:
    value = getattr(mode, "value", mode)
    return None if value is None else str(value)
