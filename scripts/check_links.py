# SPDX-License-Identifier: Apache-2.0
"""Links between the Markdown pages of the tree: a rule of scripts/check_tree.py."""
import os
import re

FENCE = re.compile(r"^(```+|~~~+).*?^\1[ \t]*$", re.S | re.M)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.M)
# [text](target), ![picture](target), [text](target "title"), and what HTML has.
LINK = re.compile(r"\]\(\s*<?([^()\s>]*(?:\([^()\s]*\)[^()\s>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)|\b(?:href|src|srcset)=\"([^\"]*)\"")
REFERENCE = re.compile(r"^ {0,3}\[[^\]^]+\]:[ \t]*<?([^\s>]+)>?", re.M)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.I)


def blanked(match):
    return re.sub(r"[^\n]", " ", match.group())


def without_fences(text):
    """The same text with blocks of code blanked, every line where it was."""
    return FENCE.sub(blanked, text)


def anchor_of(heading):
    """What GitHub makes of a heading: the words without their marks, in lower case, with hyphens for spaces."""
    heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors_of(text):
    """All anchors of a page; a heading that comes again has a number behind it."""
    anchors, seen = set(re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", text)), {}
    for heading in HEADING.findall(without_fences(text)):
        anchor = anchor_of(heading)
        anchors.add(f"{anchor}-{seen[anchor]}" if anchor in seen else anchor)
        seen[anchor] = seen.get(anchor, 0) + 1
    return anchors


def links_of(text):
    """(line, target) of each link of a page."""
    code = CODE.sub(blanked, without_fences(text))
    for pattern in (LINK, REFERENCE):
        for match in pattern.finditer(code):
            target = next(group for group in match.groups() if group is not None)
            yield code.count("\n", 0, match.start()) + 1, target


def check_links(paths, files):
    """Each relative link of a page leads to a file or folder of the tree, and each #anchor to a heading of its page.
    `paths` are all files of the tree, `files` the texts among them."""
    places = set(paths) | {path[:end] for path in paths for end, letter in enumerate(path) if letter == "/"}
    anchors = {}
    for path, text in files.items():
        if not path.endswith(".md"):
            continue
        for line, target in sorted(set(links_of(text))):
            if SCHEME.match(target):
                continue
            place, _, anchor = target.partition("#")
            other = os.path.normpath(os.path.join(os.path.dirname(path), place)) if place else path
            if other not in places:
                yield f"{path}:{line}: the link {target} leads to no file of the tree"
            elif anchor and other.endswith(".md"):
                if other not in anchors:
                    anchors[other] = anchors_of(files[other])
                if anchor not in anchors[other]:
                    yield f"{path}:{line}: the link {target} leads to no heading of {other}"
