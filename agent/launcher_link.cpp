// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher_link.hpp"

#include "agent/core/link_session.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/wire/frame.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <deque>
#include <exception>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;

namespace {

/// Small messages are acknowledged together, this long after the first.
constexpr std::chrono::milliseconds kAckDelay{50};

/// Memory that a waiting message takes besides its bytes.
constexpr std::size_t kPerMessage = 128;

}  // namespace

// Shared with the operations under way, so that a callback may destroy the link.
struct LauncherLink::State : std::enable_shared_from_this<State> {
  State(asio::any_io_executor link_executor, Mode mode, Events link_events, std::size_t most_unread)
      : executor(std::move(link_executor)),
        resumable(mode == Mode::resumable),
        events(std::move(link_events)),
        max_unread(most_unread),
        ack_timer(executor) {}

  void use(std::unique_ptr<ByteTransport> new_transport) {
    transport = std::move(new_transport);
    decoder = rendezvous::FrameDecoder(rendezvous::kMaxControlFrameBytes);
    unread = std::make_shared<std::size_t>(0);
    choked = false;
    const int number = ++generation;
    const std::weak_ptr<State> weak = weak_from_this();
    ByteTransport::Events transport_events;
    transport_events.bytes = [weak, number](std::string_view bytes) {
      const auto self = weak.lock();
      if (self && self->generation == number) self->take(bytes);
    };
    transport_events.closed = [weak, number](const std::string& reason) {
      const auto self = weak.lock();
      if (self && self->generation == number) self->end(reason);
    };
    transport->start(std::move(transport_events));
  }

  void take(std::string_view bytes) {
    const int number = generation;
    try {
      while (!bytes.empty() && !closed && number == generation) {
        bytes.remove_prefix(decoder.feed(bytes));
        if (decoder.ready()) take_frame(decoder.take());
      }
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

  void take_frame(const std::string& payload) {
    if (!resumable) return events.message(decode_link_message(payload));
    LinkSession::Received received = session.receive(payload);
    for (const std::string& reply : received.replies) write(reply, nullptr);
    run_acknowledged();
    arm_ack();
    if (received.message && !closed) events.message(std::move(*received.message));
  }

  void write(const std::string& payload, std::function<void()> written) {
    if (!transport || choked) return;
    const std::size_t size = payload.size() + kPerMessage;
    *unread += size;
    transport->write(rendezvous::encode_frame(payload), [count = unread, size, told = std::move(written)] {
      *count -= size;
      if (told) told();
    });
    if (*unread <= max_unread) return;
    choked = true;
    fail_later("it does not read: over " + std::to_string(max_unread) + " bytes wait for it");
  }

  /// The other side does what no muster does.
  void fail(const std::string& what) {
    if (events.broken) events.closed = events.broken;
    end(what);
  }

  /// Not inside the caller's call.
  void fail_later(std::string what) {
    asio::post(executor, [self = shared_from_this(), number = generation, text = std::move(what)] {
      if (self->generation == number) self->fail(text);
    });
  }

  void send(const LinkMessage& message, std::function<void()> sent) {
    if (closed) {
      if (sent) asio::post(executor, std::move(sent));
      return;
    }
    if (!resumable) return write(encode(message), std::move(sent));
    try {
      const auto payload = session.send(message);
      if (sent) waiting.emplace_back(session.sent(), std::move(sent));
      if (payload) write(*payload, nullptr);
    } catch (const std::exception& error) {
      fail_later(error.what());
    }
  }

  void run_acknowledged() {
    while (!waiting.empty() && waiting.front().first <= session.acknowledged()) {
      const auto sent = std::move(waiting.front().second);
      waiting.pop_front();
      sent();
    }
  }

  void arm_ack() {
    if (ack_armed || closed) return;
    ack_armed = true;
    ack_timer.expires_after(kAckDelay);
    ack_timer.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (!self) return;
      self->ack_armed = false;
      if (error || self->closed) return;
      if (const auto ack = self->session.idle_ack()) self->write(*ack, nullptr);
    });
  }

  /// The transport is lost: for a plain link that is the end of all.
  void end(const std::string& reason) {
    if (closed || !transport) return;
    ++generation;
    transport->close();
    retire();
    if (resumable) {
      session.transport_lost();
      if (events.closed) events.closed(reason);
      return;
    }
    closed = true;
    const auto callback = std::move(events.closed);
    events = {};
    if (callback) callback(reason);
  }

  /// A transport may be in one of its own callbacks: it is destroyed a turn later.
  void retire() {
    if (transport) asio::post(executor, [kept = std::shared_ptr<ByteTransport>(std::move(transport))] {});
    transport.reset();
  }

  void move_to(std::unique_ptr<ByteTransport> new_transport) {
    if (closed) return;
    if (transport) transport->close();
    retire();
    use(std::move(new_transport));
    write(session.moved(), nullptr);
  }

  void close() {
    if (std::exchange(closed, true)) return;
    ++generation;
    ack_timer.cancel();
    events = {};
    if (transport) transport->close();
    retire();
    for (auto& [number, sent] : waiting) asio::post(executor, std::move(sent));
    waiting.clear();
  }

  asio::any_io_executor executor;
  bool resumable;
  Events events;
  const std::size_t max_unread;
  std::unique_ptr<ByteTransport> transport;
  /// Tells what an earlier transport still delivers from what the present one does.
  int generation = 0;
  rendezvous::FrameDecoder decoder{rendezvous::kMaxControlFrameBytes};
  LinkSession session;
  /// Bytes that the present transport has not got rid of.
  std::shared_ptr<std::size_t> unread = std::make_shared<std::size_t>(0);
  bool choked = false;
  /// Callbacks of send(), by number of the message.
  std::deque<std::pair<std::uint64_t, std::function<void()>>> waiting;
  asio::steady_timer ack_timer;
  bool ack_armed = false;
  bool closed = false;
};

LauncherLink::LauncherLink(const asio::any_io_executor& executor, std::unique_ptr<ByteTransport> transport,
                           Mode mode, Events events, std::string first_bytes, std::size_t max_unread)
    : state_(std::make_shared<State>(executor, mode, std::move(events), max_unread)) {
  if (!first_bytes.empty())
    asio::post(executor, [state = state_, bytes = std::move(first_bytes)] {
      if (!state->closed && state->generation == 1) state->take(bytes);
    });
  state_->use(std::move(transport));
}

LauncherLink::LauncherLink(const asio::any_io_executor& executor, int fd, Events events)
    : LauncherLink(executor, make_descriptor_transport(executor, fd, fd), Mode::plain, std::move(events)) {}

LauncherLink::~LauncherLink() {
  close();
}

void LauncherLink::send(const LinkMessage& message, std::function<void()> sent) {
  state_->send(message, std::move(sent));
}

void LauncherLink::move_to(std::unique_ptr<ByteTransport> transport) {
  state_->move_to(std::move(transport));
}

void LauncherLink::drop(const std::string& reason) {
  state_->end(reason);
}

bool LauncherLink::connected() const {
  return state_->transport != nullptr;
}

void LauncherLink::close() {
  state_->close();
}

}  // namespace muster::agent
