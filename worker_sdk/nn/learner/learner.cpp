// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/learner/learner.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/initialize.hpp"
#include "worker_sdk/nn/learner/device_machine.hpp"
#include "worker_sdk/nn/learner/finite_loss.hpp"
#include "worker_sdk/nn/learner/host_machine.hpp"
#include "worker_sdk/nn/learner/machine.hpp"
#include "worker_sdk/nn/learner/sharded_model.hpp"
#include "worker_sdk/nn/loss.hpp"
#include "worker_sdk/nn/models/data_parallel.hpp"
#include "worker_sdk/parallel/parameter_check.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace muster::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

/// The micro-batches of this rank in a deterministic world; empty where none is wanted.
std::optional<MicroBatches> fixed_micro_batches(const LearnerOptions& options, const ProcessGroup* group) {
  if (options.reducer.deterministic_micro_batches == 0) return std::nullopt;
  if (options.sync_batch_norm)
    throw Error(ErrorCode::invalid_argument,
                "a deterministic world computes batch norm over each micro-batch; leave sync_batch_norm out");
  return share_micro_batches(options.reducer.deterministic_micro_batches, group);
}

std::unique_ptr<Machine> make_machine(const LearnerTask& task, const Samples& data, ProcessGroup* group,
                                      const std::optional<MicroBatches>& plan, nn::gpu::Ops* device) {
  if (device == nullptr) return make_host_machine(task, data, group);
  if (const Form form = task.options.reducer.sharding.form; form != Form::ddp)
    throw Error(ErrorCode::invalid_argument, std::string("the form ") + name_of(form) +
                                                 " keeps shards in memory of the host; train with the form "
                                                 "ddp on a device");
  return make_device_machine(task, data, group, plan, *device);
}

std::vector<std::size_t> sizes_of(const BatchPlan& batches) {
  std::vector<std::size_t> sizes;
  for (const auto& batch : batches) sizes.push_back(batch.size());
  return sizes;
}

}  // namespace

Score mean_score(double loss, double correct, std::int64_t samples) {
  const auto count = static_cast<double>(samples);
  return samples == 0 ? Score{} : Score{samples, loss / count, correct / count};
}

/// Running statistics in a deterministic world: every micro-batch starts from those before the step, and
/// their mean is what the step leaves, so that they do not depend on which rank computed which micro-batch.
class Learner::MeanStatistics {
 public:
  MeanStatistics(const MicroBatches& plan, Machine& machine, ProcessGroup* group)
      : memory_(machine.memory()),
        count_(machine.running_floats()),
        running_(machine.running()),
        before_(memory_.allocate(count_, "running statistics")),
        waiting_(memory_, count_, parallel::SumOrder::tree, "running statistics"),
        share_(1.0F / static_cast<float>(plan.total)),
        group_(group),
        tree_(make_tree_hook()) {
    waiting_.reserve(plan.count);
    view_.elements = count_;
    if (group_ != nullptr) tree_->prepare(*group_, {&view_, 1});
  }

  void begin(unsigned place) {
    if (place == 0)
      memory_.copy(before_, running_, count_);
    else
      memory_.copy(running_, before_, count_);
  }

  /// Behind the last one they are the sum over this rank's.
  void end(unsigned place, bool last) {
    if (last)
      waiting_.fold_into(place, running_, 0, count_);
    else
      waiting_.add(place, running_, 0, count_);
  }

  /// Makes the mean over all ranks of those sums. A collective call.
  void finish(std::span<float> sums) {
    view_.gradients = sums.data();
    if (group_ != nullptr) tree_->reduce(*group_, view_);
    for (float& value : sums) value *= share_;
  }

 private:
  parallel::Memory& memory_;
  const std::size_t count_;
  float* const running_;
  float* const before_;
  parallel::Accumulator waiting_;
  const float share_;
  ProcessGroup* const group_;  ///< null in a world of one
  const std::unique_ptr<BucketHook> tree_;
  BucketView view_;
};

Learner::Learner(const LearnerTask& task, const Samples& data, ProcessGroup* group, nn::gpu::Ops* device)
    : options_(task.options),
      group_(group),
      plan_(fixed_micro_batches(task.options, group)),
      most_parts_(plan_ ? plan_->count : task.accumulation),
      machine_(make_machine(task, data, group, plan_, device)),
      tensors_(*machine_, is_alone() ? nullptr : group, task.options.seed) {
  if (plan_ && machine_->running_floats() > 0)
    statistics_ = std::make_unique<MeanStatistics>(*plan_, *machine_, is_alone() ? nullptr : group);
  share_state();
}

Learner::~Learner() = default;

const nn::ModelSpec& Learner::spec() const {
  return machine_->network().spec();
}

void Learner::begin_epoch(BatchPlan batches, int epoch) {
  sizes_ = sizes_of(batches);
  next_ = position_ = 0;
  machine_->begin_epoch(batches, epoch);
}

StepResult Learner::step(const StepRequest& request) {
  const Clock::time_point start = Clock::now();
  const auto parts = static_cast<unsigned>(request.micro_batches);
  if (parts < 1 || request.micro_batches > most_parts_ || parts > sizes_.size() - next_)
    throw Error(ErrorCode::invalid_argument, "a step of " + std::to_string(request.micro_batches) +
                                                 " micro-batches, where " + std::to_string(most_parts_) +
                                                 " are the most, and the epoch has " +
                                                 std::to_string(sizes_.size() - next_) + " left");
  tensors_.begin_step();
  changed_ = true;
  const std::uint64_t before = payload();
  machine_->begin_step(++steps_, request);
  step_position_ = position_;
  for (unsigned place = 0; place < parts; ++place) {
    const Part part = {position_,          sizes_[next_],   place,
                       place + 1 == parts, request.samples, draws(place, request.samples)};
    position_ += sizes_[next_++];
    machine_->run(part, [this, &part] { learn(part); });
  }
  if (statistics_) tensors_.change_statistics([this](std::span<float> sums) { statistics_->finish(sums); });
  StepResult result = machine_->finish_step();
  result.payload = payload() - before;
  account(parts, result.times);
  result.times.total = seconds(Clock::now() - start);
  return result;
}

/// Samples are numbered over all ranks, as plan_epoch() gives them out.
nn::DropoutKey Learner::draws(unsigned place, std::size_t samples) const {
  nn::DropoutKey key;
  key.seed = options_.seed;
  key.step = static_cast<std::uint64_t>(steps_);
  if (plan_) {
    key.first = plan_->begin(samples, plan_->first + static_cast<int>(place));
    return key;
  }
  key.stride = is_alone() ? 1 : static_cast<std::uint64_t>(group_->size());
  const std::uint64_t rank = is_alone() ? 0 : static_cast<std::uint64_t>(group_->rank());
  key.first = rank + (position_ - step_position_) * key.stride;
  return key;
}

/// A micro-batch, in the one order for all. Nothing here may depend on anything but the part; see Machine.
void Learner::learn(const Part& part) {
  Machine& machine = *machine_;
  nn::Network& network = machine.network();
  machine.mark(part.place, Moment::asked);
  const void* const inputs = machine.inputs(part);
  machine.mark(part.place, Moment::begun);
  machine.open(part);
  if (part.place == 0) network.parameters_changed();
  if (statistics_) statistics_->begin(part.place);
  const float* const logits =
      network.forward(inputs, static_cast<std::int64_t>(part.samples), nn::Mode::train);
  if (statistics_) statistics_->end(part.place, part.last);
  const float* const gradient = machine.loss(part, logits);
  machine.mark(part.place, Moment::turned);
  network.backward(gradient, [&machine](std::size_t parameter) { machine.ready(parameter); });
  machine.mark(part.place, Moment::ended);
  machine.close(part);
}

void Learner::account(unsigned parts, StepTimes& times) {
  for (unsigned place = 0; place < parts; ++place) {
    const auto time = [&](Moment moment) { return machine_->time_of(place, moment); };
    const Clock::time_point asked = time(Moment::asked);
    const Clock::time_point begun = time(Moment::begun);
    const Clock::time_point turned = time(Moment::turned);
    const Clock::time_point ended = time(Moment::ended);
    times.data_wait += seconds(begun - asked);
    times.forward += seconds(turned - begun);
    times.backward += seconds(ended - turned);
    if (recorder_ == nullptr) continue;
    recorder_->span("data wait", Lane::compute, asked, begun, steps_);
    recorder_->span("forward", Lane::compute, begun, turned, steps_);
    recorder_->span("backward", Lane::compute, turned, ended, steps_);
  }
  const StepTiming& timing = machine_->timing();
  account_buckets(timing, times);
  account_units(parts, times);
  if (recorder_ == nullptr) return;
  recorder_->buckets(timing, is_in_shards() ? "reduce_scatter" : "all_reduce", steps_);
  recorder_->span("wait for gradients", Lane::compute, timing.waited, timing.finished, steps_);
  recorder_->arrival(timing.buckets.back().reduced - timing.buckets.back().ready);
}

void Learner::account_buckets(const StepTiming& timing, StepTimes& times) const {
  if (!machine_->works_aside()) {
    // There is no other thread: buckets were stepped in the middle of backward. With clipping they are
    // stepped behind it, and that time is already in exposed().
    Clock::duration stepping{};
    if (options_.reducer.max_norm <= 0)
      for (const BucketTiming& bucket : timing.buckets)
        stepping += overlap(bucket.reduced, bucket.stepped, timing.began, timing.waited);
    times.backward -= seconds(stepping);
    times.optimizer = seconds(stepping) + seconds(timing.exposed());
    return;
  }
  Clock::duration exposed{};
  for (const BucketTiming& bucket : timing.buckets)
    exposed += overlap(bucket.started, bucket.reduced, timing.waited, timing.finished);
  const Clock::duration late = overlap(timing.meeting, timing.met, timing.waited, timing.finished);
  times.late = seconds(late);
  times.exposed = seconds(exposed);
  times.communication = seconds(timing.communication() + (timing.met - timing.meeting));
  times.optimizer = seconds(timing.exposed() - exposed - late);
}

void Learner::account_units(unsigned parts, StepTimes& times) {
  if (!is_in_shards()) return;
  std::vector<PassTimes> passes;
  for (unsigned place = 0; place < parts; ++place)
    passes.push_back({machine_->time_of(place, Moment::begun), machine_->time_of(place, Moment::turned),
                      machine_->time_of(place, Moment::ended)});
  const std::vector<UnitWait> waits = machine_->shards()->take_waits();
  account_waits(waits, passes, machine_->timing(), options_.reducer.max_norm <= 0, times);
  if (recorder_ == nullptr) return;
  for (const UnitWait& wait : waits) {
    recorder_->span(wait.gathered ? "wait for a unit" : "wait for a place", Lane::compute, wait.asked,
                    wait.there, steps_);
    if (wait.gathered)
      recorder_->span("all_gather", Lane::gathering, wait.gathered->begin, wait.gathered->end, steps_);
  }
}

void Learner::begin_evaluation(BatchPlan batches) {
  share_statistics();
  sizes_ = sizes_of(batches);
  next_ = 0;
  machine_->begin_test(std::move(batches));
  swap_average();
}

nn::BatchScore Learner::score() {
  if (next_ == sizes_.size())
    throw Error(ErrorCode::invalid_argument, "a batch of test samples behind the last one");
  nn::BatchScore sum;
  std::size_t left = sizes_[next_++];
  do {
    const std::size_t count = std::min(left, machine_->capacity());
    const float* const logits = test_logits(count);
    if (count == 0) break;
    const nn::BatchScore score = machine_->score(logits, count);
    sum.loss += score.loss;
    sum.correct += score.correct;
    left -= count;
  } while (left > 0);
  return sum;
}

void Learner::end_evaluation() {
  swap_average();
}

std::optional<Score> Learner::evaluate(BatchPlan batches, const std::function<bool()>& stop) {
  std::array<double, 3> sums = {};  // loss, correct answers, samples
  for (const auto& batch : batches) sums[2] += static_cast<double>(batch.size());
  const std::size_t count = batches.size();
  begin_evaluation(std::move(batches));
  for (std::size_t i = 0; i < count; ++i) {
    if (stop && stop()) {
      end_evaluation();
      return std::nullopt;
    }
    const nn::BatchScore batch_score = score();
    sums[0] += batch_score.loss;
    sums[1] += static_cast<double>(batch_score.correct);
  }
  end_evaluation();
  const double own = sums[0];
  if (!is_alone()) group_->all_reduce(sums.data(), sums.size(), DataType::f64, ReduceOp::sum);
  require_finite_loss(group_, steps_, own, sums[0], options_.if_diverged);
  return mean_score(sums[0], sums[1], static_cast<std::int64_t>(sums[2]));
}

/// Those of the next test samples; null where there are none.
const float* Learner::test_logits(std::size_t count) {
  if (std::exchange(changed_, false)) machine_->network().parameters_changed();
  const void* const inputs = machine_->test_inputs(count);
  // Where parameters are gathered, ranks without samples give theirs.
  if (count == 0 && machine_->shards() == nullptr) return nullptr;
  return machine_->network().forward(inputs, static_cast<std::int64_t>(count), nn::Mode::evaluate);
}

void Learner::results(BatchPlan batches, float* results) {
  const std::vector<std::size_t> sizes = sizes_of(batches);
  machine_->begin_test(std::move(batches));
  swap_average();
  try {
    for (const std::size_t count : sizes) {
      const float* const logits = test_logits(count);
      const std::size_t values = count * static_cast<std::size_t>(spec().classes);
      if (count > 0) machine_->memory().read(results, logits, values);
      results += values;
    }
  } catch (...) {
    swap_average();
    throw;
  }
  swap_average();
}

void Learner::swap_average() {
  if (!has_average()) return;
  machine_->swap_average();
  changed_ = true;
}

std::vector<HookState> Learner::hook_state() const {
  const bool remembers = !is_alone() && options_.reducer.hook != nullptr;
  return remembers ? options_.reducer.hook->state() : std::vector<HookState>();
}

MemoryTable Learner::memory() const {
  const std::size_t arena = machine_->layout().elements * sizeof(float);
  const std::size_t state = machine_->own().elements * sizeof(float);
  MemoryTable table;
  table.parameters = arena + machine_->running_floats() * sizeof(float);
  table.gradients = arena;
  table.average = options_.ema_decay > 0 ? state : 0;
  table.optimizer_state = machine_->states().size() * state - table.average;
  machine_->add_memory(table);
  return table;
}

std::optional<ReplicaFigures> Learner::replicas() const {
  const nn::DataParallel* const network = machine_->replicas();
  if (network == nullptr) return std::nullopt;
  const MemoryTable table = memory();
  const nn::ReplicaTraffic& traffic = network->traffic();
  const auto others = static_cast<std::size_t>(options_.replicas - 1);
  const auto mean = [&traffic](auto sum) {
    return static_cast<double>(sum) / static_cast<double>(std::max<std::int64_t>(1, traffic.steps));
  };
  return ReplicaFigures{options_.replicas,
                        table.parameters + table.gradients + table.optimizer_state + table.average +
                            table.activations + table.workspace,
                        others == 0 ? 0 : table.replicas / others,
                        mean(traffic.parameters_out),
                        mean(traffic.gradients_in),
                        mean(traffic.samples_out),
                        mean(traffic.logits_in),
                        mean(traffic.copying),
                        mean(traffic.adding)};
}

void Learner::share_state() {
  tensors_.share();
  changed_ = true;
}

void Learner::share_statistics() {
  tensors_.share_statistics();
}

std::uint64_t Learner::parameter_hash() {
  return tensors_.hash(steps_);
}

std::vector<NamedTensor> Learner::model_tensors(bool averaged, Extent extent) {
  return tensors_.model(averaged && has_average(), extent);
}

std::vector<NamedTensor> Learner::state_tensors(Extent extent) {
  return tensors_.state(extent);
}

void Learner::each_parameter(bool averaged, const std::function<void(const float* values)>& use) {
  tensors_.each_parameter(averaged && has_average(), use);
}

std::vector<float> Learner::gradient(std::size_t parameter) const {
  if (machine_->shards() != nullptr)
    throw Error(ErrorCode::unsupported,
                "no rank keeps whole gradients where the model is in shards; train with the form ddp");
  std::vector<float> values(spec().parameters.at(parameter).elements());
  machine_->memory().read(values.data(), machine_->gradients() + machine_->layout().offsets[parameter],
                          values.size());
  for (float& value : values) value /= machine_->loss_factor();
  return values;
}

LossScale& Learner::loss_scale() {
  return machine_->loss_scale();
}

bool Learner::has_average() const {
  return options_.ema_decay > 0 && machine_->made_of(steps_) > 0;
}

bool Learner::is_in_shards() const {
  return machine_->shards() != nullptr;
}

std::uint64_t Learner::payload() const {
  const std::uint64_t own = machine_->shards() == nullptr ? 0 : machine_->shards()->payload();
  return own + (group_ == nullptr ? 0 : group_->traffic().payload);
}

void Learner::abort(const std::string& reason) {
  if (machine_->shards() != nullptr) machine_->shards()->abort(reason);
}

std::string Learner::take_note() {
  return machine_->take_note();
}

}  // namespace muster::train
