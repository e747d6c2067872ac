// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/learner/host_machine.hpp"

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/nn/batches/host_batches.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/learner/finite_loss.hpp"
#include "worker_sdk/nn/learner/sharded_model.hpp"
#include "worker_sdk/nn/loss.hpp"
#include "worker_sdk/nn/models/data_parallel.hpp"
#include "worker_sdk/nn/models/make_network.hpp"
#include "worker_sdk/nn/optim/ema.hpp"
#include "worker_sdk/nn/optim/optimizer.hpp"
#include "worker_sdk/parallel/reducer.hpp"
#include "worker_sdk/parallel/statistics_exchange.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace muster::train {
namespace {

/// Places of the figures that travel with a step.
enum Tally : std::size_t { kLoss, kCorrect, kTimeIsUp, kToldToStop };

data::LoaderOptions for_evaluation(data::LoaderOptions options) {
  options.augmentation = {};
  return options;
}

std::unique_ptr<HostBatches> batches_of(const LearnerTask& task, const Samples& samples,
                                        const nn::Description& description, const nn::ModelSpec& spec,
                                        bool training) {
  if (samples.images == nullptr)
    return make_filled_batches(samples.fill, description, static_cast<std::size_t>(spec.classes), training);
  return training ? make_image_batches(samples.images->train, task.loader)
                  : make_image_batches(samples.images->test, for_evaluation(task.loader));
}

/// The images, and the batches of training samples that are prepared.
std::size_t bytes_of_batches(const LearnerTask& task, const Samples& samples, const nn::Input& input) {
  if (samples.images == nullptr) return task.batch_size * sample_elements(input) * sizeof(float);
  const data::ImageData& data = *samples.images;
  const auto batches = static_cast<std::size_t>(task.loader.prefetch + 1);
  return data.train.pixels.size() + data.test.pixels.size() +
         batches * std::min(task.batch_size, data.train.size()) * data::kImageBytes * sizeof(float);
}

/// Everything in this process's memory.
class HostMachine final : public Machine {
 public:
  HostMachine(const LearnerTask& task, const Samples& samples, ProcessGroup* group)
      : options_(task.options), group_(group), description_(network_of(task.options)) {
    nn::NetworkOptions network;
    network.precision = options_.precision;
    network.activation_checkpoints = options_.activation_checkpoints;
    if (options_.sync_batch_norm) {
      exchange_ = make_group_statistics(group);
      network.sync_batch_norm = exchange_.get();
    }
    network.keep_weight_copies = keeps_weight_copies(options_, group_ == nullptr ? 1 : group_->size());
    if (options_.replicas > 1) {
      auto replicas = nn::make_data_parallel(description_, network, options_.replicas);
      replicas_ = replicas.get();
      network_ = std::move(replicas);
    } else {
      network_ = nn::make_network(description_, network);
    }
    data_bytes_ = bytes_of_batches(task, samples, description_.input);
    train_ = batches_of(task, samples, description_, network_->spec(), true);
    test_ = batches_of(task, samples, description_, network_->spec(), false);
    reducer_.emplace(network_->spec().parameters, group, reducer_options());
    if (reducer_->shards() != nullptr) {
      shards_.emplace(*reducer_, *network_, options_.reducer.sharding.prefetch);
      make_arenas(memory_, reducer_->layout(), shards_->layout(), shards_->values(), shards_->slots());
    } else {
      make_arenas(memory_, reducer_->layout(), reducer_->gradients());
    }
    optimizer_ = optim::make_optimizer(options_.optimizer, optimizer_arena());
    for (const optim::StateArena& state : optimizer_->state())
      states_.push_back({state.name, state.values.data()});
    if (options_.ema_decay <= 0) return;
    average_.emplace(own().elements, options_.ema_decay);
    states_.push_back({average_->state().name, average_->state().values.data()});
  }

  /// In the middle of a step the other ranks are told.
  ~HostMachine() override {
    if (!shards_) return;
    if (in_step_)
      shards_->abort("rank " + std::to_string(group_->rank()) + " gave up in the middle of a step");
    // What is gathered lies in the reducer's memory, which goes first.
    shards_->close();
  }

  ShardedModel* shards() override { return shards_ ? &*shards_ : nullptr; }

  bool has_whole_values() const override { return !shards_ || shards_->has_whole_values(); }

  void begin_epoch(const BatchPlan& batches, int epoch) override { train_->begin(batches, epoch); }

  void begin_step(std::int64_t number, const StepRequest& request) override {
    in_step_ = true;
    number_ = number;
    request_ = request;
    score_ = {};
    if (replicas_ != nullptr) moved_before_ = replicas_->traffic();
    optimizer_->set_steps(made_of(number) - 1);
    optimizer_->begin_step();
  }

  void run(const Part& part, const std::function<void()>& work) override {
    network_->set_draws(part.draws);
    work();
  }

  const void* inputs(const Part&) override {
    batch_ = train_->next();
    return batch_.inputs;
  }

  void open(const Part& part) override {
    const auto samples = static_cast<std::int64_t>(part.samples);
    part.last ? reducer_->begin_step(samples) : reducer_->begin_micro_batch(samples);
  }

  const float* loss(const Part& part, const float* logits) override {
    const auto classes = static_cast<std::size_t>(network_->spec().classes);
    // Grows only. A batch of none still needs a place to point to.
    logits_gradient_.resize(std::max(logits_gradient_.size(), (part.samples + 1) * classes));
    const nn::BatchScore score =
        score_of(logits, part.samples, logits_gradient_.data(), options_.label_smoothing);
    require_finite(score.loss);
    score_.loss += score.loss;
    score_.correct += score.correct;
    if (part.last) {
      reducer_->set_tally(kLoss, static_cast<float>(score_.loss));
      reducer_->set_tally(kCorrect, static_cast<float>(score_.correct));
      reducer_->set_tally(kTimeIsUp, request_.votes.time_is_up ? 1.0F : 0.0F);
      reducer_->set_tally(kToldToStop, request_.votes.told_to_stop ? 1.0F : 0.0F);
    }
    return logits_gradient_.data();
  }

  void ready(std::size_t parameter) override { reducer_->gradient_ready(parameter); }

  void close(const Part& part) override {
    if (part.last)
      (void)reducer_->finish_step();
    else
      reducer_->finish_micro_batch();
  }

  void mark(unsigned place, Moment moment) override {
    if (place >= times_.size()) times_.resize(place + 1);
    times_[place][static_cast<std::size_t>(moment)] = std::chrono::steady_clock::now();
  }

  StepResult finish_step() override {
    in_step_ = false;
    const auto tally = [this](Tally i) { return static_cast<double>(reducer_->tally(i)); };
    return {tally(kLoss),
            tally(kCorrect),
            reducer_->samples(),
            {tally(kTimeIsUp) > 0, tally(kToldToStop) > 0},
            times_of_replicas()};
  }

  const StepTiming& timing() override { return reducer_->timing(); }

  Time time_of(unsigned place, Moment moment) override {
    return times_.at(place)[static_cast<std::size_t>(moment)];
  }

  bool works_aside() const override { return group_ != nullptr && group_->size() > 1; }

  void begin_test(BatchPlan batches) override { test_->begin(std::move(batches), 0); }

  const void* test_inputs(std::size_t) override {
    batch_ = test_->next();
    return batch_.inputs;
  }

  nn::BatchScore score(const float* logits, std::size_t count) override {
    const nn::BatchScore score = score_of(logits, count, nullptr, 0);
    require_finite(score.loss);
    return score;
  }

  const nn::DataParallel* replicas() const override { return replicas_; }

  void swap_average() override {
    for (std::size_t b = 0; b < reducer_->buckets(); ++b) {
      const parallel::FloatRange& part = own().parts[b];
      average_->swap({own_values(b), part.size()}, part.begin);
    }
    if (shards_) shards_->spread();
  }

  void add_memory(MemoryTable& table) const override {
    const nn::MemoryUse network = network_->memory();
    if (shards_) {
      table.parameters = shards_->value_bytes() + running_floats() * sizeof(float);
      table.gradients = shards_->gradient_bytes();
    }
    table.gradients += reducer_->waiting_bytes();
    table.activations = network.activations;
    table.workspace = network.workspace;
    table.data = data_bytes_;
    if (replicas_ != nullptr) table.replicas = replicas_->other_bytes();
  }

 private:
  nn::BatchScore score_of(const float* logits, std::size_t count, float* gradient, double smoothing) const {
    const auto width = static_cast<std::size_t>(network_->spec().classes);
    if (description_.loss == nn::Loss::mse)
      return nn::mean_squared_error(logits, batch_.targets, count, width, gradient);
    return nn::softmax_cross_entropy(logits, batch_.labels, count, width, gradient, smoothing);
  }

  ReducerOptions reducer_options() {
    ReducerOptions options = options_.reducer;
    options.own_step = [this](std::size_t bucket, float scale) {
      step(own_values(bucket), reducer_->owned().sums(bucket), own().parts[bucket], scale);
    };
    for (const nn::ParameterUnit& unit : network_->units())
      options.sharding.unit_begins.push_back(unit.first);
    return options;
  }

  /// `range`: of the arenas of state.
  void step(float* values, const float* gradients, const parallel::FloatRange& range, float scale) {
    // On the reducer's thread a second team of threads would only disturb the one that computes.
    if (std::this_thread::get_id() != own_thread_) nn::set_threads(1);
    optimizer_->step_at(values, gradients, range.begin, range.end, request_.learning_rate, scale);
    if (average_) average_->update(values, range.begin, range.end, made_of(number_));
  }

  /// The values of this rank's own part of a bucket.
  float* own_values(std::size_t bucket) const {
    return values() + (has_whole_values() ? own().whole : own().parts)[bucket].begin;
  }

  optim::Arena optimizer_arena() const {
    optim::Arena arena{nullptr, nullptr, own().elements, {}};
    const std::vector<ParameterSpec>& specs = network_->spec().parameters;
    // Ascending: the last parameter lies first.
    for (std::size_t i = specs.size(); i-- > 0;) {
      if (!specs[i].decay && !options_.optimizer.decay_all) continue;
      const parallel::FloatRange whole = {reducer_->offset(i), reducer_->offset(i) + specs[i].elements()};
      for (const parallel::FloatRange& range : parallel::in_shards(own(), whole))
        arena.decay.push_back({range.begin, range.end});
    }
    return arena;
  }

  /// What replicas copy and add happens in forward and backward, where nothing hides it.
  StepTimes times_of_replicas() const {
    StepTimes times;
    if (replicas_ == nullptr) return times;
    const double copying = replicas_->traffic().copying - moved_before_.copying;
    const double adding = replicas_->traffic().adding - moved_before_.adding;
    times.forward = -copying;
    times.backward = -adding;
    times.exposed = times.communication = copying + adding;
    return times;
  }

  void require_finite(double loss) const {
    if (std::isfinite(loss)) return;
    throw diverged(number_, group_ == nullptr ? 0 : group_->rank(), network_->first_not_finite(),
                   options_.if_diverged);
  }

  const LearnerOptions options_;
  ProcessGroup* const group_;
  const nn::Description description_;
  std::size_t data_bytes_ = 0;
  std::unique_ptr<HostBatches> train_;
  std::unique_ptr<HostBatches> test_;
  HostBatch batch_;
  parallel::HostMemory memory_;
  const std::thread::id own_thread_ = std::this_thread::get_id();
  std::unique_ptr<StatisticsExchange> exchange_;
  const nn::DataParallel* replicas_ = nullptr;  ///< the network, where it is several
  nn::ReplicaTraffic moved_before_;             ///< the step
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::Ema> average_;
  std::vector<float> logits_gradient_;
  std::vector<std::array<Time, kMoments>> times_;
  std::int64_t number_ = 0;  ///< of the step
  StepRequest request_;
  nn::BatchScore score_;  ///< of the step's micro-batches so far
  bool in_step_ = false;
  std::optional<ShardedModel> shards_;
  std::optional<Reducer> reducer_;  ///< last: its thread uses the rest
};

}  // namespace

std::unique_ptr<Machine> make_host_machine(const LearnerTask& task, const Samples& data,
                                           ProcessGroup* group) {
  return std::make_unique<HostMachine>(task, data, group);
}

}  // namespace muster::train
