// SPDX-License-Identifier: Apache-2.0
// Attention of one head of one sample (Vaswani et al., "Attention Is All You Need", 2017), for the
// instruction set of the including file. Queries are taken in blocks, so that a block's probabilities stay in
// the cache; backward computes them again from the logarithms of their sums, as Dao et al. do
// ("FlashAttention", 2022), instead of keeping tokens x tokens of them for each head.
#pragma once

#include "worker_sdk/nn/cpu/product_loops.hpp"
#include "worker_sdk/nn/cpu/row_kernels.hpp"
#include "worker_sdk/nn/cpu/row_vectors.hpp"

namespace muster::nn::cpu {
namespace {

constexpr std::size_t kQueryBlock = 64;

/// The scratch of one head: rows padded with zeros to whole vectors.
struct HeadScratch {
  HeadScratch(const HeadRows& head, float* memory)
      : width(padded_to_lanes(head.width)), tokens(padded_to_lanes(head.tokens)), free(memory) {
    keys = take(head.tokens * width);
    values = take(head.tokens * width);
    turned_keys = take(head.width * tokens);
    turned_values = take(head.width * tokens);
    key_gradients = take(head.tokens * width);
    value_gradients = take(head.tokens * width);
    queries = take(kQueryBlock * width);
    result_gradients = take(kQueryBlock * width);
    rows = take(kQueryBlock * width);
    probabilities = take(kQueryBlock * tokens);
    slopes = take(kQueryBlock * tokens);
  }

  std::size_t width, tokens;
  float* free;
  float *keys, *values;                ///< tokens x width
  float *turned_keys, *turned_values;  ///< width x tokens
  float *key_gradients, *value_gradients;
  float *queries, *result_gradients, *rows;  ///< of a block: queries, gradients of results, rows to write
  float *probabilities, *slopes;             ///< of a block, for each token

 private:
  float* take(std::size_t count) {
    float* const place = free;
    free += count;
    return place;
  }
};

std::size_t attention_scratch(const HeadRows& head) {
  const std::size_t width = padded_to_lanes(head.width), tokens = padded_to_lanes(head.tokens);
  return 4 * head.tokens * width + 2 * head.width * tokens + kQueryBlock * (3 * width + 2 * tokens);
}

/// Copies `count` rows to rows padded with zeros.
void copy_in(const float* from, std::size_t pitch, std::size_t count, std::size_t width, float* to) {
  const std::size_t padded = padded_to_lanes(width);
  for (std::size_t r = 0; r < count; ++r)
    along(width,
          [&](std::size_t at, auto part) { store(to + r * padded + at, part.load(from + r * pitch + at)); });
}

/// The other way, each row times its factor (where not null).
void copy_out(const float* from, std::size_t count, std::size_t width, const float* factors, float* to,
              std::size_t pitch) {
  const std::size_t padded = padded_to_lanes(width);
  for (std::size_t r = 0; r < count; ++r) {
    const float factor = factors == nullptr ? 1.0F : factors[r];
    along(width, [&](std::size_t at, auto part) {
      part.store(to + r * pitch + at, load(from + r * padded + at) * factor);
    });
  }
}

/// Products of queries and keys to exponentials, 0 behind the last token; the inverse of their sum and the
/// logarithm of it.
void softmax_row(float* row, std::size_t tokens, float scale, float* inverse, float* level) {
  Floats greatest = all(-__builtin_inff());
  along(tokens, [&](std::size_t at, auto part) {
    greatest = greater_of(greatest, part.kept_or(load(row + at), greatest));
  });
  const float peak = lane_maximum(greatest) * scale;
  Floats sum = {};
  along(tokens, [&](std::size_t at, auto part) {
    const Floats power = part.kept(exponential(load(row + at) * scale - peak));
    store(row + at, power);
    sum += power;
  });
  const float total = lane_sum(sum);
  *inverse = 1.0F / total;
  *level = peak + __builtin_logf(total);
}

void attend(const HeadRows& head, const float* q, float* y, float* levels, float* scratch) {
  const HeadScratch s(head, scratch);
  const float* const k = q + head.spacing;
  copy_in(k + head.spacing, head.pitch, head.tokens, head.width, s.values);
  turn(k, head.pitch, head.tokens, head.width, s.tokens, s.turned_keys);
  float inverses[kQueryBlock];
  for (std::size_t first = 0; first < head.tokens; first += kQueryBlock) {
    const std::size_t count = head.tokens - first < kQueryBlock ? head.tokens - first : kQueryBlock;
    multiply({q + first * head.pitch, head.pitch, 1}, {s.turned_keys, s.tokens},
             {count, s.tokens, head.width}, {s.probabilities, s.tokens}, false);
    for (std::size_t r = 0; r < count; ++r)
      softmax_row(s.probabilities + r * s.tokens, head.tokens, head.scale, inverses + r, levels + first + r);
    multiply({s.probabilities, s.tokens, 1}, {s.values, s.width}, {count, s.width, head.tokens},
             {s.rows, s.width}, false);
    copy_out(s.rows, count, head.width, inverses, y + first * head.spacing, head.spacing);
  }
}

/// With p = softmax(z), the gradient of z = scale * (dp - sum(p * dp)) * p. `p` holds products of queries and
/// keys, and gets the probabilities; `dp` gets the gradient of those products.
void softmax_row_backward(float* p, float* dp, std::size_t tokens, float scale, float level) {
  Floats sum = {};
  along(tokens, [&](std::size_t at, auto part) {
    const Floats power = part.kept(exponential(load(p + at) * scale - level));
    store(p + at, power);
    sum += power * load(dp + at);
  });
  const float mean = lane_sum(sum);
  along(tokens, [&](std::size_t at, auto) { store(dp + at, (load(dp + at) - mean) * load(p + at) * scale); });
}

void attend_backward(const HeadRows& head, const float* q, const float* dy, const float* levels, float* dq,
                     float* scratch) {
  const HeadScratch s(head, scratch);
  const std::size_t pitch = head.pitch;
  const float* const k = q + head.spacing;
  const float* const v = k + head.spacing;
  copy_in(k, pitch, head.tokens, head.width, s.keys);
  turn(k, pitch, head.tokens, head.width, s.tokens, s.turned_keys);
  turn(v, pitch, head.tokens, head.width, s.tokens, s.turned_values);
  for (std::size_t first = 0; first < head.tokens; first += kQueryBlock) {
    const std::size_t count = head.tokens - first < kQueryBlock ? head.tokens - first : kQueryBlock;
    copy_in(q + first * pitch, pitch, count, head.width, s.queries);
    copy_in(dy + first * head.spacing, head.spacing, count, head.width, s.result_gradients);
    multiply({s.queries, s.width, 1}, {s.turned_keys, s.tokens}, {count, s.tokens, head.width},
             {s.probabilities, s.tokens}, false);
    multiply({s.result_gradients, s.width, 1}, {s.turned_values, s.tokens}, {count, s.tokens, head.width},
             {s.slopes, s.tokens}, false);
    for (std::size_t r = 0; r < count; ++r)
      softmax_row_backward(s.probabilities + r * s.tokens, s.slopes + r * s.tokens, head.tokens, head.scale,
                           levels[first + r]);
    const Extent by_token = {head.tokens, s.width, count};
    multiply({s.probabilities, 1, s.tokens}, {s.result_gradients, s.width}, by_token,
             {s.value_gradients, s.width}, first > 0);
    multiply({s.slopes, 1, s.tokens}, {s.queries, s.width}, by_token, {s.key_gradients, s.width}, first > 0);
    multiply({s.slopes, s.tokens, 1}, {s.keys, s.width}, {count, s.width, head.tokens}, {s.rows, s.width},
             false);
    copy_out(s.rows, count, head.width, nullptr, dq + first * pitch, pitch);
  }
  copy_out(s.key_gradients, head.tokens, head.width, nullptr, dq + head.spacing, pitch);
  copy_out(s.value_gradients, head.tokens, head.width, nullptr, dq + 2 * head.spacing, pitch);
}

}  // namespace
}  // namespace muster::nn::cpu
