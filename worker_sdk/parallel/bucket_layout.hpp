// SPDX-License-Identifier: Apache-2.0
// Plans how gradients are cut into buckets: the options of a reducer, and the place of each parameter. Pure.
#pragma once

#include "worker_sdk/parallel/bucket_hook.hpp"
#include "worker_sdk/parallel/parameter.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster {

class StoreClient;

/// Applies the optimizer to the floats [begin, end) of the arena. The gradient is gradients()[i] * `scale`: 1
/// / samples of all ranks, times the factor of clipping. Runs on the reducer's thread or on the one that is
/// in finish_step(); in a world of one in gradient_ready() or mark_unused(). With max_norm: in finish_step().
using BucketStep = std::function<void(std::size_t begin, std::size_t end, float scale)>;

/// The parts of a model that each rank holds in shards instead of whole; see docs/parallel.md.
enum class Form : std::uint8_t {
  ddp,    ///< nothing is in shards
  zero1,  ///< the optimizer's state is in shards
  zero2,  ///< the optimizer's state and the gradients are in shards
  fsdp,   ///< the optimizer's state, the gradients and the parameters are in shards
};

/// The form's name: "ddp", "zero1", "zero2", "fsdp".
const char* name_of(Form form);

/// The cut of a model into shards. A world of one rank has no shards, so there every form is ddp.
struct Sharding {
  Form form = Form::ddp;
  /// The first parameter of each unit, ascending from 0, for zero2 and fsdp. Backward works on one unit after
  /// the other, from the last one on, so the buckets of these forms hold whole units.
  std::vector<std::size_t> unit_begins = {};
  /// The number of bytes up to which neighbouring units share a bucket, for fsdp. 0: each unit has its own
  /// bucket.
  std::size_t unit_bytes = 0;
  /// The number of buckets whose parameters are gathered while another one is used, for fsdp.
  std::size_t prefetch = 1;
  /// The number of neighbouring ranks that have one copy of the model together; it divides the ranks. Those
  /// with the same part of several copies sum its gradients. 0: all ranks. Default: 0.
  int ranks = 0;

  /// That number in a world of so many ranks.
  int sharing(int world) const { return ranks == 0 ? world : ranks; }

  /// The form there: where each rank has a copy of its own, all forms are ddp.
  Form form_in(int world) const { return sharing(world) == 1 ? Form::ddp : form; }
};

struct ReducerOptions {
  /// A bucket is closed when it reaches this many bytes; with the form zero2 at the latest when it has a
  /// sixteenth of the model, or 1 MiB. Default: 25 MiB, as PyTorch's DDP.
  std::size_t bucket_bytes = std::size_t{25} << 20;
  /// The number of bytes at which the bucket that is reduced first is closed, smaller so that reducing starts
  /// early. Default: 1 MiB.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  /// The bucket that is reduced last has as few of the model's first parameters as reach this many bytes,
  /// because no computation is left that could hide its reduction. 0: no such rule. Default: 1 MiB.
  std::size_t last_bucket_bytes = std::size_t{1} << 20;
  /// The hook that sums buckets. Null: all_reduce in f32. See bucket_hook.hpp.
  std::shared_ptr<BucketHook> hook = nullptr;
  /// Called for each bucket, in order, as soon as it is reduced. gradient_ready(i) then also means that
  /// backward does not read the value of parameter i any more. Not called in a step without any sample.
  /// Empty: the caller applies the optimizer after finish_step().
  BucketStep bucket_step = {};
  /// The same for the part of a bucket that is this rank's own (parallel::OwnedBuckets): all of it, or its
  /// shard. It takes the place of `bucket_step`, which a model in shards does not call.
  std::function<void(std::size_t bucket, float scale)> own_step = {};
  /// The largest L2 norm of the mean gradient over all parameters; a gradient with a larger norm is scaled
  /// down to it. The norm is known only when all buckets are reduced, so `bucket_step` or
  /// `own_step` is then called for all of them in finish_step(), by its caller. Without either the caller
  /// applies clip_scale(). 0: no
  /// clipping.
  double max_norm = 0;
  /// Whether the ranks wait for each other before the first bucket of a step, in an all_reduce of 4 bytes, so
  /// that the wait for late ranks can be told from the sums (StepTiming::met). The same on all ranks.
  bool meet_first = false;
  /// Micro-batches into which a step of all ranks is cut, for the same bits on every world size; see
  /// deterministic.hpp. 0: not wanted.
  int deterministic_micro_batches = 0;
  /// The form of the model, and its shards. Other forms than ddp take neither `hook` nor
  /// `deterministic_micro_batches`.
  Sharding sharding = {};
  /// The store over which the ranks compare their models. Each reducer of a group uses it in turn, so all
  /// ranks of the group must share it. Null: they compare over the group.
  StoreClient* store = nullptr;
};

namespace parallel {

/// A contiguous range of the arena that is reduced with one call.
struct Bucket {
  std::size_t offset = 0;
  std::size_t elements = 0;
  /// The indices of its parameters, in the order of their places.
  std::vector<std::size_t> parameters;
  /// The range of its blocks in BucketLayout::norm_blocks.
  std::size_t norm_begin = 0;
  std::size_t norm_end = 0;
};

/// A part of one parameter's gradient whose squares are summed on their own. The sums of all blocks, added in
/// their order, are the square of the norm, so the bits do not depend on the buckets.
struct NormBlock {
  std::int64_t offset = 0;  ///< first float in the arena
  std::int64_t count = 0;
};

/// The number of floats in a NormBlock; the last block of a parameter may have fewer.
inline constexpr std::size_t kNormBlockFloats = 4096;

struct BucketLayout {
  /// The buckets in the order in which they are reduced: the model's last parameters first.
  std::vector<Bucket> buckets;
  /// The first element and the bucket of each parameter.
  std::vector<std::size_t> offsets;
  std::vector<std::size_t> bucket_of;
  /// The number of floats of each parameter, with the gap behind it.
  std::vector<std::size_t> sizes;
  /// The blocks of all parameters, the model's first parameter first.
  std::vector<NormBlock> norm_blocks;
  /// Number of floats in parameters and gaps.
  std::size_t elements = 0;
};

/// The distance in floats between the starts of two parameters is a multiple of this, so that each starts a
/// cache line.
inline constexpr std::size_t kAlignElements = 16;

/// The number of floats before an arena of gradients that travel with its first bucket: samples, tallies,
/// zeros up to a cache line.
inline constexpr std::size_t kHeaderFloats = 16;

/// Plans the buckets. Throws Error (invalid_argument) for no parameters, or a shape that is empty, not
/// positive or too large. Other forms than ddp pad each bucket so that it divides into `ranks` parts of whole
/// cache lines.
BucketLayout plan_buckets(const std::vector<ParameterSpec>& parameters, const ReducerOptions& options,
                          int ranks = 1);

/// The model and the bucket sizes as text, one line per parameter: equal text means equal layout.
std::string describe_layout(const std::vector<ParameterSpec>& parameters, const ReducerOptions& options);

/// A sentence about the first line in which two descriptions differ.
std::string first_difference(const std::string& mine, int my_rank, const std::string& theirs, int their_rank);

}  // namespace parallel
}  // namespace muster
