// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/logs_options.hpp"

#include "catch.hpp"
#include "launcher/core/launch_error.hpp"

using namespace muster::launcher;

TEST_CASE("muster logs takes a job, and what of its output is wanted") {
  const LogsOptions none = parse_logs_options("logs", {});
  CHECK((none.job.empty() && none.ranks.empty() && !none.round && none.since.empty()));
  CHECK_FALSE((none.follow || none.json || none.timestamps));
  const LogsOptions all = parse_logs_options(
      "logs", {"train-7f", "-f", "--rank", "2-3,0", "--round=1", "--since", "10m", "--json"});
  CHECK(all.job == "train-7f");
  CHECK(all.ranks == std::vector<int>{0, 2, 3});
  CHECK(all.round == 1);
  CHECK(all.since == "10m");
  CHECK((all.follow && all.json));
  CHECK(parse_logs_options("logs", {"--timestamps", "--follow"}).timestamps);
  CHECK(parse_logs_options("logs", {"-h", "--round", "x"}).help);
}

TEST_CASE("muster attach takes a job, ranks and a number of lines") {
  CHECK(parse_logs_options("attach", {}).lines == 100);
  const LogsOptions options = parse_logs_options("attach", {"a", "--lines", "0", "--rank", "1"});
  CHECK(options.job == "a");
  CHECK(options.lines == 0);
  CHECK(options.ranks == std::vector<int>{1});
}

TEST_CASE("Wrong arguments of muster logs and attach are named") {
  using Arguments = std::vector<std::string>;
  for (const Arguments& wrong :
       {Arguments{"one", "two"}, Arguments{"--rank", "x"}, Arguments{"--round", "-1"},
        Arguments{"--round", "x"}, Arguments{"--json", "--timestamps"}, Arguments{"--lines", "3"},
        Arguments{"--nope"}}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_logs_options("logs", wrong), UsageError);
  }
  for (const Arguments& wrong :
       {Arguments{"--follow"}, Arguments{"--lines", "x"}, Arguments{"--lines", "9999999"}}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_logs_options("attach", wrong), UsageError);
  }
}
