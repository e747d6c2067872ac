// SPDX-License-Identifier: Apache-2.0
// Finds which key of a store may have been meant by somebody who waits for another one. Pure.
#pragma once

#include "rendezvous/core/store.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::rendezvous {

/// Keys of a store that are looked at, and changes of letters that are tried, so that the search takes a few
/// milliseconds in a store of any size.
inline constexpr std::size_t kNearestKeysMax = 65'536;
inline constexpr std::size_t kNearestTriesMax = std::size_t{4} << 20U;

/// Compares keys with one that is missing.
class NearestKey {
 public:
  explicit NearestKey(std::string_view missing) : missing_(missing) {}

  /// Takes the next key of the store.
  void offer(std::string_view key);

  /// The key of those offered that takes the fewest letters to change, of several the one with the longest
  /// common beginning, and then the first in the order of bytes. Empty where none is near: more than a third
  /// of the letters differ.
  const std::string& found() const { return nearest_; }

 private:
  std::string_view missing_;
  std::string nearest_;
  std::size_t least_ = std::string::npos;
  std::size_t prefix_ = 0;
  std::size_t tries_ = 0;
};

/// The key of `store` that is nearest to `missing`, which it does not have; empty if none is near.
std::string nearest_key(const Store& store, std::string_view missing);

}  // namespace muster::rendezvous
