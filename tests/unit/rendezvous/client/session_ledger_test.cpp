// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/session_ledger.hpp"

#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "tests/support/catch.hpp"

#include <deque>
#include <random>

using namespace muster::rendezvous;

TEST_CASE("what is acknowledged is kept no longer, and the rest is sent again in order") {
  SessionLedger ledger;
  for (const char* frame : {"a", "bb", "ccc"}) ledger.sent(frame);
  CHECK(ledger.kept_bytes() == 6);
  ledger.acknowledged(1);
  CHECK(ledger.kept_bytes() == 5);
  ledger.acknowledged(0);  // older news
  CHECK(ledger.to_send_again(2) == "ccc");
  CHECK(ledger.to_send_again(2) == "ccc");
  CHECK(ledger.to_send_again(3).empty());
}

TEST_CASE("a peer cannot have got what was not sent, nor want again what it had") {
  SessionLedger ledger;
  ledger.sent("a");
  CHECK_THROWS_WITH(ledger.acknowledged(2), Contains("message 2") && Contains("only 1 were sent"));
  ledger.acknowledged(1);
  CHECK_THROWS_WITH(ledger.to_send_again(0), Contains("message 1") && Contains("again"));
}

TEST_CASE("an acknowledgement is due when much has come") {
  SessionLedger ledger;
  ledger.received(kAckAfterBytes - 1);
  CHECK_FALSE(ledger.ack_due());
  ledger.received(1);
  CHECK(ledger.ack_due());
  ledger.told();
  CHECK_FALSE(ledger.ack_due());
  CHECK(ledger.received_count() == 2);
}

TEST_CASE("two ends with a line that loses everything under way at random moments agree in the end") {
  std::minstd_rand random(17);
  SessionLedger here;
  SessionLedger there;
  std::deque<std::string> under_way;
  std::string arrived;
  std::string wanted;
  for (int i = 0; i < 5000; ++i) {
    const auto dice = random() % 100;
    if (dice < 50) {
      const std::string frame(1, static_cast<char>('a' + random() % 26));
      wanted += frame;
      here.sent(frame);
      under_way.push_back(frame);
    } else if (dice < 90) {
      if (under_way.empty()) continue;
      arrived += under_way.front();
      there.received(under_way.front().size());
      under_way.pop_front();
    } else if (dice < 97) {
      here.acknowledged(there.received_count());
    } else {
      under_way.clear();
      for (const char frame : here.to_send_again(there.received_count())) under_way.emplace_back(1, frame);
    }
  }
  for (const std::string& frame : under_way) arrived += frame;
  CHECK(arrived == wanted);
}
