# SPDX-License-Identifier: Apache-2.0
"""Writes the man pages of muster and the completion files of the shells, from what the program says of itself.

usage: man_pages.py PREFIX MUSTER [PROGRAM...]

MUSTER is the built launcher: each command of its --help gets a page, and so does each further PROGRAM (muster-train). The files lie below
PREFIX as they are installed: share/man/man1, share/bash-completion/completions, share/zsh/site-functions, share/fish/vendor_completions.d.
SOURCE_DATE_EPOCH is the date of the pages, else today.
"""

import os
import re
import subprocess
import sys
import time

# The files of the shells, where each looks for what others install.
COMPLETIONS = {"bash": "share/bash-completion/completions/muster", "zsh": "share/zsh/site-functions/_muster",
               "fish": "share/fish/vendor_completions.d/muster.fish"}
# zsh reads the file when it is first asked, and calls what it has just defined from the next time on only.
ZSH_FIRST_CALL = 'if [[ $funcstack[1] == _muster ]]; then\n  _muster "$@"\nfi\n'
# Headings of a help that the sections of a page have other names for.
SECTIONS = {"Exit codes:": "EXIT STATUS", "Examples:": "EXAMPLES", "Example:": "EXAMPLES"}
# What roff would print as another character.
ESCAPES = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}


def output_of(*command):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8", timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise SystemExit(f"man_pages.py: no pages can be made: {error}; -DMUSTER_WITH_PAGES=OFF builds without") from error


def escaped(text):
    text = "".join(ESCAPES.get(character, character) for character in text)
    return r"\&" + text if text.startswith(".") else text


def bold(text):
    return r"\fB" + escaped(text) + r"\fR"


def indentation(line):
    return len(line) - len(line.lstrip(" "))


def text_column(lines):
    """Where the texts beside the terms of a table begin: two blanks or more are before the first one, also where a longer term leaves one."""
    for line in lines:
        found = re.match(r"  \S+(?: \S+)*  +(?=\S)", line)
        if found:
            return found.end()
    return None


def table_items(lines):
    """[(term, text)] of lines that are indented by two blanks, with their texts beside or below the terms."""
    column, items = text_column(lines), []
    for line in lines:
        if indentation(line) > 2:
            items[-1][1].append(line.strip())
        elif column and len(line) > column and line[column - 1] == " ":
            items.append((line[:column].strip(), [line[column:].strip()]))
        else:
            items.append((line.strip(), []))
    return [(term, " ".join(texts)) for term, texts in items]


def paragraph(lines):
    return [".PP", *(escaped(line) for line in lines)]


class Page:
    """The parts of a help, in the sections of a man page."""

    def __init__(self, text):
        self.synopsis, self.description, self.options, self.exit_status, self.examples, self.notes = [], [], [], [], [], []
        for block in re.split(r"\n\s*\n", text.strip("\n")):
            self._take(block.split("\n"))

    def _take(self, lines):
        """Sorts a block of lines: a paragraph, a table, or one after the other."""
        while lines:
            first = lines[0]
            if first.startswith("Usage: "):
                self.synopsis.append(first[len("Usage: "):])
                lines = lines[1:]
            elif first.startswith("  "):
                count = next((i for i, line in enumerate(lines) if not line.startswith("  ")), len(lines))
                self.options += [part for item in table_items(lines[:count]) for part in (".TP", bold(item[0]), escaped(item[1]) or r"\&")]
                lines = lines[count:]
            elif first.split(": ")[0].rstrip(":") + ":" in SECTIONS:
                self._take_section(lines)
                return
            elif first.endswith(":") and lines[1:2] and lines[1].startswith("  "):
                if first != "Options:":
                    self.options.append(".SS " + escaped(first[:-1]))
                lines = lines[1:]
            else:
                count = next((i for i, line in enumerate(lines) if i and re.match(r"Usage: |Exit codes: |  ", line)), len(lines))
                place = self.notes if self.options else self.description
                place += paragraph(lines[:count])
                lines = lines[count:]

    def _take_section(self, lines):
        heading, _, rest = lines[0].partition(":")
        lines = [rest.strip()] * bool(rest.strip()) + lines[1:]
        if SECTIONS[heading + ":"] == "EXAMPLES":
            self.examples += [".nf", *(escaped(line.strip()) for line in lines), ".fi"]
        else:
            self.exit_status += paragraph([lines[0][:1].upper() + lines[0][1:], *lines[1:]])

    def text(self, name, what, others, version, heading):
        """The page in roff; `what` is the line of NAME, `heading` that of its table."""
        date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
        lines = [f".TH {escaped(name.upper())} 1 {escaped(date)} \"{escaped(version)}\" Muster", ".nh", ".ad l", ".ss 12 0",
                 ".SH NAME", f"{escaped(name)} \\- {escaped(what)}"]
        for title, content in (("SYNOPSIS", [line for one in self.synopsis for line in (bold(one), ".br")][:-1]), ("DESCRIPTION", self.description),
                               (heading, self.options), ("NOTES", self.notes), ("EXIT STATUS", self.exit_status), ("EXAMPLES", self.examples),
                               ("SEE ALSO", [", ".join(rf"\fB{escaped(other)}\fR(1)" for other in others)])):
            if content:
                lines += [".SH " + title, *content]
        return "\n".join(lines) + "\n"


def commands_of(help_text):
    """{command: what it does} of the launcher's --help."""
    table = [line for line in help_text.split("\n") if line.startswith("  ")]
    return dict(table_items(table))


def first_sentence(text):
    """That of a help, as the line of NAME has it."""
    sentence = re.match(r"(?s)(.*?)\.\s", text)[1].replace("\n", " ")
    return sentence[:1].lower() + sentence[1:]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_pages(prefix, muster, programs):
    version = output_of(muster, "--version").strip()
    whole = output_of(muster, "--help")
    commands = commands_of(whole)
    texts = {f"muster-{command}": output_of(muster, "help", command) for command in commands}
    further = {os.path.basename(program): output_of(program, "--help") for program in programs}

    def page(name, text, what, others, heading="OPTIONS"):
        write(os.path.join(prefix, "share", "man", "man1", name + ".1"), Page(text).text(name, what, others, version, heading))

    every = sorted({*texts, *further})
    page("muster", whole, first_sentence(texts["muster-run"]), every, "COMMANDS")
    for command, what in commands.items():
        text = texts[f"muster-{command}"]
        named = {f"muster-{other}" for other in re.findall(r"\bmuster ([a-z-]+)", text) if other in commands}
        page(f"muster-{command}", text, what, ["muster", *sorted(named - {f"muster-{command}"})], "COMMANDS" if text == whole else "OPTIONS")
    for name, text in further.items():
        page(name, text, first_sentence(text), ["muster", "muster-run"])


def main(prefix, muster, *programs):
    write_pages(prefix, muster, programs)
    for shell, path in COMPLETIONS.items():
        write(os.path.join(prefix, path), output_of(muster, "run", "--print-completion", shell) + (ZSH_FIRST_CALL if shell == "zsh" else ""))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
