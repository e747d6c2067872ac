// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/admission.hpp"

#include "catch.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/server/listen_socket.hpp"
#include "rendezvous/server/refusals.hpp"
#include "tests/support/ipv6.hpp"

#include <unistd.h>

#include <cerrno>

using namespace muster::rendezvous;

namespace {

// A connection on loopback; both ends are ours.
struct Pair {
  explicit Pair(const std::string& host) : listener(open_listen_socket(host, 0, false, false)) {
    client = muster::UniqueFd(::socket(listener.address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(client.get(), listener.address.data(), listener.address.size()) == 0);
    sockaddr_storage storage{};
    socklen_t size = sizeof(storage);
    void* address = &storage;
    do {
      server = muster::UniqueFd(::accept(listener.fd.get(), static_cast<sockaddr*>(address), &size));
    } while (!server && errno == EAGAIN);
    REQUIRE(server);
    peer = SocketAddress(static_cast<sockaddr*>(address), size);
  }

  ListenSocket listener;
  muster::UniqueFd client;
  muster::UniqueFd server;
  SocketAddress peer;
};

}  // namespace

TEST_CASE("the kernel tells whose a connection is, by netlink and by /proc alike") {
  for (const std::string host : {"127.0.0.1", "::1"}) {
    if (host == "::1" && !muster::test::has_ipv6_loopback()) continue;
    Pair pair(host);
    SocketTable table;
    SocketEntry entry;
    SocketEntry slow;
    REQUIRE(table.find(pair.peer, pair.listener.address, entry) == SocketLookup::found);
    REQUIRE(SocketTable::find_in_proc(pair.peer, pair.listener.address, slow) == SocketLookup::found);
    CHECK((entry.uid == geteuid() && entry.inode != 0 && entry.established));
    CHECK((slow.uid == entry.uid && slow.inode == entry.inode && slow.established));
    SocketAddress other = pair.peer;
    other.set_port(1);
    CHECK(table.find(other, pair.listener.address, entry) == SocketLookup::absent);
    CHECK(SocketTable::find_in_proc(other, pair.listener.address, entry) == SocketLookup::absent);
  }
}

TEST_CASE("a peer of ours is admitted, one that closed is not") {
  Pair pair("127.0.0.1");
  AdmissionRules rules({}, true);
  std::string reason;
  CHECK(rules.admit(pair.peer, pair.listener.address, reason) == Admission::same_user);
  pair.client.reset();
  CHECK(rules.admit(pair.peer, pair.listener.address, reason) == Admission::refused);
  CHECK(reason.find("closed") != std::string::npos);
}

TEST_CASE("addresses outside the allowed blocks are refused first") {
  Pair pair("127.0.0.1");
  std::string reason;
  AdmissionRules others({*Cidr::parse("10.0.0.0/8")}, false);
  CHECK(others.admit(pair.peer, pair.listener.address, reason) == Admission::refused);
  AdmissionRules ours({*Cidr::parse("10.0.0.0/8"), *Cidr::parse("127.0.0.0/8")}, false);
  CHECK(ours.admit(pair.peer, pair.listener.address, reason) == Admission::by_address);
}

TEST_CASE("the decision for every answer of the kernel") {
  std::string reason;
  const auto judge = [&reason](SocketLookup lookup, SocketEntry entry, bool here) {
    return AdmissionRules::judge(lookup, entry, here, 1000, reason);
  };
  CHECK(judge(SocketLookup::found, {1000, 5, true}, true) == Admission::same_user);
  CHECK(judge(SocketLookup::found, {1001, 5, true}, true) == Admission::refused);
  CHECK(reason.find("uid 1001") != std::string::npos);
  CHECK(judge(SocketLookup::found, {1001, 5, true}, false) == Admission::refused);
  CHECK(judge(SocketLookup::found, {1000, 0, true}, true) == Admission::refused);
  CHECK(judge(SocketLookup::found, {1000, 5, false}, true) == Admission::refused);
  CHECK(judge(SocketLookup::absent, {}, true) == Admission::refused);
  CHECK(judge(SocketLookup::absent, {}, false) == Admission::by_address);
  CHECK(judge(SocketLookup::unavailable, {}, true) == Admission::refused);
  CHECK(judge(SocketLookup::unavailable, {}, false) == Admission::refused);
  // The measured trap: a closed socket is reported with uid 0 and inode 0.
  CHECK(AdmissionRules::judge(SocketLookup::found, {0, 0, true}, true, 0, reason) == Admission::refused);
}

TEST_CASE("a busy port names its holder and what to do") {
  Pair pair("127.0.0.1");
  const int port = pair.listener.address.port();
  CHECK_THROWS_WITH(open_listen_socket("127.0.0.1", port, false, false),
                    Contains("'127.0.0.1' port " + std::to_string(port)) &&
                        Contains("process " + std::to_string(getpid())) && Contains("port 0 for any"));
  CHECK_THROWS_AS(open_listen_socket("no such host.invalid", 0, false, false), std::runtime_error);
  CHECK_THROWS_AS(open_listen_socket("0.0.0.0", 0, true, false), std::runtime_error);
  CHECK_THROWS_AS(open_listen_socket("", 0, true, true), std::runtime_error);
}

TEST_CASE("one line about a bad peer in ten seconds, for each address") {
  PeerLog log;
  const PeerLog::TimePoint start{};
  CHECK(log.due("a", start));
  CHECK_FALSE(log.due("a", start + std::chrono::seconds(9)));
  CHECK(log.due("b", start + std::chrono::seconds(9)));
  CHECK(log.due("a", start + std::chrono::seconds(10)));
  CHECK(log.take_suppressed("a") == 1);
  CHECK(log.take_suppressed("a") == 0);
}
