// SPDX-License-Identifier: Apache-2.0
#include "launcher/tree/core/tree_json.hpp"

#include "catch.hpp"

#include <stdexcept>
#include <utility>

namespace muster::launcher {
namespace {

BranchPlan sample() {
  BranchPlan plan;
  plan.client = {{"ssh", "-A"}, "config", true, 58};
  plan.agent_command = "exec agent";
  plan.branch_command = "exec branch";
  plan.push = true;
  plan.login_timeout_ms = 60'000;
  plan.nodes = {
      {1, -1, "n01", {"n01", "ann", 2222}}, {4, 1, "n04", {"n04", "", 0}}, {9, 4, "n09", {"n09", "", 0}}};
  return plan;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

TEST_CASE("A host is told all that it needs to start others") {
  const BranchPlan plan = branch_plan_from_json(to_json(sample()));
  CHECK(plan.client.words == std::vector<std::string>{"ssh", "-A"});
  CHECK(plan.client.config_file == "config");
  CHECK(plan.client.accept_new_host_keys);
  CHECK(plan.client.connect_timeout_s == 58);
  CHECK(plan.login_timeout_ms == 60'000);
  CHECK(plan.agent_command == "exec agent");
  CHECK(plan.branch_command == "exec branch");
  CHECK(plan.push);
  REQUIRE(plan.nodes.size() == 3);
  CHECK(plan.nodes[0].name == "n01");
  CHECK(plan.nodes[0].target.user == "ann");
  CHECK(plan.nodes[0].target.port == 2222);
  CHECK(plan.nodes[2].parent == 4);
}

TEST_CASE("A plan that is no tree is refused") {
  const std::string good = to_json(sample());
  for (const char* bad : {"", "{}", "[]", "null", "{\"nodes\":[]}"})
    CHECK_THROWS_AS(branch_plan_from_json(bad), std::invalid_argument);
  for (const auto& [what, by] : {std::pair{R"("index":9)", R"("index":4)"},
                                 {R"("parent":4)", R"("parent":9)"},
                                 {R"("parent":4)", R"("parent":7)"},
                                 {R"("parent":4)", R"("parent":-1)"},
                                 {R"("index":9)", R"("index":99999999999)"},
                                 {R"("index":9)", R"("index":"9")"},
                                 {R"("login_timeout_ms":60000)", R"("login_timeout_ms":0)"},
                                 {R"("login_timeout_ms":60000)", R"("login_timeout_ms":99999999999999)"},
                                 {R"("connect_timeout_s":58)", R"("connect_timeout_s":-1)"},
                                 {R"("push":true)", R"("pull":true)"}})
    CHECK_THROWS_AS(branch_plan_from_json(replaced(good, what, by)), std::invalid_argument);
}

TEST_CASE("How a login ended travels whole, whatever was said") {
  StartEnd end;
  end.timed_out = end.too_much_junk = true;
  end.exit_code = 255;
  end.signal = 9;
  end.errors = "ssh: no \xff\n";
  end.junk = "Welcome";
  end.version_there = "0.1";
  end.lost_through = "n01";
  end.broken = "a frame of kind 1";
  const StartEnd back = start_end_from_json(to_json(end));
  CHECK(back.timed_out);
  CHECK(back.too_much_junk);
  CHECK(back.exit_code == 255);
  CHECK(back.signal == 9);
  CHECK(back.errors == "ssh: no \xef\xbf\xbd\n");
  CHECK(back.junk == "Welcome");
  CHECK(back.version_there == "0.1");
  CHECK(back.lost_through == "n01");
  CHECK(back.broken == "a frame of kind 1");
  CHECK_THROWS_AS(start_end_from_json("{}"), std::invalid_argument);
}

}  // namespace
}  // namespace muster::launcher
