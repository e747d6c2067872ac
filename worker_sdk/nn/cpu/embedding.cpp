// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/embedding.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/cpu/pieces.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/cpu/row_kernels.hpp"

#include <algorithm>
#include <string>

namespace muster::nn::cpu {
namespace {

constexpr std::size_t kRowsOfTask = 64;

}  // namespace

Embedding::Embedding(Room&, std::int64_t vocabulary, std::int64_t tokens, std::int64_t width)
    : vocabulary_(static_cast<std::size_t>(vocabulary)),
      tokens_(static_cast<std::size_t>(tokens)),
      width_(static_cast<std::size_t>(width)) {}

void Embedding::forward(const std::int32_t* ids, std::int64_t rows, float* y) const {
  const auto count = static_cast<std::size_t>(rows);
  for (std::size_t r = 0; r < count; ++r)
    if (ids[r] < 0 || static_cast<std::size_t>(ids[r]) >= vocabulary_)
      throw Error(ErrorCode::invalid_argument,
                  "sample " + std::to_string(r / tokens_) + " of the batch has the id " +
                      std::to_string(ids[r]) + " at token " + std::to_string(r % tokens_) +
                      ", but an embedding of " + std::to_string(vocabulary_) + " rows knows 0 to " +
                      std::to_string(vocabulary_ - 1) + "; check how the ids were made");
  each((count + kRowsOfTask - 1) / kRowsOfTask, [&](std::size_t task) {
    for (std::size_t r = task * kRowsOfTask; r < std::min(count, (task + 1) * kRowsOfTask); ++r)
      std::copy_n(table_.value + static_cast<std::size_t>(ids[r]) * width_, width_, y + r * width_);
  });
}

void Embedding::backward(const std::int32_t* ids, const float* dy, std::int64_t rows) const {
  if (rows == 0) return;
  // A task is a range of the table. It looks through all ids, which is less work than any order of them.
  const auto shares = std::min(static_cast<std::size_t>(threads()), vocabulary_);
  each(shares, [&](std::size_t share) {
    const std::size_t begin = vocabulary_ * share / shares;
    const std::size_t end = vocabulary_ * (share + 1) / shares;
    std::fill(table_.gradient + begin * width_, table_.gradient + end * width_, 0.0F);
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      const auto id = static_cast<std::size_t>(ids[r]);
      if (id < begin || id >= end) continue;
      float* const sum = table_.gradient + id * width_;
      row_kernels().add(sum, dy + r * width_, width_, sum);
    }
  });
}

}  // namespace muster::nn::cpu
