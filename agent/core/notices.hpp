// SPDX-License-Identifier: Apache-2.0
// Decides whether a notice of a batch system (SIGUSR1, SIGUSR2) has to be passed on, and which workers are
// named because they do not handle it. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace muster::agent {

/// The time within which a batch system sends a notice to every process of a step, if not to the launcher
/// alone.
inline constexpr std::chrono::milliseconds kEverybodyWithin{100};

/// Whether the workers have a notice already that the launcher got: this process, which nobody sends one
/// alone, got it, too, at most kEverybodyWithin before or after. `own` is when this process last got one;
/// `now` is kEverybodyWithin after the launcher's word came.
bool everybody_got(std::optional<std::chrono::steady_clock::time_point> own,
                   std::chrono::steady_clock::time_point now);

/// The workers of one round that do not handle a notice: each is named once for each signal, since a batch
/// system may send many.
class UnheardNotices {
 public:
  /// Returns those of `ranks` that were not named for this signal yet, and counts them as named.
  std::vector<int> to_name(int signal, const std::vector<int>& ranks);

 private:
  /// Signal and rank of those that were named.
  std::set<std::pair<int, int>> named_;
};

}  // namespace muster::agent
