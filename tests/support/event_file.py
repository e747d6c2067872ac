# SPDX-License-Identifier: Apache-2.0
"""Checks event files of `muster run --event-file` against the schema that docs/operations.md promises."""
import json
import os
import re

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "operations.md")
TYPES = {"text": str, "number": int, "flag": bool, "ranks": list, "texts": list}


def promised():
    """{kind: {field: type}} of the page's table, and under "" what each line has."""
    with open(PAGE, encoding="utf-8") as file:
        section = re.search(r"(?ms)^### Events$(.*?)^##", file.read())[1]
    kinds = {}
    for name, fields in re.findall(r"(?m)^\| (each line|`\w+`) \| (.*?) \|", section):
        kinds[name.strip("`") if name != "each line" else ""] = dict(re.findall(r"`(\w+)` (\w+)", fields))
    return kinds


def events_of(text):
    """The events of a file; AssertionError for a line that the page does not promise, or that lacks what it does."""
    kinds, events = promised(), []
    for line in text.splitlines():
        event = json.loads(line)
        assert event["kind"] in kinds, f"the page has no {event['kind']}: {line}"
        fields = {**kinds[""], **kinds[event["kind"]]}
        assert list(event) == list(fields), f"the page promises {list(fields)}: {line}"
        for name, kind in fields.items():
            assert type(event[name]) is TYPES[kind], f"{name} is no {kind}: {line}"  # pylint: disable=unidiomatic-typecheck
        assert event["schema"] == "muster.event" and event["version"] == 1, line
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["time"]), line
        assert len(line) < 4096, line
        events.append(event)
    return events


def kinds_of(events, *without):
    return [event["kind"] for event in events if event["kind"] not in without]
