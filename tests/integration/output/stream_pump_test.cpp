// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/stream_pump.hpp"

#include "agent/process/output/terminal.hpp"
#include "catch.hpp"

#include <arpa/inet.h>
#include <boost/asio/io_context.hpp>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

using namespace muster::agent;
using muster::UniqueFd;

namespace {

/// A UDP socket on a port of its own of the loopback.
UniqueFd make_socket(sockaddr_in& address) {
  UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return fd;
}

void connect_to(const UniqueFd& fd, const sockaddr_in& address) {
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
}

}  // namespace

TEST_CASE("A stream that is never empty is closed all the same once its worker is gone") {
  boost::asio::io_context context;
  StreamEnds ends = open_pipe();
  std::size_t delivered = 0;
  bool closed = false;
  const auto refill = [&](std::string_view bytes) {
    delivered += bytes.size();
    // Whoever holds the pipe prints as fast as we read.
    REQUIRE(::write(ends.childs.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  };
  StreamPump::Owner owner;
  owner.deliver = refill;
  owner.blocked = [] { return false; };
  owner.closed = [&] { closed = true; };
  const auto buffer = std::make_shared<std::vector<char>>(4096);
  const auto pump = std::make_shared<StreamPump>(context.get_executor(), std::move(ends.ours), buffer, owner);
  REQUIRE(::write(ends.childs.get(), "begin", 5) == 5);
  pump->start();
  pump->expect_end();
  context.run_for(std::chrono::seconds(20));
  CHECK(closed);
  CHECK(pump->is_closed());
  CHECK(delivered > 5);
  CHECK(context.stopped());
}

TEST_CASE("What a worker had printed is read when it ends, not some turns later") {
  boost::asio::io_context context;
  StreamEnds ends = open_pipe();
  std::size_t read = 0;
  StreamPump::Owner owner;
  owner.deliver = [&](std::string_view bytes) { read += bytes.size(); };
  owner.blocked = [] { return false; };
  owner.closed = [] {};
  const auto buffer = std::make_shared<std::vector<char>>(512);
  const auto pump = std::make_shared<StreamPump>(context.get_executor(), std::move(ends.ours), buffer, owner);
  pump->start();
  const std::string text(30'000, 'x');
  REQUIRE(::write(ends.childs.get(), text.data(), text.size()) == 30'000);
  pump->expect_end();
  CHECK(read == text.size());
  CHECK_FALSE(pump->is_closed());
  ends.childs.reset();
  context.run_for(std::chrono::seconds(20));
  CHECK(pump->is_closed());
}

TEST_CASE("A paused stream is read on when there is room, and loses nothing") {
  boost::asio::io_context context;
  StreamEnds ends = open_pipe();
  std::string read;
  bool room = false;
  StreamPump::Owner owner;
  owner.deliver = [&](std::string_view bytes) { read += bytes; };
  owner.blocked = [&] { return !room; };
  owner.closed = [] {};
  const auto buffer = std::make_shared<std::vector<char>>(4096);
  const auto pump = std::make_shared<StreamPump>(context.get_executor(), std::move(ends.ours), buffer, owner);
  REQUIRE(::write(ends.childs.get(), "text", 4) == 4);
  ends.childs.reset();
  pump->start();
  context.run();
  CHECK(pump->is_paused());
  CHECK(read.empty());
  pump->resume();
  CHECK(pump->is_paused());
  room = true;
  pump->resume();
  CHECK(read == "text");
  CHECK(pump->is_closed());
}

// A pty can answer EIO though the last words of its other end are still to come; how rarely is the kernel's
// affair. A socket that was refused does so each time: one error, then what was sent.
TEST_CASE("Bytes that are there after an error are read, and only an error that stays is the end") {
  sockaddr_in near_address;
  sockaddr_in far_address;
  UniqueFd near = make_socket(near_address);
  const UniqueFd far = make_socket(far_address);
  connect_to(near, far_address);
  // Connected to itself, the far end refuses the near one.
  connect_to(far, far_address);
  REQUIRE(::send(near.get(), "x", 1, 0) == 1);
  pollfd refused{near.get(), 0, 0};
  REQUIRE(::poll(&refused, 1, 20000) == 1);
  connect_to(far, near_address);
  REQUIRE(::send(far.get(), "last words", 10, 0) == 10);
  REQUIRE(::send(far.get(), "", 0, 0) == 0);

  boost::asio::io_context context;
  std::string read;
  StreamPump::Owner owner;
  owner.deliver = [&](std::string_view bytes) { read += bytes; };
  owner.blocked = [] { return false; };
  owner.closed = [] {};
  const auto buffer = std::make_shared<std::vector<char>>(4096);
  const auto pump = std::make_shared<StreamPump>(context.get_executor(), std::move(near), buffer, owner);
  pump->start();
  context.run_for(std::chrono::seconds(20));
  CHECK(read == "last words");
  CHECK(pump->is_closed());
}

TEST_CASE("Everything that was written to a pty just before its end is read") {
  const auto buffer = std::make_shared<std::vector<char>>(4096);
  for (int run = 0; run < 300; ++run) {
    boost::asio::io_context context;
    StreamEnds ends = open_pty(-1);
    std::string read;
    StreamPump::Owner owner;
    owner.deliver = [&](std::string_view bytes) { read += bytes; };
    owner.blocked = [] { return false; };
    owner.closed = [] {};
    const auto pump =
        std::make_shared<StreamPump>(context.get_executor(), std::move(ends.ours), buffer, owner);
    pump->start();
    std::thread writing([far = std::move(ends.childs)] {
      for (const char* words : {"one ", "two ", "last words"})
        static_cast<void>(::write(far.get(), words, std::strlen(words)) > 0);
    });
    context.run_for(std::chrono::seconds(20));
    writing.join();
    REQUIRE(read == "one two last words");
  }
}
