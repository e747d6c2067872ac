// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listen/visitor.hpp"
#include "tests/support/catch.hpp"

#include <memory>
#include <string>
#include <vector>

using namespace muster::rendezvous;

namespace {

constexpr ConnectionGate::Limits kLimits{256, 32};
constexpr double kUnlucky = 0.0;
constexpr double kLucky = 0.9999;

}  // namespace

TEST_CASE("up to half of the limits everybody is taken") {
  ConnectionGate gate(kLimits);
  for (int i = 0; i < 16; ++i) CHECK(gate.enter("one", kUnlucky));
  CHECK_FALSE(gate.enter("one", kUnlucky));
  for (int i = 16; i < 128; ++i) CHECK(gate.enter("host " + std::to_string(i), kUnlucky));
  CHECK(gate.crowded());
  CHECK_FALSE(gate.enter("another", kUnlucky));
}

TEST_CASE("beyond half it is a matter of luck, and at the limit nobody is taken") {
  ConnectionGate gate(kLimits);
  for (int i = 0; i < 32; ++i) CHECK(gate.enter("one", kLucky));
  CHECK_FALSE(gate.enter("one", kLucky));
  CHECK(gate.enter("other", kUnlucky));
  for (int i = 0; gate.size() < 256; ++i) gate.enter("host " + std::to_string(i), kLucky);
  CHECK_FALSE(gate.enter("late", kLucky));
  gate.leave("one");
  gate.leave("one");
  CHECK(gate.enter("late", kLucky));
}

TEST_CASE("who leaves makes room, and nobody leaves twice") {
  ConnectionGate gate({2, 2});
  CHECK(gate.enter("a", kUnlucky));
  gate.leave("a");
  gate.leave("a");
  CHECK(gate.size() == 0);
}

TEST_CASE("ports with the same gates hold no more strangers together than one") {
  constexpr std::size_t kMost = 64;
  const auto gates = std::make_shared<Gates>(kMost);
  std::vector<std::unique_ptr<Ticket>> held;
  for (std::size_t i = 0; i < kMost; ++i) {
    held.push_back(std::make_unique<Ticket>(gates, std::to_string(i)));
    CHECK(held.back()->enter(&Gates::known, kLucky));
  }
  Ticket another(gates, "another");
  CHECK_FALSE(another.enter(&Gates::known, kLucky));
  CHECK(another.enter(&Gates::strangers, kLucky));
  held.pop_back();
  CHECK(another.enter(&Gates::known, kLucky));
}
