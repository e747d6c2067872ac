#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes agent/stacks/core/python_offsets.hpp: where CPython 3.9 to 3.12 keep what the reader of stacks looks for.
Needs a C compiler and the headers of each version, as an installed Python has them.

usage: python_offsets.py INCLUDE...    writes the table; INCLUDE is a folder with Python.h and internal/, one for each version:
                                       ~/.pyenv/versions/3.9.18/include/python3.9 ~/.pyenv/versions/3.10.13/include/python3.10 ...
       python_offsets.py --check INCLUDE...    exits 1 if a row of the table differs from what these headers give
"""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "scripts", "python_offsets.c")
TABLE = os.path.join(ROOT, "agent", "stacks", "core", "python_offsets.hpp")
HEAD = """// SPDX-License-Identifier: Apache-2.0
// Offsets of CPython 3.9 to 3.12, x86-64 and other 64-bit Linux. Generated from the headers of 3.9.18, 3.10.13,
// 3.11.7 and 3.12.1 by scripts/python_offsets.py (which compiles scripts/python_offsets.c); do not edit. They are
// the same in all releases of a minor version.
#pragma once

#include "agent/stacks/core/python_layout.hpp"

namespace muster::agent {

// clang-format off
inline constexpr PythonLayout kPythonLayouts[] = {
"""
TAIL = """};
// clang-format on

}  // namespace muster::agent
"""


def row_of(include):
    """The row of the version whose headers these are."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "offsets")
        subprocess.run([os.environ.get("CC", "cc"), "-I", include, "-I", os.path.join(include, "internal"), PROGRAM, "-o", program],
                       check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def main(arguments):
    check = arguments[:1] == ["--check"]
    includes = arguments[1:] if check else arguments
    if not includes or any(one.startswith("-") for one in includes):
        sys.exit(__doc__)
    rows = [row_of(include) for include in includes]
    if check:
        with open(TABLE, encoding="utf-8") as file:
            table = file.read()
        wrong = [row for row in rows if row not in table]
        if wrong:
            sys.exit("python_offsets.hpp does not have:\n" + "".join(wrong))
        return
    with open(TABLE, "w", encoding="utf-8") as file:
        file.write(HEAD + "".join(rows) + TAIL)


if __name__ == "__main__":
    main(sys.argv[1:])
