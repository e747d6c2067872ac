# SPDX-License-Identifier: Apache-2.0
"""scripts/package/man_pages.py: each command has a page with all that its --help says, in roff without a mistake, and shells find completion."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from interop import MUSTER, ROOT, TRAIN, clean_environment, run

SCRIPT = os.path.join(ROOT, "scripts", "package", "man_pages.py")
sys.path.insert(0, os.path.dirname(SCRIPT))
import man_pages

CHARACTERS = {r"\e": "\\", r"\-": "-", r"\(aq": "'", r"\(ga": "`", r"\(ha": "^", r"\(ti": "~", r"\(dq": '"', r"\fB": "", r"\fR": "", r"\&": ""}
# A line of a help that stands in another form in its page: what it begins with, and what is left of it there.
HEADINGS = re.compile(r"^(?:Usage: |Exit codes: |Options:$|Examples?:(?: |$))|(?<=\S):$")


def written(prefix):
    programs = [MUSTER] + [TRAIN] * os.path.exists(TRAIN)
    run([sys.executable, SCRIPT, prefix, *programs], SOURCE_DATE_EPOCH="1700000000")


def plain(roff):
    """The text of a page, without its requests."""
    lines = [re.sub(r"^\.S[HS] ", "", line) for line in roff.splitlines() if not re.match(r"\.(?!S[HS] )", line)]
    text = re.sub(r"\\(?:\(..|f.|.)", lambda found: CHARACTERS[found[0]], " ".join(lines))
    return " ".join(text.split())


class ManPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = os.path.join(folder.name, "one")
        cls.other = os.path.join(folder.name, "other")
        written(cls.prefix)
        cls.folder = os.path.join(cls.prefix, "share", "man", "man1")
        cls.pages = {}
        for name in os.listdir(cls.folder):
            with open(os.path.join(cls.folder, name), encoding="utf-8") as file:
                cls.pages[name.removesuffix(".1")] = file.read()

    def helps(self):
        """{page: help} of the launcher, of each command that it names, and of muster-train."""
        whole = run([MUSTER, "--help"]).stdout
        commands = re.findall(r"(?m)^  ([a-z-]+) ", whole)
        self.assertIn("install-shim", commands)
        texts = {"muster": whole, **{f"muster-{name}": run([MUSTER, name, "--help"] if name != "help" else [MUSTER, "help"]).stdout for name in commands}}
        if os.path.exists(TRAIN):
            texts["muster-train"] = run([TRAIN, "--help"]).stdout
        return texts

    def test_each_command_has_a_page_with_all_of_its_help(self):
        helps = self.helps()
        self.assertEqual(set(self.pages), set(helps))
        for name, text in helps.items():
            page = plain(self.pages[name]).lower()
            for line in text.splitlines():
                wanted = " ".join(HEADINGS.sub("", line.rstrip()).split()).lower()
                self.assertIn(wanted, page, name)

    def test_they_are_in_sections(self):
        for name, page in self.pages.items():
            sections = re.findall(r"(?m)^\.SH (.*)", page)
            self.assertEqual(sections[:2] + sections[-1:], ["NAME", "SYNOPSIS", "SEE ALSO"], name)
            self.assertRegex(page, r"\A\.TH \S+ 1 2023\\-11\\-14 \"muster [0-9.]+\" Muster\n")
            for other in re.findall(r"\\fB([^ ]+)\\fR\(1\)", page):
                self.assertIn(other.replace(r"\-", "-"), self.pages, name)
        run_page = self.pages["muster-run"]
        self.assertIn("EXIT STATUS\n.PP\n0 success; a failed worker\\(aqs own code, or 128 + its signal; 2 usage;", run_page)
        self.assertIn(".SS Rendezvous\n.TP\n\\fB\\-\\-standalone\\fR\nOne machine, free port,", run_page)
        # A term that leaves one blank before its text, and a text that goes on in the next line.
        self.assertIn("\n.TP\n\\fB\\-\\-log\\-line\\-prefix\\-template TEXT\\fR\n${role_name} ${local_rank} ${rank} ${hostname} ${time} ${elapsed}\n", run_page)

    def test_what_roff_would_take_for_its_own_is_text(self):
        self.assertEqual(man_pages.escaped("...a's \\"), "\\&...a\\(aqs \\e")
        self.assertEqual(man_pages.escaped("'a' -b"), "\\(aqa\\(aq \\-b")

    def test_man_has_nothing_to_say_of_them(self):
        if shutil.which("man") is None:
            self.skipTest("no man")
        for name in self.pages:
            shown = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", os.path.join(self.folder, name + ".1")], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60, check=False, env=clean_environment(MANWIDTH="80", LC_ALL="C.UTF-8"))
            self.assertEqual((shown.returncode, shown.stderr), (0, ""), name)

    def test_the_same_date_gives_the_same_files(self):
        written(self.other)
        self.assertEqual(subprocess.run(["diff", "-r", self.prefix, self.other], capture_output=True, text=True, timeout=60, check=False).stdout, "")

    def test_shells_find_completion(self):
        for shell, path in (("bash", "bash-completion/completions/muster"), ("fish", "fish/vendor_completions.d/muster.fish")):
            with open(os.path.join(self.prefix, "share", path), encoding="utf-8") as file:
                self.assertEqual(file.read(), run([MUSTER, "run", "--print-completion", shell]).stdout)
        folder = os.path.join(self.prefix, "share", "zsh", "site-functions")
        self.assertEqual(os.listdir(folder), ["_muster"])
        if shutil.which("zsh") is None:
            self.skipTest("no zsh")
        # As the shell itself does it: the file is read when it is wanted for the first time.
        asked = run(["zsh", "-f", "-c", 'compdef() { :; }; compadd() { shift; print -l -- $@; }; fpath=($1 $fpath); autoload -Uz _muster; '
                     'words=(muster sta); CURRENT=2; _muster; print again; _muster', "zsh", folder])
        first, again = asked.stdout.split("again\n")
        self.assertIn("status", first.split())
        self.assertEqual((first, asked.stderr), (again, ""))


if __name__ == "__main__":
    unittest.main()
