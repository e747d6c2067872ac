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
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

/// A stream that is read to its end, in pieces of 4 KiB.
class Reader {
 public:
  explicit Reader(UniqueFd stream) {
    StreamPump::Owner owner;
    owner.deliver = [this](std::string_view bytes) {
      read += bytes;
      if (on_bytes) on_bytes(bytes);
    };
    owner.blocked = [this] { return !room; };
    owner.closed = [this] { closed = true; };
    pump = std::make_shared<StreamPump>(context.get_executor(), std::move(stream),
                                        std::make_shared<std::vector<char>>(4096), owner);
  }

  boost::asio::io_context context;
  std::shared_ptr<StreamPump> pump;
  std::function<void(std::string_view)> on_bytes;
  std::string read;
  bool room = true;
  bool closed = false;
};

}  // namespace

TEST_CASE("A stream that is never empty is closed all the same once its worker is gone") {
  StreamEnds ends = open_pipe();
  Reader reader(std::move(ends.ours));
  // Whoever holds the pipe prints as fast as we read.
  reader.on_bytes = [&](std::string_view bytes) {
    REQUIRE(::write(ends.childs.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  };
  REQUIRE(::write(ends.childs.get(), "begin", 5) == 5);
  reader.pump->start();
  reader.pump->expect_end();
  reader.context.run_for(std::chrono::seconds(20));
  CHECK(reader.closed);
  CHECK(reader.pump->is_closed());
  CHECK(reader.read.size() > 5);
  CHECK(reader.context.stopped());
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
  StreamEnds ends = open_pipe();
  Reader reader(std::move(ends.ours));
  reader.room = false;
  REQUIRE(::write(ends.childs.get(), "text", 4) == 4);
  ends.childs.reset();
  reader.pump->start();
  reader.context.run();
  CHECK(reader.pump->is_paused());
  CHECK(reader.read.empty());
  reader.pump->resume();
  CHECK(reader.pump->is_paused());
  reader.room = true;
  reader.pump->resume();
  CHECK(reader.read == "text");
  CHECK(reader.pump->is_closed());
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

  Reader reader(std::move(near));
  reader.pump->start();
  reader.context.run_for(std::chrono::seconds(20));
  CHECK(reader.read == "last words");
  CHECK(reader.pump->is_closed());
}

TEST_CASE("Everything that was written to a pty just before its end is read") {
  for (int run = 0; run < 300; ++run) {
    StreamEnds ends = open_pty(-1);
    Reader reader(std::move(ends.ours));
    reader.pump->start();
    std::thread writing([far = std::move(ends.childs)] {
      for (const char* words : {"one ", "two ", "last words"})
        static_cast<void>(::write(far.get(), words, std::strlen(words)) > 0);
    });
    reader.context.run_for(std::chrono::seconds(20));
    writing.join();
    REQUIRE(reader.read == "one two last words");
  }
}
