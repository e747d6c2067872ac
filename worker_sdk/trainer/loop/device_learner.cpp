// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/loop/device_learner.hpp"

#include "muster/error.hpp"
#include "worker_sdk/parallel/agreement.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/parallel/parameter_check.hpp"
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

bool is_alone(const ProcessGroup* group) {
  return group == nullptr || group->size() == 1;
}

/// Whether a device sums buckets as the hook would; null: there is none.
bool device_sums(const BucketHook* hook) {
  return hook == nullptr || hook->wire_type().has_value();
}

LearnerOptions completed(LearnerOptions options) {
  options.reducer = parallel::with_tree(std::move(options.reducer));
  return options;
}

/// Most images of a micro-batch. In a deterministic world the same for every number of ranks, so that all
/// choose the same plans.
std::size_t largest_batch(const LearnerTask& task, const std::optional<MicroBatches>& plan,
                          const ProcessGroup* group) {
  if (!plan) return task.batch_size;
  const auto ranks = static_cast<std::size_t>(is_alone(group) ? 1 : group->size());
  const auto parts = static_cast<std::size_t>(plan->total);
  return (task.batch_size * static_cast<std::size_t>(task.accumulation) * ranks + parts - 1) / parts;
}

std::size_t running_floats(const nn::ModelSpec& spec) {
  std::size_t floats = 0;
  for (const ParameterSpec& buffer : spec.buffers) floats += buffer.elements();
  return floats;
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
    : options_(completed(task.options)),
      group_(group),
      ops_(ops),
      sums_on_device_(!is_alone(group) && group->backend() == "nccl"),
      buckets_on_host_(!is_alone(group) && (!sums_on_device_ || !device_sums(options_.reducer.hook.get()))),
      data_bytes_(data.train.pixels.size() + data.test.pixels.size()),
      plan_(fixed_micro_batches(task.options, group)),
      session_(
          session_options(task), ops, data.train, data.test,
          is_alone(group) ? nn::gpu::DeviceAllReduce()
                          : [this](std::size_t bucket, float* gradients, std::size_t count,
                                   void* stream) { sum_bucket(bucket, gradients, count, stream); }),
      running_(running_floats(session_.spec())) {
  if (!is_alone(group))
    parallel::require_same_layout(*group, options_.reducer.store,
                                  parallel::describe_layout(spec().parameters, options_.reducer));
  if (buckets_on_host_)
    sum_on_host();
  else if (!is_alone(group) && options_.reducer.hook != nullptr)
    half_sum_.emplace(session_.layout(), *options_.reducer.hook->wire_type(), *group, ops);
  if (plan_ && !running_.empty())
    statistics_.emplace(MicroBatches{plan_->total, 0, 1}, running_.size(),
                        is_alone(group) ? nullptr : &group->host_group());
  arenas_.assign(1 + session_.state_names().size(), Arena(session_.layout().elements));
  std::vector<nn::ParameterSlot> slots;
  for (std::size_t i = 0; i < spec().parameters.size(); ++i)
    slots.push_back({arenas_[0].data() + session_.layout().offsets[i], nullptr});
  std::vector<float*> buffers;
  float* next = running_.data();
  for (const ParameterSpec& buffer : spec().buffers) {
    buffers.push_back(next);
    next += buffer.elements();
  }
  nn::initialize(spec(), slots, options_.seed);
  nn::initialize_buffers(spec(), buffers);
  fetched_ = true;
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
  options.reducer = learner.reducer;
  options.micro_batches = plan_ ? plan_->count : task.accumulation;
  options.average_decay = learner.ema_decay;
  // Sums through the host wait for the device, so such steps are not recorded.
  options.graphs = is_alone(group_) || (sums_on_device_ && !buckets_on_host_);
  if (learner.sync_batch_norm && !is_alone(group_))
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
  bucket_sum_.emplace(session_.layout(), spec().parameters, options_.reducer.hook.get(), copied_, group);
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
  session_.read_running(running_.data());
  statistics_->add(running_);
  statistics_->finish(running_);
  const float share = 1.0F / static_cast<float>(plan_->total);
  for (float& value : running_) value *= share;
  session_.write_running(running_.data());
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
  next_ += count;
  for (const std::size_t size : sizes) position_ += size;
  const Clock::time_point put = Clock::now();
  if (statistics_) make_mean_statistics();
  const std::vector<double> tally = sum_tally();
  const double* const sums = tally.data() + kTallyNumbers;
  require_finite_loss(group_, steps(), tally[0], sums[0]);
  StepResult result;
  result.loss = sums[0];
  result.correct = sums[1];
  result.samples = static_cast<std::int64_t>(sums[2]);
  result.votes = {sums[3] > 0, sums[4] > 0};
  const Clock::time_point end = Clock::now();
  result.times.device = std::chrono::duration<double>(end - start).count();
  result.times.total = result.times.device;
  if (recorder_ != nullptr) {
    recorder_->span("put on the device", Lane::compute, start, put, steps());
    recorder_->span("wait for the device", Lane::compute, put, end, steps());
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
  if (!is_alone(group_))
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

void DeviceLearner::fetch() {
  if (std::exchange(fetched_, true)) return;
  session_.read_values(arenas_[0].data());
  for (std::size_t i = 1; i < arenas_.size(); ++i) session_.read_state(i - 1, arenas_[i].data());
  session_.read_running(running_.data());
}

void DeviceLearner::share_statistics() {
  if (is_alone(group_) || running_.empty()) return;
  if (!fetched_) session_.read_running(running_.data());
  group_->broadcast(running_.data(), running_.size() * sizeof(float), 0);
  session_.write_running(running_.data());
}

void DeviceLearner::share_state() {
  fetch();
  if (!is_alone(group_))
    for (Arena& arena : arenas_) group_->broadcast(arena.data(), arena.size() * sizeof(float), 0);
  session_.write_values(arenas_[0].data());
  for (std::size_t i = 1; i < arenas_.size(); ++i) session_.write_state(i - 1, arenas_[i].data());
  session_.write_running(running_.data());
  share_statistics();
}

std::uint64_t DeviceLearner::parameter_hash() {
  session_.read_values(arenas_[0].data());
  std::vector<const float*> values;
  for (std::size_t i = 0; i < spec().parameters.size(); ++i)
    values.push_back(arenas_[0].data() + session_.layout().offsets[i]);
  return require_same_parameters(group_, spec().parameters, values, steps());
}

void DeviceLearner::append(std::vector<NamedTensor>& tensors, const std::string& prefix, Arena& arena) {
  for (std::size_t i = 0; i < spec().parameters.size(); ++i)
    tensors.push_back({prefix + spec().parameters[i].name, spec().parameters[i].shape,
                       arena.data() + session_.layout().offsets[i]});
}

std::vector<NamedTensor> DeviceLearner::model_tensors(bool averaged) {
  fetch();
  std::vector<NamedTensor> tensors;
  const bool average = averaged && options_.ema_decay > 0 && steps() > 0;
  append(tensors, "", average ? arenas_.back() : arenas_.front());
  float* next = running_.data();
  for (const ParameterSpec& buffer : spec().buffers) {
    tensors.push_back({buffer.name, buffer.shape, next});
    next += buffer.elements();
  }
  return tensors;
}

std::vector<NamedTensor> DeviceLearner::state_tensors() {
  fetch();
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 1; i < arenas_.size(); ++i)
    append(tensors, session_.state_names()[i - 1] + "/", arenas_[i]);
  return tensors;
}

std::vector<HookState> DeviceLearner::hook_state() const {
  const bool remembers = bucket_sum_ && options_.reducer.hook != nullptr;
  return remembers ? options_.reducer.hook->state() : std::vector<HookState>();
}

MemoryTable DeviceLearner::memory() const {
  const std::size_t arena = session_.layout().elements * sizeof(float);
  MemoryTable table;
  table.parameters = arena + running_.size() * sizeof(float);
  table.gradients = session_.gradient_bytes();
  table.average = options_.ema_decay > 0 ? arena : 0;
  table.optimizer_state = session_.state_names().size() * arena - table.average;
  table.data = data_bytes_;
  const std::size_t known =
      table.parameters + table.gradients + table.optimizer_state + table.average + table.data;
  // Maps, packed weights and the workspace of the libraries.
  table.activations = ops_.allocated() - std::min(known, ops_.allocated());
  return table;
}

}  // namespace muster::train
