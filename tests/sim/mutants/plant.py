#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies the coordinator's core with every mutant of mutants.txt planted in it, each switched on at run time by its number.

usage: plant.py LIST SOURCES TARGET    writes TARGET/rendezvous/core/* and TARGET/mutant_names.inc

A mutant is four lines of LIST: its name in brackets, the file below SOURCES, the line as it stands there (once; spaces at the ends
do not count) and the line in its place. The script fails where a line is no longer found, and where it cannot choose between the two
at run time: both must be whole statements, or differ only in the condition of an `if` or on the right of a `=`.
"""
import pathlib
import re
import sys

CONDITION = re.compile(r"(?P<before>(?:\} else )?if \()(?P<choice>.*)(?P<after>\)(?: \{)?)$")
ASSIGNMENT = re.compile(r"(?P<before>[\w:<>.&* -]+ = )(?P<choice>.*)(?P<after>;| &&)$")


def read_mutants(path):
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()
             if line.strip() and not line.startswith("#")]
    if len(lines) % 4:
        sys.exit(f"{path}: a mutant is four lines")
    return [tuple(lines[i:i + 4]) for i in range(0, len(lines), 4)]


def switched(number, old, new):
    """One line that is `new` where that mutant is chosen, else `old`."""
    chosen = f"::muster::rendezvous::sim::mutant_is({number})"
    for form, truth in ((CONDITION, "!!"), (ASSIGNMENT, "")):
        left, right = form.match(old), form.match(new)
        if left and right and (left["before"], left["after"]) == (right["before"], right["after"]):
            return f"{left['before']}({chosen} ? {truth}({right['choice']}) : {truth}({left['choice']})){left['after']}"
    if not (old.endswith(";") and new.endswith(";")):
        sys.exit(f"cannot choose at run time between '{old}' and '{new}'")
    return f"{{ if ({chosen}) {{ {new} }} else {{ {old} }} }}"


def main():
    listing, sources, target = (pathlib.Path(argument) for argument in sys.argv[1:])
    mutants = read_mutants(listing)
    texts = {path.name: path.read_text(encoding="utf-8").splitlines() for path in sorted(sources.glob("*.[ch]pp"))}
    for number, (name, file, old, new) in enumerate(mutants):
        places = [i for i, line in enumerate(texts.get(file, [])) if line.strip() == old]
        if len(places) != 1:
            sys.exit(f"mutant {name}: its line stands {len(places)} times in {sources / file}, not once: {old}")
        texts[file][places[0]] = switched(number, old, new)
    folder = target / "rendezvous" / "core"
    folder.mkdir(parents=True, exist_ok=True)
    for file, lines in texts.items():
        head = f'#include "tests/sim/mutants/chosen.hpp"\n#line 1 "{sources / file}"\n'
        (folder / file).write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    names = "".join(f'"{name.strip("[]")}",\n' for name, *_ in mutants)
    (target / "mutant_names.inc").write_text(names, encoding="utf-8")


if __name__ == "__main__":
    main()
