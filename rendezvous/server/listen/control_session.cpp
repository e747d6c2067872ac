// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listen/control_session.hpp"

#include "rendezvous/base/while_alive.hpp"

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
  handlers.frame = while_alive(weak_from_this(), [](Newcomer& self, std::string_view body) {
    const Message message = message_from_json(body);
    self.settle(&message);
  });
  handlers.ended = while_alive(weak_from_this(), [](Newcomer& self, const ConnectionEnd& end) {
    self.trouble_ = end.reason;
    if (end.code != Errc::lost) self.refuse({end.code, "", end.reason});
    self.settle(nullptr);
  });
  connection_->handle(std::move(handlers));
  connection_->start(kMaxHelloFrameBytes);
  timer_.expires_after(kHelloTimeout);
  timer_.async_wait(while_alive(weak_from_this(), [](Newcomer& self, boost::system::error_code error) {
    if (error || !self.first_message_) return;
    self.trouble_ = "no hello within " + std::to_string(kHelloTimeout.count()) + " ms";
    self.refuse({Errc::mend, "", self.trouble_});
    self.settle(nullptr);
  }));
}

void Newcomer::refuse(const ErrorReply& error) {
  send_message(*connection_, error);
  connection_->finish();
}

void Newcomer::settle(const Message* message) {
  timer_.cancel();
  if (const auto told = std::exchange(first_message_, nullptr)) told(shared_from_this(), message);
}

ControlSession::ControlSession(SessionId id, const boost::asio::any_io_executor& executor, PeerPlace place,
                               Handlers handlers)
    : id_(id), place_(std::move(place)), handlers_(std::move(handlers)) {
  WireSession::Handlers below;
  below.message = [this](std::string_view text) {
    handlers_.message(id_, message_from_json(text, peer_version_));
  };
  below.heard = [this] { handlers_.heard(id_); };
  below.channel_opened = [this](std::string_view payload, std::shared_ptr<Channel> channel) {
    handlers_.channel_opened(id_, channel_open_from(payload, peer_version_), std::move(channel));
  };
  below.ended = [this](const ConnectionEnd& end) { on_ended(end); };
  session_ = std::make_shared<WireSession>(executor, std::move(below), !is_local(), false);
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
  // Nothing is taken from the new connection until HelloOk is sent.
  Connection::Handlers handlers;
  handlers.frame = [](std::string_view body) {
    throw CoordinatorError(Errc::mend, "'" + std::string(type_name(message_from_json(body))) +
                                           "' before hello has been answered");
  };
  handlers.ended = [](const ConnectionEnd&) {};
  arriving_->handle(std::move(handlers));
}

void ControlSession::send(const Message& message) {
  const auto* hello = std::get_if<HelloOk>(&message);
  if (hello != nullptr && arriving_)
    carry(*hello);
  else if (arriving_ && !session_->connected())
    send_message(*arriving_, message);
  else
    send_message(*session_, message);
}

void ControlSession::carry(HelloOk hello) {
  const std::shared_ptr<Connection> connection = std::exchange(arriving_, nullptr);
  hello.received = session_->received_count();
  peer_version_ = hello.version;
  connection->set_frame_limit(kMaxControlFrameBytes);
  send_message(*connection, hello);
  try {
    session_->carry(connection, arriving_received_);
  } catch (const CoordinatorError& error) {
    send_message(*connection, ErrorReply{error.code(), "hello", error.what()});
    connection->finish();
  }
}

void ControlSession::finish() {
  if (std::exchange(finished_, true)) return;
  if (arriving_) arriving_->finish();
  session_->finish("the control session is over");
}

void ControlSession::on_ended(const ConnectionEnd& end) {
  if (finished_) return;
  if (end.code != Errc::lost) send_message(*session_, ErrorReply{end.code, "", end.reason});
  handlers_.ended(id_, end);
}

namespace {

/// Connections with one key whose hello has not been looked at yet. A node needs one, or two after a reset
/// that only the node has seen.
constexpr std::size_t kMostOfOne = 4;

}  // namespace

void Newcomers::add(std::unique_ptr<ByteStream> stream, PeerPlace place) {
  auto newcomer =
      std::make_shared<Newcomer>(executor_, std::move(stream), std::move(place),
                                 [this](const std::shared_ptr<Newcomer>& self, const Message* message) {
                                   forget(self);
                                   if (!closed_) first_message_(self, message);
                                 });
  hold(newcomer);
  newcomer->start();
}

void Newcomers::hold(const std::shared_ptr<Newcomer>& newcomer) {
  if (!all_.insert(newcomer).second) return;
  if (newcomer->place().identity) {
    auto& same = of_identity_[newcomer->place().identity->text()];
    same.push_back(newcomer);
    if (same.size() > kMostOfOne) {
      const std::shared_ptr<Newcomer> oldest = same.front();
      forget(oldest);
      oldest->close();
    }
  } else {
    ++local_;
  }
}

void Newcomers::forget(const std::shared_ptr<Newcomer>& newcomer) {
  if (all_.erase(newcomer) == 0) return;
  if (!newcomer->place().identity) {
    --local_;
    return;
  }
  const auto found = of_identity_.find(newcomer->place().identity->text());
  std::erase(found->second, newcomer);
  if (found->second.empty()) of_identity_.erase(found);
}

void Newcomers::close() {
  closed_ = true;
  for (const auto& newcomer : all_) newcomer->close();
  all_.clear();
  of_identity_.clear();
  local_ = 0;
}

}  // namespace muster::rendezvous
