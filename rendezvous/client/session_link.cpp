// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/session_link.hpp"

#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/protocol/raw_frame.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

/// Bytes that wait in a session before its channels pause: less than five seconds' worth of a slow network,
/// so that a heartbeat behind them is still in time.
constexpr std::size_t kChannelBudget = 2 * kMiB;
/// Channels of a session that are open at once: each worker has a few, and no machine has hundreds of
/// workers.
constexpr std::size_t kMaxOpenChannels = 1024;
/// Credit is given in pieces of this size.
constexpr std::uint32_t kCreditPiece = kChannelCreditBytes / 4;

}  // namespace

class SessionLink::Line final : public Channel {
 public:
  Line(std::weak_ptr<SessionLink> link, std::uint32_t number) : link_(std::move(link)), number_(number) {}

  ~Line() override { end(""); }

  void handle(Handlers handlers) override { handlers_ = std::move(handlers); }

  std::size_t writable() const override {
    const auto link = link_.lock();
    const std::size_t room = !link || closed_ ? 0 : std::min<std::size_t>(credit_, link->room());
    starved_ = starved_ || room == 0;
    return room;
  }

  void send(std::string_view bytes) override {
    const auto link = link_.lock();
    if (!link || closed_) return;
    if (bytes.size() > credit_) throw std::logic_error("more bytes than the channel's credit");
    credit_ -= static_cast<std::uint32_t>(bytes.size());
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, kMaxRawPayloadBytes);
      link->transmit(encode_frame(encode_raw_body(number_, piece)));
      bytes.remove_prefix(piece.size());
    }
    starved_ = starved_ || credit_ == 0 || link->room() == 0;
  }

  void consumed(std::size_t bytes) override {
    owed_ += static_cast<std::uint32_t>(bytes);
    const auto link = link_.lock();
    if (!link || closed_ || owed_ < kCreditPiece) return;
    granted_ += owed_;
    ChannelCredit credit;
    credit.channel = number_;
    credit.bytes = std::exchange(owed_, 0);
    link->send(credit);
  }

  void close(const std::string& reason) override {
    handlers_ = {};
    end(reason);
  }

  /// From the peer. Throws CoordinatorError for what it must not do.
  void on_data(std::string_view bytes) {
    if (bytes.size() > granted_)
      throw CoordinatorError(Errc::mend, "channel " + std::to_string(number_) +
                                             " carries more bytes than it was given credit for");
    granted_ -= static_cast<std::uint32_t>(bytes.size());
    if (const auto told = handlers_.data)
      told(bytes);
    else
      consumed(bytes.size());
  }

  void on_credit(std::uint32_t bytes) {
    if (bytes > kChannelCreditBytes - std::min(credit_, kChannelCreditBytes))
      throw CoordinatorError(
          Errc::mend, "channel " + std::to_string(number_) + " was given more credit than bytes were sent");
    credit_ += bytes;
    tell_writable();
  }

  void tell_writable() {
    if (!starved_ || closed_) return;
    starved_ = false;
    if (writable() == 0) return;
    if (const auto told = handlers_.writable) told();
  }

  /// Nothing more goes either way.
  void on_closed(const std::string& reason) {
    if (std::exchange(closed_, true)) return;
    if (const auto told = std::exchange(handlers_, {}).closed) told(reason);
  }

 private:
  void end(const std::string& reason) {
    const auto link = link_.lock();
    if (std::exchange(closed_, true) || !link) return;
    link->channels_.erase(number_);
    ChannelClose message;
    message.channel = number_;
    message.reason = reason;
    link->send(message);
  }

  std::weak_ptr<SessionLink> link_;
  std::uint32_t number_;
  Handlers handlers_;
  std::uint32_t credit_ = kChannelCreditBytes;
  std::uint32_t granted_ = kChannelCreditBytes;
  std::uint32_t owed_ = 0;
  /// writable() was 0 when it was last asked for.
  mutable bool starved_ = false;
  bool closed_ = false;
};

SessionLink::SessionLink(asio::any_io_executor executor, Handlers handlers, bool resumable, bool dialled)
    : executor_(std::move(executor)),
      handlers_(std::move(handlers)),
      resumable_(resumable),
      dialled_(dialled),
      next_channel_(dialled ? 1 : 2) {}

SessionLink::~SessionLink() {
  if (connection_) connection_->close();
}

void SessionLink::carry(std::shared_ptr<Connection> connection, std::uint64_t peer_received) {
  put_down();
  const std::string frames = ledger_.to_send_again(peer_received);
  ledger_.told();  // by the hello
  connection_ = std::move(connection);
  connection_->handle(connection_handlers());
  connection_->send_frames(frames);
  tell_writable();
}

Connection::Handlers SessionLink::connection_handlers() {
  Connection::Handlers handlers;
  const std::weak_ptr<SessionLink> weak = weak_from_this();
  handlers.message = [weak](const Message& message, std::size_t bytes) {
    if (const auto self = weak.lock()) self->on_message(message, bytes);
  };
  handlers.raw = [weak](std::string_view body) {
    if (const auto self = weak.lock()) self->on_raw(body);
  };
  handlers.drained = [weak] {
    const auto self = weak.lock();
    if (self && !self->resumable_) self->tell_writable();
  };
  handlers.ended = [weak](const ConnectionEnd& end) {
    if (const auto self = weak.lock()) self->on_ended(end);
  };
  return handlers;
}

void SessionLink::put_down() {
  if (connection_) connection_->abort();
  connection_.reset();
}

void SessionLink::send(Message message) {
  if (finished_) return;
  if (numbered(message)) {
    transmit(encode_frame(to_json(message)));
    return;
  }
  if (!connection_) return;
  if (auto* heartbeat = std::get_if<Heartbeat>(&message); heartbeat != nullptr && resumable_) {
    heartbeat->received = ledger_.received_count();
    ledger_.told();
  }
  connection_->send(message);
}

void SessionLink::transmit(std::string frame) {
  if (finished_) return;
  if (connection_) connection_->send_frames(frame);
  if (!resumable_) return;
  ledger_.sent(std::move(frame));
  if (ledger_.kept_bytes() > kMaxUnacknowledgedBytes) overflow();
}

/// Never from inside the call that sends.
void SessionLink::overflow() {
  asio::post(executor_, [self = shared_from_this()] {
    if (self->finished_ || self->ledger_.kept_bytes() <= kMaxUnacknowledgedBytes) return;
    self->put_down();
    const auto told = self->handlers_.ended;
    ConnectionEnd end;
    end.reason = "the peer has not acknowledged " + std::to_string(kMaxUnacknowledgedBytes) +
                 " bytes of control messages";
    told(end);
  });
}

std::size_t SessionLink::room() const {
  const std::size_t waiting = resumable_ ? ledger_.kept_bytes() : connection_ ? connection_->queued() : 0;
  return finished_ || waiting >= kChannelBudget ? 0 : kChannelBudget - waiting;
}

std::shared_ptr<Channel> SessionLink::open_channel(ChannelKind kind, const NodeName& node) {
  const auto line = std::make_shared<Line>(weak_from_this(), next_channel_);
  channels_[next_channel_] = line;
  ChannelOpen open;
  open.channel = next_channel_;
  open.kind = kind;
  open.node = node;
  next_channel_ += 2;
  send(open);
  return line;
}

void SessionLink::finish(const std::string& reason) {
  if (std::exchange(finished_, true)) return;
  close_channels(reason);
  if (connection_) connection_->finish();
}

void SessionLink::close_channels(const std::string& reason) {
  // A handler may drop other channels, which then leave the map.
  const std::map<std::uint32_t, std::weak_ptr<Line>> open = std::exchange(channels_, {});
  for (const auto& [number, weak] : open)
    if (const auto line = weak.lock()) line->on_closed(reason);
}

void SessionLink::on_ended(const ConnectionEnd& end) {
  if (end.code == Errc::lost) connection_.reset();
  const auto told = handlers_.ended;
  told(end);
}

void SessionLink::count_received(std::size_t bytes) {
  if (!resumable_) return;
  ledger_.received(bytes);
  if (!ledger_.ack_due() || !connection_) return;
  ledger_.told();
  Ack ack;
  ack.received = ledger_.received_count();
  connection_->send(ack);
}

void SessionLink::on_message(const Message& message, std::size_t bytes) {
  const auto self = shared_from_this();  // a handler may let go of this
  if (numbered(message)) count_received(bytes);
  const auto* heartbeat = std::get_if<Heartbeat>(&message);
  const auto* ack = std::get_if<Ack>(&message);
  if (resumable_ && (heartbeat != nullptr || ack != nullptr)) {
    ledger_.acknowledged(heartbeat != nullptr ? heartbeat->received : ack->received);
    tell_writable();
  }
  if (ack != nullptr) {
    if (handlers_.heard) handlers_.heard();
  } else if (const auto* open = std::get_if<ChannelOpen>(&message)) {
    on(*open);
  } else if (const auto* credit = std::get_if<ChannelCredit>(&message)) {
    on(*credit);
  } else if (const auto* close = std::get_if<ChannelClose>(&message)) {
    on(*close);
  } else {
    handlers_.message(message);
  }
}

void SessionLink::on_raw(std::string_view body) {
  const auto self = shared_from_this();
  const RawFrame frame = decode_raw_body(body);
  count_received(body.size() + kFrameHeaderBytes);
  if (handlers_.heard) handlers_.heard();
  // Bytes that were under way when this side closed the channel find no channel here.
  if (const auto line = find(frame.channel)) line->on_data(frame.payload);
}

void SessionLink::on(const ChannelOpen& open) {
  const bool theirs = (open.channel % 2 == 1) != dialled_ && open.channel != 0;
  if (!theirs || channels_.count(open.channel) > 0)
    throw CoordinatorError(Errc::mend, "channel " + std::to_string(open.channel) +
                                           " is not the peer's to open, or is open already");
  const auto line = std::make_shared<Line>(weak_from_this(), open.channel);
  if (channels_.size() >= kMaxOpenChannels || !handlers_.channel_opened) {
    channels_[open.channel] = line;
    line->close("no more channels can be opened here");
    return;
  }
  channels_[open.channel] = line;
  if (handlers_.heard) handlers_.heard();
  handlers_.channel_opened(open, line);
}

void SessionLink::on(const ChannelCredit& credit) {
  if (handlers_.heard) handlers_.heard();
  if (const auto line = find(credit.channel)) line->on_credit(credit.bytes);
}

void SessionLink::on(const ChannelClose& close) {
  if (handlers_.heard) handlers_.heard();
  const auto line = find(close.channel);
  channels_.erase(close.channel);
  if (line) line->on_closed(close.reason);
}

std::shared_ptr<SessionLink::Line> SessionLink::find(std::uint32_t channel) const {
  const auto found = channels_.find(channel);
  return found == channels_.end() ? nullptr : found->second.lock();
}

void SessionLink::tell_writable() {
  if (channels_.empty() || room() == 0) return;
  std::vector<std::weak_ptr<Line>> open;
  open.reserve(channels_.size());
  for (const auto& [number, line] : channels_) open.push_back(line);
  for (const auto& weak : open)
    if (const auto line = weak.lock()) line->tell_writable();
}

}  // namespace muster::rendezvous
