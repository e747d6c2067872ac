// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/agreement.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/fnv1a.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"

#include <algorithm>
#include <vector>

namespace muster::parallel {
namespace {

/// A description longer than this comes from a broken peer: 2^20 parameters of 256 bytes each.
constexpr std::int64_t kMaxDescriptionBytes = std::int64_t{1} << 28;

std::string text_of(ProcessGroup& group, const std::string& mine, int root) {
  auto size = static_cast<std::int64_t>(mine.size());
  group.broadcast(&size, sizeof size, root);
  if (size < 0 || size > kMaxDescriptionBytes)
    throw Error(ErrorCode::mismatch, "rank " + std::to_string(root) + " describes its model with " +
                                         std::to_string(size) + " bytes; run the same program on every rank");
  std::string text = mine;
  text.resize(static_cast<std::size_t>(size));
  group.broadcast(text.data(), text.size(), root);
  return text;
}

/// Floats of one broadcast of small tensors.
constexpr std::size_t kPackedFloats = std::size_t{1} << 20;

}  // namespace

void require_same_layout(ProcessGroup& group, const std::string& description) {
  const std::uint64_t mine = fnv1a(description);
  std::uint64_t first = mine;
  group.broadcast(&first, sizeof first, 0);
  std::int32_t differing = first == mine ? group.size() : group.rank();
  group.all_reduce(&differing, 1, DataType::i32, ReduceOp::min);
  if (differing == group.size()) return;
  const std::string zero = text_of(group, description, 0);
  const std::string other = text_of(group, description, differing);
  refuse_models(first_difference(zero, 0, other, differing));
}

void refuse_models(const std::string& difference) {
  throw Error(ErrorCode::mismatch, "the ranks train different models; " + difference +
                                       "; start the same program with the same options on every rank");
}

void broadcast_tensors(ProcessGroup& group, std::span<const std::span<float>> tensors) {
  std::vector<float> packed;
  std::vector<std::span<float>> members;
  const auto flush = [&] {
    group.broadcast(packed.data(), packed.size() * sizeof(float), 0);
    const float* from = packed.data();
    for (const std::span<float> tensor : members) {
      std::copy_n(from, tensor.size(), tensor.begin());
      from += tensor.size();
    }
    packed.clear();
    members.clear();
  };
  for (const std::span<float> tensor : tensors) {
    packed.insert(packed.end(), tensor.begin(), tensor.end());
    members.push_back(tensor);
    if (packed.size() >= kPackedFloats) flush();
  }
  if (!packed.empty()) flush();
}

}  // namespace muster::parallel
