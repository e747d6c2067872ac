// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/inspect_options.hpp"

#include "catch.hpp"
#include "launcher/core/launch_error.hpp"

#include <chrono>
#include <string>
#include <vector>

using namespace muster::launcher;

TEST_CASE("The commands that look at jobs take a job, ranks and --json") {
  const InspectOptions none = parse_inspect_options("status", {});
  CHECK(none.job.empty());
  CHECK(none.ranks.empty());
  CHECK_FALSE(none.json);
  const InspectOptions all =
      parse_inspect_options("stacks", {"--rank", "8-10,0,9", "train-7f", "--helpers", "--native", "--json"});
  CHECK(all.job == "train-7f");
  CHECK(all.ranks == std::vector<int>{0, 8, 9, 10});
  CHECK(all.helpers);
  CHECK(all.native);
  CHECK(all.json);
  CHECK(parse_inspect_options("ps", {"--json"}).json);
  CHECK(parse_inspect_options("ps", {"-a"}).all);
  CHECK_FALSE(parse_inspect_options("ps", {}).all);
  CHECK(parse_inspect_options("clean", {"-h"}).help);
  CHECK(parse_inspect_options("ps", {"-h"}).help);
  CHECK(parse_inspect_options("status", {"--rank=65535"}).ranks == std::vector<int>{65535});
}

TEST_CASE("The jobs of other hosts are asked for as doctor asks them") {
  const InspectOptions options = parse_inspect_options(
      "ps", {"-H", "n0,ada@n1:2222", "--login-timeout", "2.5", "--ssh-port", "22", "-a"});
  CHECK(options.hosts == "n0,ada@n1:2222");
  CHECK(options.remote.login_timeout == std::chrono::milliseconds(2500));
  CHECK(options.remote.ssh_port == 22);
  CHECK(options.all);
  CHECK(parse_inspect_options("ps", {}).hosts.empty());
  CHECK_THROWS_AS(parse_inspect_options("ps", {"--host="}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("ps", {"--ssh-port", "x"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("status", {"-H", "n0"}), UsageError);
}

TEST_CASE("A status is watched each two seconds, or as often as is said") {
  using std::chrono::milliseconds;
  CHECK_FALSE(parse_inspect_options("status", {"train-7f"}).watch);
  const InspectOptions usual = parse_inspect_options("status", {"--watch", "train-7f", "--json"});
  CHECK(usual.watch == milliseconds(2000));
  CHECK(usual.job == "train-7f");
  CHECK(usual.json);
  CHECK(parse_inspect_options("status", {"train-7f", "--watch"}).watch == milliseconds(2000));
  const InspectOptions given = parse_inspect_options("status", {"--watch", "0.5", "train-7f", "--rank", "3"});
  CHECK(given.watch == milliseconds(500));
  CHECK(given.job == "train-7f");
  CHECK(given.ranks == std::vector<int>{3});
  CHECK(parse_inspect_options("status", {"--watch=10"}).watch == milliseconds(10'000));
  CHECK(parse_inspect_options("status", {"--watch", "500ms"}).watch == milliseconds(500));
  CHECK(parse_inspect_options("status", {"--watch", "5m", "7f"}).watch == milliseconds(300'000));
  // Ids of jobs look so.
  for (const char* id : {"7d", "7f"}) CHECK(parse_inspect_options("status", {"--watch", id}).job == id);
}

TEST_CASE("Wrong arguments of the commands that look at jobs are named") {
  for (const char* ranks : {"", "x", "-1", "3-1", "0,,1", "1-", "65536", "0-65536", "99999999999"})
    CHECK_THROWS_AS(parse_inspect_options("status", {std::string("--rank=") + ranks}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("ps", {"train-7f"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("ps", {"--rank", "0"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("status", {"--all"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("clean", {"train-7f"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("clean", {"--json"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("status", {"--helpers"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("status", {"--native"}), UsageError);
  for (const char* interval : {"0", "0.05", "3601", "x", "", "1.2.3", "."})
    CHECK_THROWS_AS(parse_inspect_options("status", {std::string("--watch=") + interval}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("status", {"--watch", "0"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("stacks", {"--watch"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("stacks", {"one", "two"}), UsageError);
  CHECK_THROWS_AS(parse_inspect_options("ps", {"--native"}), UsageError);
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
