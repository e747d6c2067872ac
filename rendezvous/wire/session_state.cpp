// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/session_state.hpp"

#include "rendezvous/base/invariant.hpp"
#include "rendezvous/protocol/errc.hpp"

#include <stdexcept>
#include <utility>

namespace muster::rendezvous {
namespace {

/// The number of consumed bytes from which on they are given back together: few frames of credit beside those
/// with the bytes, and still a small part of the window, so that a sender does not wait long for a slow
/// reader's credit.
constexpr std::size_t kCreditPiece = kChannelCreditBytes / 16;

std::string channel_text(const Frame& frame) {
  return "channel " + std::to_string(frame.channel);
}

}  // namespace

std::string SessionState::send(const Frame& frame) {
  if (frame.kind == FrameKind::bytes) {
    if (frame.payload.size() > credit(frame.channel))
      throw std::logic_error("more bytes than the channel's credit");
    channels_.at(frame.channel).credit -= frame.payload.size();
  }
  std::string text = encode_frame(frame);
  if (!resumable_ || !is_numbered(frame.kind)) return text;
  kept_bytes_ += text.size();
  kept_.push_back(text);
  return text;
}

void SessionState::acknowledge(std::uint64_t count) {
  if (count > sent())
    throw CoordinatorError(Errc::mend, "the peer acknowledges message " + std::to_string(count) +
                                           " of the session, but only " + std::to_string(sent()) +
                                           " were sent");
  // A number that was acknowledged before changes nothing.
  while (acknowledged_ < count) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
    ++acknowledged_;
  }
  MUSTER_ASSERT(kept_.empty() == (kept_bytes_ == 0), "a session keeps the bytes of its frames");
}

const std::deque<std::string>& SessionState::resumed(std::uint64_t count) {
  if (count < acknowledged_)
    throw CoordinatorError(Errc::mend, "the peer asks for message " + std::to_string(count + 1) +
                                           " of the session again, which it had acknowledged");
  acknowledge(count);
  return kept_;
}

Frame SessionState::receive(std::string_view body) {
  const Frame frame = decode_body(body);
  if (resumable_ && is_numbered(frame.kind)) {
    ++received_;
    untold_bytes_ += body.size() + kFrameHeaderBytes;
  }
  if (frame.kind == FrameKind::ack && resumable_) acknowledge(frame.count);
  receive_channel(frame);
  return frame;
}

void SessionState::receive_channel(const Frame& frame) {
  if (frame.kind == FrameKind::opened) {
    const bool theirs = (frame.channel % 2 == 1) != dialled_ && frame.channel != 0;
    if (!theirs || channels_.count(frame.channel) > 0)
      throw CoordinatorError(Errc::mend,
                             channel_text(frame) + " is not the peer's to open, or is open already");
    channels_[frame.channel];
    return;
  }
  const auto found = channels_.find(frame.channel);
  if (found == channels_.end()) return;
  Window& window = found->second;
  if (frame.kind == FrameKind::bytes) {
    if (frame.payload.size() > window.granted)
      throw CoordinatorError(Errc::mend,
                             channel_text(frame) + " carries more bytes than it was given credit for");
    window.granted -= frame.payload.size();
  } else if (frame.kind == FrameKind::credit) {
    if (frame.count > kChannelCreditBytes - window.credit)
      throw CoordinatorError(Errc::mend, channel_text(frame) + " was given more credit than bytes were sent");
    window.credit += frame.count;
  } else if (frame.kind == FrameKind::closed) {
    if (frame.payload.size() > kMaxTextBytes)
      throw CoordinatorError(Errc::mend, channel_text(frame) + " was closed for a reason of " +
                                             std::to_string(frame.payload.size()) + " bytes");
    channels_.erase(found);
  }
}

bool SessionState::ack_due() const {
  return ack_owed() && (untold_bytes_ >= kAckAfterBytes || received_ - told_ >= kAckAfterMessages);
}

std::uint64_t SessionState::tell_received() {
  untold_bytes_ = 0;
  return told_ = received_;
}

std::uint32_t SessionState::open_channel() {
  const std::uint32_t channel = next_channel_;
  next_channel_ += 2;
  channels_[channel];
  return channel;
}

std::size_t SessionState::credit(std::uint32_t channel) const {
  const auto found = channels_.find(channel);
  return found == channels_.end() ? 0 : found->second.credit;
}

std::optional<std::string> SessionState::consumed(std::uint32_t channel, std::size_t bytes) {
  const auto found = channels_.find(channel);
  if (found == channels_.end()) return std::nullopt;
  Window& window = found->second;
  window.owed += bytes;
  if (window.owed < kCreditPiece) return std::nullopt;
  window.granted += window.owed;
  Frame credit;
  credit.kind = FrameKind::credit;
  credit.channel = channel;
  credit.count = std::exchange(window.owed, 0);
  return send(credit);
}

}  // namespace muster::rendezvous
