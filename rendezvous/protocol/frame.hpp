// SPDX-License-Identifier: Apache-2.0
// Frames of the control protocol: a 4-byte big-endian length, then that many bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::rendezvous {

inline constexpr std::size_t kFrameHeaderBytes = 4;

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
