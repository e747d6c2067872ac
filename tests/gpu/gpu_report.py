# SPDX-License-Identifier: Apache-2.0
"""The report of the checks on a GPU: gpu-report.json, to which each call adds, and the same as Markdown in gpu-report.md."""
import json
import os

from check_list import PARTS

SCHEMA = 1
# What two runs must have in common to be one report. Machines of one kind may differ in their drivers, which each result names.
IDENTITY = ("commit", "clean", "gpus")


def paths(folder):
    return os.path.join(folder, "gpu-report.json"), os.path.join(folder, "gpu-report.md")


def load(folder, about):
    """The report that lies in `folder`, or a new one. Raises ValueError where what lies there is of another commit or machine."""
    try:
        with open(paths(folder)[0], encoding="utf-8") as file:
            report = json.load(file)
    except FileNotFoundError:
        return {"schema": SCHEMA, "about": about, "checks": []}
    different = [key for key in IDENTITY if report["about"].get(key) != about.get(key)]
    if report.get("schema") != SCHEMA or different:
        raise ValueError(f"{folder} holds a report of something else ({', '.join(different) or 'another schema'}); name another folder "
                         "with --report")
    report["about"] = about
    return report


def add(report, result):
    """A check that was run again takes the place of its earlier result."""
    for number, other in enumerate(report["checks"]):
        if other["name"] == result["name"]:
            report["checks"][number] = result
            return
    report["checks"].append(result)


def merge(folders, folder):
    """Adds the reports of `folders` to the one in `folder`, or to a new one; a later result takes the place of an earlier one. Raises
    OSError where there is no report, and ValueError where they are not of one commit and kind of machine."""
    for other in folders:
        with open(paths(other)[0], encoding="utf-8") as file:
            added = json.load(file)
        report = load(folder, added["about"])
        known = {check["name"] for check in report["checks"]}
        for check in added["checks"]:
            if check["status"] != "not run" or check["name"] not in known:
                add(report, check)
        save(report, folder)
    return report


def verdict(report):
    counts = {status: sum(check["status"] == status for check in report["checks"]) for status in ("passed", "failed", "skipped", "not run")}
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    if counts["failed"]:
        return f"FAILED ({said})"
    return f"INCOMPLETE ({said})" if counts["not run"] else f"passed ({said})"


def save(report, folder):
    """Whole files take the places of the old ones, so that a run that is cut short leaves a report."""
    report["verdict"], report["rates"] = verdict(report), rates(report)
    for path, text in zip(paths(folder), (json.dumps(report, indent=1) + "\n", markdown(report))):
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)


def drivers(report):
    """Those that the results were got with."""
    return sorted({check["driver"] for check in report["checks"] if check.get("driver")} or {report["about"]["driver"]})


def rates(report):
    """Images a second, each beside the fastest that PyTorch has with this network and batch."""
    found = [{"model": row[0], "batch": int(row[1]), "program": row[2], "images_per_second": float(row[3])}
             for check in report["checks"] if check["table"] == "rates" for row in check["rows"] if len(row) == 4]
    for rate in found:
        peers = [other for other in found if other["program"].startswith("PyTorch")
                 and (other["model"], other["batch"]) == (rate["model"], rate["batch"])]
        if peers and not rate["program"].startswith("PyTorch"):
            rate["times_pytorch"] = rate["images_per_second"] / max(other["images_per_second"] for other in peers)
            # PyTorch's best is a compiled one; a ratio to eager steps alone must not be taken for one to that.
            rate["eager_only"] = all(other["program"].endswith(", eager") for other in peers)
    return sorted(found, key=lambda rate: (rate["model"], rate["batch"], rate["program"]))


def row(*cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def markdown(report):
    about = report["about"]
    lines = ["# Checks on a GPU", "", f"**{report['verdict']}**", "", row("", ""), "|---|---|",
             row("commit", about["commit"] + ("" if about["clean"] else ", with changes that are not committed")),
             row("GPUs", ", ".join(about["gpus"])), row("driver", ", ".join(drivers(report))), row("machine", about["machine"])]
    lines += ["", "## What the machine has", "", row("what", "found", "", "what it means"), "|---|---|---|---|"]
    lines += [row(one["what"], one["found"], one["fits"], one["meaning"]) for one in about.get("preflight", [])]
    lines += rates_markdown(report["rates"])
    for number, title in PARTS.items():
        checks = [check for check in report["checks"] if check["part"] == number]
        lines += ["", f"## Part {number}: {title}", "", row("check", "result", "seconds", "why"), "|---|---|---|---|"]
        lines += [row(check["name"], check["status"], check["seconds"], check["reason"]) for check in checks]
        for check in checks:
            if check["table"] == "calls" and check["rows"]:
                lines += ["", f"{check['name']}:", "", row(*check["rows"][0]), "|" + "---|" * len(check["rows"][0])]
                lines += [row(*cells) for cells in check["rows"][1:]]
            elif check["output"]:
                lines += ["", f"{check['name']}:", "", "```", *check["output"], "```"]
    return "\n".join(lines) + "\n"


def rates_markdown(found):
    if not found:
        return []
    lines = ["", "## Images a second, bf16", "", row("network", "images a step and GPU", "program", "images/s", "times PyTorch's best"),
             "|---|---|---|---|---|"]
    for rate in found:
        beside = f"{rate['times_pytorch']:.2f}" + (" (eager only)" if rate["eager_only"] else "") if "times_pytorch" in rate else ""
        lines.append(row(rate["model"], rate["batch"], rate["program"], f"{rate['images_per_second']:.0f}", beside))
    several = [rate for rate in found if rate["program"].endswith(" GPUs")]
    for rate in several:
        count = int(rate["program"].split()[-2])
        alone = [other for other in found if other["program"] == "muster-train, whole epochs" and other["batch"] == rate["batch"]]
        if alone:
            lines += ["", f"{count} GPUs do {rate['images_per_second'] / alone[0]['images_per_second'] / count:.0%} of {count} times what one does."]
    return lines
