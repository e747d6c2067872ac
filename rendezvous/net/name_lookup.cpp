// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/name_lookup.hpp"

#include "rendezvous/base/wake_up.hpp"
#include "rendezvous/protocol/errc.hpp"

#include <arpa/inet.h>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

/// The answer of a resolver. `error` is empty on success.
struct Found {
  std::vector<SocketAddress> addresses;
  std::string error;
  bool no_such_name = false;
};

/// The answer that the look-up thread leaves for the caller. The thread does not use the event loop, which
/// may be gone before the resolver answers.
struct LookUp {
  WakeUp done;
  std::mutex mutex;
  bool answered = false;
  Found found;
};

bool is_numeric(const std::string& host) {
  in6_addr ignored;
  return ::inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

Found look_up_here(const std::string& host, int port) {
  Found found;
  try {
    found.addresses = resolve(host, port);
    found.no_such_name = found.addresses.empty();
    if (found.no_such_name) found.error = "host '" + host + "' has neither an IPv4 nor an IPv6 address";
  } catch (const NameError& failure) {
    found.error = failure.what();
    found.no_such_name = failure.no_such_name();
  } catch (const std::exception& failure) {
    found.error = failure.what();
  }
  return found;
}

void start_thread(const std::shared_ptr<LookUp>& state, const std::string& host, int port) {
  // A resolver cannot be stopped, so the thread is detached and may be left behind.
  std::thread([state, host, port] {
    Found found = look_up_here(host, port);
    const std::scoped_lock lock(state->mutex);
    state->answered = true;
    state->found = std::move(found);
    state->done.signal();
  }).detach();
}

/// Waits until the look-up thread has answered, but not beyond `deadline`.
asio::awaitable<void> wait_for_answer(asio::any_io_executor executor, std::shared_ptr<LookUp> state,
                                      TimePoint deadline) {
  const int duplicate = ::fcntl(state->done.fd(), F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) throw CoordinatorError(Errc::environment, "no descriptor is left to look up a name");
  const auto watched = std::make_shared<asio::posix::stream_descriptor>(executor, duplicate);
  asio::steady_timer timer(executor, std::min(deadline, std::chrono::steady_clock::now() + kLookUpTimeout));
  timer.async_wait([watched](boost::system::error_code error) {
    if (!error) watched->cancel();
  });
  boost::system::error_code ignored;
  co_await watched->async_wait(asio::posix::stream_descriptor::wait_read,
                               asio::redirect_error(asio::use_awaitable, ignored));
}

}  // namespace

asio::awaitable<std::vector<SocketAddress>> look_up(asio::any_io_executor executor, std::string host,
                                                    int port, TimePoint deadline) {
  const auto state = std::make_shared<LookUp>();
  if (is_numeric(host)) {
    state->found = look_up_here(host, port);
    state->answered = true;
  } else if (std::chrono::steady_clock::now() < deadline) {
    start_thread(state, host, port);
    co_await wait_for_answer(executor, state, deadline);
  }
  const std::scoped_lock lock(state->mutex);
  if (!state->answered)
    throw NoAddressError(Errc::deadline,
                         "the address of host '" + host +
                             "' was not found in time: the resolver does not answer; give an "
                             "address, or see `getent hosts " +
                             host + "`",
                         false);
  const Found& found = state->found;
  if (!found.error.empty()) throw NoAddressError(Errc::environment, found.error, found.no_such_name);
  co_return found.addresses;
}

}  // namespace muster::rendezvous
