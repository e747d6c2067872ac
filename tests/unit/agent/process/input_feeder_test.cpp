// SPDX-License-Identifier: Apache-2.0
#include "agent/process/input_feeder.hpp"

#include "agent/core/link_message.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_channel.hpp"
#include "tests/support/run_until.hpp"

#include <boost/asio/io_context.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>

namespace muster::agent {

TEST_CASE("a worker's stdin ends when everything was sent, and for no other end of its channel") {
  boost::asio::io_context context{1};
  InputFeeder feeder(context.get_executor());
  const UniqueFd worker(::fcntl(feeder.open(), F_DUPFD_CLOEXEC, 0));
  feeder.started();
  REQUIRE(::fcntl(worker.get(), F_SETFL, O_NONBLOCK) == 0);
  const auto channel = std::make_shared<muster::test::FakeChannel>();
  feeder.take_from(channel);
  channel->told.data("typed");
  muster::test::run_until(context, [&] { return channel->given_back == 5; });
  std::array<char, 16> buffer{};
  CHECK(::read(worker.get(), buffer.data(), buffer.size()) == 5);

  SECTION("everything was sent") {
    channel->told.closed(std::string(kAllWasSent));
    CHECK(::read(worker.get(), buffer.data(), buffer.size()) == 0);
  }
  SECTION("another worker reads the rest, or the link is gone") {
    channel->told.closed("");
    const ssize_t got = ::read(worker.get(), buffer.data(), buffer.size());
    const int error = errno;
    CHECK(got == -1);
    CHECK(error == EAGAIN);
  }
}

}  // namespace muster::agent
