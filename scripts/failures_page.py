#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the sections of docs/failures.md, and the table before them, from tests/failures.toml, which says what each field of a record means.

usage: failures_page.py [ROOT]            writes what stands between the marks of the page; the rest of it is written by hand
       failures_page.py --check [ROOT]    changes nothing; one line for each way in which page, records and tests disagree

Wrong records are named in either case, and nothing is written; the exit code is 1 then. Standard library only.
"""
import glob
import os
import re
import sys
import textwrap
import tomllib

import bench_report
import check_links

RECORDS, PAGE = "tests/failures.toml", "docs/failures.md"
NEEDED, OPTIONAL = {"id", "chapter", "heading", "text", "tests"}, {"soon", "see", "lines", "next", "bounds"}
WIDTH = 140  # of the page's lines
BOUND = re.compile(r"\{(\w+)(?:\.(\w+))?\}")
PROMISED = re.compile(r'\bpromised\(\s*"([^"]+)"(?:,\s*"([^"]+)")?')
QUOTED = r'"(?:\\.|[^"\\])*"'
SYMPTOM = {"see", "failure", "do"}
VARIES = re.compile(r"\{[^}]*\}|\.\.\.")  # in what a symptom quotes
SOURCES = ("launcher", "agent", "rendezvous", "worker_sdk")
COMMENT_OR_TEXT = re.compile(rf"//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])+'|{QUOTED}(?:\s*{QUOTED})*", re.S)
COMMAND = re.compile(rf"(\w+)\s*\(((?:{QUOTED}|[^()\"]|\((?:{QUOTED}|[^()\"])*\))*)\)")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def cmake_commands(text):
    """(name, words) of each command of a CMake file, in order."""
    text = re.sub(rf"({QUOTED})|#[^\n]*", lambda match: match.group(1) or "", text)
    return [(name, [quoted or bare for quoted, bare in re.findall(r'"((?:\\.|[^"\\])*)"|([^\s;"]+)', words)])
            for name, words in COMMAND.findall(text)]


def body_of(commands, begin, opening, closing):
    """The commands between the one at `begin` and its end, and the place of that end."""
    depth = 1
    for end in range(begin + 1, len(commands)):
        depth += (commands[end][0] == opening) - (commands[end][0] == closing)
        if depth == 0:
            return commands[begin + 1:end], end
    return commands[begin + 1:], len(commands)


def replaced(words, variables):
    return [re.sub(r"\$\{(\w+)\}", lambda match: variables.get(match.group(1), match.group()), word) for word in words]


def run_commands(commands, variables, functions, names):
    """Adds to `names` what the commands register by add_test(), through functions and loops; each condition counts as true."""
    place = 0
    while place < len(commands):
        name, words = commands[place][0], replaced(commands[place][1], variables)
        if name == "function":
            body, place = body_of(commands, place, "function", "endfunction")
            functions[words[0]] = (words[1:], body)
        elif name == "foreach":
            body, place = body_of(commands, place, "foreach", "endforeach")
            for item in words[3:] if words[1:3] == ["IN", "ITEMS"] else words[1:]:
                run_commands(body, {**variables, words[0]: item}, functions, names)
        elif name == "add_test":
            names.add(words[1])
        elif name in functions:
            parameters, body = functions[name]
            run_commands(body, dict(zip(parameters, words)), functions, names)
        place += 1


def test_names(root):
    """The names of all CTest tests, of all kinds of build trees."""
    functions, names = {}, set()
    files = [os.path.join(root, "scripts/cmake/MusterTargets.cmake"), *sorted(glob.glob(f"{root}/tests/**/CMakeLists.txt", recursive=True))]
    for path in files:
        run_commands(cmake_commands(read(path)), {}, functions, names)
    return names


def seconds_of(bound, part):
    """A bound in all, or the timer in it; None if there is no such part."""
    if not part:
        return bound["seconds"] + bound.get("clock", 0)
    return bound.get(part) if part == "clock" else None


def paragraph(record, text):
    """The text in lines, with its bounds; what a test judges is bold."""
    def shown(match):
        time = f"{seconds_of(record['bounds'][match.group(1)], match.group(2)):g} s"
        return time if match.group(2) else f"**{time}**"

    return textwrap.fill(BOUND.sub(shown, text), WIDTH, break_long_words=False, break_on_hyphens=False)


def section(record):
    parts = [f"### {record['heading']}", paragraph(record, record["text"])]
    if "soon" in record:
        parts.append(paragraph(record, f"**How soon:** {record['soon']}"))
    if "see" in record or "lines" in record:
        parts.append(paragraph(record, f"**What you see:** {record.get('see', '')}"))
    if "lines" in record:
        parts.append(f"```\n{record['lines'].rstrip()}\n```")
    if "next" in record:
        parts.append(paragraph(record, f"**What to do:** {record['next']}"))
    tests = ", ".join(f"`{name}`" for name in record["tests"])
    parts.append(paragraph(record, f"Proved by {tests}." if tests else "No test proves it."))
    return "\n\n".join(parts)


def symptom_table(symptoms, records):
    headings = {record["id"]: record["heading"] for record in records}
    rows = ["| what you see | what to do | more |", "|---|---|---|"]
    for symptom in symptoms:
        heading = headings[symptom["failure"]]
        see = re.sub(r"[{}]", "", symptom["see"])
        rows.append(f"| `{see}` | {symptom['do']} | [{heading}](#{check_links.anchor_of(heading)}) |")
    return "\n".join(rows)


def page_with(page, records, symptoms=()):
    if symptoms:
        page = bench_report.replace_section(page, "symptoms", symptom_table(symptoms, records))
    for chapter in dict.fromkeys(record["chapter"] for record in records):
        text = "\n\n".join(section(record) for record in records if record["chapter"] == chapter)
        page = bench_report.replace_section(page, chapter, text)
    return page


def wrong_bounds(root, record):
    """The page shows each bound, and a C++ test that cannot read it has the same."""
    shown = set(BOUND.findall(" ".join(record.get(field, "") for field in ("text", "soon", "see", "next"))))
    bounds = record.get("bounds", {})
    for name, bound in bounds.items():
        if "seconds" not in bound or bound.keys() - {"seconds", "clock", "cpp"}:
            yield f"the bound '{name}' has the fields {sorted(bound)}: give it `seconds`, and `clock` or `cpp` if it has one"
            return
    for name, part in sorted(shown):
        if name not in bounds or seconds_of(bounds[name], part) is None:
            yield f"{{{name}{'.' if part else ''}{part}}} is no bound of this record: correct it, or add it to `bounds`"
    for name, bound in bounds.items():
        if (name, "") not in shown:
            yield f"no sentence says the bound '{name}': write {{{name}}}"
        path, _, constant = bound.get("cpp", "").partition(": ")
        if path:
            found = re.search(rf"\b{constant} = ([\d.]+);", read(os.path.join(root, path)))
            if not found or float(found.group(1)) != bound["seconds"]:
                yield f"the bound '{name}' is {bound['seconds']:g} s, and {path} does not say {constant} = {bound['seconds']:g};"


def texts_of(root):
    """Every text that the product's sources hold, as they print it; pieces that stand side by side are one."""
    texts = []
    for path in sorted(path for folder in SOURCES for path in glob.glob(f"{root}/{folder}/**/*.[ch]*", recursive=True)):
        for match in COMMENT_OR_TEXT.finditer(read(path)):
            if match.group()[0] == '"':
                joined = "".join(piece[1:-1] for piece in re.findall(QUOTED, match.group()))
                texts.append(joined.replace('\\"', '"'))
    return "\0".join(texts)


def wrong_symptoms(root, symptoms, records, page):
    """Each is quoted from the sources, and leads to a section."""
    texts, known = texts_of(root) if symptoms else "", {record.get("id") for record in records}
    if symptoms and "<!-- begin symptoms -->" not in page:
        yield f"{RECORDS}: {PAGE} has no marks for the symptoms"
    for symptom in symptoms:
        who = f"{RECORDS}: the symptom '{symptom.get('see', '?')}'"
        if symptom.keys() != SYMPTOM:
            yield f"{who}: has the fields {sorted(symptom)}, not {sorted(SYMPTOM)}"
            continue
        if symptom["failure"] not in known:
            yield f"{who}: there is no failure '{symptom['failure']}'"
        words = [part for part in (re.sub(r"^\W+|\W+$", "", part) for part in VARIES.split(symptom["see"])) if part]
        if max(map(len, words), default=0) < 6:
            yield f"{who}: quotes too little: let 6 letters on end be the product's own"
        for part in words:
            if part not in texts:
                yield f"{who}: no text in {', '.join(SOURCES)} has the words '{part}'"


def wrong_records(root, records, page):
    known, seen, names = NEEDED | OPTIONAL, set(), test_names(root)
    for record in records:
        who = f"{RECORDS}: {record.get('id', record.get('heading', 'a record without id'))}"
        for field in sorted((NEEDED - record.keys()) | (record.keys() - known)):
            yield f"{who}: the field '{field}' is {'unknown' if field in record else 'missing'}"
        if NEEDED - record.keys():
            continue
        if record["id"] in seen:
            yield f"{who}: there are two of that id"
        seen.add(record["id"])
        if f"<!-- begin {record['chapter']} -->" not in page:
            yield f"{who}: {PAGE} has no marks for the chapter '{record['chapter']}'"
        for name in record["tests"]:
            if name not in names:
                yield f"{who}: no CMakeLists.txt of tests/ registers the test '{name}'"
        for text in wrong_bounds(root, record):
            yield f"{who}: {text}"


def wrong_promises(root, records):
    """Each bound is judged by a test, and each that a test asks for is there."""
    bounds = {(record["id"], name): bound for record in records for name, bound in record.get("bounds", {}).items()}
    asked = set()
    for path in sorted(glob.glob(f"{root}/tests/**/*.py", recursive=True)):
        if os.path.relpath(path, root).startswith(("tests/unit/", "tests/support/")):
            continue  # tests of the tests
        for failure, name in PROMISED.findall(read(path)):
            asked.add((failure, name or "ended"))
            if (failure, name or "ended") not in bounds:
                yield f"{os.path.relpath(path, root)}: {RECORDS} has no bound '{name or 'ended'}' of the failure '{failure}'"
    for (failure, name), bound in bounds.items():
        if (failure, name) not in asked and "cpp" not in bound:
            yield f"{RECORDS}: {failure}: no test judges the bound '{name}': let one ask for promised(\"{failure}\", \"{name}\")"


def main(arguments):
    check = arguments[:1] == ["--check"]
    root = arguments[check] if len(arguments) > check else "."
    told = tomllib.loads(read(os.path.join(root, RECORDS)))
    records, symptoms = told["failure"], told.get("symptom", [])
    path = os.path.join(root, PAGE)
    page = read(path)
    problems = list(wrong_records(root, records, page)) or [*wrong_promises(root, records), *wrong_symptoms(root, symptoms, records, page)]
    if not problems:
        written = page_with(page, records, symptoms)
        if check and written != page:
            problems.append(f"{PAGE}: its sections are not those of {RECORDS}: run scripts/failures_page.py")
        elif not check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(written)
    print("\n".join(problems) or f"failures_page: {len(records)} failures and {len(symptoms)} symptoms, no disagreement")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
