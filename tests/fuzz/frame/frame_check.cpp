// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/protocol/message.hpp"
#include "rendezvous/wire/frame.hpp"
#include "tests/fuzz/checks.hpp"

#include <optional>
#include <string>
#include <vector>

using namespace muster::rendezvous;
using muster::fuzz::require;

namespace {

struct Decoded {
  std::vector<std::string> frames;
  /// Empty: the stream was good to its end.
  std::string error;
  bool cut = false;
  bool operator==(const Decoded&) const = default;
};

Decoded decode(std::string_view bytes, std::size_t piece) {
  Decoded decoded;
  FrameDecoder decoder(kMaxHelloFrameBytes);
  try {
    for (std::size_t start = 0; start < bytes.size(); start += piece) {
      std::string_view rest = bytes.substr(start, piece);
      while (!rest.empty()) {
        const std::size_t used = decoder.feed(rest);
        require(used > 0 && used <= rest.size(), "the decoder takes no byte, or more than there are");
        rest.remove_prefix(used);
        if (decoder.ready()) decoded.frames.push_back(decoder.take());
      }
    }
  } catch (const CoordinatorError& error) {
    decoded.error = error.what();
  }
  decoded.cut = decoder.inside_frame();
  return decoded;
}

std::optional<Message> parse(const std::string& frame) {
  try {
    return message_from_json(frame);
  } catch (const CoordinatorError&) {
    return std::nullopt;
  }
}

}  // namespace

bool muster::fuzz::check_frame_input(std::string_view bytes) {
  const Decoded whole = decode(bytes, bytes.empty() ? 1 : bytes.size());
  require(whole == decode(bytes, 1), "byte by byte the frames are others");
  require(whole == decode(bytes, 3), "in threes the frames are others");
  bool accepted = false;
  for (const std::string& frame : whole.frames) {
    const std::optional<Message> message = parse(frame);
    if (!message) continue;
    accepted = true;
    const std::optional<Message> again = parse(to_json(*message));
    require(again == message, "a message does not survive the way through JSON");
  }
  return accepted;
}
