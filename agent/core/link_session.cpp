// SPDX-License-Identifier: Apache-2.0
#include "agent/core/link_session.hpp"

#include "rendezvous/base/invariant.hpp"

#include <stdexcept>
#include <utility>

namespace muster::agent {

using Kind = LinkMessage::Kind;

namespace {

std::string own_message(Kind kind, std::uint64_t number) {
  LinkMessage message;
  message.kind = kind;
  message.number = static_cast<std::int64_t>(number);
  return encode(message);
}

/// The guardian writes a notice when there is no agent (any more): it knows no numbers.
bool is_numbered(Kind kind) {
  return kind != Kind::notice && kind != Kind::ack && kind != Kind::resume;
}

}  // namespace

std::optional<std::string> LinkSession::send(const LinkMessage& message) {
  std::string payload = encode(message);
  if (!is_numbered(message.kind)) return awaiting_resume_ ? std::nullopt : std::optional(std::move(payload));
  if (kept_bytes_ + payload.size() > kKeptMax)
    throw std::length_error("the other side of a link has acknowledged nothing of the last " +
                            std::to_string(kept_bytes_) + " bytes");
  kept_bytes_ += payload.size();
  kept_.push_back(payload);
  if (awaiting_resume_) return std::nullopt;
  return payload;
}

LinkSession::Received LinkSession::receive(std::string_view payload) {
  Received result;
  LinkMessage message = decode_link_message(payload);
  if (awaiting_resume_ != (message.kind == Kind::resume))
    throw std::invalid_argument("a link was resumed by one side only");
  if (message.kind == Kind::ack) {
    acknowledge(message.number);
  } else if (message.kind == Kind::resume) {
    acknowledge(message.number);
    awaiting_resume_ = false;
    result.replies.assign(kept_.begin(), kept_.end());
  } else if (is_numbered(message.kind)) {
    ++received_;
    unacked_bytes_ += payload.size();
    const bool last = message.kind == Kind::report || message.kind == Kind::bye;
    if (last || unacked_bytes_ >= kAckBytes || received_ - acked_ >= kAckMessages)
      result.replies.push_back(ack());
    result.message = std::move(message);
  } else {
    result.message = std::move(message);
  }
  return result;
}

void LinkSession::acknowledge(std::int64_t number) {
  const auto count = static_cast<std::uint64_t>(number);
  if (number < 0 || count > sent() || count + 1 < first_kept_)
    throw std::invalid_argument("a link acknowledges message " + std::to_string(number) + " of " +
                                std::to_string(sent()));
  while (first_kept_ <= count) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
    ++first_kept_;
  }
  MUSTER_ASSERT(kept_.empty() == (kept_bytes_ == 0), "a link keeps the bytes of its messages");
}

std::string LinkSession::ack() {
  acked_ = received_;
  unacked_bytes_ = 0;
  return own_message(Kind::ack, received_);
}

std::optional<std::string> LinkSession::idle_ack() {
  if (awaiting_resume_ || acked_ == received_) return std::nullopt;
  return ack();
}

std::string LinkSession::moved() {
  awaiting_resume_ = true;
  acked_ = received_;
  unacked_bytes_ = 0;
  return own_message(Kind::resume, received_);
}

}  // namespace muster::agent
