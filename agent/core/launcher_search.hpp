// SPDX-License-Identifier: Apache-2.0
// Whether a launcher lives whose link is cut, or says nothing, by what the coordinator knows of it. Pure.
#pragma once

#include "rendezvous/protocol/ids.hpp"
#include "rendezvous/protocol/message.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace muster::agent {

/// The questions of one search, from the cut of the link to the finding. One thread.
class LauncherSearch {
 public:
  /// A launcher that the coordinator has not seen for this long is gone.
  static constexpr std::chrono::seconds kGoneAfter{3};

  enum class Finding : std::uint8_t {
    lives,   ///< the coordinator has a connection to it
    unsure,  ///< it may be on its way back, or the coordinator did not answer
    gone,
  };

  explicit LauncherSearch(rendezvous::TimePoint now) : last_alive_(now) {}

  /// `answer`: nothing where the coordinator gave none in time; one that is lost says so by itself.
  Finding judge(const std::optional<rendezvous::LauncherState>& answer, rendezvous::TimePoint now);

  /// Before the next question. When a launcher is killed, the end of the link may come before the end of its
  /// connection to the coordinator, so the first questions follow each other soon.
  std::chrono::milliseconds pause() const { return pause_; }

 private:
  rendezvous::TimePoint last_alive_;
  std::chrono::milliseconds pause_{};
  std::chrono::milliseconds next_pause_{20};
};

/// Of a launcher whose link is there and has been silent for too long: the link alone may be cut. A
/// coordinator that has never heard of the launcher says nothing for it.
bool is_heard(const rendezvous::LauncherState& answer);

}  // namespace muster::agent
