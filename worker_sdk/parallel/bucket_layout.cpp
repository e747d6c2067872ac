// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/bucket_layout.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <sstream>

namespace muster {
namespace parallel {
namespace {

/// The most floats of a model, 64 GiB of gradients: far above any model of this SDK, far below overflow.
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

/// The number of the model's first parameters that reach `bytes`, which are reduced last; 0: no such bucket.
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

/// Plans the blocks for the norm. Buckets hold the parameters in reverse order, so the blocks of each bucket
/// are a range.
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

/// The number of bytes at which a bucket is closed, if no layer is larger. Of zero2 two buckets of gradients
/// are in flight, which shall be some eighth of the model: with larger ones it would hold more than zero1.
std::size_t bucket_bytes_of(const std::vector<ParameterSpec>& parameters, const ReducerOptions& options) {
  if (options.sharding.form != Form::zero2) return options.bucket_bytes;
  constexpr std::size_t kLeast = std::size_t{1} << 20;
  std::size_t floats = 0;
  for (const ParameterSpec& parameter : parameters) {
    require_valid(parameter);
    floats += aligned(parameter.elements());
  }
  return std::min(options.bucket_bytes, std::max(kLeast, floats * sizeof(float) / 16));
}

/// Decides where buckets end.
class Cuts {
 public:
  Cuts(const std::vector<ParameterSpec>& parameters, const ReducerOptions& options)
      : options_(options),
        bucket_bytes_(bucket_bytes_of(parameters, options)),
        last_(begin_of_last_bucket(parameters, options.last_bucket_bytes)),
        unit_floats_(parameters.size()) {
    if (options.sharding.form < Form::zero2) return;
    std::size_t end = parameters.size();
    for (std::size_t u = options.sharding.unit_begins.size(); u-- > 0;) {
      for (std::size_t i = options.sharding.unit_begins[u]; i < end; ++i) {
        require_valid(parameters[i]);
        unit_floats_[end - 1] += aligned(parameters[i].elements());
      }
      end = options.sharding.unit_begins[u];
    }
  }

  /// Whether parameter `i` begins a new bucket after `buckets`. The parameter that comes next in the layout
  /// has the next lower number in the model.
  bool before(std::size_t i, const std::vector<Bucket>& buckets) const {
    if (buckets.empty()) return true;
    const Form form = options_.sharding.form;
    const bool in_unit = form >= Form::zero2 && unit_floats_[i] == 0;
    if (in_unit) return false;
    const std::size_t bytes = buckets.back().elements * sizeof(float);
    if (form == Form::fsdp) return bytes + unit_floats_[i] * sizeof(float) > options_.sharding.unit_bytes;
    const std::size_t first = form == Form::zero2 ? std::min(options_.first_bucket_bytes, bucket_bytes_)
                                                  : options_.first_bucket_bytes;
    return bytes >= (buckets.size() <= 1 ? first : bucket_bytes_) || i + 1 == last_;
  }

 private:
  const ReducerOptions& options_;
  const std::size_t bucket_bytes_;
  const std::size_t last_;
  std::vector<std::size_t> unit_floats_;  ///< floats of the unit whose last parameter this is; otherwise 0
};

/// Makes the last bucket a multiple of `floats` long. The gap belongs to the bucket's last parameter.
void pad_last(BucketLayout& layout, std::size_t floats) {
  if (layout.buckets.empty()) return;
  Bucket& bucket = layout.buckets.back();
  const std::size_t gap = (floats - bucket.elements % floats) % floats;
  bucket.elements += gap;
  layout.elements += gap;
  layout.sizes[bucket.parameters.back()] += gap;
}

}  // namespace

}  // namespace parallel

const char* name_of(Form form) {
  switch (form) {
    case Form::ddp:
      return "ddp";
    case Form::zero1:
      return "zero1";
    case Form::zero2:
      return "zero2";
    case Form::fsdp:
      return "fsdp";
  }
  return "";
}

namespace parallel {

BucketLayout plan_buckets(const std::vector<ParameterSpec>& parameters, const ReducerOptions& options,
                          int ranks) {
  if (parameters.empty()) throw Error(ErrorCode::invalid_argument, "a reducer needs at least one parameter");
  const Cuts cuts(parameters, options);
  const std::size_t multiple =
      options.sharding.form == Form::ddp ? kAlignElements : kAlignElements * static_cast<std::size_t>(ranks);
  BucketLayout layout;
  layout.offsets.resize(parameters.size());
  layout.bucket_of.resize(parameters.size());
  layout.sizes.resize(parameters.size());
  for (std::size_t i = parameters.size(); i-- > 0;) {
    require_valid(parameters[i]);
    if (cuts.before(i, layout.buckets)) {
      pad_last(layout, multiple);
      layout.buckets.push_back({layout.elements, 0, {}});
    }
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
  pad_last(layout, multiple);
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
  // The following options are described only if they are used, because most models are not trained in a
  // deterministic world.
  if (options.deterministic_micro_batches > 0)
    text += "; " + std::to_string(options.deterministic_micro_batches) + " micro-batches";
  const Sharding& sharding = options.sharding;
  if (sharding.form != Form::ddp) text += std::string("; ") + name_of(sharding.form);
  if (sharding.form == Form::fsdp) text += ", units up to " + std::to_string(sharding.unit_bytes) + " bytes";
  if (sharding.form != Form::ddp && sharding.ranks > 0)
    text += "; shards of " + std::to_string(sharding.ranks) + " ranks";
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

}  // namespace parallel
}  // namespace muster
