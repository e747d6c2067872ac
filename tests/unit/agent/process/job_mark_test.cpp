// SPDX-License-Identifier: Apache-2.0
#include "agent/process/job_mark.hpp"

#include "tests/support/catch.hpp"

#include <unistd.h>

#include <string>

namespace {

using muster::agent::is_orphaned_mark;
using muster::agent::job_mark;

}  // namespace

TEST_CASE("a mark whose agent lives is nobody's to clean up") {
  CHECK_FALSE(is_orphaned_mark(job_mark()));
}

TEST_CASE("a mark is orphaned when both of its processes are gone, even if their numbers are used again") {
  // Two start times that no living process of these numbers has.
  const std::string mark = job_mark();
  const std::string pid_namespace = mark.substr(0, mark.find(':'));
  const std::string ours = std::to_string(::getpid());
  CHECK(is_orphaned_mark(pid_namespace + ":" + ours + ".1:" + ours + ".2"));
  const std::string agent = mark.substr(mark.rfind(':'));
  CHECK_FALSE(is_orphaned_mark(pid_namespace + ":" + ours + ".1" + agent));
}

TEST_CASE("nothing is known of another namespace's mark, or of a text that is none") {
  CHECK_FALSE(is_orphaned_mark("1:7.7:8.8"));
  for (const char* text : {"", "1", "1:2:3", "1:2.3:4.5 ", "x:2.3:4.5", "1:2.3:4.", ":2.3:4.5"})
    CHECK_FALSE(is_orphaned_mark(text));
}
