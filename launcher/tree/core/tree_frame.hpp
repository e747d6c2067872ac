// SPDX-License-Identifier: Apache-2.0
// What travels between a launcher and the hosts that start others for it: the streams of many nodes over one
// login. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::launcher {

struct TreeFrame {
  enum class Kind : std::uint8_t {
    // To the host that starts others.
    plan = 1,   ///< BranchPlan as JSON: the first frame, and the only one of this kind
    close = 2,  ///< nobody writes to the node any more, or reads what it says
    kill = 3,   ///< ends what leads to the node
    halt = 4,   ///< no further starts; of no node
    // From there.
    starting = 5,
    retrying = 6,  ///< body: the cause
    pushed = 7,    ///< number: bytes of a copy that are on their way; body: of how many
    greeted = 8,   ///< body: the version of the agent
    said = 9,      ///< body: a line on stderr
    closed = 10,   ///< the node says nothing more
    ended = 11,    ///< what led to the node is gone; body: StartEnd as JSON
    // Both ways.
    bytes = 12,   ///< body: of the node's stream
    credit = 13,  ///< number: so many more bytes may be sent
  };

  Kind kind = Kind::bytes;
  /// Its index in the job.
  std::uint32_t node = 0;
  std::uint64_t number = 0;
  std::string body{};

  bool operator==(const TreeFrame&) const = default;
};

/// Bytes of one node's stream that may be under way in each direction: not written out at the far end.
inline constexpr std::size_t kTreeWindowBytes = std::size_t{256} << 10;
/// In one frame, so that the nodes of a busy login take turns.
inline constexpr std::size_t kTreePieceBytes = std::size_t{16} << 10;
inline constexpr std::size_t kTreeTextBytes = std::size_t{64} << 10;
/// Some 10,000 hosts.
inline constexpr std::size_t kTreePlanBytes = std::size_t{4} << 20;
inline constexpr std::size_t kTreeFrameHeaderBytes = 1 + 4 + 8;

/// One frame with its length. Throws std::invalid_argument for a body that is too long for its kind.
std::string encode(const TreeFrame& frame);

/// From the payload of a frame, without its length. Throws std::invalid_argument: too short, an unknown kind,
/// a body that is too long for its kind.
TreeFrame decode_tree_frame(std::string_view payload);

}  // namespace muster::launcher
