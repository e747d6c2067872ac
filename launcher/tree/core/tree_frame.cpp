// SPDX-License-Identifier: Apache-2.0
#include "launcher/tree/core/tree_frame.hpp"

#include "rendezvous/protocol/frame.hpp"

#include <stdexcept>

namespace muster::launcher {
namespace {

using Kind = TreeFrame::Kind;

std::size_t limit_of(Kind kind) {
  switch (kind) {
    case Kind::plan:
      return kTreePlanBytes;
    case Kind::bytes:
      return kTreePieceBytes;
    case Kind::retrying:
    case Kind::pushed:
    case Kind::greeted:
    case Kind::said:
    case Kind::ended:
      return kTreeTextBytes;
    case Kind::close:
    case Kind::kill:
    case Kind::halt:
    case Kind::starting:
    case Kind::closed:
    case Kind::credit:
      return 0;
  }
  throw std::invalid_argument("a frame of unknown kind " + std::to_string(static_cast<int>(kind)));
}

void check_size(const TreeFrame& frame, std::size_t size) {
  const std::size_t limit = limit_of(frame.kind);
  if (size > limit)
    throw std::invalid_argument("a frame of kind " + std::to_string(static_cast<int>(frame.kind)) + " with " +
                                std::to_string(size) + " bytes, at most " + std::to_string(limit) +
                                " are allowed");
}

template <typename Number>
void put(std::string& to, Number number) {
  for (std::size_t byte = sizeof number; byte-- > 0;) to += static_cast<char>((number >> (8 * byte)) & 0xffU);
}

template <typename Number>
Number take(std::string_view& from) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i)
    number = static_cast<Number>(number << 8U | static_cast<unsigned char>(from[i]));
  from.remove_prefix(sizeof number);
  return number;
}

}  // namespace

std::string encode(const TreeFrame& frame) {
  check_size(frame, frame.body.size());
  const std::size_t size = kTreeFrameHeaderBytes + frame.body.size();
  std::string text;
  text.reserve(rendezvous::kFrameHeaderBytes + size);  // growing would leave a copy of a key behind
  put(text, static_cast<std::uint32_t>(size));
  text += static_cast<char>(frame.kind);
  put(text, frame.node);
  put(text, frame.number);
  text += frame.body;
  return text;
}

TreeFrame decode_tree_frame(std::string_view payload) {
  if (payload.size() < kTreeFrameHeaderBytes)
    throw std::invalid_argument("a frame of " + std::to_string(payload.size()) + " bytes, at least " +
                                std::to_string(kTreeFrameHeaderBytes) + " are needed");
  TreeFrame frame;
  frame.kind = static_cast<Kind>(payload.front());
  payload.remove_prefix(1);
  frame.node = take<std::uint32_t>(payload);
  frame.number = take<std::uint64_t>(payload);
  check_size(frame, payload.size());
  frame.body = payload;
  return frame;
}

}  // namespace muster::launcher
