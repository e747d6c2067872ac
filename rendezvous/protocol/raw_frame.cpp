// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol/raw_frame.hpp"

#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/limits.hpp"

namespace muster::rendezvous {
namespace {

void check_payload(std::size_t bytes) {
  if (bytes == 0) throw CoordinatorError(Errc::mend, "a raw control frame holds no bytes for its channel");
  if (bytes > kMaxRawPayloadBytes)
    throw CoordinatorError(Errc::mend, "a raw control frame of " + std::to_string(bytes) +
                                           " bytes is over the limit of " +
                                           std::to_string(kMaxRawPayloadBytes));
}

}  // namespace

std::string encode_raw_body(std::uint32_t channel, std::string_view payload) {
  check_payload(payload.size());
  std::string body;
  body.reserve(kRawHeaderBytes + payload.size());
  body += kRawFrameMark;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) body += static_cast<char>((channel >> shift) & 0xffU);
  body += payload;
  return body;
}

RawFrame decode_raw_body(std::string_view body) {
  RawFrame frame;
  if (body.size() > kRawHeaderBytes) {
    for (std::size_t i = 1; i < kRawHeaderBytes; ++i)
      frame.channel = frame.channel << 8U | static_cast<unsigned char>(body[i]);
    frame.payload = body.substr(kRawHeaderBytes);
  }
  check_payload(frame.payload.size());
  return frame;
}

}  // namespace muster::rendezvous
