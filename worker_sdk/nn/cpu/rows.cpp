// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/rows.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/cpu/pieces.hpp"

#include <string>

namespace muster::nn::cpu {

void Relu::forward(const float* x, std::int64_t rows, float* y) const {
  each_piece(shape_.of_rows(rows),
             [&](std::size_t at, std::size_t count) { row_kernels().relu(x + at, count, y + at); });
}

void Relu::backward(const float* y, const float* dy, std::int64_t rows, float* dx) const {
  each_piece(shape_.of_rows(rows), [&](std::size_t at, std::size_t count) {
    row_kernels().relu_backward(y + at, dy + at, count, dx + at);
  });
}

void Gelu::forward(const float* x, std::int64_t rows, float* y) const {
  each_piece(shape_.of_rows(rows),
             [&](std::size_t at, std::size_t count) { row_kernels().gelu(x + at, count, y + at); });
}

void Gelu::backward(const float* x, const float* dy, std::int64_t rows, float* dx) const {
  each_piece(shape_.of_rows(rows), [&](std::size_t at, std::size_t count) {
    row_kernels().gelu_backward(x + at, dy + at, count, dx + at);
  });
}

void Sum::run(const float* a, const float* b, std::int64_t rows, float* y) const {
  each_piece(shape_.of_rows(rows),
             [&](std::size_t at, std::size_t count) { row_kernels().add(a + at, b + at, count, y + at); });
}

void Positions::forward(const float* x, std::int64_t batch, float* y) const {
  const std::size_t sample = shape_.sample();
  each(static_cast<std::size_t>(batch),
       [&](std::size_t n) { row_kernels().add(x + n * sample, positions_.value, sample, y + n * sample); });
}

void Positions::backward(const float* dy, std::int64_t batch) const {
  if (batch == 0) return;
  // Each token is a task, which adds up the samples in turn.
  each(shape_.tokens, [&](std::size_t t) {
    const std::size_t at = t * shape_.width;
    row_kernels().sum_rows(dy + at, static_cast<std::size_t>(batch), shape_.width, shape_.sample(), 1.0F,
                           positions_.gradient + at);
  });
}

void TokenMean::forward(const float* x, std::int64_t batch, float* y) const {
  const float share = 1.0F / static_cast<float>(shape_.tokens);
  each(static_cast<std::size_t>(batch), [&](std::size_t n) {
    row_kernels().sum_rows(x + n * shape_.sample(), shape_.tokens, shape_.width, shape_.width, share,
                           y + n * shape_.width);
  });
}

void TokenMean::backward(const float* dy, std::int64_t batch, float* dx) const {
  const float share = 1.0F / static_cast<float>(shape_.tokens);
  each(static_cast<std::size_t>(batch), [&](std::size_t n) {
    row_kernels().repeat_row(dy + n * shape_.width, shape_.tokens, shape_.width, share,
                             dx + n * shape_.sample());
  });
}

namespace {

DropoutShare checked(double share) {
  // Written so that what is not a number is refused, too.
  if (!(share >= 0 && share < 1))
    throw Error(ErrorCode::invalid_argument,
                "dropout cannot drop a share of " + std::to_string(share) + "; give one from 0 to below 1");
  return DropoutShare::of(share);
}

}  // namespace

Dropout::Dropout(Room&, std::int64_t tokens, std::int64_t width, double share)
    : shape_(tokens, width), share_(checked(share)) {}

void Dropout::forward(const float* x, std::int64_t rows, float* y, const DropoutKey& key) const {
  constexpr std::size_t kPiece = 4096;  // a multiple of the words of a draw
  const std::size_t sample = shape_.sample();
  const std::size_t pieces = (sample + kPiece - 1) / kPiece;
  each(static_cast<std::size_t>(rows) / shape_.tokens * pieces, [&](std::size_t number) {
    const std::size_t n = number / pieces;
    const std::size_t first = number % pieces * kPiece;
    const std::size_t end = std::min(sample, first + kPiece);
    const float* const from = x + n * sample;
    float* const to = y + n * sample;
    for (std::size_t at = first; at < end; at += 4) {
      const PhiloxBlock words = dropout_words(key, key.sample(n), static_cast<std::uint32_t>(at / 4));
      for (std::size_t i = at; i < std::min(end, at + 4); ++i) to[i] = from[i] * share_.factor(words[i % 4]);
    }
  });
}

}  // namespace muster::nn::cpu
