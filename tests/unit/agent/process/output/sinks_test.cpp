// SPDX-License-Identifier: Apache-2.0
// Where output goes when whoever takes it is slow, or takes no more.
#include "agent/core/link_message.hpp"
#include "agent/process/output/console_writer.hpp"
#include "agent/process/output/link_console.hpp"
#include "rendezvous/base/wake_up.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_channel.hpp"
#include "tests/support/pipe.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>

namespace muster::agent {
namespace {

constexpr int kAtMostMs = 20'000;

/// False when no signal that makes it true comes in time.
template <typename Condition>
bool comes_true(const WakeUp& wake_up, const Condition& condition) {
  while (!condition()) {
    pollfd signalled{wake_up.fd(), POLLIN, 0};
    if (::poll(&signalled, 1, kAtMostMs) != 1) return false;
    wake_up.clear();
  }
  return true;
}

/// So many bytes from `fd`; false when they do not come in time.
bool take_bytes(int fd, std::size_t bytes) {
  std::array<char, 4096> buffer;
  while (bytes > 0) {
    pollfd readable{fd, POLLIN, 0};
    if (::poll(&readable, 1, kAtMostMs) != 1) return false;
    const ssize_t got = ::read(fd, buffer.data(), std::min(bytes, buffer.size()));
    if (got <= 0) return false;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

TEST_CASE("a channel that the other side closes takes no output, and holds nobody up") {
  const auto channel = std::make_shared<muster::test::FakeChannel>();
  const auto console = std::make_shared<LinkConsole>([channel](std::string_view) { return channel; });
  int emptied = 0;
  const auto sink = console->make_sink(std::string(kStdoutChannel), [&emptied] { ++emptied; });
  channel->room = 0;
  sink->append("first\n");
  CHECK(sink->full());
  channel->told.closed("not wanted");
  CHECK_FALSE(sink->full());
  CHECK(emptied == 1);
  channel->room = 100;
  sink->append("second\n");
  CHECK_FALSE(sink->full());
  CHECK(channel->sent.empty());
  CHECK(console->waiting() == 0);
  sink->stop();
  CHECK(sink->ended());
  REQUIRE(sink->notes().size() == 1);
  CHECK(sink->notes()[0] ==
        "13 bytes that workers printed on stdout were dropped: the launcher did not take them");
}

TEST_CASE("a console that somebody reads slowly has room again long before all is read") {
  constexpr std::size_t kAll = 2 * ConsoleWriter::kQueueBytes;
  const muster::test::Pipe pipe;
  const auto wake_up = std::make_shared<WakeUp>();
  ConsoleWriter writer(pipe.write.get(), "stdout", wake_up);
  writer.append(std::string(kAll, 'x'));
  // Nobody reads: what the thread has taken is a small part.
  CHECK(writer.full());
  REQUIRE(take_bytes(pipe.read.get(), 1));
  CHECK(writer.full());
  REQUIRE(take_bytes(pipe.read.get(), ConsoleWriter::kQueueBytes));
  CHECK(comes_true(*wake_up, [&] { return !writer.full(); }));
  CHECK(writer.unwritten() > kAll / 4);
  writer.stop();
  REQUIRE(take_bytes(pipe.read.get(), kAll - ConsoleWriter::kQueueBytes - 1));
  CHECK(comes_true(*wake_up, [&] { return writer.ended(); }));
  CHECK(writer.unwritten() == 0);
  CHECK(writer.notes().empty());
}

}  // namespace muster::agent
