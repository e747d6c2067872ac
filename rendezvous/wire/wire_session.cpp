// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/wire_session.hpp"

#include "rendezvous/base/while_alive.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <vector>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

/// The bytes that may wait in a session before its channels pause: less than five seconds' worth of a slow
/// network, so that a heartbeat behind them is still in time.
constexpr std::size_t kChannelBudget = 2 * kMiB;
/// The most channels of a session that are open at once: each worker has a few, and no machine has hundreds
/// of workers.
constexpr std::size_t kMaxOpenChannels = 1024;

Frame frame_of(FrameKind kind, std::string_view payload, std::uint32_t channel = 0) {
  Frame frame;
  frame.kind = kind;
  frame.channel = channel;
  frame.payload = payload;
  return frame;
}

Frame count_of(FrameKind kind, std::uint64_t count) {
  Frame frame;
  frame.kind = kind;
  frame.count = count;
  return frame;
}

}  // namespace

class WireSession::Line final : public Channel {
 public:
  Line(std::weak_ptr<WireSession> session, std::uint32_t number)
      : session_(std::move(session)), number_(number) {}

  ~Line() override { end(""); }

  void handle(Handlers handlers) override { handlers_ = std::move(handlers); }

  std::size_t writable() const override {
    const auto session = session_.lock();
    const std::size_t room =
        !session || closed_ ? 0 : std::min(session->state_.credit(number_), session->room());
    starved_ = starved_ || room < kChannelRoomBytes;
    return room;
  }

  void send(std::string_view bytes) override {
    const auto session = session_.lock();
    if (!session || closed_) return;
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kMaxRawPayloadBytes)))
      session->send_frame(frame_of(FrameKind::bytes, bytes.substr(0, kMaxRawPayloadBytes), number_));
    (void)writable();  // notes whether little room is left
  }

  void consumed(std::size_t bytes) override {
    const auto session = session_.lock();
    if (!session || closed_) return;
    if (auto credit = session->state_.consumed(number_, bytes)) session->write(std::move(*credit));
  }

  void close(const std::string& reason) override {
    handlers_ = {};
    end(reason);
  }

  void on_data(std::string_view bytes) {
    if (const auto told = handlers_.data)
      told(bytes);
    else
      consumed(bytes.size());
  }

  void tell_writable() {
    if (!starved_ || closed_) return;
    starved_ = false;
    if (writable() < kChannelRoomBytes) return;
    if (const auto told = handlers_.writable) told();
  }

  /// Ends the channel in both directions and tells its owner.
  void on_closed(const std::string& reason) {
    if (std::exchange(closed_, true)) return;
    if (const auto told = std::exchange(handlers_, {}).closed) told(reason);
  }

 private:
  void end(const std::string& reason) {
    const auto session = session_.lock();
    if (std::exchange(closed_, true) || !session) return;
    session->channels_.erase(number_);
    session->state_.close_channel(number_);
    session->send_frame(
        frame_of(FrameKind::closed, std::string_view(reason).substr(0, kMaxTextBytes), number_));
  }

  std::weak_ptr<WireSession> session_;
  std::uint32_t number_;
  Handlers handlers_;
  /// Whether writable() has been less than kChannelRoomBytes since the handler `writable` was called last.
  mutable bool starved_ = false;
  bool closed_ = false;
};

WireSession::WireSession(asio::any_io_executor executor, Handlers handlers, bool resumable, bool dialled)
    : executor_(std::move(executor)),
      handlers_(std::move(handlers)),
      resumable_(resumable),
      state_(resumable, dialled),
      ack_timer_(executor_) {}

WireSession::~WireSession() {
  if (arriving_) arriving_->close();
  // Frames sent before finish() are still on their way; the connection keeps itself alive until they have
  // gone.
  if (connection_ && !finished_) connection_->close();
}

void WireSession::carry(std::shared_ptr<Connection> connection, std::uint64_t peer_received) {
  put_down();
  const std::deque<std::string>& kept = state_.resumed(peer_received);
  state_.tell_received();  // the peer was told before, in a hello or a resume
  connection_ = std::move(connection);
  connection_->handle(connection_handlers());
  for (const std::string& frame : kept) connection_->send(frame);
  settle(false);
  tell_writable();
}

void WireSession::move_to(std::shared_ptr<Connection> connection) {
  put_down();
  arriving_ = std::move(connection);
  Connection::Handlers handlers = connection_handlers();
  handlers.frame = while_alive(weak_from_this(), &WireSession::on_resume);
  arriving_->handle(std::move(handlers));
  arriving_->send(encode_frame(count_of(FrameKind::resume, state_.tell_received())));
}

void WireSession::on_resume(std::string_view body) {
  const Frame frame = decode_body(body);
  if (frame.kind != FrameKind::resume)
    throw CoordinatorError(Errc::mend, "a session was resumed by one side only");
  carry(std::exchange(arriving_, nullptr), frame.count);
}

Connection::Handlers WireSession::connection_handlers() {
  Connection::Handlers handlers;
  handlers.frame = while_alive(weak_from_this(), &WireSession::on_frame);
  handlers.drained = while_alive(weak_from_this(), [](WireSession& self) {
    if (self.resumable_) return;
    self.settle(true);
    self.tell_writable();
  });
  handlers.ended = while_alive(weak_from_this(), &WireSession::on_ended);
  return handlers;
}

void WireSession::put_down() {
  if (arriving_) arriving_->abort();
  arriving_.reset();
  if (connection_) connection_->abort();
  connection_.reset();
}

void WireSession::send(std::string_view payload, std::function<void()> settled) {
  send_frame(frame_of(FrameKind::message, payload));
  if (!settled) return;
  if (finished_ || (!resumable_ && !connection_))
    asio::post(executor_, std::move(settled));
  else
    unsettled_.emplace_back(state_.sent(), std::move(settled));
}

void WireSession::send_aside(std::string_view payload) {
  if (connection_) send_frame(frame_of(FrameKind::aside, payload));
}

void WireSession::send_frame(const Frame& frame) {
  if (!finished_) write(state_.send(frame));
}

void WireSession::write(std::string frame) {
  if (finished_) return;
  if (connection_) connection_->send(std::move(frame));
  if (state_.kept_bytes() > kMaxUnacknowledgedBytes && !std::exchange(overflows_, true)) overflow();
}

/// Gives up the connection because too much is unacknowledged; in a later turn, never from inside the call
/// that sends.
void WireSession::overflow() {
  asio::post(executor_, [self = shared_from_this()] {
    self->overflows_ = false;
    // A resumption that is under way will say how much the peer has.
    if (self->finished_ || self->arriving_ || self->state_.kept_bytes() <= kMaxUnacknowledgedBytes) return;
    self->put_down();
    const auto told = self->handlers_.ended;
    ConnectionEnd end;
    end.reason =
        "the peer has not acknowledged " + std::to_string(kMaxUnacknowledgedBytes) + " bytes of messages";
    end.given_up = true;
    told(end);
  });
}

void WireSession::acknowledge() {
  if (connection_ && !finished_ && state_.ack_owed())
    write(state_.send(count_of(FrameKind::ack, state_.tell_received())));
}

void WireSession::acknowledge_later() {
  if (finished_ || std::exchange(ack_armed_, true)) return;
  ack_timer_.expires_after(kAckDelay);
  ack_timer_.async_wait(while_alive(weak_from_this(), [](WireSession& self, boost::system::error_code error) {
    self.ack_armed_ = false;
    if (!error) self.acknowledge();
  }));
}

/// Runs the callbacks of send() for messages that the peer has, or for all messages.
void WireSession::settle(bool all) {
  while (!unsettled_.empty() && (all || unsettled_.front().first <= state_.acknowledged())) {
    const auto settled = std::move(unsettled_.front().second);
    unsettled_.pop_front();
    settled();
  }
}

std::size_t WireSession::room() const {
  const std::size_t waiting = resumable_ ? state_.kept_bytes() : connection_ ? connection_->queued() : 0;
  return finished_ || waiting >= kChannelBudget ? 0 : kChannelBudget - waiting;
}

std::shared_ptr<Channel> WireSession::open_channel(std::string_view payload) {
  const std::uint32_t number = state_.open_channel();
  const auto line = std::make_shared<Line>(weak_from_this(), number);
  if (finished_) {
    asio::post(executor_,
               while_alive(std::weak_ptr<Line>(line), &Line::on_closed, std::string("the session is over")));
    return line;
  }
  channels_[number] = line;
  send_frame(frame_of(FrameKind::opened, payload, number));
  return line;
}

void WireSession::finish(const std::string& reason) {
  if (finished_) return;
  end(reason);
  if (connection_) connection_->finish();
}

void WireSession::close(const std::string& reason) {
  if (finished_) return;
  end(reason);
  if (connection_) connection_->close();
  connection_.reset();
}

void WireSession::end(const std::string& reason) {
  finished_ = true;
  ack_timer_.cancel();
  if (arriving_) arriving_->close();
  arriving_.reset();
  for (auto& [number, settled] : std::exchange(unsettled_, {})) asio::post(executor_, std::move(settled));
  close_channels(reason);
}

void WireSession::close_channels(const std::string& reason) {
  // A handler may drop other channels, which then leave the map.
  const std::map<std::uint32_t, std::weak_ptr<Line>> open = std::exchange(channels_, {});
  for (const auto& [number, weak] : open)
    if (const auto line = weak.lock()) line->on_closed(reason);
}

void WireSession::on_ended(const ConnectionEnd& end) {
  if (finished_) return;
  const auto self = shared_from_this();  // a handler may let go of this
  if (end.code == Errc::lost) connection_.reset();
  if (arriving_) arriving_->abort();
  arriving_.reset();
  if (!resumable_) settle(true);
  const auto told = handlers_.ended;
  told(end);
}

void WireSession::on_frame(std::string_view body) {
  if (finished_) return;
  const auto self = shared_from_this();  // a handler may let go of this
  const Frame frame = state_.receive(body);
  if (state_.ack_due())
    acknowledge();
  else if (state_.ack_owed())
    acknowledge_later();
  if (frame.kind == FrameKind::message || frame.kind == FrameKind::aside)
    return handlers_.message(frame.payload);
  if (frame.kind == FrameKind::resume)
    throw CoordinatorError(Errc::mend, "a session was resumed by one side only");
  if (handlers_.heard) handlers_.heard();
  // Bytes that were under way when this side closed the channel find no channel here.
  const auto line = find(frame.channel);
  if (frame.kind == FrameKind::ack) {
    settle(false);
    tell_writable();
  } else if (frame.kind == FrameKind::opened) {
    on_opened(frame);
  } else if (line && frame.kind == FrameKind::bytes) {
    line->on_data(frame.payload);
  } else if (line && frame.kind == FrameKind::credit) {
    line->tell_writable();
  } else if (line && frame.kind == FrameKind::closed) {
    channels_.erase(frame.channel);
    line->on_closed(std::string(frame.payload));
  }
}

void WireSession::on_opened(const Frame& frame) {
  const auto line = std::make_shared<Line>(weak_from_this(), frame.channel);
  channels_[frame.channel] = line;
  if (state_.open_channels() > kMaxOpenChannels || !handlers_.channel_opened)
    return line->close("no more channels can be opened here");
  handlers_.channel_opened(frame.payload, line);
}

std::shared_ptr<WireSession::Line> WireSession::find(std::uint32_t channel) const {
  const auto found = channels_.find(channel);
  return found == channels_.end() ? nullptr : found->second.lock();
}

void WireSession::tell_writable() {
  if (channels_.empty() || room() == 0) return;
  std::vector<std::weak_ptr<Line>> open;
  open.reserve(channels_.size());
  for (const auto& [number, line] : channels_) open.push_back(line);
  for (const auto& weak : open)
    if (const auto line = weak.lock()) line->tell_writable();
}

}  // namespace muster::rendezvous
