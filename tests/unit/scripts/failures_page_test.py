#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/failures_page.py writes the sections of docs/failures.md, and names each way in which page, records and tests disagree."""
import contextlib
import io
import os
import sys
import tempfile
import unittest
import unittest.mock

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import failures_page  # noqa: E402

RECORD = '''
[[failure]]
id = "host-vanishes"
chapter = "links"
heading = "A host vanishes"
text = "It counts as lost after {ended.clock}."
soon = "Within {ended}."
lines = """
node n01 is lost
"""
tests = ["nodes_links", "a_test"]
bounds.ended = {seconds = 0.5, clock = 5}
'''
FILES = {
    "tests/failures.toml": RECORD,
    "docs/failures.md": "# Failures\n\nBy hand.\n\n<!-- begin links -->\n<!-- end links -->\n\nBy hand, too.\n",
    "scripts/cmake/MusterTargets.cmake": '''
function(muster_python_test name)
  if(wanted) # a comment with a " in it
    add_test(NAME ${name} COMMAND python "[#${name}]~[.]")
  endif()
endfunction()
''',
    "tests/CMakeLists.txt": '''
# muster_python_test(not_there)
muster_python_test(a_test SCRIPT a_test.py)
foreach(name IN ITEMS links
    flood)
  muster_python_test(nodes_${name} SCRIPT ${name}_test.py)
endforeach()
''',
    "tests/e2e/a_test.py": 'kept("what", took=took, **promised("host-vanishes"))\n',
    "tests/contract/failures.cpp": "constexpr double kSeconds = 2;\n",
}


class FailuresPage(unittest.TestCase):
    def run_in(self, changes, *arguments):
        """Exit code, what was said, and the page, where `changes` replace texts of FILES: path -> (old, new)."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in FILES.items():
                old, new = changes.get(path, ("", ""))
                self.assertIn(old, text)
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text.replace(old, new) if old else text)
            with contextlib.redirect_stdout(io.StringIO()) as said:
                code = failures_page.main([*arguments, root])
            with open(os.path.join(root, "docs/failures.md"), encoding="utf-8") as file:
                return code, said.getvalue(), file.read()

    def assert_problem(self, path, old, new, *words):
        """That change is named in one line, and nothing is written."""
        code, said, page = self.run_in({path: (old, new)})
        self.assertEqual((code, said.count("\n")), (1, 1), said)
        for word in words:
            self.assertIn(word, said)
        self.assertNotIn("A host vanishes", page)

    def test_a_section_has_its_bounds_and_the_rest_stays(self):
        code, said, page = self.run_in({})
        self.assertEqual(code, 0, said)
        self.assertEqual(page, "# Failures\n\nBy hand.\n\n<!-- begin links -->\n### A host vanishes\n\nIt counts as lost after 5 s.\n\n"
                               "**How soon:** Within **5.5 s**.\n\n**What you see:**\n\n```\nnode n01 is lost\n```\n\n"
                               "Proved by `nodes_links`, `a_test`.\n<!-- end links -->\n\nBy hand, too.\n")

    def test_a_page_that_is_not_of_the_records_is_found_and_left(self):
        code, said, page = self.run_in({}, "--check")
        self.assertEqual(code, 1)
        self.assertIn("run scripts/failures_page.py", said)
        self.assertNotIn("A host vanishes", page)

    def test_a_test_that_nobody_registers(self):
        self.assert_problem("tests/failures.toml", '"a_test"', '"not_there"', "host-vanishes", "'not_there'")

    def test_a_bound_that_no_test_judges(self):
        self.assert_problem("tests/e2e/a_test.py", "promised(", "guessed(", "no test judges the bound 'ended'")

    def test_a_bound_that_is_not_there(self):
        self.assert_problem("tests/e2e/a_test.py", '"host-vanishes")', '"host-vanishes"), promised("host-vanishes", "said")',
                            "tests/e2e/a_test.py", "no bound 'said'")

    def test_a_bound_that_the_page_does_not_say(self):
        self.assert_problem("tests/failures.toml", "Within {ended}.", "Soon.", "no sentence says the bound 'ended'")

    def test_a_bound_in_the_text_that_is_no_bound(self):
        self.assert_problem("tests/failures.toml", "Within {ended}.", "Within {ended}, {ended.grace}.", "{ended.grace} is no bound")

    def test_a_bound_without_seconds(self):
        self.assert_problem("tests/failures.toml", "seconds = 0.5, ", "", "['clock']")

    def test_a_bound_of_a_cpp_test(self):
        cpp = '{seconds = 2, cpp = "tests/contract/failures.cpp: kSeconds"}'
        record = RECORD.replace("{ended.clock}", "a while").replace("{seconds = 0.5, clock = 5}", cpp)
        changes = {"tests/failures.toml": (RECORD, record), "tests/e2e/a_test.py": ("promised(", "guessed(")}
        self.assertEqual(self.run_in(changes)[0], 0)
        changes["tests/contract/failures.cpp"] = ("= 2;", "= 20;")
        code, said, _ = self.run_in(changes)
        self.assertEqual(code, 1)
        self.assertIn("tests/contract/failures.cpp does not say kSeconds = 2;", said)

    def test_fields_chapters_and_ids(self):
        path = "tests/failures.toml"
        self.assert_problem(path, 'heading = "A host vanishes"\n', "", "host-vanishes", "'heading' is missing")
        self.assert_problem(path, 'id = "host-vanishes"\n', "", "A host vanishes", "'id' is missing")
        self.assert_problem(path, "lines =", "words =", "'words' is unknown")
        self.assert_problem(path, 'chapter = "links"', 'chapter = "hosts"', "no marks for the chapter 'hosts'")
        self.assert_problem(path, RECORD, RECORD + RECORD, "two of that id")

    def test_symptoms(self):
        """The table quotes what the sources print, pieces side by side joined, and leads to the sections."""
        symptom = '[[symptom]]\nsee = "node {n01} is \'lost\' {}and gone: ..."\nfailure = "host-vanishes"\ndo = "Look."\n'
        marks = "<!-- begin symptoms -->\n<!-- end symptoms -->\n"
        source = 'say("node " + name + " is \'lost\' " /* why */\n);  // "quoted"\nsay("and " \n  "gone: " + why);\n'

        def run(symptom, page=marks, source=source):
            with unittest.mock.patch.dict(FILES, {"agent/a.cpp": source, "docs/failures.md": FILES["docs/failures.md"] + page}):
                return self.run_in({"tests/failures.toml": (RECORD, RECORD + symptom)})

        code, said, page = run(symptom)
        self.assertEqual(code, 0, said)
        self.assertIn("| `node n01 is 'lost' and gone: ...` | Look. | [A host vanishes](#a-host-vanishes) |\n<!-- end symptoms", page)
        for words, changed in (("has the words 'and gone'", {"source": source.replace("gone", "lost")}),
                               ("has the words 'is 'lost'", {"source": source.replace('" is', '"was')}),
                               ("has the words 'and gone'", {"source": source.replace("say(\"and", "// say(\"and")}),
                               ("there is no failure 'other'", {"symptom": symptom.replace('"host-vanishes"', '"other"')}),
                               ("quotes too little", {"symptom": symptom.replace("{}and gone: ...", "...").replace("is 'lost'", "{is}")}),
                               ("has the fields", {"symptom": symptom.replace("do =", "next =")}),
                               ("no marks for the symptoms", {"page": ""})):
            code, said, page = run(**{"symptom": symptom, **changed})
            self.assertEqual((code, said.count("\n")), (1, 1), said)
            self.assertIn(words, said)
            self.assertNotIn("A host vanishes", page)


if __name__ == "__main__":
    unittest.main()
