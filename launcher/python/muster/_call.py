# SPDX-License-Identifier: Apache-2.0
"""A call of a function by every rank, and what comes back: files in a directory that belongs to this user alone.

    call              two pickles: where modules are found, and the function with its arguments
    result.ROUND.RANK a pickle of what the rank returned in that round
    error.ROUND.RANK  a pickle of the exception that ended the rank, where there can be one

Nothing is unpickled that another user could have written: the directory has mode 0700, and it and each file are checked for their owner.
"""

from __future__ import annotations

import os
import pickle
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Optional

FOLDER_VARIABLE = "MUSTER_CALL"


def write_call(folder: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Writes the call. Raises TypeError for a function that other processes cannot be given."""
    what = (function, tuple(args), dict(kwargs))
    try:
        import cloudpickle  # which can send what a notebook or a script defines

        data = cloudpickle.dumps(what)
    except ImportError:
        if getattr(function, "__module__", None) == "__main__":
            raise TypeError(f"{function!r} is defined in the program itself, where workers cannot import it: install cloudpickle (pip install "
                            "cloudpickle), or move it to a module") from None
        data = _plain_pickle(what, function)
    _write(folder, "call", pickle.dumps([os.path.abspath(one) for one in sys.path]) + data)


def _plain_pickle(what: Any, function: Callable[..., Any]) -> bytes:
    try:
        return pickle.dumps(what)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(f"{function!r} and its arguments cannot be sent to workers: {error}; cloudpickle can send more (pip install "
                        "cloudpickle)") from error


def read_call(folder: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Returns function and arguments, and lets modules be found where the caller finds them."""
    with _open(folder, "call") as file:
        sys.path[:] = pickle.load(file)
        try:
            call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] = pickle.load(file)
        except AttributeError as error:
            raise TypeError(f"the function or its arguments need what the program itself defines, where workers cannot import it ({error}): install "
                            "cloudpickle (pip install cloudpickle), or move it to a module") from error
    return call


def write_result(folder: str, round_number: int, rank: int, value: Any) -> None:
    _write(folder, f"result.{round_number}.{rank}", _dumps(value))


def write_error(folder: str, round_number: int, rank: int, error: BaseException) -> None:
    """Writes the exception, if it can be read again; its text and traceback are told by other means."""
    try:
        data = _dumps(error)
        pickle.loads(data)
    except Exception:  # an exception class may do anything there
        return
    _write(folder, f"error.{round_number}.{rank}", data)


def read_results(folder: str, round_number: int) -> dict[int, Any]:
    """Returns what each rank returned in that round."""
    begin = f"result.{round_number}."
    ranks = sorted(int(name[len(begin):]) for name in os.listdir(folder) if name.startswith(begin) and name[len(begin):].isdigit())
    return {rank: _load(folder, f"{begin}{rank}") for rank in ranks}


def read_error(folder: str, round_number: int, rank: int) -> Optional[BaseException]:
    """Returns the exception of the rank in that round; None: it wrote none, or it cannot be read here."""
    try:
        error = _load(folder, f"error.{round_number}.{rank}")
    except Exception:  # no file, or its class is missing here
        return None
    return error if isinstance(error, BaseException) else None


def _dumps(value: Any) -> bytes:
    try:
        import cloudpickle

        return bytes(cloudpickle.dumps(value))
    except ImportError:
        return pickle.dumps(value)


def _write(folder: str, name: str, data: bytes) -> None:
    whole, part = os.path.join(folder, name), os.path.join(folder, f"{name}.part")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(data)
    os.replace(part, whole)


def _load(folder: str, name: str) -> Any:
    with _open(folder, name) as file:
        return pickle.load(file)


def _open(folder: str, name: str) -> BinaryIO:
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a directory of this user alone (mode 0700): nothing is read from there; let TMPDIR name one "
                              "where directories can be so")
    file = open(os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW), "rb")
    if os.fstat(file.fileno()).st_uid != os.getuid():
        file.close()
        raise PermissionError(f"{folder}/{name} belongs to another user: it is not read")
    return file
