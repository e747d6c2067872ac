// SPDX-License-Identifier: Apache-2.0
#include "agent/process/vouch.hpp"

#include "rendezvous/server/listen_socket.hpp"
#include "tests/support/catch.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

using namespace muster;
using namespace muster::agent;
using rendezvous::SocketAddress;

namespace {

SocketAddress own_end(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) == 0);
  return {reinterpret_cast<sockaddr*>(&storage), size};
}

}  // namespace

TEST_CASE("a burst of a worker's connections is vouched for with a look or two, this process's own is not") {
  const auto listener = rendezvous::open_listen_socket("127.0.0.1", 0, true, false);
  std::vector<UniqueFd> sockets;
  std::vector<SocketAddress> ends;
  for (int i = 0; i < 50; ++i) {
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
    REQUIRE(::connect(sockets.back().get(), listener.address.data(), listener.address.size()) == 0);
    ends.push_back(own_end(sockets.back().get()));
  }
  const SocketAddress there = listener.address;
  Voucher voucher;
  const auto judge = [&](const SocketAddress& end) {
    return voucher.judge(end.host(), end.port(), there.host(), there.port());
  };
  const VouchVerdict own = judge(ends.front());
  CHECK_FALSE(own.allowed);
  CHECK(own.reason == "it belongs to no process of this job");

  const pid_t worker = ::fork();
  if (worker == 0) {
    ::pause();
    ::_exit(0);
  }
  REQUIRE(worker > 0);
  sockets.clear();
  const auto before = voucher.looks();
  for (const SocketAddress& end : ends) CHECK(judge(end).allowed);
  CHECK(voucher.looks() - before < ends.size() / 2);
  ::kill(worker, SIGKILL);
  ::waitpid(worker, nullptr, 0);
}
