// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/loop/device_learner.hpp"

#include "muster/error.hpp"
#include "worker_sdk/parallel/agreement.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/trainer/loop/learner.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace muster::train {
namespace {

using Clock = std::chrono::steady_clock;
using nn::gpu::kTallyNumbers;

/// How long a step is waited for without sleeping, which takes longer than many steps do.
constexpr std::chrono::milliseconds kAwake{20};

/// Whether a device sums buckets as the hook would; null: there is none.
bool device_sums(const BucketHook* hook) {
  return hook == nullptr || hook->wire_type().has_value();
}

/// Most images of a micro-batch. In a deterministic world the same for every number of ranks, so that all
/// choose the same plans.
std::size_t largest_batch(const LearnerTask& task, const std::optional<MicroBatches>& plan,
                          const ProcessGroup* group) {
  if (!plan) return task.batch_size;
  const auto ranks = static_cast<std::size_t>(group == nullptr ? 1 : group->size());
  const auto parts = static_cast<std::size_t>(plan->total);
  return (task.batch_size * static_cast<std::size_t>(task.accumulation) * ranks + parts - 1) / parts;
}

Operation sum_on(void* stream, const void* in, void* out, std::size_t count, DataType type) {
  Operation operation = operation_of(Collective::all_reduce, count, type, in, out);
  operation.stream = stream;
  return operation;
}

std::vector<std::uint32_t> joined(const BatchPlan& batches, std::vector<std::size_t>& sizes) {
  std::vector<std::uint32_t> all;
  sizes.clear();
  for (const auto& batch : batches) {
    all.insert(all.end(), batch.begin(), batch.end());
    sizes.push_back(batch.size());
  }
  return all;
}

}  // namespace

DeviceLearner::DeviceLearner(const LearnerTask& task, const data::ImageData& data, ProcessGroup* group,
                             nn::gpu::Ops& ops)
    : Learner(task, group),
      reducer_(parallel::with_tree(task.options.reducer)),
      ops_(ops),
      sums_on_device_(!is_alone() && group->backend() == "nccl"),
      buckets_on_host_(!is_alone() && (!sums_on_device_ || !device_sums(reducer_.hook.get()))),
      data_bytes_(data.train.pixels.size() + data.test.pixels.size()),
      session_(
          session_options(task), ops, data.train, data.test,
          is_alone() ? nn::gpu::DeviceAllReduce()
                     : [this](std::size_t bucket, float* gradients, std::size_t count, void* stream) {
                         sum_bucket(bucket, gradients, count, stream);
                       }) {
  if (!is_alone())
    parallel::require_same_layout(*group, reducer_.store,
                                  parallel::describe_layout(spec().parameters, reducer_));
  if (buckets_on_host_)
    sum_on_host();
  else if (!is_alone() && reducer_.hook != nullptr)
    half_sum_.emplace(session_.layout(), *reducer_.hook->wire_type(), *group, ops);
  copies_.assign(1 + session_.state_names().size(), std::vector<float>(session_.layout().elements));
  std::vector<Arena> arenas = {{"", copies_[0]}};
  for (std::size_t i = 1; i < copies_.size(); ++i)
    arenas.push_back({session_.state_names()[i - 1], copies_[i]});
  set_up(session_.layout().offsets, std::move(arenas));
  fetched_ = true;
  if (plan_ && !running().empty())
    statistics_.emplace(MicroBatches{plan_->total, 0, 1}, running().size(),
                        is_alone() ? nullptr : &group->host_group());
  share_state();
}

nn::gpu::SessionOptions DeviceLearner::session_options(const LearnerTask& task) {
  const LearnerOptions& learner = options_;
  nn::gpu::SessionOptions options;
  options.model = learner.model;
  options.precision = learner.precision;
  options.batch = static_cast<std::int64_t>(largest_batch(task, plan_, group_));
  options.optimizer = learner.optimizer;
  options.label_smoothing = static_cast<float>(learner.label_smoothing);
  options.normalization = task.loader.normalization;
  options.augmentation = task.loader.augmentation;
  options.reducer = reducer_;
  options.micro_batches = plan_ ? plan_->count : task.accumulation;
  options.average_decay = learner.ema_decay;
  // Sums through the host wait for the device, so such steps are not recorded.
  options.graphs = is_alone() || (sums_on_device_ && !buckets_on_host_);
  // A recorded sum of a group that has failed would never end.
  if (sums_on_device_) options.launch = [this](const std::function<void()>& work) { group_->launch(work); };
  if (learner.sync_batch_norm && !is_alone())
    options.sum_statistics = [this](double* data, std::size_t count, void* stream) {
      sum(data, count, DataType::f64, stream);
    };
  return options;
}

/// `stream` is the one that calls go onto.
void DeviceLearner::sum(void* data, std::size_t count, DataType type, void* stream) {
  if (sums_on_device_) {
    (void)group_->start({sum_on(stream, data, data, count, type)});
    return;
  }
  const std::size_t bytes = count * size_of(type);
  staged_.resize(std::max(staged_.size(), bytes));
  ops_.from_device(staged_.data(), data, bytes);
  group_->all_reduce(staged_.data(), count, type, ReduceOp::sum);
  ops_.to_device(data, staged_.data(), bytes);
}

/// From now on gradients are summed in memory of the host, as the CPU's are.
void DeviceLearner::sum_on_host() {
  ProcessGroup& group = group_->host_group();
  const std::size_t floats = parallel::kHeaderFloats + session_.layout().elements;
  copied_ = static_cast<float*>(group.allocate(floats * sizeof(float)));
  bucket_sum_.emplace(session_.layout(), spec().parameters, reducer_.hook.get(), copied_, group);
}

void DeviceLearner::sum_bucket(std::size_t bucket, float* data, std::size_t count, void* stream) {
  const std::size_t offset = session_.layout().buckets[bucket].offset;
  const std::size_t header = bucket == 0 ? parallel::kHeaderFloats : 0;
  if (half_sum_) {
    float* const gradients = data + header;
    float* const first = gradients - offset - parallel::kHeaderFloats;
    return half_sum_->sum(bucket, first, gradients, count - header, stream);
  }
  if (!bucket_sum_) return sum(data, count, DataType::f32, stream);
  float* const copy = copied_ + parallel::kHeaderFloats - header + offset;
  ops_.from_device(copy, data, count * sizeof(float));
  bucket_sum_->sum(bucket);
  ops_.to_device(data, copy, count * sizeof(float));
}

/// The device has left the sum over this rank's micro-batches.
void DeviceLearner::make_mean_statistics() {
  fetch(Piece::statistics);
  statistics_->add(running());
  statistics_->finish(running());
  const float share = 1.0F / static_cast<float>(plan_->total);
  for (float& value : running()) value *= share;
  put(Piece::statistics);
}

void DeviceLearner::begin_epoch(BatchPlan batches, int epoch) {
  session_.begin_epoch(joined(batches, sizes_), epoch);
  next_ = position_ = 0;
}

StepResult DeviceLearner::step(const StepRequest& request) {
  const Clock::time_point start = Clock::now();
  const auto count = static_cast<std::size_t>(request.micro_batches);
  if (count > sizes_.size() - next_)
    throw Error(ErrorCode::invalid_argument, "a step behind the last batch of the epoch");
  const std::span<const std::size_t> sizes = std::span(sizes_).subspan(next_, count);
  fetched_ = false;
  session_.begin_tally(request.votes.time_is_up ? 1 : 0, request.votes.told_to_stop ? 1 : 0);
  session_.step(position_, sizes, request.learning_rate, request.images);
  const std::size_t position = position_;
  next_ += count;
  for (const std::size_t size : sizes) position_ += size;
  const Clock::time_point queued = Clock::now();
  if (statistics_) make_mean_statistics();
  const std::vector<double> tally = sum_tally();
  const double* const sums = tally.data() + kTallyNumbers;
  require_finite_loss(group_, steps(), tally[0], sums[0],
                      [&] { return session_.first_not_finite(position, sizes); });
  StepResult result;
  result.loss = sums[0];
  result.correct = sums[1];
  result.samples = static_cast<std::int64_t>(sums[2]);
  result.votes = {sums[3] > 0, sums[4] > 0};
  const Clock::time_point end = Clock::now();
  result.times.device = std::chrono::duration<double>(end - start).count();
  result.times.total = result.times.device;
  if (recorder_ != nullptr) {
    recorder_->span("put on the device", Lane::compute, start, queued, steps());
    recorder_->span("wait for the device", Lane::compute, queued, end, steps());
  }
  return result;
}

/// This rank's numbers, then those of all ranks. The one place where a step is waited for. A call on the
/// device's stream is watched by the group, unlike those in a recorded step before it: so a rank that is gone
/// or late is named, and what hangs ends.
std::vector<double> DeviceLearner::sum_tally() {
  std::vector<double> tally(std::size_t{2} * kTallyNumbers);
  double* const own = session_.tally();
  if (sums_on_device_) {
    const auto work =
        group_->start({sum_on(ops_.stream(), own, own + kTallyNumbers, kTallyNumbers, DataType::f64)});
    const Clock::time_point asleep = Clock::now() + kAwake;
    while (!work->test() && Clock::now() < asleep) std::this_thread::yield();
    work->wait();
    ops_.from_device(tally.data(), own, tally.size() * sizeof(double));
    return tally;
  }
  ops_.from_device(tally.data(), own, kTallyNumbers * sizeof(double));
  std::copy_n(tally.begin(), kTallyNumbers, tally.begin() + kTallyNumbers);
  if (!is_alone())
    group_->all_reduce(tally.data() + kTallyNumbers, kTallyNumbers, DataType::f64, ReduceOp::sum);
  return tally;
}

void DeviceLearner::begin_evaluation(BatchPlan batches) {
  share_statistics();
  session_.swap_average();
  session_.set_test_order(joined(batches, sizes_));
  next_ = position_ = 0;
}

nn::BatchScore DeviceLearner::score() {
  const std::size_t begin = position_;
  position_ += sizes_.at(next_++);
  const nn::gpu::SessionScore score = session_.evaluate(begin, position_);
  return {score.loss, static_cast<std::int64_t>(score.correct)};
}

void DeviceLearner::end_evaluation() {
  session_.swap_average();
}

void DeviceLearner::fetch(Piece piece) {
  if (piece == Piece::parameters) return session_.read_values(copies_[0].data());
  if (fetched_) return;
  session_.read_running(running().data());
  if (piece == Piece::statistics) return;
  session_.read_values(copies_[0].data());
  for (std::size_t i = 1; i < copies_.size(); ++i) session_.read_state(i - 1, copies_[i].data());
  fetched_ = true;
}

void DeviceLearner::put(Piece piece) {
  session_.write_running(running().data());
  if (piece == Piece::statistics) return;
  session_.write_values(copies_[0].data());
  for (std::size_t i = 1; i < copies_.size(); ++i) session_.write_state(i - 1, copies_[i].data());
}

MemoryTable DeviceLearner::memory() const {
  const std::size_t arena = session_.layout().elements * sizeof(float);
  MemoryTable table;
  table.parameters = arena + running_floats() * sizeof(float);
  table.gradients = session_.gradient_bytes();
  table.average = options_.ema_decay > 0 ? arena : 0;
  table.optimizer_state = session_.state_names().size() * arena - table.average;
  table.activations = session_.network_memory().activations;
  table.data = data_bytes_;
  const std::size_t known = table.parameters + table.gradients + table.optimizer_state + table.average +
                            table.activations + table.data;
  // Packed weights, and what the libraries and the sums of gradients work in.
  table.workspace = ops_.allocated() - std::min(known, ops_.allocated());
  return table;
}

}  // namespace muster::train
