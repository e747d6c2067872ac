// SPDX-License-Identifier: Apache-2.0
// Frames of the wire: a 4-byte big-endian length, then that many bytes, the first of which say what they are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::rendezvous {

inline constexpr std::size_t kFrameHeaderBytes = 4;

/// What a frame's body is, by its first byte.
enum class FrameKind : std::uint8_t {
  message = 0,  ///< of the layer above; has no such byte, and must begin with 0x20 or more, as texts do
  bytes = 1,    ///< 1 byte to kMaxRawPayloadBytes of a channel
  opened = 2,   ///< a channel, for what the payload says
  credit = 3,   ///< `count` bytes more may be sent through the channel
  closed = 4,   ///< a channel; the payload is the reason
  ack = 5,      ///< `count` numbered frames have come in all
  resume = 6,   ///< the same, said first on another stream
  aside = 7,    ///< of the layer above, and not numbered: what is lost with a stream is not sent again
};

struct Frame {
  FrameKind kind = FrameKind::message;
  std::uint32_t channel = 0;
  std::uint64_t count = 0;
  /// Of a frame that was read, it points into the body.
  std::string_view payload{};
};

/// Whether it counts in its session, is kept until it is acknowledged, and sent again over another stream.
constexpr bool is_numbered(FrameKind kind) {
  return kind < FrameKind::ack;
}

/// With its header. Throws CoordinatorError (mend) for a payload that is too long, or of no byte for a
/// channel.
std::string encode_frame(const Frame& frame);

/// Throws CoordinatorError (mend) for what encode_frame() does not write. `body` is not empty.
Frame decode_body(std::string_view body);

/// `body` with its header. Throws CoordinatorError (mend) for a body of more than kMaxControlFrameBytes.
std::string encode_frame(std::string_view body);

/// Takes the bytes of a stream in pieces of any size and gives back whole frames. A byte is looked at once;
/// memory grows with the bytes received, never with the length that a header claims.
class FrameDecoder {
 public:
  /// A frame longer than `limit` bytes is an error.
  explicit FrameDecoder(std::size_t limit) : limit_(limit) {}

  /// For frames whose header is not complete yet (a peer that has said hello may send longer ones).
  void set_limit(std::size_t limit) { limit_ = limit; }

  /// Takes bytes up to the end of the current frame; returns how many. 0 when a whole frame waits for take().
  /// Throws CoordinatorError (mend) for a length of 0 or over the limit; the stream is unusable from then on.
  std::size_t feed(std::string_view bytes);

  /// A whole frame waits for take().
  bool ready() const { return header_bytes_ == kFrameHeaderBytes && body_.size() == length_; }

  /// Part of a frame has come: a stream that ends now was cut.
  bool inside_frame() const { return header_bytes_ > 0; }

  /// The body of the frame that is ready(); the next one may follow.
  std::string take();

 private:
  std::size_t limit_;
  std::array<unsigned char, kFrameHeaderBytes> header_{};
  std::size_t header_bytes_ = 0;
  std::size_t length_ = 0;
  std::string body_;
};

}  // namespace muster::rendezvous
