// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/peer/peer_node.hpp"

using namespace muster::launcher;

TEST_CASE("the coordinator listens where the other nodes look for it") {
  struct Row {
    ListenChoice choice;
    std::string address;
  };

  const std::vector<std::string> own = {"10.0.0.7", "192.168.1.7", "fd00::7", "127.0.0.1", "::1"};
  const Row rows[] = {
      {{{"192.168.1.7"}, false, own, "", "10.0.0.7"}, "192.168.1.7"},
      {{{"fd00::7"}, false, own, "", "10.0.0.7"}, "fd00::7"},
      // As Debian's /etc/hosts has it: the own name is 127.0.1.1 on the machine itself.
      {{{"127.0.1.1"}, false, own, "", "10.0.0.7"}, "10.0.0.7"},
      {{{"127.0.1.1"}, false, own, "192.168.1.7", "10.0.0.7"}, "192.168.1.7"},
      {{{"127.0.1.1", "192.168.1.7"}, false, own, "", "10.0.0.7"}, "192.168.1.7"},
      // The address of a service in front of us, or a name that does not resolve here.
      {{{"10.96.0.10"}, false, own, "", "10.0.0.7"}, "10.0.0.7"},
      {{{}, false, own, "", ""}, "10.0.0.7"},
      {{{}, false, own, "10.9.9.9", ""}, "10.0.0.7"},
      {{{"127.0.0.1"}, true, own, "", "10.0.0.7"}, "127.0.0.1"},
      {{{"127.0.0.3"}, true, own, "", "10.0.0.7"}, "127.0.0.3"},
      {{{"::1", "127.0.0.1"}, true, own, "", "10.0.0.7"}, "::1"},
      {{{}, true, own, "", "10.0.0.7"}, "127.0.0.1"},
      {{{"127.0.1.1"}, false, {"127.0.0.1"}, "", ""}, "127.0.0.1"},
      {{{}, false, {}, "", ""}, "127.0.0.1"},
  };
  for (const Row& row : rows) CHECK(choose_listen_address(row.choice) == row.address);
}

TEST_CASE("loopback is asked of the machine as it is written") {
  CHECK(listen_address("127.0.0.1", "", "") == "127.0.0.1");
  CHECK(listen_address("127.0.0.9", "", "") == "127.0.0.9");
  CHECK(listen_address("10.9.9.9", "lo", "") == "127.0.0.1");
  CHECK_THROWS_WITH(listen_address("localhost", "no-such-interface0", ""),
                    StartsWith("interface 'no-such-interface0' is not up here"));
}
