// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/gpu/network/products.hpp"

#include <cmath>
#include <cstdint>
#include <string>

namespace muster::nn::gpu {

/// softmax(q k^T / sqrt(width / heads)) v for each head, where a row is [q | k | v]. The probabilities are
/// kept from forward to backward: heads x images x tokens x tokens.
template <typename T>
class Attention {
 public:
  Attention(Room& room, std::int64_t tokens, std::int64_t width, std::int64_t heads)
      : room_(room),
        tokens_(tokens),
        width_(width),
        heads_(heads),
        own_(own_width(width, heads)),
        factor_(static_cast<float>(1 / std::sqrt(static_cast<double>(own_)))),
        probabilities_(room, bytes(heads * tokens * tokens)),
        gradient_(room, bytes(tokens * tokens), &MemoryUse::workspace),
        queries_(room, bytes(tokens * width), &MemoryUse::workspace) {}

  void forward(const T* qkv, std::int64_t batch, T* y) const {
    if (batch == 0) return;
    for (std::int64_t head = 0; head < heads_; ++head)
      multiply(batch, tokens_, tokens_, own_, of_head(qkv, 0, head), turned(of_head(qkv, 1, head)),
               share(head, batch));
    room_.ops.run(SoftmaxForward<T>{heads_ * batch * tokens_, static_cast<int>(tokens_), factor_,
                                    probabilities_.data()});
    for (std::int64_t head = 0; head < heads_; ++head)
      multiply(batch, tokens_, own_, tokens_, share(head, batch), of_head(qkv, 2, head), result_of(y, head));
  }

  /// The gradient of q needs k, and that of k needs q: where both are overwritten, the first one waits.
  void backward(const T* qkv, const T* dy, std::int64_t batch, T* dqkv) const {
    if (batch == 0) return;
    const bool waits = dqkv == qkv;
    for (std::int64_t head = 0; head < heads_; ++head) {
      const Matrix products = {gradient_.data(), tokens_, 1, tokens_ * tokens_};
      multiply(batch, tokens_, tokens_, own_, result_of(dy, head), turned(of_head(qkv, 2, head)), products);
      multiply(batch, tokens_, own_, tokens_, turned(share(head, batch)), result_of(dy, head),
               of_head(dqkv, 2, head));
      room_.ops.run(SoftmaxBackward<T>{batch * tokens_, static_cast<int>(tokens_), factor_,
                                       static_cast<const T*>(share(head, batch).data), gradient_.data()});
      multiply(batch, tokens_, own_, tokens_, products, of_head(qkv, 1, head),
               waits ? result_of(queries_.data(), head) : of_head(dqkv, 0, head));
      multiply(batch, tokens_, own_, tokens_, turned(products), of_head(qkv, 0, head),
               of_head(dqkv, 1, head));
    }
    if (waits)
      room_.ops.run(
          CopyRows<T>{batch * tokens_, static_cast<int>(width_), queries_.data(), width_, dqkv, 3 * width_});
  }

 private:
  static std::int64_t own_width(std::int64_t width, std::int64_t heads) {
    if (heads < 1 || width % heads != 0)
      throw Error(ErrorCode::invalid_argument, "attention of width " + std::to_string(width) +
                                                   " cannot be shared by " + std::to_string(heads) +
                                                   " heads");
    return width / heads;
  }

  static std::size_t bytes(std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); }

  /// Part 0, 1 or 2 (q, k, v) of a head: for each image tokens x own width.
  Matrix of_head(const T* qkv, std::int64_t part, std::int64_t head) const {
    return {qkv + part * width_ + head * own_, 3 * width_, 1, tokens_ * 3 * width_};
  }

  /// The columns of a head in rows of `width`.
  Matrix result_of(const T* y, std::int64_t head) const {
    return {y + head * own_, width_, 1, tokens_ * width_};
  }

  /// The probabilities of a head.
  Matrix share(std::int64_t head, std::int64_t batch) const {
    return {probabilities_.data() + head * batch * tokens_ * tokens_, tokens_, 1, tokens_ * tokens_};
  }

  static Matrix turned(const Matrix& matrix) {
    return {matrix.data, matrix.column, matrix.row, matrix.batch};
  }

  void multiply(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a,
                const Matrix& b, const Matrix& result) const {
    MultiplyCall call;
    call.batches = batch;
    call.m = m;
    call.n = n;
    call.k = k;
    call.a = a;
    call.b = b;
    call.result = const_cast<void*>(result.data);
    call.result_row = result.row;
    call.result_batch = result.batch;
    call.element = call.result_element = element_of<T>();
    call.tf32 = room_.allows_tf32();
    room_.ops.multiply(call);
  }

  Room& room_;
  const std::int64_t tokens_;
  const std::int64_t width_;
  const std::int64_t heads_;
  const std::int64_t own_;  ///< width of a head
  const float factor_;
  const Memory<T> probabilities_;
  const Memory<T> gradient_;  ///< of one head's probabilities
  const Memory<T> queries_;   ///< gradient of q, where it waits
};

}  // namespace muster::nn::gpu
