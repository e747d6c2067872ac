// SPDX-License-Identifier: Apache-2.0
// Remembers the first messages of clients, so that a recorded and replayed message is recognised. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>

namespace muster::rendezvous {

/// A bounded memory. Add only messages made with a right key, so that strangers cannot push out the others.
class HelloMemory {
 public:
  /// Keeps at least the last `kept` messages, and never more than twice as many (some MiB).
  explicit HelloMemory(std::size_t kept = 32'768) : kept_(kept) {}

  /// Whether a hello was seen. `random`: the random number that each hello carries.
  bool has(std::string_view random) const;

  /// Adds a hello; false if it was seen before.
  bool add(std::string_view random);

 private:
  std::size_t kept_;
  std::unordered_set<std::string> recent_;
  std::unordered_set<std::string> older_;
};

}  // namespace muster::rendezvous
