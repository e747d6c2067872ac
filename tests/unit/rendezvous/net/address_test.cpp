// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/address.hpp"

#include "catch.hpp"
#include "rendezvous/net/interface_choice.hpp"
#include "rendezvous/server/listen_socket.hpp"

#include <netinet/in.h>
#include <resolv.h>

#include <algorithm>
#include <stdexcept>

using namespace muster::rendezvous;

namespace {

SocketAddress at(const std::string& host, int port = 1) {
  return resolve(host, port).front();
}

bool inside(const char* cidr, const char* host) {
  return Cidr::parse(cidr).value().contains(at(host));
}

}  // namespace

TEST_CASE("addresses print as they are written") {
  CHECK(at("127.0.0.1", 29500).text() == "127.0.0.1:29500");
  CHECK(at("::1", 5).text() == "[::1]:5");
  CHECK(at("::ffff:10.1.2.3", 5).text() == "10.1.2.3:5");
  CHECK(at("fe80::1%lo", 5).text() == "[fe80::1%lo]:5");
  CHECK(at("127.9.9.9").is_loopback());
  CHECK(at("::1").is_loopback());
  CHECK_FALSE(at("10.0.0.1").is_loopback());
  CHECK(at("0.0.0.0").is_wildcard());
  CHECK(at("::").is_wildcard());
  CHECK(at("0").is_wildcard());
  CHECK_FALSE(at("::1").is_wildcard());
}

TEST_CASE("an address is read without the resolver and its files") {
  REQUIRE(::res_init() == 0);
  _res.retrans = 77;
  CHECK(at("10.1.2.3", 5).text() == "10.1.2.3:5");
  CHECK(at("fd00::1", 5).text() == "[fd00::1]:5");
  CHECK(_res.retrans == 77);
  ::res_init();
}

TEST_CASE("blocks of addresses") {
  CHECK(inside("10.0.0.0/8", "10.255.0.1"));
  CHECK_FALSE(inside("10.0.0.0/8", "11.0.0.1"));
  CHECK(inside("10.1.2.0/23", "10.1.3.9"));
  CHECK_FALSE(inside("10.1.2.0/23", "10.1.4.0"));
  CHECK(inside("10.1.2.3", "10.1.2.3"));
  CHECK_FALSE(inside("10.1.2.3", "10.1.2.4"));
  CHECK(inside("fd00::/8", "fd12::1"));
  CHECK_FALSE(inside("fd00::/8", "fe80::1"));
  CHECK_FALSE(inside("0.0.0.0/0", "::1"));
  CHECK(inside("0.0.0.0/0", "::ffff:1.2.3.4"));
  for (const char* text : {"", "10.0.0", "10.0.0.0/33", "10.0.0.0/", "::/129", "host/8", "10.0.0.0/-1"}) {
    INFO(text);
    CHECK_FALSE(Cidr::parse(text).has_value());
  }
}

TEST_CASE("listening rules say what is missing") {
  CHECK(refuse_to_listen(at("127.0.0.1"), false, false).empty());
  CHECK(refuse_to_listen(at("::1"), false, false).empty());
  CHECK(refuse_to_listen(at("10.0.0.1"), false, false).find("--allow-from") != std::string::npos);
  CHECK(refuse_to_listen(at("10.0.0.1"), true, false).empty());
  CHECK(refuse_to_listen(at("0.0.0.0"), true, false).find("--listen-any") != std::string::npos);
  CHECK(refuse_to_listen(at("::"), false, true).find("--allow-from") != std::string::npos);
  CHECK(refuse_to_listen(at("::"), true, true).empty());
}

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
