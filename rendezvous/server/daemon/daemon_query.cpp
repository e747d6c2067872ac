// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/daemon/daemon_query.hpp"

#include "rendezvous/base/random.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/tls/tls_stream.hpp"
#include "rendezvous/wire/frame.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>

#include <array>
#include <exception>
#include <optional>
#include <utility>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kAnswerWithin{10};

/// Collects the daemon's messages until the last one has come.
class Answer {
 public:
  bool complete() const {
    return known_ && report_.jobs.size() == static_cast<std::size_t>(report_.daemon.jobs);
  }

  void take(const Message& message) {
    if (const auto* error = std::get_if<ErrorReply>(&message))
      throw CoordinatorError(error->code, error->text);
    if (const auto* daemon = std::get_if<DaemonStatus>(&message)) {
      known_ = true;
      report_.daemon = *daemon;
    } else if (const auto* job = std::get_if<JobStatus>(&message)) {
      report_.jobs.push_back(*job);
    } else {
      throw CoordinatorError(Errc::mend, "it answers with '" + std::string(type_name(message)) +
                                             "', which is not what a daemon says of itself");
    }
  }

  DaemonReport report() && { return std::move(report_); }

 private:
  bool known_ = false;
  DaemonReport report_;
};

std::string hello_frame(const std::string& version, const PeerIdentity& identity) {
  Hello hello;
  hello.role = Role::observer;
  hello.node = identity.node;
  hello.incarnation = identity.incarnation;
  hello.software = version;
  return encode_frame(to_json(hello));
}

asio::awaitable<DaemonReport> ask(asio::any_io_executor executor, Endpoint where, Secret secret,
                                  std::string version) {
  const TimePoint deadline = std::chrono::steady_clock::now() + kAnswerWithin;
  PeerIdentity identity;
  identity.role = PeerIdentity::Role::observer;
  identity.node = "observer";
  identity.incarnation = random_number();
  const std::string hello = hello_frame(version, identity);
  Secret key = derive_key(secret, identity);
  std::string any_address;
  std::string identity_text;
  const std::shared_ptr<ByteStream> stream =
      co_await connect_tls(executor, std::move(where), std::move(identity), std::move(key), deadline,
                           std::move(any_address), std::move(identity_text));
  asio::steady_timer timer(executor, deadline);
  timer.async_wait([stream](boost::system::error_code error) {
    if (!error) stream->close();
  });
  const asio::const_buffer source = asio::buffer(hello);
  co_await stream->write_all(source);
  FrameDecoder decoder(kMaxControlFrameBytes);
  std::array<char, 4096> bytes{};
  Answer answer;
  while (!answer.complete()) {
    const asio::mutable_buffer target = asio::buffer(bytes);
    const std::size_t count = co_await stream->read_some(target);
    std::string_view rest(bytes.data(), count);
    while (!rest.empty()) {
      rest.remove_prefix(decoder.feed(rest));
      if (decoder.ready()) answer.take(message_from_json(decoder.take()));
    }
  }
  stream->close();
  co_return std::move(answer).report();
}

}  // namespace

DaemonReport ask_daemon(const Endpoint& where, const Secret& key, const std::string& version) {
  asio::io_context context(1);
  std::optional<DaemonReport> report;
  std::exception_ptr failure;
  asio::co_spawn(context, ask(context.get_executor(), where, derive_job_secret(key, ""), version),
                 [&](const std::exception_ptr& error, DaemonReport answer) {
                   failure = error;
                   if (!error) report = std::move(answer);
                   context.stop();
                 });
  context.run();
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    throw CoordinatorError(Errc::lost, "the daemon at " + where.host + " port " + std::to_string(where.port) +
                                           " did not say how it is: " + error.what());
  }
  return std::move(*report);
}

}  // namespace muster::rendezvous
