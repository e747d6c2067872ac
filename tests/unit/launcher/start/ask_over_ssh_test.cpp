// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/ask_over_ssh.hpp"

#include "agent/process/signal_state.hpp"
#include "catch.hpp"

#include <stdexcept>
#include <string>

using namespace muster;
using namespace muster::launcher;

TEST_CASE("An answer that is cut is said to be too long, and not to be of another version") {
  NodePlan host;
  host.name = host.ssh_target = "n1";
  HostQuestions questions;
  questions.options.ssh_command = {"sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x"};
  questions.options.remote_words = {"ps", "--json"};
  questions.version = "0.1.0";
  questions.at_most = std::chrono::seconds(20);
  questions.take = [](std::size_t, const std::string&) { throw std::invalid_argument("no list of jobs"); };
  std::string why;
  questions.fail = [&why](std::size_t, const StartFailure& failure) { why = failure.cause; };
  ask_over_ssh({host}, {0}, questions, agent::SignalState::capture());
  CHECK(why == "its answer has more than 256 KiB");
}
