// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/inspect_options.hpp"

#include "catch.hpp"
#include "launcher/core/launch_error.hpp"

using namespace muster::launcher;

TEST_CASE("The commands that look at jobs take a job, ranks and --json") {
  const InspectOptions none = parse_inspect_options("status", {});
  CHECK(none.job.empty());
  CHECK(none.ranks.empty());
  CHECK_FALSE(none.json);
  const InspectOptions all =
      parse_inspect_options("stacks", {"--rank", "8-10,0,9", "train-7f", "--helpers", "--json"});
  CHECK(all.job == "train-7f");
  CHECK(all.ranks == std::vector<int>{0, 8, 9, 10});
  CHECK(all.helpers);
  CHECK(all.json);
  CHECK(parse_inspect_options("ps", {"--json"}).json);
  CHECK(parse_inspect_options("ps", {"-h"}).help);
  CHECK(parse_inspect_options("status", {"--rank=65535"}).ranks == std::vector<int>{65535});
}

TEST_CASE("Wrong arguments of the commands that look at jobs are named") {
  for (const char* ranks : {"", "x", "-1", "3-1", "0,,1", "1-", "65536", "0-65536", "99999999999"})
    CHECK_THROWS_AS(parse_inspect_options("status", {std::string("--rank=") + ranks}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("ps", {"train-7f"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("ps", {"--rank", "0"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("status", {"--helpers"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("stacks", {"one", "two"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("stacks", {"--native"}), UsageError);
}

TEST_CASE("Each command that looks at jobs has a help that names its flags and exit codes") {
  for (const char* command : {"ps", "status", "stacks"}) {
    const std::string help = inspect_help(command);
    CHECK(help.starts_with(std::string("Usage: muster ") + command));
    CHECK(help.find("--json") != std::string::npos);
    CHECK(help.find("Exit codes: 0 success;") != std::string::npos);
  }
  CHECK(inspect_help("status").find("--helpers") == std::string::npos);
}
