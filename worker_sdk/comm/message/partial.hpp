// SPDX-License-Identifier: Apache-2.0
// Combines sums that grow from rank to rank. The partial results are of partial_type(), so that f16 and bf16
// are rounded once, at the end, and an average is divided once.
#pragma once

#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/reduce.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace muster::message {

/// The arithmetic of one reduction that goes from rank to rank. All sizes are bytes of the call's elements.
class Partial {
 public:
  Partial(const Call& call, int ranks) : call_(call), ranks_(ranks) {}

  /// Whether partial results are of another type than the elements.
  bool is_wider() const { return partial_type(call_.type) != call_.type; }

  /// Bytes of the partial results for `bytes` bytes of elements.
  std::size_t wide(std::size_t bytes) const {
    return bytes / size_of(call_.type) * size_of(partial_type(call_.type));
  }

  /// Makes partial results from this rank's elements alone.
  void begin(const std::byte* own, std::byte* result, std::size_t bytes) const;

  /// Combines this rank's elements with the partial results of others, in this order. `result` may be the
  /// memory of any of the inputs whose elements are as wide.
  void add(const std::byte* own, std::span<const std::byte* const> others, std::byte* result,
           std::size_t bytes);

  /// Does the same as add() on the last rank: `result` gets elements.
  void complete(const std::byte* own, std::span<const std::byte* const> others, std::byte* result,
                std::size_t bytes);

 private:
  std::size_t count(std::size_t bytes) const { return bytes / size_of(call_.type); }

  const Call& call_;
  int ranks_;
  std::vector<std::byte> widened_;
  std::vector<const std::byte*> sources_;
};

}  // namespace muster::message
