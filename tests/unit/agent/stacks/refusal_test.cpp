// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/refusal.hpp"

#include "catch.hpp"

using namespace muster::agent;

namespace {

constexpr const char* kStatus =
    "Name:\tpython3\nUmask:\t0022\nState:\tS "
    "(sleeping)\nUid:\t1000\t1001\t1002\t1003\nGid:\t100\t101\t102\t103\n"
    "CapInh:\t0000000000000000\nCapPrm:\t0000000000080000\nCapEff:\t0000000000000001\n";

ProcessIdentity user(unsigned uid, std::uint64_t capabilities = 0) {
  return {{uid, uid, uid}, {uid, uid, uid}, capabilities, capabilities};
}

constexpr std::uint64_t kAll = ~std::uint64_t{0} >> 23;

}  // namespace

TEST_CASE("Who a process is stands in its status") {
  const auto identity = parse_identity(kStatus);
  REQUIRE(identity);
  CHECK(identity->uids[0] == 1000);
  CHECK(identity->uids[2] == 1002);
  CHECK(identity->gids[1] == 101);
  CHECK(identity->permitted_capabilities == 0x80000);
  CHECK(identity->effective_capabilities == 1);
  CHECK_FALSE(parse_identity(""));
  CHECK_FALSE(parse_identity("Name:\tUid:\nUid:\tx\n"));
}

TEST_CASE("A refusal has its reason") {
  CHECK(explain_refusal(user(1000), user(1001), -1) == "it belongs to another user (uid 1001)");
  CHECK(explain_refusal(user(1000), user(1000), 2) ==
        "Yama scope 2 lets administrators alone read another process");
  CHECK(explain_refusal(user(0, kAll), user(0, kAll), 3) == "Yama scope 3 lets nobody read another process");
  CHECK(explain_refusal(user(1000), user(1000, 0x400), 0) == "it has more capabilities than we have");
  CHECK(
      explain_refusal(user(1000), user(1000), 0).starts_with("it has made itself unreadable (not dumpable)"));
  CHECK(explain_refusal(user(1000), user(1000), 1).find("Yama scope 1") != std::string::npos);
  ProcessIdentity group = user(1000);
  group.gids[1] = 7;
  CHECK(explain_refusal(user(1000), group, -1) == "it belongs to another group");
  ProcessIdentity raised = user(1000);
  raised.uids[1] = 0;
  CHECK(explain_refusal(user(1000), raised, -1).starts_with("it belongs to another user"));
}
