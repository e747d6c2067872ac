// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/attention.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/cpu/pieces.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"

#include <cmath>
#include <string>

namespace muster::nn::cpu {
namespace {

HeadRows head_rows(const RowShape& shape, std::int64_t heads) {
  if (heads < 1 || shape.width % static_cast<std::size_t>(heads) != 0)
    throw Error(ErrorCode::invalid_argument, "attention of width " + std::to_string(shape.width) +
                                                 " cannot have " + std::to_string(heads) +
                                                 " heads; give a number that divides the width");
  HeadRows head;
  head.tokens = shape.tokens;
  head.width = shape.width / static_cast<std::size_t>(heads);
  head.spacing = shape.width;
  head.pitch = 3 * shape.width;
  head.scale = 1.0F / std::sqrt(static_cast<float>(head.width));
  return head;
}

}  // namespace

Attention::Attention(Room& room, std::int64_t tokens, std::int64_t width, std::int64_t heads)
    : shape_(tokens, width),
      heads_(static_cast<std::size_t>(heads)),
      head_(head_rows(shape_, heads)),
      levels_(room, shape_.tokens * heads_ * sizeof(float)) {
  room.add(*this);
}

std::size_t Attention::shares(std::int64_t batch) const {
  return std::min(static_cast<std::size_t>(threads()), static_cast<std::size_t>(batch) * heads_);
}

std::size_t Attention::scratch_bytes(std::int64_t batch) const {
  return shares(batch) * row_kernels().attention_scratch(head_) * sizeof(float);
}

/// Calls body(place in qkv, place in y, place in the levels, scratch) for each head of each sample, on all
/// threads.
template <typename Body>
void Attention::each_head(std::int64_t batch, const Body& body) {
  const std::size_t count = static_cast<std::size_t>(batch) * heads_;
  if (count == 0) return;
  const std::size_t scratch = row_kernels().attention_scratch(head_);
  const std::size_t shares = this->shares(batch);
  scratch_.reserve(scratch_bytes(batch));
  each(shares, [&](std::size_t share) {
    for (std::size_t h = count * share / shares; h < count * (share + 1) / shares; ++h) {
      const std::size_t first = h / heads_ * shape_.sample();
      const std::size_t column = h % heads_ * head_.width;
      body(3 * first + column, first + column, h * shape_.tokens, scratch_.data<float>() + share * scratch);
    }
  });
}

void Attention::forward(const float* qkv, std::int64_t batch, float* y) {
  float* const levels = levels_.data();
  each_head(batch, [&](std::size_t in, std::size_t out, std::size_t level, float* scratch) {
    row_kernels().attend(head_, qkv + in, y + out, levels + level, scratch);
  });
}

void Attention::backward(const float* qkv, const float* dy, std::int64_t batch, float* dqkv) {
  const float* const levels = levels_.data();
  each_head(batch, [&](std::size_t in, std::size_t out, std::size_t level, float* scratch) {
    row_kernels().attend_backward(head_, qkv + in, dy + out, levels + level, dqkv + in, scratch);
  });
}

}  // namespace muster::nn::cpu
