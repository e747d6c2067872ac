// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/bucket_layout.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <sstream>

namespace muster::parallel {
namespace {

/// 64 GiB of gradients: far above any model of this SDK, far below overflow.
constexpr std::size_t kMaxElements = std::size_t{1} << 34;

std::size_t aligned(std::size_t elements) {
  return (elements + kAlignElements - 1) / kAlignElements * kAlignElements;
}

std::string shape_text(const ParameterSpec& parameter) {
  return parameter.name + " [" + joined(parameter.shape) + "]";
}

void require_valid(const ParameterSpec& parameter) {
  std::size_t room = kMaxElements;
  for (const std::int64_t extent : parameter.shape) {
    if (extent < 1 || static_cast<std::size_t>(extent) > room)
      throw Error(ErrorCode::invalid_argument, "parameter " + shape_text(parameter) +
                                                   " is empty or too large; give every extent as 1 or more");
    room /= static_cast<std::size_t>(extent);
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Number of first parameters of the model that reach `bytes`; they are reduced last. 0: no such bucket.
std::size_t begin_of_last_bucket(const std::vector<ParameterSpec>& parameters, std::size_t bytes) {
  if (bytes == 0) return 0;
  std::size_t floats = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    require_valid(parameters[i]);
    floats += aligned(parameters[i].elements());
    if (floats * sizeof(float) >= bytes) return i + 1;
  }
  return 0;
}

/// Buckets hold the parameters in reverse order, so the blocks of each are a range.
void plan_norm_blocks(const std::vector<ParameterSpec>& parameters, BucketLayout& layout) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Bucket& bucket = layout.buckets[layout.bucket_of[i]];
    if (i == bucket.parameters.back()) bucket.norm_begin = layout.norm_blocks.size();
    const std::size_t elements = parameters[i].elements();
    for (std::size_t begin = 0; begin < elements; begin += kNormBlockFloats)
      layout.norm_blocks.push_back({static_cast<std::int64_t>(layout.offsets[i] + begin),
                                    static_cast<std::int64_t>(std::min(kNormBlockFloats, elements - begin))});
    bucket.norm_end = layout.norm_blocks.size();
  }
}

}  // namespace

BucketLayout plan_buckets(const std::vector<ParameterSpec>& parameters, const ReducerOptions& options) {
  if (parameters.empty()) throw Error(ErrorCode::invalid_argument, "a reducer needs at least one parameter");
  const std::size_t last = begin_of_last_bucket(parameters, options.last_bucket_bytes);
  BucketLayout layout;
  layout.offsets.resize(parameters.size());
  layout.bucket_of.resize(parameters.size());
  layout.sizes.resize(parameters.size());
  for (std::size_t i = parameters.size(); i-- > 0;) {
    require_valid(parameters[i]);
    const std::size_t cap = layout.buckets.size() <= 1 ? options.first_bucket_bytes : options.bucket_bytes;
    if (layout.buckets.empty() || layout.buckets.back().elements * sizeof(float) >= cap || i + 1 == last)
      layout.buckets.push_back({layout.elements, 0, {}});
    Bucket& bucket = layout.buckets.back();
    const std::size_t size = layout.sizes[i] = aligned(parameters[i].elements());
    layout.offsets[i] = layout.elements;
    layout.bucket_of[i] = layout.buckets.size() - 1;
    bucket.parameters.push_back(i);
    bucket.elements += size;
    layout.elements += size;
    if (layout.elements > kMaxElements)
      throw Error(ErrorCode::invalid_argument,
                  "the model has more than 2^34 parameters, more than a reducer holds");
  }
  plan_norm_blocks(parameters, layout);
  return layout;
}

std::string describe_layout(const std::vector<ParameterSpec>& parameters, const ReducerOptions& options) {
  std::string text;
  for (const ParameterSpec& parameter : parameters) text += shape_text(parameter) + "\n";
  text += "buckets of " + std::to_string(options.first_bucket_bytes) + " and " +
          std::to_string(options.bucket_bytes) + " bytes, the last of " +
          std::to_string(options.last_bucket_bytes) + "; summed by " +
          (options.hook == nullptr ? "all_reduce" : options.hook->describe());
  // Only what makes a difference between ranks is said: most models are not trained in a deterministic world.
  if (options.deterministic_micro_batches > 0)
    text += "; " + std::to_string(options.deterministic_micro_batches) + " micro-batches";
  return text + "\n";
}

std::string first_difference(const std::string& mine, int my_rank, const std::string& theirs,
                             int their_rank) {
  const std::vector<std::string> a = lines_of(mine);
  const std::vector<std::string> b = lines_of(theirs);
  std::size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  const auto line = [i](const std::vector<std::string>& lines) {
    return i + 1 < lines.size() ? lines[i]
                                : (i < lines.size() ? "no more parameters, " + lines[i] : "nothing");
  };
  return "parameter " + std::to_string(i) + ": rank " + std::to_string(my_rank) + " has " + line(a) +
         ", rank " + std::to_string(their_rank) + " has " + line(b);
}

}  // namespace muster::parallel
