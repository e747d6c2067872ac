// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/coordinator_client.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/while_alive.hpp"
#include "rendezvous/client/client_session.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <array>
#include <optional>
#include <utility>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);

/// A request whose answer is awaited. Its timer ends the wait at the deadline, or earlier when it is
/// cancelled.
struct Call {
  Call(const asio::any_io_executor& executor, const char* request_type)
      : type(request_type), timer(executor) {}

  const char* type;
  asio::steady_timer timer;
  bool waiting = false;
  /// The round of the request; an answer about another round is not its answer.
  RoundNumber round = 0;
  std::optional<Message> answer;
  std::optional<CoordinatorError> error;
};

}  // namespace

class CoordinatorClient::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::any_io_executor executor, ClientEvents events)
      : events_(std::move(events)), executor_(std::move(executor)) {}

  void make_session(ClientOptions options);

  ClientSession& session() { return *session_; }

  void close(Errc code, const std::string& reason);

  /// Sends `request`, if there is one, and waits for the answer to `call`. The coroutines keep `self` alive,
  /// because a caller may destroy the client while it waits.
  static asio::awaitable<Message> perform(std::shared_ptr<Impl> self, Call& call,
                                          std::optional<Message> request, TimePoint deadline);

  template <typename Answer>
  static asio::awaitable<Answer> ask(std::shared_ptr<Impl> self, Call& call, Message request,
                                     TimePoint deadline) {
    std::optional<Message> message = std::move(request);
    const Message answer = co_await perform(self, call, std::move(message), deadline);
    co_return std::get<Answer>(answer);
  }

  static asio::awaitable<void> wait_for_hello(std::shared_ptr<Impl> self, TimePoint deadline);

  Call& join_call() { return join_; }

  Call& leave_call() { return leave_; }

  Call& launcher_call() { return launcher_; }

 private:
  void on_message(const Message& message);
  void on(const HelloOk& hello);
  void on(const Status& status);
  void on(const RoundResult& result);
  void on(const Left& left);
  void on(const RoundEnd& end);
  void on(const KeyWait& wait);
  void on(const JobNotice& notice);
  void on(const SlowRanks& slow);
  void on(const JobClosed& closed);
  void on(const Vouch& vouch);
  void on(const LauncherState& state);
  void on(const ErrorReply& error);
  template <typename Unexpected>
  void on(const Unexpected& message);

  static void wake(Call& call) { call.timer.cancel(); }

  static void answer(Call& call, const Message& message);
  static void fail(Call& call, Errc code, const std::string& text);
  void lose(Errc code, const std::string& reason);
  std::string deadline_text(const Call& call) const;

  ClientEvents events_;
  asio::any_io_executor executor_;
  std::shared_ptr<ClientSession> session_;
  Call hello_{executor_, "hello"};
  Call join_{executor_, "join"};
  Call leave_{executor_, "leave_round"};
  Call launcher_{executor_, "launcher_state"};
  std::array<Call*, 4> calls_{&hello_, &join_, &leave_, &launcher_};
  std::string last_status_ = "the coordinator has not answered";
  bool greeted_ = false;
  std::optional<CoordinatorError> gone_;
};

void CoordinatorClient::Impl::make_session(ClientOptions options) {
  ClientSession::Handlers handlers;
  handlers.message = while_alive(weak_from_this(), &Impl::on_message);
  handlers.lost = while_alive(weak_from_this(), &Impl::lose);
  handlers.channel_opened = events_.channel_opened;
  handlers.interrupted = events_.interrupted;
  handlers.resumed = events_.resumed;
  session_ = std::make_shared<ClientSession>(executor_, std::move(options), std::move(handlers));
}

asio::awaitable<Message> CoordinatorClient::Impl::perform(std::shared_ptr<Impl> self, Call& call,
                                                          std::optional<Message> request,
                                                          TimePoint deadline) {
  if (self->gone_) throw *self->gone_;
  if (call.waiting)
    throw CoordinatorError(Errc::mend, std::string("a second ") + call.type + " while the first still waits");
  call.answer.reset();
  call.error.reset();
  call.waiting = true;
  call.timer.expires_at(deadline);
  if (request) self->session_->send(*request);
  co_await call.timer.async_wait(kAsTuple);
  call.waiting = false;
  if (call.answer) co_return std::move(*call.answer);
  if (call.error) throw *call.error;
  if (steady_now() < deadline) throw boost::system::system_error(asio::error::operation_aborted);
  throw CoordinatorError(Errc::deadline, self->deadline_text(call));
}

asio::awaitable<void> CoordinatorClient::Impl::wait_for_hello(std::shared_ptr<Impl> self,
                                                              TimePoint deadline) {
  if (self->gone_) throw *self->gone_;
  if (self->greeted_) co_return;
  const Message ignored = co_await perform(self, self->hello_, std::nullopt, deadline);
}

std::string CoordinatorClient::Impl::deadline_text(const Call& call) const {
  if (&call == &join_) return "no place in a round before the deadline: " + last_status_;
  if (&call == &hello_) return "no answer from the coordinator before the deadline";
  if (&call == &launcher_) return "the coordinator did not say in time whether the launcher is there";
  return std::string("no answer to ") + call.type + " of round " + std::to_string(call.round) +
         " before the deadline; is the coordinator's machine overloaded?";
}

void CoordinatorClient::Impl::on_message(const Message& message) {
  const auto self = shared_from_this();  // an event may destroy the client
  std::visit([this](const auto& alternative) { on(alternative); }, message);
}

void CoordinatorClient::Impl::on(const HelloOk& hello) {
  greeted_ = true;
  answer(hello_, hello);
}

void CoordinatorClient::Impl::on(const Status& status) {
  if (!join_.waiting) return;
  last_status_ = status.text;
  if (events_.status) events_.status(status);
}

void CoordinatorClient::Impl::on(const RoundResult& result) {
  // A place that nobody waits for any more is given back, or the other nodes would wait for this node's
  // workers.
  if (!join_.waiting) {
    LeaveRound back;
    back.round = result.round;
    back.text = "the node had given up waiting for its place";
    session_->send(back);
    return;
  }
  answer(join_, result);
}

void CoordinatorClient::Impl::on(const Left& left) {
  if (left.round != leave_.round) return;
  if (events_.left) events_.left(left);
  answer(leave_, left);
}

void CoordinatorClient::Impl::on(const RoundEnd& end) {
  if (events_.round_ended) events_.round_ended(end);
}

void CoordinatorClient::Impl::on(const KeyWait& wait) {
  if (events_.key_wait) events_.key_wait(wait);
}

void CoordinatorClient::Impl::on(const JobNotice& notice) {
  if (events_.notice) events_.notice(notice);
}

void CoordinatorClient::Impl::on(const SlowRanks& slow) {
  if (events_.slow_ranks) events_.slow_ranks(slow);
}

void CoordinatorClient::Impl::on(const JobClosed& closed) {
  fail(join_, Errc::job_over, "the job is over: " + closed.reason);
  if (events_.job_closed) events_.job_closed(closed);
}

void CoordinatorClient::Impl::on(const Vouch& vouch) {
  if (events_.vouch) {
    events_.vouch(vouch);
    return;
  }
  Vouched answer;
  answer.id = vouch.id;
  answer.reason = "the agent of that node does not say whose connections are its workers'";
  session_->send(answer);
}

void CoordinatorClient::Impl::on(const LauncherState& state) {
  answer(launcher_, state);
}

void CoordinatorClient::Impl::on(const ErrorReply& error) {
  // A refused hello ends the session, whichever requests still wait.
  for (Call* call : calls_) {
    if (error.about != call->type || call == &hello_) continue;
    fail(*call, error.code, error.text);
    return;
  }
  throw CoordinatorError(error.code, error.text);
}

template <typename Unexpected>
void CoordinatorClient::Impl::on(const Unexpected& message) {
  throw CoordinatorError(Errc::mend, "a coordinator does not send '" +
                                         std::string(type_name(Message(message))) +
                                         "'; is the peer another agent?");
}

void CoordinatorClient::Impl::answer(Call& call, const Message& message) {
  if (!call.waiting || call.error) return;
  call.answer = message;
  wake(call);
}

void CoordinatorClient::Impl::fail(Call& call, Errc code, const std::string& text) {
  if (!call.waiting || call.answer || call.error) return;  // the first error tells the cause
  call.error = CoordinatorError(code, text);
  wake(call);
}

void CoordinatorClient::Impl::lose(Errc code, const std::string& reason) {
  if (gone_) return;
  const auto self = shared_from_this();  // An event may destroy the client.
  close(code, reason);
  if (events_.lost) events_.lost(reason);
}

void CoordinatorClient::Impl::close(Errc code, const std::string& reason) {
  if (gone_) return;
  gone_ = CoordinatorError(code, reason);
  session_->close(reason);
  for (Call* call : calls_) fail(*call, code, reason);
}

CoordinatorClient::CoordinatorClient(asio::any_io_executor executor, int connected_fd, ClientOptions options,
                                     ClientEvents events)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(events))) {
  impl_->make_session(std::move(options));
  impl_->session().start(connected_fd);
}

CoordinatorClient::CoordinatorClient(asio::any_io_executor executor, Connector connector,
                                     TimePoint first_deadline, ClientOptions options, ClientEvents events)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(events))) {
  impl_->make_session(std::move(options));
  impl_->session().start(std::move(connector), first_deadline);
}

CoordinatorClient::~CoordinatorClient() {
  close();
}

void CoordinatorClient::close() {
  impl_->close(Errc::lost, "the control connection was closed on this side");
}

asio::awaitable<void> CoordinatorClient::connected(TimePoint deadline) {
  return Impl::wait_for_hello(impl_, deadline);
}

asio::awaitable<RoundResult> CoordinatorClient::join(Join request, TimePoint deadline) {
  return Impl::ask<RoundResult>(impl_, impl_->join_call(), std::move(request), deadline);
}

asio::awaitable<Left> CoordinatorClient::leave_round(LeaveRound request, TimePoint deadline) {
  impl_->leave_call().round = request.round;
  return Impl::ask<Left>(impl_, impl_->leave_call(), std::move(request), deadline);
}

asio::awaitable<LauncherState> CoordinatorClient::launcher_state(TimePoint deadline) {
  return Impl::ask<LauncherState>(impl_, impl_->launcher_call(), LauncherState(), deadline);
}

void CoordinatorClient::tell(const Message& message) {
  impl_->session().send(message);
}

std::shared_ptr<Channel> CoordinatorClient::open_channel(const ChannelOpen& what) {
  return impl_->session().open_channel(what);
}

std::string CoordinatorClient::local_address() const {
  return impl_->session().local_address();
}

}  // namespace muster::rendezvous
