# SPDX-License-Identifier: Apache-2.0
"""The program of a worker that was given a function: calls it, and writes what it returned."""

import json
import os
import sys
import time
import traceback


def tell(error: BaseException) -> None:
    """Writes the error file of this worker as PyTorch's @record does, unless the function has done so."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or os.path.exists(path):
        return
    told = {"message": f"{type(error).__name__}: {error}",
            "extraInfo": {"py_callstack": "".join(traceback.format_exception(type(error), error, error.__traceback__)), "timestamp": str(int(time.time()))}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"message": told}, file)


def main() -> None:
    # This file's own directory is no place where a program looks for modules; the package is one above.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from muster import _call

    folder = os.environ[_call.FOLDER_VARIABLE]
    rank, round_number = int(os.environ["RANK"]), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    try:
        function, args, kwargs = _call.read_call(folder)
        _call.write_result(folder, round_number, rank, function(*args, **kwargs))
    except Exception as error:
        # From here on up it is of no interest to the user.
        error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None
        tell(error)
        _call.write_error(folder, round_number, rank, error)
        raise


if __name__ == "__main__":
    main()
