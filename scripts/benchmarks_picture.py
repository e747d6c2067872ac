#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/benchmarks.svg, the bars that README.md shows, from the tables of docs/benchmarks.md. Standard library only.

usage: benchmarks_picture.py [ROOT]            writes the picture
       benchmarks_picture.py --check [ROOT]    changes nothing; says whether the picture is that of the page, exit code 1 if not
"""
import os
import re
import sys
from html import escape

PAGE, PICTURE = "docs/benchmarks.md", "docs/benchmarks.svg"
WIDTH, MARGIN, GAP, ROW, BAR = 860, 16, 24, 26, 16
TITLE, LABEL, VALUE = 62, 96, 62  # height above the first bar; widths beside the bars
# (title, remark, section, table, column of the table or None for the first, unit, (label, row or column) of each bar, ours first).
PANELS = [
    ("Start and end of a job", "2 workers that end at once; less is better", "launch",
     "### Wall time of a job of two workers that do nothing", None, "ms",
     [("muster run", "`muster run`"), ("mpirun", "`mpirun`"), ("torchrun", "`torchrun`")]),
    ("Memory of the launcher", "sum of PSS; less is better", "launch",
     "### Memory of the launcher's own processes", "MiB", "MiB",
     [("muster run", "`muster run`"), ("mpirun", "`mpirun`"), ("torchrun", "`torchrun`")]),
    ("all_reduce of 25 MiB", "f32, 2 ranks, 1 host; less is better", "collectives",
     "### all_reduce, 2 ranks", "25 MiB", "ms",
     [("Muster", "shm, any memory"), ("Open MPI", "Open MPI"), ("Gloo", "Gloo"), ("PyTorch Gloo", "PyTorch")]),
]
STYLE = """
    .back { fill: #ffffff; stroke: #d0d7de }
    text { font: 12px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; fill: #1f2328 }
    .title { font-size: 14px; font-weight: 600 }
    .remark { font-size: 11px; fill: #59636e }
    .ours { fill: #0969da }
    .other { fill: #afb8c1 }
    @media (prefers-color-scheme: dark) {
      .back { fill: #0d1117; stroke: #3d444d }
      text { fill: #f0f6fc }
      .remark { fill: #9198a1 }
      .ours { fill: #4493f8 }
      .other { fill: #656c76 }
    }
"""


class Unusable(Exception):
    """A page from which the picture cannot be drawn; the text says why."""


def section_of(page, name):
    found = re.search(rf"<!-- begin {name} -->(.*?)<!-- end {name} -->", page, re.S)
    if not found:
        raise Unusable(f"{PAGE} has no section '{name}'")
    return found.group(1)


def table_below(section, heading):
    """The header and the rows of the first table behind the heading, as lists of cells."""
    at = section.find(heading)
    if at < 0:
        raise Unusable(f"{PAGE} has no table '{heading}'")
    lines = section[at:].splitlines()[1:]
    begin = next((i for i, line in enumerate(lines) if line.startswith("|")), len(lines))
    end = next((i for i in range(begin, len(lines)) if not lines[i].startswith("|")), len(lines))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[begin:end]]
    return rows[0], rows[2:]


def number(cell, unit):
    """The first number of a cell, in ms where the unit is a time."""
    found = re.match(r"([\d.,]+)(?: (µs|ms|s))?", cell)
    if not found:
        raise Unusable(f"{PAGE}: '{cell}' begins with no number")
    value = float(found.group(1).replace(",", ""))
    return value * {"µs": 1e-3, "ms": 1, "s": 1e3}[found.group(2) or unit] if unit == "ms" else value


def bars_of(page, panel):
    """[(label, value)] of a panel; a peer that was not measured is left out, ours must be there."""
    _, _, section, heading, key, unit, wanted = panel
    header, rows = table_below(section_of(page, section), heading)
    if section == "collectives":  # a row is a size, a column is who was measured
        row = next((cells for cells in rows if cells[0] == key), [])
        cells = dict(zip(header, row))
    else:  # a row is who was measured
        column = header.index(key) if key else 1
        cells = {re.split(r",| \(", row[0])[0]: row[column] for row in rows}
    bars = [(label, number(cells[name], unit)) for label, name in wanted if name in cells]
    if not bars or bars[0][0] != wanted[0][0]:
        raise Unusable(f"{PAGE}: '{heading}' has no figure of '{wanted[0][1]}'")
    return bars


def made(page, section):
    found = re.search(r"^Made ([\d-]+) at (\w+) on (.*?) \(", section_of(page, section), re.M)
    if not found:
        raise Unusable(f"{PAGE}: the section '{section}' does not say when and where it was made")
    return found.groups()


def shown(value):
    """Three digits that count."""
    return f"{int(value + 0.5):,}" if value >= 100 else f"{value:.3g}"


def panel_lines(page, panel, left, width):
    title, remark, section, _, _, unit, _ = panel
    date, commit, machine = made(page, section)
    bars = bars_of(page, panel)
    longest, room = max(value for _, value in bars), width - LABEL - VALUE
    yield f'<text class="title" x="{left}" y="32">{escape(title)}</text>'
    yield f'<text class="remark" x="{left}" y="49">{escape(remark)}</text>'
    for place, (label, value) in enumerate(bars):
        top, length = TITLE + place * ROW, max(1.5, room * value / longest)
        yield f'<text x="{left}" y="{top + 13}">{escape(label)}</text>'
        whose = "other" if place else "ours"
        yield f'<rect class="{whose}" x="{left + LABEL}" y="{top}" width="{length:.1f}" height="{BAR}" rx="2"/>'
        yield f'<text x="{left + LABEL + length + 5:.1f}" y="{top + 13}">{shown(value)} {unit}</text>'
    bottom = TITLE + max(len(panel[-1]) for panel in PANELS) * ROW + 12
    yield f'<text class="remark" x="{left}" y="{bottom}">{date}, {escape(machine)}, {commit[:7]}</text>'


def picture(page):
    width = (WIDTH - 2 * MARGIN - (len(PANELS) - 1) * GAP) / len(PANELS)
    height = TITLE + max(len(panel[-1]) for panel in PANELS) * ROW + 28
    said = "; ".join(f"{panel[0]}, {panel[1]}: " + ", ".join(f"{label} {shown(value)} {panel[5]}" for label, value in bars_of(page, panel))
                     for panel in PANELS)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
             f"<title>{escape(said)}</title>", f"<style>{STYLE}</style>",
             f'<rect class="back" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>']
    for place, panel in enumerate(PANELS):
        lines += panel_lines(page, panel, MARGIN + place * round(width + GAP), width)
    return "\n".join([*lines, "</svg>", ""])


def main(arguments):
    check = arguments[:1] == ["--check"]
    root = arguments[check] if len(arguments) > check else "."
    path = os.path.join(root, PICTURE)
    try:
        with open(os.path.join(root, PAGE), encoding="utf-8") as file:
            drawn = picture(file.read())
        if check:
            with open(path, encoding="utf-8") as file:
                if file.read() != drawn:
                    raise Unusable(f"{PICTURE} is not that of {PAGE}: run scripts/benchmarks_picture.py")
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(drawn)
    except (Unusable, OSError, ValueError) as error:
        print(f"benchmarks_picture.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
