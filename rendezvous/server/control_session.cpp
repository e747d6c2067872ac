// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/control_session.hpp"

#include <utility>

namespace muster::rendezvous {

Newcomer::Newcomer(boost::asio::any_io_executor executor, std::unique_ptr<ByteStream> stream, PeerPlace place,
                   FirstMessage first_message)
    : place_(std::move(place)),
      first_message_(std::move(first_message)),
      connection_(std::make_shared<Connection>(executor, std::move(stream), Connection::Handlers{})),
      timer_(std::move(executor)) {}

void Newcomer::start() {
  Connection::Handlers handlers;
  const std::weak_ptr<Newcomer> weak = weak_from_this();
  handlers.message = [weak](const Message& message, std::size_t) {
    if (const auto self = weak.lock()) self->settle(&message);
  };
  handlers.ended = [weak](const ConnectionEnd& end) {
    const auto self = weak.lock();
    if (!self) return;
    self->trouble_ = end.reason;
    if (end.code != Errc::lost) {
      self->connection_->send(ErrorReply{end.code, "", end.reason});
      self->connection_->finish();
    }
    self->settle(nullptr);
  };
  connection_->handle(std::move(handlers));
  connection_->start(kMaxHelloFrameBytes);
  timer_.expires_after(kHelloTimeout);
  timer_.async_wait([weak](boost::system::error_code error) {
    const auto self = weak.lock();
    if (error || !self || !self->first_message_) return;
    self->trouble_ = "no hello within " + std::to_string(kHelloTimeout.count()) + " ms";
    self->connection_->send(ErrorReply{Errc::mend, "", self->trouble_});
    self->connection_->finish();
    self->settle(nullptr);
  });
}

void Newcomer::settle(const Message* message) {
  timer_.cancel();
  if (const auto told = std::exchange(first_message_, nullptr)) told(shared_from_this(), message);
}

ControlSession::ControlSession(SessionId id, const boost::asio::any_io_executor& executor, PeerPlace place,
                               Handlers handlers)
    : id_(id), place_(std::move(place)), handlers_(std::move(handlers)) {
  SessionLink::Handlers below;
  below.message = [this](const Message& message) { handlers_.message(id_, message); };
  below.heard = [this] { handlers_.heard(id_); };
  below.channel_opened = [this](const ChannelOpen& open, std::shared_ptr<Channel> channel) {
    handlers_.channel_opened(id_, open, std::move(channel));
  };
  below.ended = [this](const ConnectionEnd& end) { on_ended(end); };
  link_ = std::make_shared<SessionLink>(executor, std::move(below), !is_local(), false);
}

ControlSession::~ControlSession() {
  finish();
}

void ControlSession::arrive(std::shared_ptr<Connection> connection, const PeerPlace& place,
                            std::uint64_t received) {
  if (arriving_) arriving_->abort();
  place_ = place;
  arriving_ = std::move(connection);
  arriving_received_ = received;
  // Until HelloOk is sent, nothing is taken from it.
  Connection::Handlers handlers;
  handlers.message = [](const Message& message, std::size_t) {
    throw CoordinatorError(Errc::mend,
                           "'" + std::string(type_name(message)) + "' before hello has been answered");
  };
  handlers.ended = [](const ConnectionEnd&) {};
  arriving_->handle(std::move(handlers));
}

void ControlSession::send(const Message& message) {
  const auto* hello = std::get_if<HelloOk>(&message);
  if (hello != nullptr && arriving_)
    carry(*hello);
  else if (arriving_ && !link_->connected())
    arriving_->send(message);
  else
    link_->send(message);
}

void ControlSession::carry(HelloOk hello) {
  const std::shared_ptr<Connection> connection = std::exchange(arriving_, nullptr);
  hello.received = link_->received_count();
  connection->greeted(hello.version);
  connection->send(hello);
  try {
    link_->carry(connection, arriving_received_);
  } catch (const CoordinatorError& error) {
    connection->send(ErrorReply{error.code(), "hello", error.what()});
    connection->finish();
  }
}

void ControlSession::finish() {
  if (std::exchange(finished_, true)) return;
  if (arriving_) arriving_->finish();
  link_->finish("the control session is over");
}

void ControlSession::on_ended(const ConnectionEnd& end) {
  if (finished_) return;
  if (end.code != Errc::lost) link_->send(ErrorReply{end.code, "", end.reason});
  handlers_.ended(id_, end);
}

}  // namespace muster::rendezvous
