// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/cpu/room.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::nn::cpu {

/// y = the row of a table that an id names. One thread.
class Embedding {
 public:
  Embedding(Room&, std::int64_t vocabulary, std::int64_t tokens, std::int64_t width);

  /// vocabulary x width.
  void bind(const ParameterSlot& table) { table_ = table; }

  /// Throws Error (invalid_argument) for an id that is negative or not below the vocabulary.
  void forward(const std::int32_t* ids, std::int64_t rows, float* y) const;
  /// The gradient of the table: rows of one id are added in their order, whatever the number of threads.
  void backward(const std::int32_t* ids, const float* dy, std::int64_t rows) const;

 private:
  const std::size_t vocabulary_, tokens_, width_;
  ParameterSlot table_;
};

}  // namespace muster::nn::cpu
