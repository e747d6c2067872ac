// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/frame.hpp"

#include "rendezvous/base/invariant.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <algorithm>
#include <utility>

namespace muster::rendezvous {
namespace {

/// The first size of the buffer that collects a long body; the buffer then doubles.
constexpr std::size_t kFirstReservation = 4096;

constexpr unsigned char kFirstByteOfMessage = 0x20;
constexpr std::size_t kChannelBytes = 4;
constexpr std::size_t kCountBytes = 8;

bool has_channel(FrameKind kind) {
  return kind >= FrameKind::bytes && kind <= FrameKind::closed;
}

bool has_count(FrameKind kind) {
  return kind == FrameKind::credit || kind == FrameKind::ack || kind == FrameKind::resume;
}

void append_number(std::string& text, std::uint64_t number, std::size_t bytes) {
  for (std::size_t i = bytes; i > 0; --i) text += static_cast<char>(number >> 8 * (i - 1) & 0xffU);
}

std::uint64_t take_number(std::string_view& body, std::size_t bytes) {
  if (body.size() < bytes) throw CoordinatorError(Errc::mend, "a control frame is cut short");
  std::uint64_t number = 0;
  for (const char byte : body.substr(0, bytes)) number = number << 8U | static_cast<unsigned char>(byte);
  body.remove_prefix(bytes);
  return number;
}

void check_payload(const Frame& frame) {
  const std::size_t bytes = frame.payload.size();
  if (has_count(frame.kind) && bytes > 0)
    throw CoordinatorError(Errc::mend, "a control frame with a number holds more than that");
  if (frame.kind != FrameKind::bytes) return;
  if (bytes == 0) throw CoordinatorError(Errc::mend, "a raw control frame holds no bytes for its channel");
  if (bytes > kMaxRawPayloadBytes)
    throw CoordinatorError(Errc::mend, "a raw control frame of " + std::to_string(bytes) +
                                           " bytes is over the limit of " +
                                           std::to_string(kMaxRawPayloadBytes));
}

/// Makes the header of a frame, with room for the whole body, so that a key in it is copied only once.
std::string begin_frame(std::size_t body_bytes) {
  if (body_bytes > kMaxControlFrameBytes)
    throw CoordinatorError(Errc::mend, "a control message of " + std::to_string(body_bytes) +
                                           " bytes is over the limit of " +
                                           std::to_string(kMaxControlFrameBytes));
  std::string frame;
  frame.reserve(kFrameHeaderBytes + body_bytes);
  append_number(frame, body_bytes, kFrameHeaderBytes);
  return frame;
}

}  // namespace

std::string encode_frame(const Frame& frame) {
  check_payload(frame);
  if (frame.kind == FrameKind::message) {
    MUSTER_ASSERT(
        !frame.payload.empty() && static_cast<unsigned char>(frame.payload.front()) >= kFirstByteOfMessage,
        "a message of the wire begins as a text does");
    return encode_frame(frame.payload);
  }
  const std::size_t numbers =
      (has_channel(frame.kind) ? kChannelBytes : 0) + (has_count(frame.kind) ? kCountBytes : 0);
  std::string text = begin_frame(1 + numbers + frame.payload.size());
  text += static_cast<char>(frame.kind);
  if (has_channel(frame.kind)) append_number(text, frame.channel, kChannelBytes);
  if (has_count(frame.kind)) append_number(text, frame.count, kCountBytes);
  text += frame.payload;
  return text;
}

Frame decode_body(std::string_view body) {
  Frame frame;
  const auto mark = static_cast<unsigned char>(body.front());
  if (mark < kFirstByteOfMessage) {
    if (mark < static_cast<unsigned char>(FrameKind::bytes) ||
        mark > static_cast<unsigned char>(FrameKind::aside))
      throw CoordinatorError(Errc::mend, "a control frame of an unknown kind, " + std::to_string(mark));
    frame.kind = static_cast<FrameKind>(mark);
    body.remove_prefix(1);
  }
  if (has_channel(frame.kind)) frame.channel = static_cast<std::uint32_t>(take_number(body, kChannelBytes));
  if (has_count(frame.kind)) frame.count = take_number(body, kCountBytes);
  frame.payload = body;
  check_payload(frame);
  return frame;
}

std::string encode_frame(std::string_view body) {
  return begin_frame(body.size()).append(body);
}

std::size_t FrameDecoder::feed(std::string_view bytes) {
  if (ready()) return 0;
  std::size_t used = 0;
  while (header_bytes_ < kFrameHeaderBytes && used < bytes.size())
    header_[header_bytes_++] = static_cast<unsigned char>(bytes[used++]);
  if (header_bytes_ < kFrameHeaderBytes) return used;
  if (length_ == 0) {
    for (const unsigned char byte : header_) length_ = length_ << 8U | byte;
    if (length_ == 0) throw CoordinatorError(Errc::mend, "a control frame of 0 bytes holds no message");
    if (length_ > limit_)
      throw CoordinatorError(Errc::mend, "a control frame of " + std::to_string(length_) +
                                             " bytes is over the limit of " + std::to_string(limit_) +
                                             "; is the peer really a muster agent?");
    body_.reserve(std::min(length_, kFirstReservation));
  }
  const std::size_t piece = std::min(bytes.size() - used, length_ - body_.size());
  body_.append(bytes.substr(used, piece));
  return used + piece;
}

std::string FrameDecoder::take() {
  header_bytes_ = 0;
  length_ = 0;
  return std::exchange(body_, std::string());
}

}  // namespace muster::rendezvous
