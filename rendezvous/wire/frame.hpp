// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes the frames of the wire: a 4-byte big-endian length, then that many bytes, of which the
// first says what they are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::rendezvous {

inline constexpr std::size_t kFrameHeaderBytes = 4;

/// The kind of a frame, which the first byte of its body tells.
enum class FrameKind : std::uint8_t {
  message = 0,  ///< a message of the layer above, without a kind byte; begins with 0x20 or more, as texts do
  bytes = 1,    ///< 1 byte to kMaxRawPayloadBytes of a channel
  opened = 2,   ///< a channel is opened; the payload says what for
  credit = 3,   ///< `count` bytes more may be sent through the channel
  closed = 4,   ///< a channel is closed; the payload is the reason
  ack = 5,      ///< `count` numbered frames have been received in all
  resume = 6,   ///< as ack, but said first on another stream
  aside = 7,    ///< a message of the layer above that is not numbered: if it is lost with a stream, it is not
                ///< sent again
};

struct Frame {
  FrameKind kind = FrameKind::message;
  std::uint32_t channel = 0;
  std::uint64_t count = 0;
  /// The bytes of the frame; in a frame that was read they point into the body.
  std::string_view payload{};
};

/// Whether a frame counts in its session: it is kept until it is acknowledged, and sent again over another
/// stream.
constexpr bool is_numbered(FrameKind kind) {
  return kind < FrameKind::ack;
}

/// The frame's bytes with its header. Throws CoordinatorError (mend) for a payload that is too long, or for
/// one without a byte for a channel.
std::string encode_frame(const Frame& frame);

/// Reads the body of a frame, which is not empty. Throws CoordinatorError (mend) for bytes that
/// encode_frame() does not write.
Frame decode_body(std::string_view body);

/// `body` with its header. Throws CoordinatorError (mend) for a body of more than kMaxControlFrameBytes.
std::string encode_frame(std::string_view body);

/// Takes the bytes of a stream in pieces of any size and gives back whole frames. Each byte is looked at
/// once; memory grows with the bytes received, never with the length that a header claims.
class FrameDecoder {
 public:
  /// A frame longer than `limit` bytes is an error.
  explicit FrameDecoder(std::size_t limit) : limit_(limit) {}

  /// Sets the limit for frames whose header is not complete yet (a peer that has said hello may send longer
  /// ones).
  void set_limit(std::size_t limit) { limit_ = limit; }

  /// Takes bytes up to the end of the current frame and returns their number, which is 0 when a whole frame
  /// waits for take(). Throws CoordinatorError (mend) for a length of 0 or over the limit; the stream is
  /// unusable from then on.
  std::size_t feed(std::string_view bytes);

  /// Whether a whole frame waits for take().
  bool ready() const { return header_bytes_ == kFrameHeaderBytes && body_.size() == length_; }

  /// Whether part of a frame has come; a stream that ends now was cut.
  bool inside_frame() const { return header_bytes_ > 0; }

  /// The body of the frame that is ready(); afterwards the next frame may follow.
  std::string take();

 private:
  std::size_t limit_;
  std::array<unsigned char, kFrameHeaderBytes> header_{};
  std::size_t header_bytes_ = 0;
  std::size_t length_ = 0;
  std::string body_;
};

}  // namespace muster::rendezvous
