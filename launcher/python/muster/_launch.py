# SPDX-License-Identifier: Apache-2.0
"""Runs `muster run` and waits for its end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Optional, Union

from muster import _call
from muster._folder import call_folder
from muster._program import FlagValue, find_program, flags_of
from muster.errors import LaunchError, UsageError, WorkerFailed, error_of
from muster.report import Report, read_report

Entry = Union[str, "os.PathLike[str]", Callable[..., Any]]

_USAGE = 2
_LINES_OF_ERROR = 20
# Flags of `muster run` that return before the end of a job, or start none.
_NO_JOBS = ("detach", "dry_run", "help", "print_completion")


def launch(
    entry: Entry,
    *args: Any,
    nproc_per_node: Union[int, str] = 1,
    kwargs: Optional[Mapping[str, Any]] = None,
    env: Optional[Mapping[str, str]] = None,
    python: Optional[str] = None,
    **flags: FlagValue,
) -> Report:
    """Starts the workers of a training job, waits for its end, and returns how it ended.

    `entry` is a script, an executable, or a function. A script gets `args` as its command line, a function as its arguments, with
    `kwargs`; each rank calls it in a new process of its own, with RANK, WORLD_SIZE and the rest set as by torchrun, and what it returns is
    in `results` of the report. With cloudpickle installed it may be one of a notebook. On other hosts of a job (`host`, `hostfile`) there
    is only what is installed there, so they take scripts.

    `nproc_per_node` is the number of workers on each host, or "gpu", "cpu", "auto". `env` are more variables for the workers. `python` is
    the interpreter of scripts (this one). `flags` are the flags of `muster run` with underscores: `max_restarts=3`, `host="n0:8,n1:8"`,
    `log_dir="logs"`, `tee=3`, `timeout=3600` (seconds), `export={"NAME": "value"}`; True gives a flag without a value.

    Output of the workers goes to stdout and stderr, those of `sys` where a notebook has replaced them. KeyboardInterrupt ends the job in
    order, as Ctrl-C in a terminal does, and is raised when it has ended; a second one ends it without grace. If this process is killed the
    job ends, too. May be called from any thread that lives as long as the job; jobs of several threads run side by side.

    Raises WorkerFailed if a worker failed, UsageError for what `muster run` refuses, TypeError for a function that cannot be sent,
    FileNotFoundError without the program `muster`, and LaunchError for a job that ended otherwise than with success.
    """
    for name in _NO_JOBS:
        if flags.get(name):
            raise TypeError(f"{name} starts no job that could be waited for; call the program muster for it")
    with call_folder() as folder:
        environment = {**os.environ, **(env or {}), "PYTHON_EXEC": python or sys.executable}
        options: dict[str, FlagValue] = {"nproc_per_node": nproc_per_node, **flags}
        options["export"] = _exported(flags.get("export"), env)
        options["end_with"] = os.getpid()
        report_file = os.fspath(flags.get("report") or os.path.join(folder, "report.json"))  # type: ignore[arg-type]
        options["report"] = report_file
        before = _written_at(report_file)
        if callable(entry):
            _refuse_hosts(flags)
            _call.write_call(folder, entry, args, kwargs or {})
            environment[_call.FOLDER_VARIABLE] = folder
            program = [os.path.join(os.path.dirname(__file__), "_worker.py")]
        else:
            if kwargs:
                raise TypeError("kwargs are for a function; give a script its arguments one by one")
            program = [os.fspath(entry), *(str(one) for one in args)]
        command = [find_program(), "run", *flags_of(options), *program]
        code, said = _run(command, environment)
        report = read_report(report_file) if _written_at(report_file) != before else None
        return _end(folder, report, code, said, callable(entry))


def _exported(given: FlagValue, env: Optional[Mapping[str, str]]) -> FlagValue:
    """What workers of other hosts get, too: the names of `env`, whose values stay out of the command line."""
    names = sorted(env or {})
    if not names:
        return given
    if given is None or given is False:
        return names
    if isinstance(given, str):
        return ",".join([given, *names])
    pairs = [f"{name}={value}" for name, value in given.items()] if isinstance(given, Mapping) else given
    return [*pairs, *names]  # type: ignore[misc]


def _refuse_hosts(flags: Mapping[str, FlagValue]) -> None:
    for name in ("host", "hostfile", "slurm"):
        if flags.get(name) not in (None, "off"):
            raise TypeError(f"{name}: a function can be called on this host only; give a script, or call elastic_launch on each host")


def _written_at(path: str) -> Optional[tuple[int, int]]:
    """What tells one version of the file from another; None: there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _end(folder: str, report: Optional[Report], code: int, said: str, is_function: bool) -> Report:
    if report is None:
        how = f"was ended by signal {code - 128}" if code > 128 else f"has ended with exit code {code}"
        text = said or f"muster run {how} and has written no report; its stderr says why"
        raise (UsageError if code == _USAGE else LaunchError)(text, code)
    if code != 0:
        error = error_of(report)
        cause = _call.read_error(folder, report.restarts, error.worker.rank) if is_function and isinstance(error, WorkerFailed) else None
        raise error from cause
    if is_function:
        report.results.update(_call.read_results(folder, report.restarts))
    return report


def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Returns the exit code, and muster's own errors where stderr went through us."""
    out, err = _replaced(sys.stdout, 1), _replaced(sys.stderr, 2)
    last: deque[str] = deque(maxlen=_LINES_OF_ERROR)
    interrupts = 0
    process = None
    pumps: list[threading.Thread] = []
    while True:
        try:
            if process is None:
                # A session of its own: else Ctrl-C of the terminal would reach it beside the one that we pass on, and two are without grace.
                process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if out else None,
                                           stderr=subprocess.PIPE if err else None, start_new_session=True)
                pumps = _start_pumps(((process.stdout, out, None), (process.stderr, err, last)))
            _wait(process)
            break
        except KeyboardInterrupt:
            if process is None:
                raise
            interrupts += 1
            process.send_signal(signal.SIGINT)
        except BaseException:  # SystemExit of a signal handler: the job ends before it goes on
            if process is not None:
                process.terminate()
                process.wait()
            raise
    for pump in pumps:
        pump.join()
    if interrupts:
        raise KeyboardInterrupt
    return process.returncode if process.returncode >= 0 else 128 - process.returncode, "".join(last).strip()


def _wait(process: "subprocess.Popen[bytes]") -> None:
    """Waits for the end of the process. Popen.wait() takes a second interrupt within 0.25 s for the first one; this lets each through."""
    try:
        end = os.pidfd_open(process.pid)
    except OSError:  # a kernel before 5.3, or the process is reaped
        process.wait()
        return
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        poll.poll()
    finally:
        os.close(end)
    process.wait()


def _start_pumps(pipes: Sequence[tuple[Optional[IO[bytes]], Any, Optional["deque[str]"]]]) -> list[threading.Thread]:
    pumps = [threading.Thread(target=_pump, args=(pipe, stream, lines), daemon=True) for pipe, stream, lines in pipes if pipe is not None]
    for pump in pumps:
        pump.start()
    return pumps


def _replaced(stream: Any, descriptor: int) -> Any:
    """Returns the stream if it leads elsewhere than the descriptor that a child process has, else None."""
    try:
        return None if stream is None or stream.fileno() == descriptor else stream
    except (OSError, AttributeError, ValueError):  # io.UnsupportedOperation is an OSError
        return stream


def _pump(pipe: IO[bytes], stream: Any, lines: Optional["deque[str]"]) -> None:
    with pipe:
        for line in pipe:
            text = line.decode("utf-8", "replace")
            if lines is not None and text.startswith("muster: error:"):
                lines.append(text)
            try:
                stream.write(text)
                stream.flush()
            except Exception:  # whatever becomes of the stream, the job is not to wait for it
                pass
