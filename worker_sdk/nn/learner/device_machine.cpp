// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/learner/device_machine.hpp"

#include "muster/error.hpp"
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/comm/texts.hpp"
#include "worker_sdk/nn/batches/device_images.hpp"
#include "worker_sdk/nn/gpu/network/device_network.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"
#include "worker_sdk/nn/gpu/reduce/device_memory.hpp"
#include "worker_sdk/nn/gpu/reduce/device_reducer.hpp"
#include "worker_sdk/nn/gpu/reduce/rank_sums.hpp"
#include "worker_sdk/nn/learner/finite_loss.hpp"
#include "worker_sdk/nn/loss.hpp"
#include "worker_sdk/nn/plan.hpp"
#include "worker_sdk/parallel/agreement.hpp"
#include "worker_sdk/parallel/deterministic.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace muster::train {
namespace {

using Clock = std::chrono::steady_clock;
using nn::gpu::allocate;
using nn::gpu::kTallyNumbers;

/// How long a step is waited for without sleeping, which takes longer than many steps do.
constexpr std::chrono::milliseconds kAwake{20};

const std::string kNotRecorded = "steps are not recorded on the GPU, and so take longer: ";

/// Most samples of a micro-batch. In a deterministic world the same for every number of ranks, so that all
/// choose the same plans.
std::size_t largest_batch(const LearnerTask& task, const std::optional<MicroBatches>& plan,
                          const ProcessGroup* group) {
  if (!plan) return task.batch_size;
  const auto ranks = static_cast<std::size_t>(group == nullptr ? 1 : group->size());
  const auto parts = static_cast<std::size_t>(plan->total);
  return (task.batch_size * static_cast<std::size_t>(task.accumulation) * ranks + parts - 1) / parts;
}

/// Whether weight decay applies, one flag for each kArenaStep floats of an arena.
std::vector<std::uint8_t> decay_flags(const nn::ModelSpec& spec, const parallel::BucketLayout& layout,
                                      bool all) {
  constexpr auto kStep = static_cast<std::size_t>(nn::gpu::kArenaStep);
  static_assert(kStep == parallel::kAlignElements);
  std::vector<std::uint8_t> flags(layout.elements / kStep, 0);
  for (std::size_t i = 0; i < spec.parameters.size(); ++i) {
    const auto first = flags.begin() + static_cast<std::ptrdiff_t>(layout.offsets[i] / kStep);
    if (all || spec.parameters[i].decay) std::fill_n(first, layout.sizes[i] / kStep, std::uint8_t{1});
  }
  return flags;
}

/// The names of what an optimizer remembers. Says what is wrong with the options, as the CPU does.
std::vector<std::string> names_of_state(const optim::OptimizerOptions& options) {
  std::vector<std::string> names;
  const auto on_host = optim::make_optimizer(options, {nullptr, nullptr, 1, {}});
  for (const optim::StateArena& state : on_host->state()) names.push_back(state.name);
  return names;
}

/// Everything on a device.
class DeviceMachine final : public Machine {
 public:
  DeviceMachine(const LearnerTask& task, const Samples& samples, ProcessGroup* group,
                const std::optional<MicroBatches>& plan, nn::gpu::Ops& ops)
      : options_(task.options),
        scales_loss_(task.options.precision == nn::Precision::f16),
        reducer_options_(scales_loss_ ? with_loss_scale(parallel::with_tree(task.options.reducer))
                                      : parallel::with_tree(task.options.reducer)),
        group_(group),
        description_(network_of(task.options)),
        spec_(nn::plan_of(description_).spec),
        capacity_(largest_batch(task, plan, group)),
        ops_(ops),
        memory_(ops),
        sums_(group, reducer_options_.hook.get(), ops),
        layout_(parallel::plan_buckets(spec_.parameters, reducer_options_)),
        header_(memory_.allocate(parallel::kHeaderFloats + layout_.elements, "gradients")),
        losses_(memory_.allocate(capacity_, "losses")),
        hits_(memory_.allocate(capacity_, "hits")),
        logits_gradient_(memory_.allocate(capacity_ * static_cast<std::size_t>(spec_.classes), "logits")),
        train_score_(allocate<double>(ops, std::size_t{2} * kTallyNumbers, "a score")),
        test_score_(allocate<double>(ops, 3, "a score")) {
    nn::gpu::DeviceSum sum_statistics;
    if (options_.sync_batch_norm)
      sum_statistics = [this](double* values, std::size_t count, void* stream) {
        sums_.sum(values, count, DataType::f64, stream);
      };
    network_ =
        nn::gpu::make_device_network(description_, options_.precision, static_cast<std::int64_t>(capacity_),
                                     ops, sum_statistics, options_.activation_checkpoints);
    make_arenas(memory_, layout_, header_ + parallel::kHeaderFloats);
    make_optimizer();
    make_batches(task, samples);
    const std::vector<ParameterSpec>& specs = network_->spec().parameters;
    if (!sums_.is_alone())
      parallel::require_same_layout(*group, reducer_options_.store,
                                    parallel::describe_layout(specs, reducer_options_));
    sums_.prepare(layout_, specs, header_);
    const int micro_batches = plan ? plan->count : task.accumulation;
    const std::size_t first_mark = 1 + kMoments * static_cast<std::size_t>(micro_batches);
    reducer_.emplace(layout_, reducer_options_, options_.optimizer, arenas_, header_,
                     scales_loss_ ? train_score_ + nn::gpu::kTallyOverflow : nullptr, sums_, memory_, ops,
                     micro_batches, first_mark);
  }

  float loss_factor() const override { return loss_factor_; }

  void begin_epoch(const BatchPlan& batches, int epoch) override {
    batches_->begin(true, batches);
    epoch_ = epoch;
  }

  void begin_step(std::int64_t number, const StepRequest& request) override {
    number_ = number;
    request_ = request;
    parts_.clear();
    if (scales_loss_) loss_factor_ = loss_scale().of_sum(request.samples);
    began_ = Clock::now();
    ops_.mark(0);
    ops_.run(nn::gpu::SetTally{request.votes.time_is_up ? 1.0 : 0.0, request.votes.told_to_stop ? 1.0 : 0.0,
                               train_score_});
  }

  /// Ranks record parts in which they call each other together, and launch them together, as NCCL wants it: a
  /// rank that has other samples in steps of some shape has them in each step of that shape.
  void run(const Part& part, const std::function<void()>& work) override {
    parts_.push_back(part);
    prepare(part);
    batches_->prepare(true, part.samples);
    const bool calls = part.last || options_.sync_batch_norm;
    Recording& recording = recordings_[{part.samples, part.place, part.last, calls ? part.shape : 0}];
    const bool together = calls && sums_.on_device();
    if (recording.made++ == 0 || !may_record(together)) return work();
    if (!recording.graph) recording.graph = record(work, together);
    if (!recording.graph) return work();
    const auto launch = [&recording] { recording.graph->launch(); };
    // A recorded sum of a group that has failed would never end.
    if (sums_.on_device())
      group_->launch(launch);
    else
      launch();
  }

  const void* inputs(const Part& part) override { return batches_->batch(true, part.samples); }

  void open(const Part& part) override {
    ops_.run(nn::gpu::SetSamples{static_cast<float>(part.samples), part.place > 0, header_});
    reducer_->begin(part.place, part.last);
  }

  const float* loss(const Part& part, const float* logits) override {
    if (part.samples > 0) score_into(part.samples, logits, train_score_, logits_gradient_);
    return logits_gradient_;
  }

  void ready(std::size_t parameter) override { reducer_->ready(parameter); }

  void close(const Part&) override { reducer_->end(); }

  void mark(unsigned place, Moment moment) override { ops_.mark(mark_of(place, moment)); }

  StepResult finish_step() override {
    const std::vector<double> tally = sum_tally();
    const double* const sums = tally.data() + kTallyNumbers;
    require_finite_loss(group_, number_, tally[0], sums[0], advice(), [this] { return find_layer(); });
    StepResult result = {
        sums[0], sums[1], static_cast<std::int64_t>(sums[2]), {sums[3] > 0, sums[4] > 0}, {}};
    if (!scales_loss_) return result;
    result.skipped = sums[nn::gpu::kTallyOverflow] > 0;
    result.loss_scale = loss_scale().factor;
    update_or_throw(loss_scale(), result.skipped, number_, advice());
    return result;
  }

  const StepTiming& timing() override { return reducer_->timing(began_); }

  Time time_of(unsigned place, Moment moment) override {
    return began_ + ops_.between(0, mark_of(place, moment));
  }

  bool works_aside() const override { return true; }

  void begin_test(BatchPlan batches) override {
    batches_->begin(false, batches);
    test_position_ = 0;
  }

  std::size_t capacity() const override { return capacity_; }

  const void* test_inputs(std::size_t count) override {
    nn::gpu::StepValues values;
    values.position = static_cast<std::int64_t>(std::exchange(test_position_, test_position_ + count));
    ops_.run(nn::gpu::SetValues{values, arenas_.step_values});
    batches_->prepare(false, count);
    return batches_->batch(false, count);
  }

  nn::BatchScore score(const float* logits, std::size_t count) override {
    std::array<double, 3> sums{};
    ops_.clear(test_score_, sizeof(sums));
    score_into(count, logits, test_score_, nullptr);
    ops_.from_device(sums.data(), test_score_, sizeof(sums));
    return {sums[0], static_cast<std::int64_t>(sums[1])};
  }

  std::string take_note() override { return note_.empty() ? ops_.take_note() : std::exchange(note_, {}); }

  void swap_average() override {
    ops_.run(
        nn::gpu::SwapArenas{{0, static_cast<std::int64_t>(layout_.elements)}, values(), arenas_.average});
  }

  void add_memory(MemoryTable& table) const override {
    table.gradients += reducer_->waiting_bytes();
    table.activations = network_->memory().activations;
    table.data = batches_->bytes();
    const std::size_t known = table.parameters + table.gradients + table.optimizer_state + table.average +
                              table.activations + table.data;
    // Packed weights, and what the libraries and the sums of gradients work in.
    table.workspace = ops_.allocated() - std::min(known, ops_.allocated());
  }

 private:
  /// What makes parts alike, so that one recording does for them.
  using Kind = std::tuple<std::size_t, unsigned, bool, std::size_t>;

  struct Recording {
    int made = 0;
    std::unique_ptr<nn::gpu::Graph> graph;
  };

  /// Whether parts are recorded in which ranks call each other (`together`), or others.
  bool may_record(bool together) const {
    return records_ && (together ? can_record_together_.value_or(true) : can_record_alone_);
  }

  /// Null where it cannot be recorded: then no part of that kind is any more. Parts that are not have the
  /// same bits. Calls between ranks count when they are recorded, too, so ranks find out before the first of
  /// those whether all can record at all; what fails behind that ends the run.
  std::unique_ptr<nn::gpu::Graph> record(const std::function<void()>& work, bool together) {
    std::string reason;
    if (!together) {
      auto graph = try_capture(work, reason);
      can_record_alone_ = graph != nullptr;
      if (!can_record_alone_) note_ = kNotRecorded + reason;
      return graph;
    }
    if (!can_record_together_) {
      const auto trial = try_capture(
          [this] {
            ops_.run(nn::gpu::SetValues{nn::gpu::StepValues(), arenas_.step_values});
          },
          reason);
      const std::vector<std::string> reasons = all_texts(group_, reason);
      const auto cannot =
          std::find_if(reasons.begin(), reasons.end(), [](const auto& why) { return !why.empty(); });
      can_record_together_ = cannot == reasons.end();
      if (!*can_record_together_ && group_->rank() == 0)
        note_ = kNotRecorded + "rank " + std::to_string(cannot - reasons.begin()) + ": " + *cannot;
    }
    return *can_record_together_ ? ops_.capture(work) : nullptr;
  }

  /// Null, and why, where the device works and cannot record.
  std::unique_ptr<nn::gpu::Graph> try_capture(const std::function<void()>& work, std::string& reason) {
    try {
      return ops_.capture(work);
    } catch (const Error& error) {
      ops_.require_working();
      if (group_ != nullptr && group_->has_failed()) throw;
      reason = error.what();
      return nullptr;
    }
  }

  std::string advice() const {
    return options_.if_diverged + (scales_loss_ ? ", or compute in bf16 or 32 bits" : "");
  }

  void make_optimizer() {
    arenas_.values = values();
    arenas_.step_values = allocate<nn::gpu::StepValues>(ops_, 1, "numbers of a step");
    for (const std::string& name : names_of_state(options_.optimizer)) {
      arenas_.states.push_back(memory_.allocate(layout_.elements, "optimizer state"));
      states_.push_back({name, arenas_.states.back()});
    }
    if (options_.ema_decay > 0) {
      arenas_.average = memory_.allocate(layout_.elements, "average of weights");
      states_.push_back({"ema", arenas_.average});
    }
    const std::vector<std::uint8_t> flags =
        decay_flags(network_->spec(), layout_, options_.optimizer.decay_all);
    arenas_.decays = allocate<std::uint8_t>(ops_, flags.size(), "flags of weight decay");
    ops_.to_device(arenas_.decays, flags.data(), flags.size());
  }

  void make_batches(const LearnerTask& task, const Samples& samples) {
    const nn::SampleFormat format = network_->sample_format();
    if (samples.images == nullptr)
      batches_ = make_filled_device_batches(samples.fill, description_,
                                            static_cast<std::size_t>(spec_.classes), format, capacity_, ops_);
    else
      batches_ = std::make_unique<DeviceImages>(*samples.images, task.loader, format, capacity_,
                                                arenas_.step_values, ops_);
  }

  /// What differs between parts that are alike.
  void prepare(const Part& part) {
    nn::gpu::StepValues values;
    values.position = static_cast<std::int64_t>(part.first);
    values.epoch = epoch_;
    values.augment = 1;
    values.rate = request_.learning_rate;
    values.loss_factor = loss_factor_;
    // Steps that were left out count for nothing.
    const std::int64_t number = made_of(number_);
    if (options_.optimizer.kind != "sgd") {
      const auto t = static_cast<double>(number);
      values.adam_step = static_cast<float>(static_cast<double>(request_.learning_rate) /
                                            (1 - std::pow(options_.optimizer.beta1, t)));
      values.adam_root = static_cast<float>(std::sqrt(1 - std::pow(options_.optimizer.beta2, t)));
    }
    values.average_share = number <= 1 ? 1.0F : static_cast<float>(1 - options_.ema_decay);
    // A kernel's arguments are copied at its launch, so no memory of ours has to outlive the copy.
    ops_.run(nn::gpu::SetValues{values, arenas_.step_values});
    if (spec_.draws) network_->set_draws(part.draws);
  }

  void score_into(std::size_t count, const float* logits, double* sums, float* gradient) {
    const auto samples = static_cast<std::int64_t>(count);
    const auto width = static_cast<int>(spec_.classes);
    const float* const factor = scales_loss_ ? &arenas_.step_values->loss_factor : nullptr;
    if (description_.loss == nn::Loss::mse)
      ops_.run(nn::gpu::SquaredError{samples, width, logits, batches_->targets(), losses_, hits_, gradient,
                                     factor});
    else
      ops_.run(nn::gpu::CrossEntropy{samples, width, static_cast<float>(options_.label_smoothing), logits,
                                     batches_->labels(), losses_, hits_, gradient, factor});
    ops_.run(nn::gpu::AddScore{samples, losses_, hits_, sums, gradient == nullptr ? nullptr : header_});
  }

  /// This rank's numbers, then those of all ranks. The one place where a step is waited for. A call on the
  /// device's stream is watched by the group, unlike those in a recorded step before it: so a rank that is
  /// gone or late is named, and what hangs ends.
  std::vector<double> sum_tally() {
    std::vector<double> tally(std::size_t{2} * kTallyNumbers);
    double* const own = train_score_;
    if (sums_.on_device()) {
      Operation sum =
          operation_of(Collective::all_reduce, kTallyNumbers, DataType::f64, own, own + kTallyNumbers);
      sum.stream = ops_.stream();
      const auto work = group_->start({sum});
      const Clock::time_point asleep = Clock::now() + kAwake;
      while (!work->test() && Clock::now() < asleep) std::this_thread::yield();
      work->wait();
      ops_.from_device(tally.data(), own, tally.size() * sizeof(double));
      return tally;
    }
    ops_.from_device(tally.data(), own, kTallyNumbers * sizeof(double));
    std::copy_n(tally.begin(), kTallyNumbers, tally.begin() + kTallyNumbers);
    if (!sums_.is_alone())
      group_->all_reduce(tally.data() + kTallyNumbers, kTallyNumbers, DataType::f64, ReduceOp::sum);
    return tally;
  }

  /// Name of the first layer whose result was not finite in the step, which changed no parameters; "" where
  /// there is none. A collective call with statistics of all ranks. Moves the running statistics.
  std::string find_layer() {
    network_->parameters_changed();
    std::string name;
    request_.learning_rate = 0;
    for (const Part& part : parts_) {
      if (!part.last && !batches_->repeats()) continue;
      prepare(part);
      (void)network_->forward(inputs(part), static_cast<std::int64_t>(part.samples), nn::Mode::train);
      if (part.samples > 0 && name.empty()) name = network_->first_not_finite();
      // Statistics of all ranks are summed in every micro-batch of each: no rank may leave before the others.
      if (!name.empty() && !options_.sync_batch_norm) break;
    }
    return name;
  }

  std::size_t mark_of(unsigned place, Moment moment) const {
    return 1 + kMoments * place + static_cast<std::size_t>(moment);
  }

  const LearnerOptions options_;
  const bool scales_loss_;
  const ReducerOptions reducer_options_;
  ProcessGroup* const group_;
  const nn::Description description_;
  const nn::ModelSpec spec_;
  const std::size_t capacity_;  ///< most samples of a batch
  nn::gpu::Ops& ops_;
  nn::gpu::DeviceMemory memory_;
  nn::gpu::RankSums sums_;
  bool records_ = options_.record_steps && ops_.records() && sums_.recordable();
  bool can_record_alone_ = true;
  std::optional<bool> can_record_together_;  ///< alike on all ranks; nothing: not known yet
  std::string note_;
  const parallel::BucketLayout layout_;
  float* header_;  ///< its first number is that of the step's samples; the gradients follow
  nn::gpu::DeviceArenas arenas_;
  std::optional<nn::gpu::DeviceReducer> reducer_;
  std::unique_ptr<DeviceBatches> batches_;
  float* losses_;
  float* hits_;
  float* logits_gradient_;
  double* train_score_;
  double* test_score_;
  float loss_factor_ = 1;  ///< of the step
  std::map<Kind, Recording> recordings_;
  int epoch_ = 0;
  std::int64_t number_ = 0;  ///< of the step
  StepRequest request_;
  std::vector<Part> parts_;  ///< of the step
  std::size_t test_position_ = 0;
  Time began_;  ///< when the host put mark 0
};

}  // namespace

std::unique_ptr<Machine> make_device_machine(const LearnerTask& task, const Samples& data,
                                             ProcessGroup* group, const std::optional<MicroBatches>& plan,
                                             nn::gpu::Ops& ops) {
  return std::make_unique<DeviceMachine>(task, data, group, plan, ops);
}

}  // namespace muster::train
