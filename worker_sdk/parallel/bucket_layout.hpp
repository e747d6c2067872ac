// SPDX-License-Identifier: Apache-2.0
// How gradients are cut into buckets: what a reducer is asked for, and which parameter stands where. Pure.
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

/// What of a model each rank holds whole, and what in shards; see docs/parallel.md.
enum class Form : std::uint8_t {
  ddp,    ///< everything whole
  zero1,  ///< the optimizer's state in shards
  zero2,  ///< gradients, too
  fsdp,   ///< parameters, too
};

/// "ddp", "zero1", "zero2", "fsdp".
const char* name_of(Form form);

/// How a model is cut into shards. A world of one has none: there every form is ddp.
struct Sharding {
  Form form = Form::ddp;
  /// zero2, fsdp: the first parameter of each unit, ascending from 0. Backward works on one unit after the
  /// other, from the last one on, so their buckets hold whole units.
  std::vector<std::size_t> unit_begins = {};
  /// fsdp: neighbouring units share a bucket up to so many bytes. 0: each has its own.
  std::size_t unit_bytes = 0;
  /// fsdp: buckets whose parameters are gathered while another one is used.
  std::size_t prefetch = 1;
  /// In place of ReducerOptions::bucket_step: applies the optimizer to this rank's shard of a bucket. Called
  /// as that one; `scale` as there.
  std::function<void(std::size_t bucket, float scale)> step = {};
};

struct ReducerOptions {
  /// A bucket is closed when it reaches this many bytes. Default: 25 MiB, as PyTorch's DDP.
  std::size_t bucket_bytes = std::size_t{25} << 20;
  /// The same number for the bucket that is reduced first, smaller so that reducing starts early. Default: 1
  /// MiB.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  /// The bucket that is reduced last has as few of the model's first parameters as reach this many bytes:
  /// no computation is left behind which it could hide. 0: as many as come. Default: 1 MiB.
  std::size_t last_bucket_bytes = std::size_t{1} << 20;
  /// The hook that sums buckets. Null: all_reduce in f32. See bucket_hook.hpp.
  std::shared_ptr<BucketHook> hook = nullptr;
  /// Called for each bucket, in order, as soon as it is reduced. gradient_ready(i) then also says that
  /// backward reads the value of parameter i no more. Not called in a step without any sample. Empty: the
  /// caller steps after finish_step().
  BucketStep bucket_step = {};
  /// Largest L2 norm of the mean gradient over all parameters; longer ones are scaled down to it. The norm is
  /// known when all buckets are reduced, so `bucket_step` is then called for all of them in finish_step(), by
  /// its caller. Without a `bucket_step` it is the caller's to apply clip_scale(). 0: no clipping.
  double max_norm = 0;
  /// Before the first bucket of a step the ranks wait for each other in an all_reduce of 4 bytes, so that the
  /// wait for late ranks is told apart from the sums (StepTiming::met). Alike on all ranks.
  bool meet_first = false;
  /// Micro-batches into which a step of all ranks is cut, for the same bits on every world size; see
  /// deterministic.hpp. 0: not wanted.
  int deterministic_micro_batches = 0;
  /// Other forms than ddp take neither `hook` nor `deterministic_micro_batches`.
  Sharding sharding = {};
  /// The store over which the ranks compare their models. Each reducer of a group uses it in turn, so it is a
  /// store that all ranks of the group share. Null: they compare over the group.
  StoreClient* store = nullptr;
};

namespace parallel {

/// A contiguous range of the arena that is reduced with one call.
struct Bucket {
  std::size_t offset = 0;
  std::size_t elements = 0;
  /// Indices of its parameters, in the order in which they lie.
  std::vector<std::size_t> parameters;
  /// Its range of BucketLayout::norm_blocks.
  std::size_t norm_begin = 0;
  std::size_t norm_end = 0;
};

/// A part of one parameter's gradient whose squares are summed on their own. The sums of all blocks, added in
/// their order, are the square of the norm: the same bits whatever the buckets.
struct NormBlock {
  std::int64_t offset = 0;  ///< in the arena
  std::int64_t count = 0;
};

/// Floats of a NormBlock; the last one of a parameter has fewer.
inline constexpr std::size_t kNormBlockFloats = 4096;

struct BucketLayout {
  /// The buckets in the order in which they are reduced: the model's last parameters first.
  std::vector<Bucket> buckets;
  /// The first element and the bucket of each parameter.
  std::vector<std::size_t> offsets;
  std::vector<std::size_t> bucket_of;
  /// Floats of each parameter, with the gap behind it.
  std::vector<std::size_t> sizes;
  /// The blocks of all parameters, the model's first parameter first.
  std::vector<NormBlock> norm_blocks;
  /// Number of floats in parameters and gaps.
  std::size_t elements = 0;
};

/// Floats between the starts of two parameters are a multiple of this, so that each starts a cache line.
inline constexpr std::size_t kAlignElements = 16;

/// Floats before an arena of gradients that travel with its first bucket: samples, tallies, zeros up to a
/// cache line.
inline constexpr std::size_t kHeaderFloats = 16;

/// Throws Error (invalid_argument) for no parameters, or a shape that is empty, not positive or too large.
/// Other forms than ddp pad each bucket so that it divides into `ranks` parts of whole cache lines.
BucketLayout plan_buckets(const std::vector<ParameterSpec>& parameters, const ReducerOptions& options,
                          int ranks = 1);

/// The model and the bucket sizes as text, one line per parameter: equal text means equal layout.
std::string describe_layout(const std::vector<ParameterSpec>& parameters, const ReducerOptions& options);

/// A sentence about the first line in which two descriptions differ.
std::string first_difference(const std::string& mine, int my_rank, const std::string& theirs, int their_rank);

}  // namespace parallel
}  // namespace muster
