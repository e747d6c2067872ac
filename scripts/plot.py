#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what runs and benchmarks have written.

  plot.py --metrics FILE [FILE...]   loss.png, speed.png: one curve for each run of muster-train --metrics
  plot.py --trace FILE [--step N]    timeline.png: what each rank did in a step of muster-train --profile (default: the middle one)
  plot.py --bench FILE               scaling.png, memory.png: from a benchmark's rows

All into --output DIR (default: here), as --format png, svg or pdf. Needs matplotlib (python3-matplotlib, or build/venv, which
scripts/make_venv.sh makes).

A benchmark's file is {"rows": [...]}, where a row has "network", "form", "ranks", and either or both of
"images_per_second" and "memory": bytes of a rank by kind."""
import argparse
import json
import os
import sys


class Unusable(Exception):
    """A file that cannot be drawn; the text says why and names it."""


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError) as error:
        raise Unusable(f"cannot read {path}: {error}") from error
    if not isinstance(value, dict):
        raise Unusable(f"{path} is not a JSON object {{...}}")
    return value


def read_metrics(path):
    """The lines of kind step by their step. A restart repeats the steps after its checkpoint: the last line of a step counts."""
    steps = {}
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
    except (OSError, ValueError) as error:
        raise Unusable(f"cannot read {path}: {error}") from error
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
        except ValueError as error:
            if number == len(lines) and not text.endswith("\n"):
                break  # a run that was killed while it wrote
            raise Unusable(f"{path}, line {number}, is no JSON: {error}; give a file that muster-train --metrics wrote") from error
        if isinstance(line, dict) and line.get("event") == "step":
            steps[line["step"]] = line
    if not steps:
        raise Unusable(f"{path} holds no step; give a file that muster-train --metrics wrote, or a smaller --metrics-every")
    return [steps[step] for step in sorted(steps)]


def read_step(path, wanted):
    """A step of a trace: its number, and its spans as (rank, lane, name, begin in ms, length in ms). `wanted` may be None."""
    events = read_json(path).get("traceEvents", [])
    lanes = {(event["pid"], event["tid"]): event["args"]["name"] for event in events
             if event.get("ph") == "M" and event.get("name") == "thread_name"}
    spans = [event for event in events if event.get("ph") == "X" and "step" in event.get("args", {})]
    steps = sorted({event["args"]["step"] for event in spans})
    if not steps:
        raise Unusable(f"{path} holds no step; give a file that muster-train --profile wrote")
    step = steps[len(steps) // 2] if wanted is None else wanted
    if step not in steps:
        raise Unusable(f"{path} has no step {step}, but steps {steps[0]} to {steps[-1]}; give one of them with --step")
    chosen = [event for event in spans if event["args"]["step"] == step]
    begin = min(event["ts"] for event in chosen)
    return step, [(event["pid"], lanes.get((event["pid"], event["tid"]), str(event["tid"])), event["name"],
                   (event["ts"] - begin) / 1000, event["dur"] / 1000) for event in chosen]


def read_rows(path):
    rows = read_json(path).get("rows", [])
    for number, row in enumerate(rows):
        missing = [key for key in ("network", "form", "ranks") if key not in row]
        if missing:
            raise Unusable(f"row {number} of {path} has no {', '.join(missing)}")
    if not rows:
        raise Unusable(f"{path} holds no rows")
    return rows


def draw_curves(plt, runs, value, label, title):
    """One curve for each of {name: lines}."""
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for name, lines in runs.items():
        # What is not finite is null there, and a gap here.
        values = [float("nan") if line[value] is None else line[value] for line in lines]
        axes.plot([line["step"] for line in lines], values, label=name)
    axes.set(xlabel="step", ylabel=label, title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def draw_timeline(plt, step, spans):
    """A bar for each rank and lane, a colour for each kind of span."""
    rows = sorted({(rank, lane) for rank, lane, *_ in spans}, key=lambda row: (row[0], row[1] != "compute", row[1]))
    names = list(dict.fromkeys(name for _, _, name, _, _ in spans))
    colours = {name: f"C{number % 10}" for number, name in enumerate(names)}
    figure, axes = plt.subplots(figsize=(10, 1.2 + 0.45 * len(rows)), layout="constrained")
    for name in names:
        for at, row in enumerate(rows):
            bars = [(begin, length) for rank, lane, kind, begin, length in spans if kind == name and (rank, lane) == row]
            axes.broken_barh(bars, (at - 0.4, 0.8), facecolors=colours[name], edgecolor="white", linewidth=0.3)
        axes.plot([], [], color=colours[name], linewidth=6, label=name)
    axes.set_yticks(range(len(rows)), [f"rank {rank}, {lane}" for rank, lane in rows])
    axes.set(xlabel="ms", title=f"Step {step}")
    axes.invert_yaxis()
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def draw_scaling(plt, rows):
    """Images/s by ranks: a curve for each network and form, and what each would be were ranks all that counts."""
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for key in dict.fromkeys((row["network"], row["form"]) for row in rows):
        points = sorted((row["ranks"], row["images_per_second"]) for row in rows if (row["network"], row["form"]) == key)
        line, = axes.plot(*zip(*points), marker="o", label=", ".join(key))
        first = points[0]
        axes.plot([ranks for ranks, _ in points], [first[1] * ranks / first[0] for ranks, _ in points], color=line.get_color(),
                  linestyle=":", alpha=0.6)
    axes.set(xlabel="ranks", ylabel="images/s", title="Scaling (dotted: in proportion to the ranks)", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def draw_memory(plt, rows):
    """Bytes of a rank: a bar for each row, a colour for each kind."""
    kinds = list(dict.fromkeys(kind for row in rows for kind in row["memory"]))
    figure, axes = plt.subplots(figsize=(max(6, 1.5 + 0.8 * len(rows)), 4.5), layout="constrained")
    floor = [0.0] * len(rows)
    for kind in kinds:
        heights = [row["memory"].get(kind, 0) / 2**20 for row in rows]
        axes.bar(range(len(rows)), heights, bottom=floor, label=kind)
        floor = [low + height for low, height in zip(floor, heights)]
    axes.set_xticks(range(len(rows)), [f"{row['network']}\n{row['form']}\n{row['ranks']} ranks" for row in rows])
    axes.set(ylabel="MiB of a rank", title="Memory")
    axes.legend()
    return figure


def figures(options, plt):
    """The names of the pictures, and the pictures."""
    if options.metrics:
        runs = {path: read_metrics(path) for path in options.metrics}
        yield "loss", draw_curves(plt, runs, "loss", "loss", "Training loss")
        yield "speed", draw_curves(plt, runs, "images_per_second", "images/s", "Speed")
    if options.trace:
        yield "timeline", draw_timeline(plt, *read_step(options.trace, options.step))
    if options.bench:
        rows = read_rows(options.bench)
        fast = [row for row in rows if "images_per_second" in row]
        held = [row for row in rows if row.get("memory")]
        if fast:
            yield "scaling", draw_scaling(plt, fast)
        if held:
            yield "memory", draw_memory(plt, held)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", nargs="+", metavar="FILE")
    parser.add_argument("--trace", metavar="FILE")
    parser.add_argument("--step", type=int, metavar="N")
    parser.add_argument("--bench", metavar="FILE")
    parser.add_argument("--output", default=".", metavar="DIR")
    parser.add_argument("--format", default="png", choices=("png", "svg", "pdf"))
    options = parser.parse_args()
    if not (options.metrics or options.trace or options.bench):
        parser.error("give at least one of --metrics, --trace and --bench")
    try:
        import matplotlib
    except ImportError:
        print("plot.py: no matplotlib; install python3-matplotlib, or run scripts/make_venv.sh and use build/venv/bin/python",
              file=sys.stderr)
        return 1
    matplotlib.use("Agg")  # files only: no display is needed
    from matplotlib import pyplot
    try:
        os.makedirs(options.output, exist_ok=True)
        for name, figure in figures(options, pyplot):
            path = os.path.join(options.output, f"{name}.{options.format}")
            figure.savefig(path, dpi=150)
            pyplot.close(figure)
            print(path)
    except (Unusable, OSError) as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
