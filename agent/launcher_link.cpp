// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher_link.hpp"

#include "rendezvous/base/while_alive.hpp"
#include "rendezvous/wire/wire_session.hpp"

#include <string.h>

#include <exception>
#include <string_view>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;
using rendezvous::ByteStream;
using rendezvous::Connection;
using rendezvous::CoordinatorError;
using rendezvous::Errc;
using rendezvous::WireSession;

// This state is shared with the operations under way, so that a callback may destroy the link.
struct LauncherLink::State : std::enable_shared_from_this<State> {
  State(asio::any_io_executor link_executor, Mode mode, Events link_events)
      : executor(std::move(link_executor)),
        resumable(mode != Mode::plain),
        is_agent(mode == Mode::agent),
        events(std::move(link_events)) {}

  void open(std::unique_ptr<ByteStream> stream, std::string first_bytes) {
    WireSession::Handlers handlers;
    handlers.message = while_alive(weak_from_this(), &State::take);
    if (events.opened) handlers.channel_opened = while_alive(weak_from_this(), &State::take_channel);
    handlers.ended = while_alive(weak_from_this(), &State::on_ended);
    session = std::make_shared<WireSession>(executor, std::move(handlers), resumable, is_agent);
    const auto connection = connect(std::move(stream));
    session->carry(connection, 0);
    connection->start(rendezvous::kMaxControlFrameBytes, std::move(first_bytes));
  }

  std::shared_ptr<Connection> connect(std::unique_ptr<ByteStream> stream) const {
    return std::make_shared<Connection>(executor, std::move(stream), Connection::Handlers{},
                                        "the connection");
  }

  void move_to(std::unique_ptr<ByteStream> stream) {
    if (closed) return;
    const auto connection = connect(std::move(stream));
    session->move_to(connection);
    connection->start(rendezvous::kMaxControlFrameBytes);
  }

  void take(std::string_view payload) const {
    if (closed) return;
    judged([&] {
      LinkMessage message = decode_link_message(payload);
      // The agent waits for the acknowledgement before it ends.
      if (message.kind == LinkMessage::Kind::report || message.kind == LinkMessage::Kind::bye)
        session->acknowledge();
      events.message(std::move(message));
    });
  }

  void take_channel(std::string_view what, std::shared_ptr<rendezvous::Channel> channel) const {
    if (!closed) judged([&] { events.opened(what, std::move(channel)); });
  }

  /// Runs `use`, and turns an error that it finds in what came into one that ends the link.
  static void judged(const std::function<void()>& use) {
    try {
      use();
    } catch (const CoordinatorError&) {
      throw;
    } catch (const std::exception& error) {
      throw CoordinatorError(Errc::mend, error.what());
    }
  }

  void on_ended(const rendezvous::ConnectionEnd& end) {
    const bool wrong = end.code != Errc::lost || end.given_up;
    const std::string reason = wrong || end.broken ? end.reason : "the connection ended";
    lose(wrong && events.broken ? events.broken : events.closed, reason);
  }

  /// Handles the loss of the stream, which ends a plain link for good.
  void lose(const std::function<void(const std::string&)>& told, const std::string& reason) {
    if (closed) return;
    if (resumable)
      session->put_down();
    else
      close();
    if (told) told(reason);
  }

  void close() {
    if (std::exchange(closed, true)) return;
    session->close("the link ended here");
  }

  asio::any_io_executor executor;
  bool resumable;
  bool is_agent;
  Events events;
  std::shared_ptr<WireSession> session;
  bool closed = false;
};

LauncherLink::LauncherLink(const asio::any_io_executor& executor, std::unique_ptr<ByteStream> stream,
                           Mode mode, Events events, std::string first_bytes)
    : state_(std::make_shared<State>(executor, mode, std::move(events))) {
  state_->open(std::move(stream), std::move(first_bytes));
}

LauncherLink::~LauncherLink() {
  close();
}

void LauncherLink::send(const LinkMessage& message, std::function<void()> sent) {
  state_->session->send(encode(message), std::move(sent));
}

void LauncherLink::send_aside(const LinkMessage& message) {
  std::string payload = encode(message);
  state_->session->send_aside(payload);
  ::explicit_bzero(payload.data(), payload.size());  // the payload may hold a key
}

std::shared_ptr<rendezvous::Channel> LauncherLink::open_channel(std::string_view what) {
  return state_->session->open_channel(what);
}

void LauncherLink::move_to(std::unique_ptr<ByteStream> stream) {
  state_->move_to(std::move(stream));
}

void LauncherLink::drop(const std::string& reason) {
  const auto state = state_;  // the event may destroy this link
  if (state->session->connected()) state->lose(state->events.closed, reason);
}

bool LauncherLink::connected() const {
  return state_->session->connected();
}

void LauncherLink::close() {
  state_->close();
}

}  // namespace muster::agent
