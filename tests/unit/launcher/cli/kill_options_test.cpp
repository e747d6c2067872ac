// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/kill_options.hpp"

#include "catch.hpp"
#include "launcher/core/launch_error.hpp"

using namespace muster::launcher;

TEST_CASE("muster kill takes a job, a signal, ranks, and a grace period") {
  const KillOptions none = parse_kill_options({});
  CHECK(none.job.empty());
  CHECK(none.signal == SIGTERM);
  CHECK(none.ranks.empty());
  CHECK_FALSE(none.grace);
  CHECK_FALSE(none.now);
  const KillOptions ranks = parse_kill_options({"train-7f", "--rank", "2-3,0", "--signal=usr1", "--json"});
  CHECK(ranks.job == "train-7f");
  CHECK(ranks.ranks == std::vector<int>{0, 2, 3});
  CHECK(ranks.signal == SIGUSR1);
  CHECK(ranks.json);
  CHECK(parse_kill_options({"--signal", "9"}).signal == SIGKILL);
  CHECK(parse_kill_options({"--signal", "SIGINT", "--grace", "1.5"}).grace ==
        std::chrono::milliseconds(1500));
  CHECK(parse_kill_options({"--grace", "0"}).grace == std::chrono::milliseconds(0));
  CHECK(parse_kill_options({"--now"}).now);
  CHECK(parse_kill_options({"-h", "--now"}).help);
}

TEST_CASE("Wrong arguments of muster kill, and those that contradict each other, are named") {
  using Arguments = std::vector<std::string>;
  for (const Arguments& wrong :
       {Arguments{"one", "two"}, Arguments{"--signal", "NOPE"}, Arguments{"--signal", "0"},
        Arguments{"--signal", "65"}, Arguments{"--signal="}, Arguments{"--rank", "x"}, Arguments{"--rank="},
        Arguments{"--grace", "-1"}, Arguments{"--grace", "soon"}, Arguments{"--now", "--signal", "TERM"},
        Arguments{"--now", "--grace", "1"}, Arguments{"--now", "--rank", "0"},
        Arguments{"--grace", "1", "--rank", "0"}, Arguments{"--grace", "1", "--signal", "KILL"},
        Arguments{"-9"}}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_kill_options(wrong), UsageError);
  }
}

TEST_CASE("muster kill has a help that names its flags and exit codes") {
  const std::string help = kill_help();
  CHECK(help.starts_with("Usage: muster kill "));
  for (const char* text : {"--signal NAME", "--rank LIST", "--grace SECONDS", "--now", "--json",
                           "JOB is the id", "Exit codes: 0 "})
    CHECK(help.find(text) != std::string::npos);
}
