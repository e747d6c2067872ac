// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/loop/cpu_learner.hpp"

#include "muster/error.hpp"
#include "worker_sdk/parallel/statistics_exchange.hpp"
#include "worker_sdk/trainer/loop/learner.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace muster::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

/// Places of the figures that travel with a step.
enum Tally : std::size_t { kLoss, kCorrect, kTimeIsUp, kToldToStop };

/// The part of [begin, end) that lies in [from, to).
Clock::duration overlap(Clock::time_point begin, Clock::time_point end, Clock::time_point from,
                        Clock::time_point to) {
  return std::max(Clock::duration::zero(), std::min(end, to) - std::max(begin, from));
}

int rank_of(const ProcessGroup* group) {
  return group == nullptr ? 0 : group->rank();
}

data::LoaderOptions for_evaluation(data::LoaderOptions options) {
  options.augmentation = {};
  return options;
}

/// The images, and the batches of training images that are prepared.
std::size_t bytes_of_loader(const LearnerTask& task, const data::ImageData& data) {
  const auto batches = static_cast<std::size_t>(task.loader.prefetch + 1);
  return data.train.pixels.size() + data.test.pixels.size() +
         batches * std::min(task.batch_size, data.train.size()) * data::kImageBytes * sizeof(float);
}

}  // namespace

/// Running statistics in a deterministic world: every micro-batch starts from those before the step, and
/// their mean is what the step leaves, so that they do not depend on which rank computed which micro-batch.
class CpuLearner::Statistics {
 public:
  Statistics(const MicroBatches& plan, std::size_t elements, ProcessGroup* group)
      : share_(1.0F / static_cast<float>(plan.total)), sum_(plan, elements, group) {}

  void begin_micro_batch(std::span<float> buffers, bool first) {
    if (first)
      before_.assign(buffers.begin(), buffers.end());
    else
      std::copy(before_.begin(), before_.end(), buffers.begin());
  }

  void end_micro_batch(std::span<const float> buffers) { sum_.add(buffers); }

  void finish(std::span<float> buffers) {
    sum_.finish(buffers);
    for (float& value : buffers) value *= share_;
  }

 private:
  const float share_;
  TreeSum sum_;
  std::vector<float> before_;
};

CpuLearner::CpuLearner(const LearnerTask& task, const data::ImageData& data, ProcessGroup* group)
    : Learner(task, group),
      loader_bytes_(bytes_of_loader(task, data)),
      train_(data.train, task.loader),
      test_(data.test, for_evaluation(task.loader)) {
  const LearnerOptions& options = options_;
  nn::NetworkOptions network;
  network.precision = options.precision;
  if (options.sync_batch_norm) {
    exchange_ = make_group_statistics(group);
    network.sync_batch_norm = exchange_.get();
  }
  network_ = nn::make_network(options.model, network);
  const std::vector<ParameterSpec>& specs = spec().parameters;
  reducer_.emplace(specs, group, reducer_options());
  values_.resize(reducer_->elements());
  optim::Arena arena{values_.data(), reducer_->gradients(), reducer_->elements(), {}};
  std::vector<nn::ParameterSlot> slots;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    slots.push_back({values_.data() + reducer_->offset(i), reducer_->gradient(i)});
    if (specs[i].decay)
      arena.decay.push_back({reducer_->offset(i), reducer_->offset(i) + specs[i].elements()});
  }
  std::sort(arena.decay.begin(), arena.decay.end(),
            [](const optim::ArenaRange& a, const optim::ArenaRange& b) { return a.begin < b.begin; });
  optimizer_ = optim::make_optimizer(options.optimizer, std::move(arena));
  if (options.ema_decay > 0) average_.emplace(values_.size(), options.ema_decay);
  std::vector<Arena> arenas = {{"", values_}};
  for (Arena& state : optimizer_->state()) arenas.push_back(std::move(state));
  if (average_) arenas.push_back(average_->state());
  set_up(reducer_->offsets(), std::move(arenas));
  network_->bind(slots, buffers());
  if (plan_ && !running().empty())
    statistics_ = std::make_unique<Statistics>(*plan_, running().size(), group);
  share_state();
}

CpuLearner::~CpuLearner() = default;

void CpuLearner::set_steps(std::int64_t steps) {
  optimizer_->set_steps(steps);
  if (average_) average_->set_updates(steps);
}

void CpuLearner::put(Piece piece) {
  if (piece != Piece::statistics) network_->parameters_changed();
}

ReducerOptions CpuLearner::reducer_options() {
  ReducerOptions options = options_.reducer;
  options.bucket_step = [this](std::size_t begin, std::size_t end, float scale) {
    // On the reducer's thread a second team of threads would only disturb the one that computes.
    if (std::this_thread::get_id() != own_thread_) nn::set_threads(1);
    optimizer_->step(begin, end, learning_rate_, scale);
  };
  return options;
}

StepResult CpuLearner::step(const StepRequest& request) {
  const Clock::time_point start = Clock::now();
  StepResult result;
  learning_rate_ = request.learning_rate;
  optimizer_->begin_step();
  nn::BatchScore sum;
  for (int k = 0; k < request.micro_batches; ++k) {
    const Clock::time_point asked = Clock::now();
    const data::Batch batch = train_.next();
    const Clock::time_point given = Clock::now();
    result.times.data_wait += seconds(given - asked);
    if (recorder_ != nullptr) recorder_->span("data wait", Lane::compute, asked, given, steps());
    if (statistics_) statistics_->begin_micro_batch(running(), k == 0);
    const nn::BatchScore score =
        learn(batch, k + 1 == request.micro_batches, sum, request.votes, result.times);
    if (statistics_) statistics_->end_micro_batch(running());
    sum.loss += score.loss;
    sum.correct += score.correct;
  }
  finish(result);
  result.times.total = seconds(Clock::now() - start);
  return result;
}

nn::BatchScore CpuLearner::learn(const data::Batch& batch, bool last, const nn::BatchScore& before,
                                 const Votes& votes, StepTimes& times) {
  const auto samples = static_cast<std::int64_t>(batch.size());
  const auto classes = static_cast<std::size_t>(spec().classes);
  last ? reducer_->begin_step(samples) : reducer_->begin_micro_batch(samples);
  const Clock::time_point start = Clock::now();
  const float* logits = network_->forward(batch.images, samples, nn::Mode::train);
  // Grows only. A batch of none still needs a place to point to.
  logits_gradient_.resize(std::max(logits_gradient_.size(), (batch.size() + 1) * classes));
  const nn::BatchScore score = nn::softmax_cross_entropy(logits, batch.labels, batch.size(), classes,
                                                         logits_gradient_.data(), options_.label_smoothing);
  require_finite(score.loss);
  if (last) {
    reducer_->set_tally(kLoss, static_cast<float>(before.loss + score.loss));
    reducer_->set_tally(kCorrect, static_cast<float>(before.correct + score.correct));
    reducer_->set_tally(kTimeIsUp, votes.time_is_up ? 1.0F : 0.0F);
    reducer_->set_tally(kToldToStop, votes.told_to_stop ? 1.0F : 0.0F);
  }
  const Clock::time_point turned = Clock::now();
  network_->backward(logits_gradient_.data(), [this](std::size_t i) { reducer_->gradient_ready(i); });
  if (!last) reducer_->finish_micro_batch();
  const Clock::time_point end = Clock::now();
  times.forward += seconds(turned - start);
  times.backward += seconds(end - turned);
  if (recorder_ != nullptr) {
    recorder_->span("forward", Lane::compute, start, turned, steps());
    recorder_->span("backward", Lane::compute, turned, end, steps());
  }
  return score;
}

void CpuLearner::require_finite(double loss) {
  if (std::isfinite(loss)) return;
  throw diverged(steps(), rank_of(group_), network_->first_not_finite());
}

void CpuLearner::account(const StepTiming& timing, StepTimes& times) const {
  if (is_alone()) {
    // There is no other thread: buckets were stepped in the middle of backward.
    Clock::duration stepping{};
    for (const BucketTiming& bucket : timing.buckets)
      stepping += overlap(bucket.reduced, bucket.stepped, timing.began, timing.waited);
    times.backward -= seconds(stepping);
    times.optimizer = seconds(stepping) + seconds(timing.exposed());
    return;
  }
  Clock::duration exposed{};
  for (const BucketTiming& bucket : timing.buckets)
    exposed += overlap(bucket.started, bucket.reduced, timing.waited, timing.finished);
  times.exposed = seconds(exposed);
  times.communication = seconds(timing.communication());
  times.optimizer = seconds(timing.exposed() - exposed);
}

void CpuLearner::finish(StepResult& result) {
  result.samples = reducer_->finish_step();
  const StepTiming& timing = reducer_->timing();
  account(timing, result.times);
  if (recorder_ != nullptr) {
    recorder_->buckets(timing, steps());
    recorder_->span("wait for gradients", Lane::compute, timing.waited, timing.finished, steps());
    if (!timing.buckets.empty())
      recorder_->arrival(timing.buckets.back().reduced - timing.buckets.back().ready);
  }
  network_->parameters_changed();
  if (statistics_) statistics_->finish(running());
  if (average_) average_->update(values_);
  result.loss = static_cast<double>(reducer_->tally(kLoss));
  result.correct = static_cast<double>(reducer_->tally(kCorrect));
  result.votes = {reducer_->tally(kTimeIsUp) > 0, reducer_->tally(kToldToStop) > 0};
}

nn::BatchScore CpuLearner::score() {
  const data::Batch batch = test_.next();
  if (batch.size() == 0) return {};
  const float* logits =
      network_->forward(batch.images, static_cast<std::int64_t>(batch.size()), nn::Mode::evaluate);
  const nn::BatchScore score = nn::softmax_cross_entropy(logits, batch.labels, batch.size(),
                                                         static_cast<std::size_t>(spec().classes), nullptr);
  require_finite(score.loss);
  return score;
}

void CpuLearner::begin_evaluation(BatchPlan batches) {
  test_.begin(std::move(batches), 0);
  share_statistics();
  if (!average_) return;
  average_->swap(values_);
  network_->parameters_changed();
}

void CpuLearner::end_evaluation() {
  if (!average_) return;
  average_->swap(values_);
  network_->parameters_changed();
}

MemoryTable CpuLearner::memory() const {
  const nn::MemoryUse network = network_->memory();
  MemoryTable table;
  table.parameters = (values_.size() + running_floats()) * sizeof(float);
  table.gradients = values_.size() * sizeof(float);
  for (const optim::StateArena& arena : optimizer_->state())
    table.optimizer_state += arena.values.size_bytes();
  table.average = average_ ? values_.size() * sizeof(float) : 0;
  table.activations = network.activations;
  table.workspace = network.workspace;
  table.data = loader_bytes_;
  return table;
}

}  // namespace muster::train
