// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/reducer.hpp"

#include "muster/error.hpp"
#include "worker_sdk/parallel/agreement.hpp"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

constexpr std::int64_t kMaxSamples = std::int64_t{1} << 24;

ProcessGroup* if_shared(ProcessGroup* group) {
  return group != nullptr && group->size() > 1 ? group : nullptr;
}

ReducerOptions fitted(const ReducerOptions& options, const ProcessGroup* group) {
  ReducerOptions fitted = parallel::with_tree(options);
  fitted.sharding.form = group == nullptr ? Form::ddp : options.sharding.form_in(group->size());
  if (fitted.sharding.form != Form::ddp) fitted.bucket_step = nullptr;
  return fitted;
}

}  // namespace

Reducer::Reducer(std::vector<ParameterSpec> parameters, ProcessGroup* group, const ReducerOptions& options)
    : parameters_(std::move(parameters)),
      options_(fitted(options, if_shared(group))),
      layout_(parallel::plan_buckets(parameters_, options_,
                                     group == nullptr ? 1 : options_.sharding.sharing(group->size()))),
      group_(if_shared(group)),
      is_ready_(parameters_.size(), true) {
  if (options_.deterministic_micro_batches > 0)
    plan_ = share_micro_batches(options_.deterministic_micro_batches, group_);
  if (group_ != nullptr)
    parallel::require_same_layout(*group_, options_.store, parallel::describe_layout(parameters_, options_));
  if (options_.sharding.form != Form::ddp) {
    auto shards = std::make_unique<parallel::ShardedBuckets>(layout_, parameters_, options_, *group_);
    shards_ = shards.get();
    owned_ = std::move(shards);
  } else {
    const std::size_t floats = parallel::kHeaderFloats + layout_.elements;
    float* const header = group_ == nullptr ? memory_.allocate(floats, "gradients")
                                            : static_cast<float*>(group_->allocate(floats * sizeof(float)));
    owned_ =
        std::make_unique<parallel::WholeBuckets>(layout_, parameters_, options_.hook.get(), header, group_);
  }
  header_ = owned_->header();
  pipeline_.emplace(layout_, options_, memory_, *owned_, group_);
}

float* Reducer::gradient(std::size_t parameter) const {
  const std::size_t bucket = layout_.bucket_of.at(parameter);
  return owned_->gradients(bucket) + (offset(parameter) - layout_.buckets[bucket].offset);
}

void Reducer::broadcast(float* values) {
  if (group_ != nullptr) group_->broadcast(values, elements() * sizeof(float), 0);
}

void Reducer::begin_micro_batch(std::int64_t samples) {
  open(samples, Phase::micro_batch);
  samples_ += samples;
  pipeline_->begin(micro_batches_, false);
}

void Reducer::finish_micro_batch() {
  require_all_ready(Phase::micro_batch);
  pipeline_->end();
  ++micro_batches_;
  phase_ = Phase::idle;
}

void Reducer::begin_step(std::int64_t samples) {
  if (plan_ && micro_batches_ + 1 != static_cast<unsigned>(plan_->count))
    throw Error(ErrorCode::invalid_argument,
                "a step of this deterministic world has " + std::to_string(plan_->count) +
                    " micro-batches on each rank; begin_step() comes with the last of them, and " +
                    std::to_string(micro_batches_) + " came before");
  open(samples, Phase::step);
  header_[0] = static_cast<float>(samples_ + samples);
  std::copy(tallies_.begin(), tallies_.end(), header_ + 1);
  tallies_ = {};
  pipeline_->begin(micro_batches_, true);
}

void Reducer::gradient_ready(std::size_t parameter) {
  if (phase_ == Phase::idle || parameter >= is_ready_.size() || is_ready_[parameter])
    throw Error(ErrorCode::invalid_argument,
                "gradient_ready(" + std::to_string(parameter) +
                    ") outside a step, for no parameter, or for the second time in one step");
  is_ready_[parameter] = true;
  pipeline_->ready(parameter);
}

void Reducer::mark_unused(std::size_t parameter) {
  if (phase_ != Phase::idle && parameter < parameters_.size() && !is_ready_[parameter])
    std::fill_n(gradient(parameter), parameters_[parameter].elements(), 0.0F);
  gradient_ready(parameter);
}

std::int64_t Reducer::finish_step() {
  require_all_ready(Phase::step);
  if (pipeline_->ready_buckets() != buckets())
    throw Error(
        ErrorCode::state,
        "gradient_ready() was called by several threads at once; a reducer takes one thread at a time");
  pipeline_->end();
  phase_ = Phase::idle;
  micro_batches_ = 0;
  samples_ = 0;
  return this->samples();
}

void Reducer::set_tally(std::size_t i, float value) {
  if (i >= kTallies)
    throw Error(ErrorCode::invalid_argument,
                "tally " + std::to_string(i) + "; there are 0 to " + std::to_string(kTallies - 1));
  if (phase_ == Phase::step) {
    if (pipeline_->ready_buckets() > 0)
      throw Error(ErrorCode::invalid_argument,
                  "a tally after the first bucket was launched; set it before backward");
    header_[1 + i] = value;
  } else {
    tallies_[i] = value;
  }
}

std::vector<HookState> Reducer::hook_state() const {
  return group_ != nullptr && options_.hook != nullptr ? options_.hook->state() : std::vector<HookState>();
}

std::string Reducer::call(const char* verb, Phase phase) {
  return std::string(verb) + (phase == Phase::micro_batch ? "_micro_batch()" : "_step()");
}

void Reducer::open(std::int64_t samples, Phase phase) {
  if (phase_ != Phase::idle)
    throw Error(ErrorCode::invalid_argument,
                call("begin", phase) + " before " + call("finish", phase_) + " of the one before");
  if (samples < 0 || samples_ + samples >= kMaxSamples)
    throw Error(ErrorCode::invalid_argument, "a step of " + std::to_string(samples_ + samples) +
                                                 " samples; give 0 to " + std::to_string(kMaxSamples - 1));
  phase_ = phase;
  std::fill(is_ready_.begin(), is_ready_.end(), false);
}

void Reducer::require_all_ready(Phase phase) const {
  if (phase_ != phase)
    throw Error(ErrorCode::invalid_argument, call("finish", phase) + " without " + call("begin", phase));
  for (std::size_t i = 0; i < is_ready_.size(); ++i)
    if (!is_ready_[i])
      throw Error(ErrorCode::invalid_argument,
                  "parameter " + parameters_[i].name +
                      " has no gradient in this step; call gradient_ready() or mark_unused() for each");
}

}  // namespace muster
