#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule of scripts/check_tree.py is broken once, and only that rule answers."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import check_tree  # noqa: E402

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


class CheckTree(unittest.TestCase):
    def problems(self, files):
        """What check_tree says of a repository that holds `files` (path -> text after the licence line; None: no such file).
        Each source has a header of its own name, if the test does not say otherwise."""
        headers = {os.path.splitext(path)[0] + ".hpp": "" for path in files if path.endswith(".cpp")}
        files = {path: text for path, text in {**headers, **files}.items() if text is not None}
        with tempfile.TemporaryDirectory() as root:
            subprocess.run(["git", "init", "--quiet", root], check=True)
            for path, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(SPDX + text)
            return check_tree.check(root)

    def assert_one(self, files, *words):
        problems = self.problems(files)
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])

    def assert_none(self, files):
        self.assertEqual(self.problems(files), [])

    def test_arrows_run_one_way(self):
        header = {"agent/core/a.hpp": "", "rendezvous/core/b.hpp": ""}
        self.assert_none({**header, "agent/core/a.cpp": '#include "rendezvous/core/b.hpp"\n'})
        self.assert_one({**header, "rendezvous/core/b.cpp": '#include "agent/core/a.hpp"\n'}, "rendezvous", "agent")

    def test_public_headers_belong_to_the_sdk_layer(self):
        files = {"worker_sdk/include/muster/x.hpp": "", "rendezvous/core/b.cpp": '#include "muster/x.hpp"\n'}
        self.assert_one(files, "must not know 'worker_sdk'")

    def test_cycle_of_folders(self):
        files = {"agent/core/a.hpp": '#include "agent/process/p.hpp"\n', "agent/process/p.hpp": "",
                 "agent/process/q.hpp": '#include "agent/core/b.hpp"\n', "agent/core/b.hpp": ""}
        self.assert_one(files, "cycle", "agent/core", "agent/process")

    def test_cycle_through_the_folders_below_a_room(self):
        files = {"agent/start/a.cpp": '#include "agent/slurm/s.hpp"\n', "agent/slurm/s.hpp": '#include "agent/start/core/f.hpp"\n',
                 "agent/start/core/f.hpp": ""}
        self.assert_one(files, "cycle", "agent/start", "agent/slurm")

    def test_shared_types_of_a_layer_are_no_cycle(self):
        files = {"agent/spec.hpp": "", "agent/core/a.hpp": '#include "agent/spec.hpp"\n',
                 "agent/run.cpp": '#include "agent/core/a.hpp"\n#include "agent/spec.hpp"\n'}
        self.assert_none(files)
        self.assert_one({**files, "agent/spec.hpp": '#include "agent/core/a.hpp"\n'}, "cycle", "agent/spec")

    def test_core_uses_the_standard_library_only(self):
        self.assert_none({"agent/core/a.cpp": "#include <vector>\n#include <signal.h>\n"})
        self.assert_none({"agent/core/a.cpp": "#include <nlohmann/json.hpp>\n"})
        self.assert_one({"agent/core/a.hpp": "#include <nlohmann/json.hpp>\n"}, "nlohmann")
        self.assert_one({"rendezvous/core/a.cpp": "#include <nlohmann/json.hpp>\n"}, "nlohmann")
        self.assert_one({"agent/core/a.cpp": "#include <sys/socket.h>\n"}, "sys/socket.h")
        self.assert_one({"agent/core/a.cpp": "auto t = std::chrono::steady_clock::now();\n"}, "clock")

    def test_core_does_not_log(self):
        files = {"rendezvous/log/log.hpp": "", "agent/core/a.cpp": '#include "rendezvous/log/log.hpp"\n'}
        self.assert_none({**files, "agent/core/a.cpp": files["agent/core/a.cpp"] + "auto s = escape_control(text);\n"})
        self.assert_one({**files, "agent/core/a.cpp": files["agent/core/a.cpp"] + 'void f() { log_error("x"); }\n'}, "logs")

    def test_public_headers_need_nothing_installed(self):
        self.assert_one({"worker_sdk/include/muster/x.hpp": "#include <boost/asio.hpp>\n"}, "public header")

    def test_one_heavy_header_through_any_path(self):
        files = {"agent/io/a.hpp": "#include <boost/asio/ip/tcp.hpp>\n",
                 "agent/io/a.cpp": '#include "agent/io/a.hpp"\n'}
        self.assert_none(files)
        files["agent/io/a.cpp"] += "#include <nlohmann/json.hpp>\n"
        self.assert_one(files, "Asio and json.hpp")

    def test_coroutine_rules(self):
        def source(statement):
            return {"agent/io/a.cpp": f"#include <boost/asio.hpp>\nvoid f() {{\n  {statement}\n}}\n"}
        for statement in ["co_await run(std::move(options));", "if (co_await ready()) { stop(); }",
                          "auto [error, size] = co_await read(buffer);", "co_await post([] { return 1; });",
                          "co_await done();  // { not code }", 'co_await say("{");', "co_await at(list[0]);"]:
            self.assert_none(source(statement))
        for statement in ["co_await run(Options{1});", "co_await run({1, 2});", "co_await post([this] { stop(); });",
                          "if (co_await ready(Key{1})) { stop(); }", "co_await run(\n    a,\n    Options{});"]:
            self.assert_one(source(statement), "agent/io/a.cpp:4", "co_await")
        self.assert_one(source("asio::co_spawn(executor, run(), asio::detached);"), "detached")

    def test_lengths(self):
        body = "  work();\n"
        self.assert_none({"agent/io/a.cpp": "void f() {\n" + body * 68 + "}\n"})
        self.assert_one({"agent/io/a.cpp": "void f() {\n" + body * 69 + "}\n"}, "f has 71 lines")
        self.assert_none({"tests/a.cpp": "int x;\n" * 449})
        self.assert_one({"tests/a.cpp": "int x;\n" * 450}, "451 lines")

    def test_a_source_has_a_header_of_its_name(self):
        self.assert_none({"agent/io/a.cpp": ""})
        self.assert_none({"agent/io/a.cpp": "", "agent/io/a.hpp": None, "agent/io/a.h": ""})
        self.assert_none({"tests/unit/a.cpp": "", "tests/unit/a.hpp": None})
        self.assert_one({"agent/io/a.cpp": "", "agent/io/a.hpp": None, "agent/a.hpp": ""}, "agent/io/a.cpp", "no header of its own name")
        listed = next(path for path in check_tree.WITHOUT_HEADER if path.endswith(".cpp"))
        self.assert_none({listed: "", os.path.splitext(listed)[0] + ".hpp": None})

    def test_a_function_stands_in_the_source_of_its_header(self):
        files = {"agent/io/a.hpp": "namespace n {\nvoid f();\n}\n", "agent/io/a.cpp": "namespace n {\nvoid f() {}\n}\n"}
        self.assert_none(files)
        self.assert_none({**files, "agent/io/b.cpp": "namespace m {\nvoid f() {}\n}\n"})
        self.assert_none({**files, "agent/io/b.cpp": files["agent/io/a.cpp"], "agent/io/b.hpp": "namespace n {\nvoid f(int);\n}\n"})
        self.assert_one({"agent/io/a.hpp": files["agent/io/a.hpp"], "agent/io/b.cpp": files["agent/io/a.cpp"]},
                        "agent/io/b.cpp:3: f is declared in agent/io/a.hpp")

    def test_a_class_stands_in_one_source(self):
        header = {"agent/io/a.hpp": "namespace n {\nclass A {\n  void f();\n  void g();\n};\n}\n"}
        both = "namespace n {\nvoid A::f() {}\nvoid A::g() {}\n}\n"
        self.assert_none({**header, "agent/io/a.cpp": both})
        apart = {"agent/io/a.cpp": "namespace n {\nvoid A::f() {}\n}\n", "agent/io/b.cpp": "namespace n {\nvoid A::g() {}\n}\n"}
        self.assert_one({**header, **apart}, "A stands in agent/io/a.cpp, agent/io/b.cpp")

    def test_length_of_a_class(self):
        def files(in_class, in_function):
            return {"agent/io/a.hpp": "class A {\n" + "  int x;\n" * in_class + "  void f();\n  struct B {\n    void g();\n  };\n};\n",
                    "agent/io/a.cpp": "void A::f() {\n" + "  work();\n" * in_function + "}\nvoid A::B::g() {}\n"}
        self.assert_none(files(391, 50))
        self.assert_one(files(392, 50), "agent/io/a.hpp:2: A has 451 lines")
        self.assert_one(files(391, 51), "A has 451 lines")

    @unittest.skipUnless(os.path.exists(os.path.join(ROOT, ".git")), "copied sources have no list of what belongs to them")
    def test_each_exception_is_needed(self):
        files = check_tree.tracked_files(ROOT)
        for path in check_tree.WITHOUT_HEADER:
            self.assertTrue(path in files or any(file.startswith(path + "/") for file in files), path)
            self.assertNotIn(os.path.splitext(path)[0] + ".hpp", files)
        large, check_tree.LARGE_CLASSES = check_tree.LARGE_CLASSES, {}
        try:
            problems = "\n".join(check_tree.check_classes(check_tree.tags_of(ROOT, files)))
        finally:
            check_tree.LARGE_CLASSES = large
        for name in large:
            self.assertRegex(problems, rf"\b{name.split('::')[-1]} (stands in|has)")

    def test_text(self):
        self.assert_one({"agent/io/a.cpp": "int x; \n"}, "a.cpp:2", "white space")
        self.assert_one({"agent/io/a.cpp": "// TODO" + "(now) finish\n"}, "a.cpp:2")

    def test_every_test_is_compiled(self):
        test = {"tests/unit/a/b_test.cpp": ""}
        for lists in ({"tests/unit/a/CMakeLists.txt": "muster_test(b_test SOURCES b_test.cpp LIBS x)\n"},
                      {"tests/CMakeLists.txt": "muster_test(b_test\n  SOURCES unit/a/b_test.cpp)\n"}):
            self.assert_none({**test, **lists})
        for lists in ({}, {"tests/unit/a/CMakeLists.txt": "# b_test.cpp\nmuster_test(ab_test SOURCES ab_test.cpp)\n"},
                      {"tests/CMakeLists.txt": "muster_test(b_test SOURCES b_test.cpp)\n"}):
            self.assert_one({**test, **lists}, "tests/unit/a/b_test.cpp: no CMakeLists.txt names it")

    def test_catch2_is_named_in_one_place(self):
        lists = {"tests/CMakeLists.txt": "muster_test(a_test SOURCES a_test.cpp)\n"}
        self.assert_none({**lists, "tests/a_test.cpp": '#include "catch.hpp"\nusing muster::test::error_of;  // Catch::Matchers\n',
                          "tests/support/catch.hpp": "#include <catch2/catch.hpp>\nusing Catch::Matchers::Contains;\n"})
        for line in ("using Catch::Matchers::Contains;", "#include <catch2/catch.hpp>"):
            self.assert_one({**lists, "tests/a_test.cpp": line + "\n"}, "tests/a_test.cpp:2: names Catch2's own")

    def test_links_between_pages(self):
        pages = {"docs/a.md": "# A\n\n## Of `x()`, and [more](b.md): twice\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n",
                 "docs/b.md": "# B\n", "docs/c/picture.svg": "<svg/>\n"}
        for link in ("[a](docs/a.md)", "[x](docs/a.md#of-x-and-more-twice)", "[second](docs/a.md#twice-1)", "[folder](docs/c)",
                     "![picture](docs/c/picture.svg)", "[self](#page)", "[out](https://example.org/none.md#none)",
                     "`[code](none.md)`", "```\n[code](none.md)\n```", "[one]: docs/b.md"):
            self.assert_none({**pages, "README.md": f"# Page\n\n{link}\n"})
        for link, words in (("[a](a.md)", "the link a.md leads to no file"), ("[a](docs/a.md#none)", "no heading of docs/a.md"),
                            ("[a](docs/a.md#no-heading)", "no heading"), ("[a](docs/a.md#twice-2)", "no heading"),
                            ("![p](docs/c/none.svg)", "no file"), ("[self](#none)", "no heading of README.md"),
                            ("[two\nlines](none.md)", "no file"), ('<img src="none.svg">', "no file"), ("[one]: none.md", "no file")):
            self.assert_one({**pages, "README.md": f"# Page\n\n{link}\n"}, "README.md:", words)


if __name__ == "__main__":
    unittest.main()
