# SPDX-License-Identifier: Apache-2.0
"""Reads OpenMetrics' text format 1.0 strictly: what it does not allow is an error that names the line."""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)?\}})? (-?\d+(?:\.\d+)?)")
SUFFIXES = {"counter": "_total", "gauge": "", "info": "_info"}


class Family:
    def __init__(self, kind):
        self.kind, self.unit, self.help = kind, None, None
        self.samples = {}

    def __getitem__(self, labels):
        """The one sample that has these labels, given as a dictionary."""
        (value,) = [value for key, value in self.samples.items() if labels.items() <= dict(key).items()]
        return value


def unescaped(text):
    return re.sub(r'\\(["\\n])', lambda found: "\n" if found[1] == "n" else found[1], text)


def parse(text):
    """Returns the families by their names; ValueError for what is no such text."""
    families, name = {}, None
    lines = text.split("\n")
    if lines[-2:] != ["# EOF", ""]:
        raise ValueError(f"the end is not '# EOF' and a line end: {lines[-2:]}")
    for number, line in enumerate(lines[:-2], 1):
        def need(holds, why, at=f"line {number}: {line!r}"):
            if not holds:
                raise ValueError(f"{at}: {why}")

        if line.startswith("#"):
            found = re.fullmatch(rf"# (TYPE|UNIT|HELP) ({NAME}) (.+)", line)
            need(found, "no TYPE, UNIT or HELP")
            word, of, rest = found.groups()
            if word == "TYPE":
                need(of not in families and rest in SUFFIXES, "a second TYPE, or an unknown one")
                families[of], name = Family(rest), of
                continue
            family = families[name] if name == of else None
            need(family and not family.samples, "it is not between the family's TYPE and its first sample")
            need(getattr(family, word.lower()) is None, "it is there twice")
            need(word != "UNIT" or of.endswith("_" + rest), "the name does not end with the unit")
            setattr(family, word.lower(), rest)
            continue
        found = SAMPLE.fullmatch(line)
        need(found, "no sample")
        need(name and found[1] == name + SUFFIXES[families[name].kind], "a sample of another family, or without its suffix")
        pairs = [(label, unescaped(value)) for label, value in re.findall(LABEL, found[2] or "")]
        need(len(dict(pairs)) == len(pairs), "a label twice")
        key = frozenset(pairs)
        need(key not in families[name].samples, "the same sample twice")
        value = float(found[7])
        need(families[name].kind != "counter" or value >= 0, "a counter below 0")
        need(families[name].kind != "info" or value == 1, "an info that is not 1")
        families[name].samples[key] = value
    for of, family in families.items():
        if not family.samples or family.help is None:
            raise ValueError(f"{of} has no sample, or no help")
        for suffix in ("seconds", "bytes"):
            if of.endswith("_" + suffix) and family.unit != suffix:
                raise ValueError(f"{of} does not tell its unit")
    return families
