// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/name_lookup.hpp"

#include "rendezvous/protocol/errc.hpp"
#include "tests/support/catch.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

std::vector<SocketAddress> look_up_now(const std::string& host, Milliseconds limit = 10s) {
  boost::asio::io_context context;
  std::vector<SocketAddress> found;
  std::exception_ptr failure;
  boost::asio::co_spawn(context,
                        look_up(context.get_executor(), host, 4242, std::chrono::steady_clock::now() + limit),
                        [&](std::exception_ptr error, std::vector<SocketAddress> addresses) {
                          failure = error;
                          found = std::move(addresses);
                        });
  context.run();
  if (failure) std::rethrow_exception(failure);
  return found;
}

}  // namespace

TEST_CASE("an address needs no resolver") {
  const auto v4 = look_up_now("127.0.0.1", 0ms);
  REQUIRE(v4.size() == 1);
  CHECK(v4.front().text() == "127.0.0.1:4242");
  CHECK(look_up_now("::1", 0ms).front().text() == "[::1]:4242");
}

TEST_CASE("a name is looked up aside") {
  const auto found = look_up_now("localhost");
  REQUIRE_FALSE(found.empty());
  CHECK(found.front().is_loopback());
  CHECK(found.front().port() == 4242);
}

TEST_CASE("a name that does not resolve is an error with the name") {
  CHECK_THROWS_WITH(look_up_now("no-such-host.invalid"), Contains("no-such-host.invalid"));
}

TEST_CASE("an answer that comes too late is not waited for") {
  CHECK_THROWS_WITH(look_up_now("localhost", -1ms), Contains("the resolver does not answer"));
}
