// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/gpu/reduce/device_reducer.hpp"

#include <type_traits>
#include <utility>

namespace muster::nn::gpu {
namespace {

using Time = std::chrono::steady_clock::time_point;

static_assert(sizeof(NormBlock) == sizeof(parallel::NormBlock) &&
              std::is_trivially_copyable_v<parallel::NormBlock>);

}  // namespace

DeviceReducer::DeviceReducer(const parallel::BucketLayout& layout, const ReducerOptions& options,
                             const optim::OptimizerOptions& optimizer, DeviceArenas arenas, float* header,
                             double* overflow, RankSums& sums, DeviceMemory& memory, Ops& ops,
                             int micro_batches, std::size_t first_mark)
    : BucketReducer(layout, options, memory, header, !sums.is_alone(), Fold::bucket),
      optimizer_(optimizer),
      arenas_(std::move(arenas)),
      overflow_(overflow),
      sums_(sums),
      ops_(ops),
      first_mark_(first_mark) {
  waiting_.reserve(micro_batches);
  timing_.buckets.resize(layout.buckets.size());
  if (!clips()) return;
  const std::size_t blocks = layout.norm_blocks.size();
  blocks_ = allocate<NormBlock>(ops, blocks, "blocks of the gradient's norm");
  squares_ = allocate<double>(ops, blocks, "partial sums of the gradient's norm");
  clip_ = allocate<float>(ops, 1, "the gradient's norm");
  ops.to_device(blocks_, layout.norm_blocks.data(), blocks * sizeof(NormBlock));
}

/// Values change while backward still runs. The side stream begins behind all that the main stream has so
/// far, and a layer says that a gradient is ready only behind its last call that reads the parameter's
/// values.
void DeviceReducer::launch(std::size_t buckets) {
  ops_.on_side([&](void* stream) {
    stream_ = stream;
    for (; launched_ < buckets; ++launched_) reduce(launched_);
  });
}

void DeviceReducer::close() {
  ops_.mark(waited_mark());
  if (clips())
    ops_.on_side([this](void*) {
      ops_.run(ClipFactor{static_cast<int>(layout_.norm_blocks.size()), squares_, header_, options_.max_norm,
                          arenas_.step_values, overflow_, clip_});
      step_range(0, layout_.elements);
    });
  ops_.join_side();
  ops_.mark(finished_mark());
}

void DeviceReducer::measure(std::size_t bucket) {
  const parallel::Bucket& range = layout_.buckets[bucket];
  ops_.run(SquareSums{static_cast<int>(range.norm_end - range.norm_begin), blocks_ + range.norm_begin,
                      gradients(), squares_ + range.norm_begin});
}

void DeviceReducer::step_range(std::size_t begin, std::size_t end) {
  const optim::OptimizerOptions& o = optimizer_;
  const ArenaPart part = {static_cast<std::int64_t>(begin),
                          static_cast<std::int64_t>(end),
                          arenas_.values,
                          gradients(),
                          header_,
                          clip_,
                          arenas_.decays,
                          arenas_.step_values};
  const auto decay = static_cast<float>(o.weight_decay);
  if (o.kind == "sgd") {
    float* const velocity = arenas_.states.empty() ? nullptr : arenas_.states[0];
    ops_.run(SgdStep{part, velocity, static_cast<float>(o.momentum), decay, o.nesterov});
  } else {
    ops_.run(AdamStep{part, arenas_.states[0], arenas_.states[1], static_cast<float>(o.beta1),
                      static_cast<float>(1 - o.beta1), static_cast<float>(o.beta2),
                      static_cast<float>(1 - o.beta2), static_cast<float>(o.epsilon), decay,
                      o.kind == "adamw"});
  }
  if (arenas_.average != nullptr)
    ops_.run(
        MoveAverage{{part.begin, part.end}, overflow_, arenas_.values, arenas_.step_values, arenas_.average});
}

const StepTiming& DeviceReducer::timing(Time start) {
  const auto at = [&](std::size_t mark) { return start + ops_.between(0, mark); };
  timing_.began = start;
  timing_.waited = at(waited_mark());
  timing_.finished = at(finished_mark());
  const bool meets = shared_ && options_.meet_first;
  timing_.meeting = meets ? at(mark_of(Moment::meeting, 0)) : start;
  timing_.met = meets ? at(mark_of(Moment::met, 0)) : timing_.meeting;
  for (std::size_t b = 0; b < timing_.buckets.size(); ++b) {
    BucketTiming& bucket = timing_.buckets[b];
    bucket.reduced = at(mark_of(Moment::reduced, b));
    bucket.started = shared_ ? at(mark_of(Moment::started, b)) : bucket.reduced;
    bucket.stepped = clips() ? bucket.reduced : at(mark_of(Moment::stepped, b));
    bucket.ready = bucket.started;
  }
  // The last gradients of all stand when backward ends.
  timing_.buckets.back().ready = timing_.waited;
  return timing_;
}

}  // namespace muster::nn::gpu
