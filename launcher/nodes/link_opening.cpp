// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/link_opening.hpp"

#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/tls/secret.hpp"
#include "rendezvous/wire/frame.hpp"

#include <boost/asio/post.hpp>

#include <exception>
#include <string_view>
#include <utility>

namespace muster::launcher {

namespace asio = boost::asio;
using agent::ByteTransport;
using agent::LinkMessage;

// Shared with what is under way, so that a callback may destroy the opening.
struct LinkOpening::State : std::enable_shared_from_this<State> {
  State(asio::any_io_executor opening_executor, std::unique_ptr<ByteTransport> opening_transport,
        Events opening_events)
      : executor(std::move(opening_executor)),
        transport(std::move(opening_transport)),
        events(std::move(opening_events)) {}

  void start(std::string first_bytes) {
    if (!first_bytes.empty())
      asio::post(executor,
                 [self = shared_from_this(), bytes = std::move(first_bytes)] { self->take(bytes); });
    const std::weak_ptr<State> weak = weak_from_this();
    ByteTransport::Events transport_events;
    transport_events.bytes = [weak](std::string_view bytes) {
      if (const auto self = weak.lock()) self->take(bytes);
    };
    transport_events.closed = [weak](const std::string& reason) {
      if (const auto self = weak.lock()) self->end(reason);
    };
    transport->start(std::move(transport_events));
  }

  void take(std::string_view bytes) {
    if (closed) return;
    try {
      while (!bytes.empty() && !closed && !handed_over) {
        bytes.remove_prefix(decoder.feed(bytes));
        if (!decoder.ready()) continue;
        const auto callback = events.message;
        callback(agent::decode_link_message(decoder.take()));
      }
    } catch (const std::exception& error) {
      return break_off(error.what());
    }
    if (closed || bytes.empty()) return;
    if (started)
      next.bytes(bytes);
    else
      rest += bytes;
  }

  void end(const std::string& reason) {
    if (closed || std::exchange(ended, true)) return;
    end_reason = reason;
    if (handed_over) {
      if (started && next.closed) next.closed(reason);
      return;
    }
    const auto callback = std::move(events.closed);
    if (callback) callback(reason);
  }

  void break_off(const std::string& what) {
    if (handed_over) return end(what);
    if (closed || std::exchange(ended, true)) return;
    const auto callback = std::move(events.broken);
    if (callback) callback(what);
  }

  void start_next(ByteTransport::Events next_events) {
    next = std::move(next_events);
    asio::post(executor, [self = shared_from_this()] {
      if (self->closed) return;
      self->started = true;
      const std::string bytes = std::exchange(self->rest, {});
      if (!bytes.empty()) self->next.bytes(bytes);
      if (self->ended && !self->closed && self->next.closed) self->next.closed(self->end_reason);
    });
  }

  void close() {
    if (std::exchange(closed, true)) return;
    transport->close();
    // It may be in one of its own callbacks, as we are.
    asio::post(executor, [kept = std::shared_ptr<ByteTransport>(std::move(transport))] {});
  }

  asio::any_io_executor executor;
  std::unique_ptr<ByteTransport> transport;
  Events events;
  ByteTransport::Events next;
  rendezvous::FrameDecoder decoder{rendezvous::kMaxControlFrameBytes};
  /// Came after the last message of the opening, before the link began to read.
  std::string rest;
  std::string end_reason;
  bool handed_over = false;
  bool started = false;
  bool ended = false;
  bool closed = false;
};

class LinkOpening::HandedOver : public ByteTransport {
 public:
  explicit HandedOver(std::shared_ptr<State> state) : state_(std::move(state)) {}

  ~HandedOver() override { state_->close(); }

  void start(Events events) override { state_->start_next(std::move(events)); }

  void write(std::string bytes, std::function<void()> written) override {
    if (state_->transport) state_->transport->write(std::move(bytes), std::move(written));
  }

  void close() override { state_->close(); }

 private:
  std::shared_ptr<State> state_;
};

LinkOpening::LinkOpening(const asio::any_io_executor& executor, std::unique_ptr<ByteTransport> transport,
                         Events events, std::string first_bytes)
    : state_(std::make_shared<State>(executor, std::move(transport), std::move(events))) {
  state_->start(std::move(first_bytes));
}

LinkOpening::~LinkOpening() {
  if (state_ && !state_->handed_over) state_->close();
}

void LinkOpening::send(const LinkMessage& message) {
  if (!state_->transport) return;
  std::string payload = agent::encode(message);
  state_->transport->write(rendezvous::encode_frame(payload), nullptr);
  if (message.kind == LinkMessage::Kind::key) rendezvous::cleanse(payload.data(), payload.size());
}

std::unique_ptr<ByteTransport> LinkOpening::hand_over() {
  state_->handed_over = true;
  return std::make_unique<HandedOver>(state_);
}

}  // namespace muster::launcher
