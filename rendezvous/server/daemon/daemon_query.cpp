// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/daemon/daemon_query.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/client/control_message.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/tls/tls_stream.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <utility>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kAnswerWithin{10};

/// Takes a message of the answer. Returns whether it was the last.
bool take(DaemonReport& report, const Message& message) {
  if (const auto* error = std::get_if<ErrorReply>(&message)) throw CoordinatorError(error->code, error->text);
  if (const auto* daemon = std::get_if<DaemonStatus>(&message))
    report.daemon = *daemon;
  else if (const auto* job = std::get_if<JobStatus>(&message))
    report.jobs.push_back(*job);
  else
    throw CoordinatorError(Errc::mend, "it answers with '" + std::string(type_name(message)) +
                                           "', which is not what a daemon says of itself");
  return report.jobs.size() == static_cast<std::size_t>(report.daemon.jobs);
}

/// Connects by `deadline`, as what asks and belongs to no job.
std::unique_ptr<ByteStream> connect(asio::io_context& context, const Endpoint& where, const Secret& key,
                                    const PeerIdentity& identity, TimePoint deadline) {
  std::unique_ptr<ByteStream> stream;
  std::exception_ptr failure;
  asio::co_spawn(context,
                 connect_tls(context.get_executor(), where, identity,
                             derive_key(derive_job_secret(key, ""), identity), deadline),
                 [&](const std::exception_ptr& error, std::unique_ptr<ByteStream> made) {
                   failure = error;
                   stream = std::move(made);
                   context.stop();
                 });
  context.run();
  context.restart();
  if (failure) std::rethrow_exception(failure);
  return stream;
}

Hello hello_of(const PeerIdentity& identity, const std::string& version) {
  Hello hello;
  hello.role = Role::observer;
  hello.node = identity.node;
  hello.incarnation = identity.incarnation;
  hello.software = version;
  return hello;
}

}  // namespace

DaemonReport ask_daemon(const Endpoint& where, const Secret& key, const std::string& version) {
  const TimePoint deadline = steady_now() + kAnswerWithin;
  PeerIdentity identity;
  identity.role = PeerIdentity::Role::observer;
  identity.node = "observer";
  identity.incarnation = random_number();
  asio::io_context context(1);
  std::unique_ptr<ByteStream> stream = connect(context, where, key, identity, deadline);
  DaemonReport report;
  bool complete = false;
  ConnectionEnd end{Errc::lost, false, "it did not answer in time"};
  std::shared_ptr<Connection> connection;
  Connection::Handlers handlers;
  handlers.frame = [&](std::string_view body) {
    complete = take(report, message_from_json(body));
    if (complete) connection->close();
  };
  handlers.ended = [&](const ConnectionEnd& how) {
    end = how;
    connection->close();
  };
  connection = std::make_shared<Connection>(context.get_executor(), std::move(stream), std::move(handlers));
  send_message(*connection, hello_of(identity, version));
  connection->start(kMaxControlFrameBytes);
  context.run_until(deadline);
  connection->close();
  if (complete) return report;
  if (end.code != Errc::lost) throw CoordinatorError(end.code, end.reason);
  throw CoordinatorError(Errc::lost, "the daemon at " + where.host + " port " + std::to_string(where.port) +
                                         " did not say how it is: " + end.reason);
}

}  // namespace muster::rendezvous
