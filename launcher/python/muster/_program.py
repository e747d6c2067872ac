# SPDX-License-Identifier: Apache-2.0
"""Where the program `muster` is, and what its command line says for values of Python."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import sysconfig
import warnings
from collections.abc import Mapping, Sequence
from typing import Union

FlagValue = Union[None, bool, int, float, str, "os.PathLike[str]", Sequence[object], Mapping[str, object]]


def warn_of_clash() -> None:
    """Says that another project's distribution, whose files have the names of ours, is installed as well."""
    try:
        other = importlib.metadata.distribution("muster")
    except importlib.metadata.PackageNotFoundError:
        return
    warnings.warn(f"the distribution 'muster' {other.version} is another project's and has files of the same names as 'muster-launch': remove "
                  "both, and install the one that you want (pip uninstall muster muster-launch; pip install muster-launch)", stacklevel=2)


def find_program() -> str:
    """Returns the path of `muster`: that in MUSTER_PROGRAM, else the one of the tarball that this module belongs to, else the one installed
    with this Python, else that of PATH."""
    warn_of_clash()
    named = os.environ.get("MUSTER_PROGRAM")
    if named:
        return named
    modules = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tarball = [os.path.join(os.path.dirname(modules), "bin")] if os.path.basename(modules) == "python" else []
    folders = (*tarball, sysconfig.get_path("scripts"), os.path.dirname(sys.executable), sysconfig.get_path("scripts", f"{os.name}_user"))
    beside = [os.path.join(folder, "muster") for folder in folders if folder]
    for path in beside:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which("muster")
    if found is None:
        raise FileNotFoundError(f"the program 'muster' is neither at {beside[len(tarball)]} nor in PATH; install it there (pip install muster-launch) "
                                "or name it by the environment variable MUSTER_PROGRAM")
    return found


def flags_of(options: Mapping[str, FlagValue]) -> list[str]:
    """Returns the flags of `muster run` for the options: `max_restarts=3` is `--max-restarts=3`, True a flag without a value, None and
    False no flag, a sequence its values with commas, a mapping NAME=VALUE with commas."""
    flags = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            flags.append(flag)
        else:
            flags.append(f"{flag}={_text_of(value)}")
    return flags


def _text_of(value: FlagValue) -> str:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return ",".join(_item(f"{key}={one}") for key, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(_item(str(one)) for one in value)
    return str(value)


def _item(text: str) -> str:
    """Refuses what would be read as two: give the whole text of the flag in its own syntax instead."""
    if "," in text:
        raise ValueError(f"{text!r} has a comma, which parts the values of a flag; give the flag's text as one string, or the variable by env")
    return text
