// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/host_jobs.hpp"

#include "catch.hpp"

#include <nlohmann/json.hpp>

#include <stdexcept>
#include <string>

using namespace muster::launcher;

namespace {

JobCard card_of(const std::string& id) {
  JobCard card;
  card.id = id;
  card.pid = 7;
  card.arguments = {"train\x1b.py"};
  card.started_at_ms = 1'764'302'400'123;
  card.nodes = 2;
  return card;
}

}  // namespace

TEST_CASE("What ps prints on a host is read, whatever its shell has printed before") {
  EndedJob ended;
  ended.card = card_of("old-1");
  ended.exit_code = 3;
  const std::string list = "[\n" + to_json(card_of("new-1")) + ",\n" + to_json(ended) + "\n]\n";
  for (const std::string& noise :
       {std::string(), std::string("Welcome [to] n1\n"), std::string("[n1] hello\n[INFO] no mail\n")}) {
    HostJobs jobs{"n1"};
    read_jobs(noise + list, jobs);
    REQUIRE(jobs.running.size() == 1);
    CHECK(jobs.running[0].id == "new-1");
    REQUIRE(jobs.ended.size() == 1);
    CHECK(jobs.ended[0].exit_code == 3);
  }
  HostJobs none{"n1"};
  read_jobs("[]\n", none);
  CHECK(none.running.empty());
  for (const char* bad : {"", "x", "{}", "[1]", "[{}]", "muster: error: no such command"})
    CHECK_THROWS_AS(read_jobs(bad, none), std::invalid_argument);
}

TEST_CASE("The jobs of several hosts stand in one table, and a host without an answer in none") {
  HostJobs one{"n0"};
  one.running = {card_of("train-1")};
  EndedJob ended;
  ended.card = card_of("old-1");
  ended.exit_code = 3;
  one.ended = {ended};
  HostJobs other{"n1"};
  other.trouble = "n1 did not answer: ssh: no route";
  CHECK(host_jobs_text({one, other}) ==
        "HOST  JOB      NAME  STATE      STARTED               NODES  WORKERS  COMMAND\n"
        "n0    train-1  -     running    2025-11-28T04:00:00Z  2      -        muster run train\\x1b.py\n"
        "n0    old-1    -     ended (3)  2025-11-28T04:00:00Z  2      -        muster run train\\x1b.py\n");
  const auto json = nlohmann::json::parse(host_jobs_json({one, other}));
  CHECK(json[0]["host"] == "n0");
  CHECK(json[0]["jobs"].size() == 2);
  CHECK(json[1]["error"] == "n1 did not answer: ssh: no route");
  CHECK_FALSE(json[1].contains("jobs"));
}
