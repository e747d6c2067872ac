// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/address.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <stdexcept>

using namespace muster::rendezvous;

TEST_CASE("peers on this host are reached over loopback") {
  CHECK(address_towards({"127.0.0.1"}) == "127.0.0.1");
  CHECK(address_towards({}) == "127.0.0.1");
  for (const std::string& address : local_addresses()) {
    const bool v6 = address.find(':') != std::string::npos;
    CHECK(address_towards({address}) == (v6 ? "::1" : "127.0.0.1"));
  }
}

TEST_CASE(
    "another host is reached from an address of ours that is not loopback, or the error says what to do") {
  try {
    const std::string address = address_towards({"192.0.2.1"});
    const auto ours = local_addresses();
    CHECK(std::find(ours.begin(), ours.end(), address) != ours.end());
    CHECK(address != "127.0.0.1");
  } catch (const std::runtime_error& error) {
    CHECK_THAT(error.what(), Contains("no route to host '192.0.2.1'") && Contains("--interface"));
  }
}

TEST_CASE("an interface is chosen by its name, and an unknown name gets the list") {
  CHECK(address_of_interface("lo") == "127.0.0.1");
  CHECK_THROWS_WITH(address_of_interface("nosuch0"),
                    Contains("interface 'nosuch0'") && Contains("lo (127.0.0.1)"));
}
