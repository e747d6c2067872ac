// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/node_connection.hpp"

#include "catch.hpp"

#include <boost/asio/io_context.hpp>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <utility>

using namespace muster::launcher;

namespace {

/// More than a pipe holds, so that it is sent in pieces.
constexpr int kBytes = 200'000;

/// A file that nobody else can open; removed at once.
struct File {
  File() {
    fd = ::mkstemp(name);
    const std::string bytes(kBytes, 'x');
    REQUIRE(::write(fd, bytes.data(), bytes.size()) == kBytes);
  }

  ~File() {
    ::unlink(name);
    ::close(fd);
  }

  char name[32] = "/tmp/muster-test-XXXXXX";
  int fd = -1;
};

}  // namespace

TEST_CASE("A copy arrives whole, is counted, and leaves nothing open behind it") {
  const File file;
  boost::asio::io_context context;
  const std::string size = std::to_string(kBytes);
  // Its end comes only after that of its stdin.
  const std::string script = "printf '\\nmuster-push 1 " + size + "\\n'; n=$(head -c " + size +
                             " | wc -c); printf '\\nmuster-agent 1 '$n'\\n'; cat >/dev/null; exit 7";
  std::string version;
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  int pieces = 0;
  int code = -1;
  NodeConnection::Events events;
  events.pushed = [&](std::uint64_t bytes, std::uint64_t of) {
    CHECK(bytes > last);
    last = bytes;
    total = of;
    ++pieces;
  };
  events.greeted = [&](const std::string& there, LinkEnds ends) {
    version = there;
    ends.out.reset();
  };
  events.ended = [&](const StartEnd& end, bool) { code = end.exit_code; };
  const NodeConnection connection(context.get_executor(),
                                  spawn_client({"sh", "-c", script}, muster::agent::SignalState{}), file.name,
                                  std::move(events));
  context.run_for(std::chrono::seconds(60));
  CHECK(version == size);
  CHECK(last == kBytes);
  CHECK(total == kBytes);
  CHECK(pieces > 1);
  CHECK(code == 7);
}

TEST_CASE("A client's environment is ours, and what is missing there") {
  ::setenv("MUSTER_TEST_KEPT", "ours", 1);
  ::unsetenv("MUSTER_TEST_ADDED");
  boost::asio::io_context context;
  std::string version;
  NodeConnection::Events events;
  events.greeted = [&](const std::string& there, LinkEnds) { version = there; };
  const NodeConnection connection(
      context.get_executor(),
      spawn_client({"sh", "-c", "printf '\\nmuster-agent 1 '$MUSTER_TEST_KEPT-$MUSTER_TEST_ADDED'\\n'"},
                   muster::agent::SignalState{}, {"MUSTER_TEST_KEPT=no", "MUSTER_TEST_ADDED=default"}),
      "", std::move(events));
  context.run_for(std::chrono::seconds(60));
  CHECK(version == "ours-default");
}
