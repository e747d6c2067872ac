// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/message/partial.hpp"

namespace muster::message {

void Partial::begin(const std::byte* own, std::byte* result, std::size_t bytes) const {
  reduce_partly(std::span(&own, 1), result, count(bytes), call_.type, call_.op);
}

void Partial::add(const std::byte* own, std::span<const std::byte* const> others, std::byte* result,
                  std::size_t bytes) {
  if (is_wider()) {
    widened_.resize(wide(bytes));
    begin(own, widened_.data(), bytes);
    own = widened_.data();
  }
  sources_.assign(1, own);
  sources_.insert(sources_.end(), others.begin(), others.end());
  reduce(sources_, std::span(&result, 1), count(bytes), partial_type(call_.type), partial_op(call_.op));
}

void Partial::complete(const std::byte* own, std::span<const std::byte* const> others, std::byte* result,
                       std::size_t bytes) {
  if (!is_wider()) {
    add(own, others, result, bytes);
    if (call_.op == ReduceOp::avg) finish(result, result, count(bytes), call_.type, call_.op, ranks_);
    return;
  }
  widened_.resize(wide(bytes));
  add(own, others, widened_.data(), bytes);
  finish(widened_.data(), result, count(bytes), call_.type, call_.op, ranks_);
}

}  // namespace muster::message
