// SPDX-License-Identifier: Apache-2.0
// The first messages of clients that were seen: one that is played back is known again. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>

namespace muster::rendezvous {

/// Only what was made with a right key is to be added, so that strangers cannot push out what is remembered.
class HelloMemory {
 public:
  /// Remembered are the last `kept` at least, and never more than twice as many (some MiB).
  explicit HelloMemory(std::size_t kept = 32'768) : kept_(kept) {}

  /// `random`: the number that each hello has for itself.
  bool has(std::string_view random) const;

  /// False if it was there.
  bool add(std::string_view random);

 private:
  std::size_t kept_;
  std::unordered_set<std::string> recent_;
  std::unordered_set<std::string> older_;
};

}  // namespace muster::rendezvous
