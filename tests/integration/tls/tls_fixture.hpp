// SPDX-License-Identifier: Apache-2.0
// A TLS acceptor and clients on real sockets of one event loop.
#pragma once

#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/server/listen_socket.hpp"
#include "rendezvous/tls/tls_stream.hpp"
#include "tests/support/run_until.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <poll.h>
#include <sys/socket.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace muster::rendezvous::tls_test {

namespace asio = boost::asio;
using namespace std::chrono_literals;

inline TimePoint in(Milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

inline PeerIdentity agent_identity(const std::string& node = "n1", const std::string& job = "job") {
  PeerIdentity identity;
  identity.job = job;
  identity.node = node;
  return identity;
}

/// What became of a coroutine.
template <typename T>
struct Outcome {
  bool done = false;
  std::optional<T> value;
  std::string error;
  std::optional<Errc> code;
  boost::system::error_code system;
};

class TlsBench {
 public:
  explicit TlsBench(std::optional<std::string> job = "job")
      : secret(Secret::random()), acceptor(secret.copy(), std::move(job)) {
    listener = open_listen_socket("127.0.0.1", 0, true, false);
  }

  Endpoint endpoint() const { return Endpoint{listener.address.host(), listener.address.port()}; }

  /// Takes the next connection as a descriptor.
  UniqueFd take() {
    pollfd waiting{listener.fd.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 20000) != 1) throw std::runtime_error("nobody connected within 20 s");
    return UniqueFd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  }

  template <typename T>
  std::shared_ptr<Outcome<T>> spawn(asio::awaitable<T> work) {
    auto outcome = std::make_shared<Outcome<T>>();
    asio::co_spawn(context, std::move(work), [outcome](const std::exception_ptr& error, T value) {
      outcome->done = true;
      outcome->value = std::move(value);
      if (error) note(*outcome, error);
    });
    return outcome;
  }

  std::shared_ptr<Outcome<std::unique_ptr<ByteStream>>> connect(PeerIdentity identity, Secret key,
                                                                Milliseconds limit = 20s) {
    return spawn(
        connect_tls(context.get_executor(), endpoint(), std::move(identity), std::move(key), in(limit)));
  }

  std::shared_ptr<Outcome<AcceptedTls>> accept(Milliseconds limit = 20s,
                                               std::function<bool()> key_shown = {}) {
    return spawn(acceptor.accept(context.get_executor(), take(), in(limit), std::move(key_shown)));
  }

  /// A plain connection to the listener.
  UniqueFd dial() const {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), listener.address.data(), listener.address.size()) != 0)
      throw std::runtime_error("the test's own listener does not answer");
    return fd;
  }

  void run_until(const std::function<bool()>& done) { muster::test::run_until(context, done); }

  void turn() {
    context.restart();
    context.poll();
  }

  asio::io_context context{1};
  Secret secret;
  TlsAcceptor acceptor;
  ListenSocket listener;

 private:
  template <typename T>
  static void note(Outcome<T>& outcome, const std::exception_ptr& error) {
    outcome.value.reset();
    try {
      std::rethrow_exception(error);
    } catch (const CoordinatorError& refused) {
      outcome.error = refused.what();
      outcome.code = refused.code();
    } catch (const boost::system::system_error& system) {
      outcome.error = system.what();
      outcome.system = system.code();
    } catch (const std::exception& other) {
      outcome.error = other.what();
    }
  }
};

inline asio::awaitable<std::string> read_text(ByteStream& stream, std::size_t size) {
  std::string text(size, '\0');
  std::size_t filled = 0;
  while (filled < size) {
    const asio::mutable_buffer rest = asio::buffer(text) + filled;
    filled += co_await stream.read_some(rest);
  }
  co_return text;
}

inline asio::awaitable<bool> write_text(ByteStream& stream, std::string text) {
  const asio::const_buffer bytes = asio::buffer(text);
  co_await stream.write_all(bytes);
  co_return true;
}

}  // namespace muster::rendezvous::tls_test
