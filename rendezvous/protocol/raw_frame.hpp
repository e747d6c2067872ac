// SPDX-License-Identifier: Apache-2.0
// Bytes of a channel inside the control connection: the body of a frame that is not JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::rendezvous {

/// First byte of such a body. No JSON text begins with it.
inline constexpr char kRawFrameMark = '\x01';
/// The mark and the channel's number, big-endian.
inline constexpr std::size_t kRawHeaderBytes = 5;

struct RawFrame {
  std::uint32_t channel = 0;
  /// Never empty; points into the body that was read.
  std::string_view payload;
};

/// Whether a frame's body is one of a channel; else it is a message.
inline bool is_raw_body(std::string_view body) {
  return !body.empty() && body.front() == kRawFrameMark;
}

/// The body of a frame (encode_frame() adds the length). Throws CoordinatorError (mend) for an empty payload
/// or one of more than kMaxRawPayloadBytes.
std::string encode_raw_body(std::uint32_t channel, std::string_view payload);

/// Throws CoordinatorError (mend) for a body that is cut short or longer than allowed. `body` must be
/// is_raw_body().
RawFrame decode_raw_body(std::string_view body);

}  // namespace muster::rendezvous
