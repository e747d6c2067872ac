// SPDX-License-Identifier: Apache-2.0
// The life of a session: it connects and says hello, and the answer gives it its number; then heartbeats show
// that both sides live. When the connection breaks, or the coordinator is silent for too long, it connects
// again, says hello with that number, and goes on. It is lost when that fails for lost_after, or when the
// coordinator itself ends the connection.
#include "rendezvous/client/client_session.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/while_alive.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <exception>
#include <random>
#include <utility>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

/// The time of one attempt to reconnect, shorter than the kernel takes to repeat a lost SYN.
constexpr Milliseconds kReconnectAttempt{1500};
/// The share of lost_after after whose silence another connection is tried: 3 s of 5.
constexpr double kSuspectShare = 0.6;

/// Random numbers for the jitter of reconnections. They need no quality, but must differ from process to
/// process.
std::function<double()> random_shares() {
  auto engine = std::make_shared<std::minstd_rand>(static_cast<unsigned>(random_number()));
  return [engine] { return std::uniform_real_distribution<double>(0.0, 1.0)(*engine); };
}

BackoffOptions reconnect_backoff() {
  BackoffOptions options;
  options.base = Milliseconds(20);
  options.cap = Milliseconds(500);
  return options;
}

}  // namespace

ClientSession::ClientSession(asio::any_io_executor executor, ClientOptions options, Handlers handlers)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      backoff_(reconnect_backoff(), random_shares()),
      heartbeat_timer_(executor_),
      connect_timer_(executor_) {
  hello_.run_id = options_.run_id;
  hello_.node = options_.node;
  hello_.incarnation = random_number();
  hello_.role = options_.role;
  hello_.software = options_.version;
  hello_.host = options_.host;
  hello_.limits = options_.limits;
}

void ClientSession::make_session(bool resumable) {
  WireSession::Handlers handlers;
  handlers.message = while_alive(weak_from_this(), &ClientSession::on_message);
  handlers.heard =
      while_alive(weak_from_this(), [](ClientSession& self) { self.last_heard_ = steady_now(); });
  handlers.channel_opened = while_alive(weak_from_this(), &ClientSession::on_channel);
  handlers.ended = while_alive(weak_from_this(), &ClientSession::on_ended);
  session_ = std::make_shared<WireSession>(executor_, std::move(handlers), resumable, true);
}

void ClientSession::start(int connected_fd) {
  make_session(false);
  auto connection =
      std::make_shared<Connection>(executor_, adopt_socket(executor_, connected_fd), Connection::Handlers{});
  send_message(*connection, hello_);
  session_->carry(connection, 0);
  connection->start(kMaxControlFrameBytes);
  last_beat_ = last_heard_ = steady_now();
  beat();
}

void ClientSession::start(Connector connector, TimePoint first_deadline) {
  make_session(true);
  connector_ = std::move(connector);
  last_beat_ = last_heard_ = steady_now();
  connecting_ = true;
  asio::co_spawn(executor_, connect(first_deadline),
                 [self = shared_from_this()](const std::exception_ptr& error) {
                   if (error) self->lose(Errc::lost, "connecting to the coordinator failed inside");
                 });
  beat();
}

asio::awaitable<void> ClientSession::connect(TimePoint deadline) {
  const auto self = shared_from_this();
  while (!gone_) {
    std::unique_ptr<ByteStream> stream = co_await dial(deadline);
    if (stream) {
      const bool good = co_await greet(std::move(stream), deadline);
      if (good || gone_) break;
    }
    if (gone_) break;
    const TimePoint next = steady_now() + backoff_.next();
    if (next >= deadline) {
      lose(Errc::lost, greeted_
                           ? "the connection to the coordinator broke and could not be made again within " +
                                 std::to_string(options_.lost_after.count()) + " ms: " + last_trouble_
                           : last_trouble_);
      break;
    }
    co_await pause(next);
  }
  connecting_ = false;
}

/// Tries to connect once. Null if this attempt failed; if no later attempt can succeed either, gone_ is set.
asio::awaitable<std::unique_ptr<ByteStream>> ClientSession::dial(TimePoint deadline) {
  const TimePoint limit =
      std::min(deadline, steady_now() + (greeted_ ? kReconnectAttempt : Milliseconds(kHelloTimeout)));
  std::optional<CoordinatorError> trouble;
  try {
    co_return co_await connector_(limit);
  } catch (const CoordinatorError& error) {
    trouble = error;
  }
  last_trouble_ = trouble->what();
  const bool may_help = trouble->code() == Errc::lost || trouble->code() == Errc::deadline;
  if (!may_help) lose(trouble->code(), last_trouble_);
  co_return nullptr;
}

/// Says hello on a new connection and waits for the answer. Returns whether the session is carried now.
asio::awaitable<bool> ClientSession::greet(std::unique_ptr<ByteStream> stream, TimePoint deadline) {
  if (gone_) co_return false;
  local_address_ = stream->local_address();
  greeting_ = std::make_shared<Connection>(executor_, std::move(stream), Connection::Handlers{});
  Connection::Handlers handlers;
  handlers.frame = while_alive(weak_from_this(), &ClientSession::greeting_message, std::weak_ptr(greeting_));
  handlers.ended = while_alive(weak_from_this(), [](ClientSession& self, const ConnectionEnd& end) {
    self.last_trouble_ = end.reason;
    if (end.code != Errc::lost) self.lose(end.code, end.reason);
    self.connect_timer_.cancel();
  });
  greeting_->handle(std::move(handlers));
  Hello hello = hello_;
  hello.received = session_->received_count();
  send_message(*greeting_, hello);
  greeting_->start(kMaxControlFrameBytes);
  last_trouble_ = "the coordinator did not answer hello in time";
  if (greeting_) co_await pause(std::min(deadline, steady_now() + kHelloTimeout));
  if (greeting_) greeting_->abort();
  greeting_.reset();
  co_return session_->connected();
}

asio::awaitable<void> ClientSession::pause(TimePoint until) {
  boost::system::error_code ignored;
  connect_timer_.expires_at(until);
  co_await connect_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

void ClientSession::greeting_message(const std::weak_ptr<Connection>& connection, std::string_view body) {
  const Message message = message_from_json(body);
  if (gone_ || !greeting_ || connection.lock() != greeting_) return;
  if (const auto* error = std::get_if<ErrorReply>(&message)) throw CoordinatorError(error->code, error->text);
  const auto* hello = std::get_if<HelloOk>(&message);
  if (hello == nullptr)
    throw CoordinatorError(Errc::mend, "the coordinator answers hello with '" +
                                           std::string(type_name(message)) + "'; is the peer another agent?");
  accept(*hello);
  last_heard_ = steady_now();
  backoff_.reset();
  const std::shared_ptr<Connection> carrier = std::exchange(greeting_, nullptr);
  carrier->set_frame_limit(kMaxControlFrameBytes);
  session_->carry(carrier, hello->received);
  connect_timer_.cancel();
  const bool first = !std::exchange(greeted_, true);
  if (first)
    handlers_.message(message);
  else if (handlers_.resumed)
    handlers_.resumed();
}

void ClientSession::accept(const HelloOk& hello) {
  if (hello.version < kProtocolVersionMin || hello.version > kProtocolVersionMax)
    throw CoordinatorError(Errc::upgrade,
                           "the coordinator chose control protocol " + std::to_string(hello.version) +
                               ", which this side does not speak; install the same muster on both");
  version_ = hello.version;
  hello_.nonce = hello.nonce;
  hello_.session = hello.session;
}

void ClientSession::on_message(std::string_view text) {
  if (gone_) return;
  last_heard_ = steady_now();
  const Message message = message_from_json(text, version_);
  if (std::holds_alternative<Heartbeat>(message)) return;
  if (const auto* hello = std::get_if<HelloOk>(&message)) accept(*hello);
  handlers_.message(message);
}

void ClientSession::on_channel(std::string_view payload, std::shared_ptr<Channel> channel) {
  if (!gone_ && handlers_.channel_opened)
    handlers_.channel_opened(channel_open_from(payload, version_), std::move(channel));
}

void ClientSession::on_ended(const ConnectionEnd& end) {
  if (gone_) return;
  if (connector_ && end.code == Errc::lost && end.broken)
    reconnect(end.reason);
  else if (connector_ && end.code == Errc::lost)
    lose(Errc::lost, "the coordinator ended the connection (" + end.reason +
                         "); its process has ended, see what its host says");
  else
    lose(end.code, end.reason);
}

void ClientSession::reconnect(const std::string& reason) {
  if (connecting_ || gone_) return;
  session_->put_down();
  connecting_ = true;
  backoff_.reset();
  if (handlers_.interrupted) handlers_.interrupted(reason);
  asio::co_spawn(executor_, connect(last_heard_ + options_.lost_after),
                 [self = shared_from_this()](const std::exception_ptr& error) {
                   if (error) self->lose(Errc::lost, "connecting to the coordinator failed inside");
                 });
}

void ClientSession::lose(Errc code, const std::string& reason) {
  if (gone_) return;
  const auto self = shared_from_this();  // the handler may destroy the client
  const auto told = handlers_.lost;
  close(reason);
  if (told) told(code, reason);
}

void ClientSession::close(const std::string& reason) {
  if (std::exchange(gone_, true)) return;
  heartbeat_timer_.cancel();
  connect_timer_.cancel();
  if (greeting_) greeting_->close();
  // The last message that was sent (a leave_round, say) still goes out.
  if (session_) session_->finish(reason);
}

void ClientSession::beat() {
  heartbeat_timer_.expires_after(options_.heartbeat_interval);
  heartbeat_timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error) self->on_beat();
  });
}

void ClientSession::on_beat() {
  if (gone_) return;
  const TimePoint now = steady_now();
  // This process itself was stopped for a while, so messages of the coordinator may still lie unread.
  if (now - last_beat_ > 2 * options_.heartbeat_interval) last_heard_ = now;
  last_beat_ = now;
  const auto silence = std::chrono::duration_cast<Milliseconds>(now - last_heard_);
  const bool judged = options_.lost_after.count() > 0 && (!connector_ || greeted_);
  if (judged && silence > options_.lost_after) {
    lose(Errc::lost,
         "the coordinator has been silent for " + std::to_string(options_.lost_after.count()) + " ms");
    return;
  }
  const auto suspect_after = std::chrono::duration<double, std::milli>(options_.lost_after) * kSuspectShare;
  if (judged && connector_ && silence > suspect_after)
    reconnect("the coordinator has been silent for " + std::to_string(silence.count()) + " ms");
  Heartbeat heartbeat;
  heartbeat.sequence = ++beats_;
  send_message(*session_, heartbeat);
  beat();
}

}  // namespace muster::rendezvous
