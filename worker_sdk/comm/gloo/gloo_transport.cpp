// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/gloo/gloo_transport.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <gloo/common/error.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace muster::gloo_backend {
namespace {

using message::Clock;
using message::Key;
using message::PeerLost;

constexpr int kKindBits = 8;
/// The slot of the watch's own receives, which no message uses.
constexpr std::uint64_t kProbeSlot = ~std::uint64_t{0};
/// The interval in which the watch checks whether a wait goes on since the last check.
constexpr auto kWatchInterval = std::chrono::milliseconds(250);

std::uint64_t slot_of(Key key) {
  return static_cast<std::uint64_t>(key.kind) << (64 - kKindBits) |
         (key.number & ((std::uint64_t{1} << (64 - kKindBits)) - 1));
}

/// The exception's text without the place in Gloo's sources at its front.
std::string words_of(const std::exception& error) {
  const std::string_view text = error.what();
  const auto place = text.find(".cc:");
  const auto end = place == std::string_view::npos ? place : text.find("] ", place);
  return "Gloo: " + std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

}  // namespace

class GlooTransport::Buffer final : public message::Transfer {
 public:
  Buffer(GlooTransport& transport, int peer, bool is_send, void* data, std::size_t bytes)
      : transport_(transport),
        peer_(peer),
        is_send_(is_send),
        buffer_(transport.context_->createUnboundBuffer(data, bytes)) {}

  bool wait(Clock::time_point deadline) override { return transport_.wait(*this, deadline); }

  void start(std::uint64_t slot) {
    try {
      if (is_send_) {
        buffer_->send(peer_, slot);
      } else {
        buffer_->recv(peer_, slot);
      }
    } catch (const gloo::IoException& error) {
      throw PeerLost(peer_, words_of(error));
    } catch (const gloo::Exception& error) {
      throw Error(ErrorCode::backend, words_of(error));
    }
  }

  /// Waits for the transfer; false when the wait was interrupted.
  bool finish(std::chrono::milliseconds limit) {
    return is_send_ ? buffer_->waitSend(limit) : buffer_->waitRecv(limit);
  }

  void interrupt() {
    if (is_send_) {
      buffer_->abortWaitSend();
    } else {
      buffer_->abortWaitRecv();
    }
  }

  int peer() const { return peer_; }

 private:
  GlooTransport& transport_;
  int peer_;
  bool is_send_;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
};

GlooTransport::GlooTransport(std::shared_ptr<gloo::Context> context)
    : context_(std::move(context)), watch_(quiet_thread([this] { watch(); })) {}

GlooTransport::~GlooTransport() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  watch_.join();
}

/// When a connection ends, Gloo tells the transfers that have not begun, but not those of which a part was
/// sent or received: they would wait until their deadline. So this thread ends a long wait when its peer is
/// lost. A transfer that can complete does so before Gloo notes the loss; a wait that goes on for a whole
/// interval after the loss was seen never completes.
void GlooTransport::watch() {
  std::uint64_t before = 0;    // the wait of the last check; 0: none
  std::uint64_t hopeless = 0;  // the wait whose peer was lost at the last check
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kWatchInterval, [this] { return stop_; })) {
    const std::uint64_t now = waiting_ == nullptr ? 0 : waits_;
    const bool lasts = now != 0 && now == std::exchange(before, now);
    if (!lasts) continue;
    const int peer = waiting_->peer();
    lock.unlock();
    const std::optional<std::string> loss = loss_of(peer);
    lock.lock();
    if (!loss || waiting_ == nullptr || waits_ != now) continue;
    if (std::exchange(hopeless, now) != now) continue;
    lost_.emplace(peer, *loss);
    waiting_->interrupt();
  }
}

/// The reason if the connection to `peer` has ended. It is found by a receive that waits for a message that
/// never comes; the first question about a peer starts the receive.
std::optional<std::string> GlooTransport::loss_of(int peer) {
  auto& probe = probes_[peer];
  try {
    if (!probe) {
      probe = context_->createUnboundBuffer(nullptr, 0);
      probe->recv(peer, kProbeSlot);
    }
    // The wait is aborted so that it ends at once.
    probe->abortWaitRecv();
    probe->waitRecv(std::chrono::minutes(1));
  } catch (const gloo::IoException& error) {
    probe.reset();  // a new probe meets the same error at once
    return words_of(error);
  } catch (const std::exception&) {
    probe.reset();  // nothing is known, so the next question starts anew
  }
  return {};
}

std::unique_ptr<message::Transfer> GlooTransport::receive(int peer, Key key, void* data, std::size_t bytes) {
  auto buffer = std::make_unique<Buffer>(*this, peer, false, data, bytes);
  buffer->start(slot_of(key));
  return buffer;
}

std::unique_ptr<message::Transfer> GlooTransport::send(int peer, Key key, const void* data,
                                                       std::size_t bytes) {
  // Gloo only reads the data, but its interface takes a pointer that is not const.
  auto buffer = std::make_unique<Buffer>(*this, peer, true, const_cast<void*>(data), bytes);
  buffer->start(slot_of(key));
  return buffer;
}

bool GlooTransport::wait(Buffer& buffer, Clock::time_point deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (interruption_) throw *interruption_;
    waiting_ = &buffer;
    ++waits_;
  }
  // With 0 Gloo would not look at the transfer at all.
  const auto left = std::max(left_until(deadline), std::chrono::milliseconds(1));
  bool done = false;
  std::optional<Error> failure;
  std::optional<PeerLost> lost;
  bool late = false;
  try {
    done = buffer.finish(left);
  } catch (const gloo::IoException& error) {
    // Gloo ends all connections when one wait has taken too long.
    late = Clock::now() >= deadline;
    if (!late) lost.emplace(buffer.peer(), words_of(error));
  } catch (const std::exception& error) {
    failure.emplace(ErrorCode::backend, words_of(error));
  }
  const std::lock_guard lock(mutex_);
  waiting_ = nullptr;
  if (interruption_ && !done) throw *interruption_;
  if (failure) throw *failure;
  if (lost) throw *lost;
  if (lost_ && !done && !late) throw *lost_;
  return done && !late;
}

void GlooTransport::interrupt(ErrorCode code, const std::string& text) noexcept {
  const std::lock_guard lock(mutex_);
  if (!interruption_) interruption_.emplace(code, text);
  if (waiting_ != nullptr) waiting_->interrupt();
}

}  // namespace muster::gloo_backend
