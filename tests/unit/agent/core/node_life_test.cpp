// SPDX-License-Identifier: Apache-2.0
#include "agent/core/node_life.hpp"

#include "catch.hpp"

#include <signal.h>

#include <functional>
#include <string>
#include <vector>

using namespace muster::agent;
using enum NodeLife::Phase;

namespace {

struct Step {
  std::string name;
  std::function<void(NodeLife&)> make;
  NodeLife::Phase phase;
  StopBy stopped_by;
  bool connected;
};

const Step kDial{"dial", [](NodeLife& life) { life.dial(); }, connecting, StopBy::hanging_up, false};
const Step kJoin{"join", [](NodeLife& life) { life.join(); }, joining, StopBy::hanging_up, true};
const Step kRun{"run", [](NodeLife& life) { life.run(); }, running, StopBy::the_workers, true};
const Step kLeave{"leave", [](NodeLife& life) { life.leave(); }, leaving, StopBy::the_workers, true};
const Step kWait{"wait", [](NodeLife& life) { life.wait(); }, waiting, StopBy::the_workers, true};
const Step kRecall{"recall", [](NodeLife& life) { life.recall(); }, recalled, StopBy::the_workers, true};
const Step kReport{"report", [](NodeLife& life) { life.report(); }, reporting, StopBy::the_workers, true};
const Step kEnd{"end", [](NodeLife& life) { life.end(); }, over, StopBy::the_workers, true};

/// What an order to end would do to this node now.
StopBy stop_now(NodeLife copy) {
  return copy.stop(SIGTERM);
}

}  // namespace

TEST_CASE("A node goes through its phases, and an order to end finds whatever it is busy with") {
  const std::vector<Step> steps = {kDial, kJoin,  kRun,  kLeave, kWait,  kRecall, kJoin,
                                   kRun,  kLeave, kJoin, kRun,   kLeave, kReport, kEnd};
  NodeLife life;
  CHECK(stop_now(life) == StopBy::nothing);
  for (const Step& step : steps) {
    INFO(step.name);
    step.make(life);
    CHECK(life.phase() == step.phase);
    CHECK(life.connected() == step.connected);
    CHECK(stop_now(life) == step.stopped_by);
  }
}

TEST_CASE("A node that never had workers has none to stop") {
  NodeLife life;
  life.dial();
  life.report();
  CHECK(life.stop(SIGINT) == StopBy::nothing);
  CHECK_FALSE(life.connected());
}

TEST_CASE("The first order to end names the signal, and a later one may only end it sooner") {
  NodeLife life;
  CHECK(life.goes_on());
  life.stop(SIGINT);
  life.stop(SIGTERM);
  CHECK_FALSE(life.goes_on());
  CHECK_FALSE(life.killed());
  life.kill();
  CHECK(life.killed());
  CHECK(life.stop_signal() == SIGINT);
}

TEST_CASE("The only node of a job joins without a dial, and a node may have to report in any phase") {
  const std::vector<std::vector<Step>> lives = {
      {kReport},
      {kDial, kReport},
      {kJoin, kReport},
      {kJoin, kRun, kReport},
      {kJoin, kRun, kLeave, kReport},
      {kJoin, kRun, kLeave, kWait, kReport},
      {kJoin, kRun, kLeave, kWait, kRecall, kReport},
  };
  for (const auto& steps : lives) {
    NodeLife life;
    for (const Step& step : steps) step.make(life);
    CHECK(life.phase() == reporting);
    life.end();
    CHECK(life.phase() == over);
  }
}
