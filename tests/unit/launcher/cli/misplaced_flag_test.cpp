// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/misplaced_flag.hpp"

#include "catch.hpp"

using namespace muster::launcher;

TEST_CASE("A flag of ours behind the program is noticed, once") {
  CHECK(misplaced_flag({"ok.py", "--nproc-per-node", "3", "--nnodes", "2"}, {}) ==
        "--nproc-per-node stands behind ok.py and is passed on to it: flags after the program belong to the "
        "program; write it before ok.py if muster run is meant");
  CHECK(misplaced_flag({"./a.out", "x", "--max_restarts=3"}, {})
            .starts_with("--max-restarts stands behind ./a.out"));
}

TEST_CASE("What a program may have itself is not noticed") {
  CHECK(misplaced_flag({"ok.py", "--log-dir", "logs", "--timeout", "3", "--name=x", "nnodes", "-n"}, {})
            .empty());
  CHECK(misplaced_flag({"ok.py", "--nproc-per-node", "3"}, {"nproc-per-node"}).empty());
  CHECK(misplaced_flag({"ok.py", "--", "--nproc-per-node", "3"}, {}).empty());
  CHECK(misplaced_flag({"ok.py"}, {}).empty());
  CHECK(misplaced_flag({}, {}).empty());
}

TEST_CASE("A program that may be a launcher itself takes such flags") {
  for (const char* launcher : {"torchrun", "muster", "bash", "/usr/bin/torchrun", "pkg.mod"})
    CHECK(misplaced_flag({launcher, "--nproc-per-node", "3"}, {}).empty());
}
