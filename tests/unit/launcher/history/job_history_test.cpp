// SPDX-License-Identifier: Apache-2.0
#include "launcher/history/job_history.hpp"

#include "catch.hpp"
#include "tests/support/folder.hpp"

#include <nlohmann/json.hpp>

#include <sstream>
#include <string>
#include <vector>

using namespace muster::launcher;
using Json = nlohmann::json;

TEST_CASE("What happens before a job begins is behind its first line in the event file") {
  const muster::test::Folder folder;
  const std::string path = folder / "events";
  JobHistory history(path);
  history.node_lost("n1", "ssh cannot be started", false);
  history.stopped("signal", "TERM", false);
  history.begins({"job-1", ""}, {"job-1", "train.py", {}, "1.0", "n0", 7, 2});
  history.node_back("n2");
  CHECK(history.ends({125, "launcher_error", "node n1 is lost"}).empty());
  std::vector<std::string> kinds;
  std::istringstream lines(muster::test::bytes_of_file(path));
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line);
    CHECK(event.at("job") == "job-1");
    kinds.push_back(event.at("kind"));
    CHECK(event.at("time").get<std::string>() >= last);
    last = event.at("time");
  }
  CHECK(kinds == std::vector<std::string>{"job_start", "node_lost", "stop", "node_back", "job_end"});
}
