// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/munge/munge.hpp"
#include "tests/support/catch.hpp"

#include <atomic>
#include <future>
#include <thread>

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

CredentialReader::TimePoint at(std::chrono::milliseconds time) {
  return CredentialReader::TimePoint(1h + time);
}

}  // namespace

TEST_CASE("bad credentials are read a few times a second, of each address and of all") {
  std::atomic<int> asked = 0;
  CredentialReader reader(
      [&asked](const std::string&, std::string& why) -> std::optional<ProvenClient> {
        ++asked;
        why = "bad";
        return std::nullopt;
      },
      {20s, 4, 10});
  std::string why;
  for (int i = 0; i < 20; ++i) CHECK_FALSE(reader.read("m1/x", "10.0.0.1", at(0ms), why).has_value());
  CHECK(asked == 4);
  CHECK(why == "munge: too many bad credentials within a second");
  for (int i = 0; i < 20; ++i) (void)reader.read("m1/x", "10.0.1." + std::to_string(i), at(10ms), why);
  CHECK(asked == 10);
  (void)reader.read("m1/x", "10.0.0.1", at(1000ms), why);
  CHECK(asked == 11);
}

TEST_CASE("good credentials are not counted, and a daemon that does not answer is waited for once") {
  const auto hold = std::make_shared<std::promise<void>>();
  const std::shared_future<void> held = hold->get_future().share();
  std::atomic<int> asked = 0;
  CredentialReader reader(
      [&asked, held](const std::string& text, std::string&) {
        ++asked;
        if (text == "slow") held.wait();
        return std::optional<ProvenClient>(ProvenClient{PeerIdentity{}, Secret::random()});
      },
      {20s, 1, 1});
  std::string why;
  for (int i = 0; i < 5; ++i) CHECK(reader.read("good", "10.0.0.1", at(0ms), why).has_value());

  CredentialReader impatient(
      [&asked, held](const std::string&, std::string&) {
        ++asked;
        held.wait();
        return std::optional<ProvenClient>(ProvenClient{PeerIdentity{}, Secret::random()});
      },
      {20ms, 4, 100});
  CHECK_FALSE(impatient.read("slow", "10.0.0.1", at(0ms), why).has_value());
  CHECK(why.find("does not answer") != std::string::npos);
  CHECK_FALSE(impatient.read("slow", "10.0.0.2", at(5ms), why).has_value());
  CHECK(why.find("has not answered for an earlier") != std::string::npos);
  CHECK(asked <= 6);
  hold->set_value();
  // Its thread ends with the test's objects still there.
  while (asked < 6) std::this_thread::yield();
}
