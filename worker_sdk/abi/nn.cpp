// SPDX-License-Identifier: Apache-2.0
#include "muster/abi/nn.h"

#include "worker_sdk/abi/failure.hpp"
#include "worker_sdk/abi/nodes.hpp"
#include "worker_sdk/abi/options.hpp"
#include "worker_sdk/nn/batches/host_batches.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/learner/session.hpp"
#include "worker_sdk/nn/optim/schedule.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace muster::abi {
namespace {

constexpr std::uint64_t kMostSamples = std::numeric_limits<std::uint32_t>::max();

struct LearnerNode : Node {
  static constexpr Kind kKind = Kind::learner;

  LearnerNode(GroupNode* parent, const train::SessionOptions& options, int thread_count, train::FillStep fill,
              std::shared_ptr<nn::gpu::Ops> opened)
      : Node(kKind, parent),
        group(parent),
        threads(thread_count),
        device(std::move(opened)),
        input_values(train::sample_elements(options.learner.network->input)),
        session(options, std::move(fill), parent == nullptr ? nullptr : &parent->group, device.get()) {}

  GroupNode* const group;  ///< null in a world of one without a group
  const int threads;
  const std::shared_ptr<nn::gpu::Ops> device;
  const std::size_t input_values;  ///< values of one sample
  train::Session session;
};

void use_threads(int count) {
  if (count > 0) nn::set_threads(count);
}

/// Runs a call of a learner, with the learner's number of threads.
template <class Body>
muster_rc with_learner(const char* call, muster_nn_learner* learner, Body&& body) noexcept {
  return with_node<LearnerNode>(call, learner, [&](LearnerNode& node) {
    use_threads(node.threads);
    if (node.group == nullptr) return body(node);
    try {
      watching(*node.group, [&] { body(node); });
    } catch (...) {
      // The code does not matter here, because a callback may fail with any.
      if (node.session.has_failed()) node.group->failed = true;
      throw;
    }
  });
}

/// The word of `words` for a number of the header.
template <class Word, std::size_t kCount>
Word one_of(std::int32_t number, const Word (&words)[kCount], const char* member) {
  if (number < 0 || number >= static_cast<std::int32_t>(kCount))
    throw Error(ErrorCode::invalid_argument, std::string(member) + " is " + std::to_string(number) +
                                                 "; give a number that muster/abi/nn.h names");
  return words[number];
}

void require_range(double value, double least, double limit, const char* member, const char* range) {
  if (!(value >= least && value < limit))
    throw Error(ErrorCode::invalid_argument, std::string("muster_nn_options.") + member + " is " +
                                                 std::to_string(value) + "; give " + range);
}

optim::OptimizerOptions optimizer_options(const muster_nn_options& given) {
  constexpr const char* kKinds[] = {"sgd", "adam", "adamw"};
  optim::OptimizerOptions options;
  options.kind = one_of(given.optimizer, kKinds, "muster_nn_options.optimizer");
  options.momentum = given.momentum;
  options.nesterov = (given.flags & MUSTER_NN_NESTEROV) != 0;
  options.weight_decay = given.weight_decay;
  options.decay_all = (given.flags & MUSTER_NN_DECAY_ALL) != 0;
  if (given.beta1 != 0) options.beta1 = given.beta1;
  if (given.beta2 != 0) options.beta2 = given.beta2;
  if (given.epsilon != 0) options.epsilon = given.epsilon;
  return options;
}

std::shared_ptr<BucketHook> hook_of(muster_compression compression) {
  if (compression < MUSTER_COMPRESS_NONE || compression > MUSTER_COMPRESS_F16)
    throw Error(ErrorCode::invalid_argument,
                "muster_nn_options.compression is " + std::to_string(compression) +
                    "; give MUSTER_COMPRESS_NONE, MUSTER_COMPRESS_BF16 or MUSTER_COMPRESS_F16");
  return half_hook_of(compression);
}

train::SessionOptions session_options(const muster_nn_options& given, const char* network) {
  constexpr nn::Precision kPrecisions[] = {nn::Precision::f32, nn::Precision::tf32, nn::Precision::bf16,
                                           nn::Precision::f16};
  constexpr std::uint32_t kFlags = MUSTER_NN_NESTEROV | MUSTER_NN_SYNC_BATCH_NORM | MUSTER_NN_DECAY_ALL;
  if ((given.flags & ~kFlags) != 0)
    throw Error(ErrorCode::invalid_argument, "muster_nn_options.flags is " + std::to_string(given.flags) +
                                                 "; it has a flag that muster/abi/nn.h does not name");
  require_range(static_cast<double>(given.batch_size), 0, 0x1p24, "batch_size", "1 to 2^24 - 1");
  require_range(given.accumulation, 0, 0x1p16, "accumulation", "1 to 65535");
  require_range(given.threads, 0, 1025, "threads", "1 to 1024, or 0 for the default");
  require_range(given.ema_decay, 0, 1, "ema_decay", "0 to below 1");
  require_range(given.label_smoothing, 0, 1, "label_smoothing", "0 to below 1");
  require_range(given.max_norm, 0, std::numeric_limits<double>::infinity(), "max_norm",
                "a norm above 0, or 0 for no clipping");
  train::SessionOptions options;
  train::LearnerOptions& learner = options.learner;
  learner.network = std::make_shared<const nn::Description>(nn::description_from(network));
  if (learner.network->loss == nn::Loss::mse && given.label_smoothing > 0)
    throw Error(ErrorCode::invalid_argument,
                "the mean squared error has no labels to smooth; leave label_smoothing out");
  learner.model = learner.network->name;
  learner.precision = one_of(given.precision, kPrecisions, "muster_nn_options.precision");
  learner.optimizer = optimizer_options(given);
  learner.ema_decay = given.ema_decay;
  learner.label_smoothing = given.label_smoothing;
  learner.sync_batch_norm = (given.flags & MUSTER_NN_SYNC_BATCH_NORM) != 0;
  learner.seed = given.seed;
  learner.reducer.max_norm = given.max_norm;
  learner.reducer.deterministic_micro_batches = given.deterministic_micro_batches;
  learner.reducer.hook = hook_of(given.compression);
  if (given.batch_size > 0) options.batch_size = given.batch_size;
  if (given.accumulation > 0) options.accumulation = static_cast<int>(given.accumulation);
  return options;
}

train::FillStep fill_of(muster_nn_fill fill, void* user) {
  return [fill, user](const train::WantedBatch& wanted, std::int64_t steps) {
    const auto place = [](auto places) { return places.empty() ? nullptr : places.data(); };
    muster_nn_batch batch = {};
    batch.size = sizeof batch;
    batch.training = wanted.training ? 1 : 0;
    batch.steps = steps;
    batch.samples = wanted.samples.size();
    batch.inputs_each = std::max(wanted.inputs.size(), wanted.ids.size()) / batch.samples;
    batch.targets_each = wanted.targets.size() / batch.samples;
    batch.numbers = wanted.samples.data();
    batch.inputs = place(wanted.inputs);
    batch.ids = place(wanted.ids);
    batch.labels = place(wanted.labels);
    batch.targets = place(wanted.targets);
    forget_failure();
    require_ok(fill(&batch, user), "the callback that fills batches");
  };
}

void give_score(muster_nn_score* place, const train::Score& score) {
  if (place == nullptr) return;
  muster_nn_score known = {};
  known.samples = score.samples;
  known.loss = score.mean_loss;
  known.accuracy = score.accuracy;
  write_result(place, known, "muster_nn_score");
}

void require_samples(std::uint64_t samples) {
  if (samples < 1 || samples > kMostSamples)
    throw Error(ErrorCode::invalid_argument, std::to_string(samples) + " samples are asked for; give 1 to " +
                                                 std::to_string(kMostSamples));
}

LearnerNode* make_learner(GroupNode* group, const char* network, const muster_nn_options& given,
                          muster_nn_fill fill, void* user) {
  require(network, "the description of the network");
  if (fill == nullptr) throw Error(ErrorCode::invalid_argument, "the callback that fills batches is NULL");
  const train::SessionOptions options = session_options(given, network);
  constexpr bool kOnDevice[] = {false, true};
  std::shared_ptr<nn::gpu::Ops> device;
  if (one_of(given.device, kOnDevice, "muster_nn_options.device"))
    device = train::open_gpu(group == nullptr ? 0 : group->world.world->info().local_rank);
  use_threads(given.threads);
  return make_node<LearnerNode>(group, options, given.threads, fill_of(fill, user), std::move(device));
}

}  // namespace
}  // namespace muster::abi

using namespace muster::abi;

extern "C" {

muster_rc muster_nn_learner_create(muster_group* group, const char* network, const muster_nn_options* options,
                                   muster_nn_fill fill, void* user, muster_nn_learner** learner) {
  const auto make = [&](GroupNode* node) {
    *learner = handle_of<muster_nn_learner>(
        make_learner(node, network, read_options(options, "muster_nn_options"), fill, user));
  };
  if (group != nullptr)
    return giving<GroupNode>(__func__, group, learner, "the place for the learner",
                             [&](GroupNode& node) { watching(node, [&] { make(&node); }); });
  if (learner != nullptr) *learner = nullptr;
  return guarded(__func__, nullptr, [&] {
    require(learner, "the place for the learner");
    make(nullptr);
  });
}

muster_rc muster_nn_get_info(muster_nn_learner* learner, muster_nn_info* info) {
  return with_node<LearnerNode>(__func__, learner, [&](LearnerNode& node) {
    require(info, "the place for the info");
    const muster::nn::ModelSpec& spec = node.session.learner().spec();
    muster_nn_info known = {};
    known.parameters = static_cast<uint32_t>(spec.parameters.size());
    known.values = spec.parameter_count();
    known.inputs = node.input_values;
    known.outputs = static_cast<uint64_t>(spec.classes);
    known.global_batch = node.session.global_batch();
    known.steps = node.session.learner().steps();
    write_result(info, known, "muster_nn_info");
  });
}

muster_rc muster_nn_step(muster_nn_learner* learner, uint64_t samples, float learning_rate,
                         muster_nn_score* score) {
  return with_learner(__func__, learner, [&](LearnerNode& node) {
    if (score != nullptr) check_size(score->size, "muster_nn_score");
    const muster::train::StepResult made = node.session.step(samples, learning_rate);
    give_score(score, muster::train::mean_score(made.loss, made.correct, made.samples));
  });
}

muster_rc muster_nn_evaluate(muster_nn_learner* learner, uint64_t samples, muster_nn_score* score) {
  return with_learner(__func__, learner, [&](LearnerNode& node) {
    require(score, "the place for the score");
    check_size(score->size, "muster_nn_score");
    require_samples(samples);
    give_score(score, node.session.evaluate(samples));
  });
}

muster_rc muster_nn_predict(muster_nn_learner* learner, const void* inputs, uint64_t samples,
                            float* outputs) {
  return with_learner(__func__, learner, [&](LearnerNode& node) {
    require(inputs, "the array of inputs");
    require(outputs, "the array of outputs");
    require_samples(samples);
    node.session.predict(inputs, samples, outputs);
  });
}

muster_rc muster_nn_save(muster_nn_learner* learner, const char* path, int32_t whole) {
  return with_learner(__func__, learner, [&](LearnerNode& node) {
    require(path, "the path of the file");
    node.session.save(path, whole != 0);
  });
}

muster_rc muster_nn_load(muster_nn_learner* learner, const char* path, int32_t* whole) {
  return with_learner(__func__, learner, [&](LearnerNode& node) {
    require(path, "the path of the file");
    const bool all = node.session.load(path);
    if (whole != nullptr) *whole = all ? 1 : 0;
  });
}

muster_rc muster_nn_check(muster_nn_learner* learner, uint64_t* hash) {
  return with_learner(__func__, learner, [&](LearnerNode& node) {
    const std::uint64_t found = node.session.learner().parameter_hash();
    if (hash != nullptr) *hash = found;
  });
}

muster_rc muster_nn_learner_free(muster_nn_learner* learner) {
  if (learner == nullptr) return MUSTER_OK;
  return guarded(__func__, learner, [&] { Node::release(&open<LearnerNode>(learner)); });
}

muster_rc muster_nn_rate(const muster_nn_schedule* schedule, int64_t step, float* rate) {
  return guarded(__func__, nullptr, [&] {
    require(schedule, "the schedule");
    require(rate, "the place for the rate");
    const muster_nn_schedule given = read_options(schedule, "muster_nn_schedule");
    using muster::optim::ScheduleKind;
    constexpr ScheduleKind kKinds[] = {ScheduleKind::constant, ScheduleKind::step, ScheduleKind::cosine,
                                       ScheduleKind::one_cycle};
    muster::optim::ScheduleOptions options;
    options.kind = one_of(given.kind, kKinds, "muster_nn_schedule.kind");
    options.rate = given.rate;
    options.total_steps = std::max<int64_t>(1, given.total_steps);
    options.step_steps = std::max<int64_t>(1, given.step_steps);
    if (given.gamma != 0) options.gamma = given.gamma;
    options.minimum = given.minimum;
    if (given.peak_share != 0) options.peak_share = given.peak_share;
    options.warmup_steps = given.warmup_steps;
    options.warmup_start = given.warmup_start;
    *rate = muster::optim::Schedule(options).at(step);
  });
}

muster_rc muster_nn_order(uint32_t count, uint64_t seed, int32_t epoch, uint32_t* order) {
  return guarded(__func__, nullptr, [&] {
    if (count > 0) require(order, "the array of the order");
    if (epoch < 0)
      throw muster::Error(muster::ErrorCode::invalid_argument,
                          "epoch is " + std::to_string(epoch) + "; give 0 or more");
    const auto found = muster::train::epoch_order(count, seed, epoch);
    std::copy(found.begin(), found.end(), order);
  });
}
}
