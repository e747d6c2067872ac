// SPDX-License-Identifier: Apache-2.0
// What is decided about notices of batch systems (SIGUSR1, SIGUSR2). Pure.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace muster::agent {

/// A batch system sends a notice to the launcher alone, or to every process of a step, within this time.
inline constexpr std::chrono::milliseconds kEverybodyWithin{100};

/// Whether the workers have a notice already, which the launcher got: this process, which nobody sends one
/// alone, got it, too, at most kEverybodyWithin before or after. `own`: when it last did; `now`:
/// kEverybodyWithin after the launcher's word came.
bool everybody_got(std::optional<std::chrono::steady_clock::time_point> own,
                   std::chrono::steady_clock::time_point now);

/// The workers of one round that do not handle a notice: each is named once for each signal, since a batch
/// system may send many.
class UnheardNotices {
 public:
  /// Those of `ranks` that were not named for this signal yet; from now on they are.
  std::vector<int> to_name(int signal, const std::vector<int>& ranks);

 private:
  /// Signal and rank.
  std::set<std::pair<int, int>> named_;
};

}  // namespace muster::agent
