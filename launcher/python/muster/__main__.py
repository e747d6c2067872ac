# SPDX-License-Identifier: Apache-2.0
"""`python -m muster ...` is `muster ...` with this Python for the workers."""

import os
import sys

from muster._program import find_program


def main() -> None:
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    program = find_program()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
