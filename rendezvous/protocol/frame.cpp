// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol/frame.hpp"

#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <algorithm>
#include <utility>

namespace muster::rendezvous {
namespace {

/// A long body is collected in a buffer that starts at this size and doubles.
constexpr std::size_t kFirstReservation = 4096;

}  // namespace

std::string encode_frame(std::string_view body) {
  if (body.size() > kMaxControlFrameBytes)
    throw CoordinatorError(Errc::mend, "a control message of " + std::to_string(body.size()) +
                                           " bytes is over the limit of " +
                                           std::to_string(kMaxControlFrameBytes));
  const auto length = static_cast<std::uint32_t>(body.size());
  std::string frame;
  frame.reserve(kFrameHeaderBytes + body.size());
  for (const unsigned shift : {24U, 16U, 8U, 0U}) frame += static_cast<char>((length >> shift) & 0xffU);
  frame += body;
  return frame;
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
