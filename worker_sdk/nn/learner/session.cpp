// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/learner/session.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/comm/texts.hpp"
#include "worker_sdk/nn/checkpoint/match.hpp"
#include "worker_sdk/nn/gpu/plugin/device.hpp"
#include "worker_sdk/nn/learner/tensor_views.hpp"
#include "worker_sdk/parallel/agreement.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <sstream>
#include <utility>

namespace muster::train {
namespace {

/// In the metadata of a file that has all: steps that were made.
constexpr const char* kSteps = "muster.steps";

/// And how the loss is scaled: the factor, steps since it changed, steps that were left out.
constexpr const char* kLossScale = "muster.loss_scale";

std::string text_of(const LossScale& scale) {
  std::ostringstream text;
  text.precision(17);
  text << scale.factor << " " << scale.good << " " << scale.skipped;
  return text.str();
}

LossScale loss_scale_of(const std::string& text, std::int64_t steps, const std::string& path) {
  LossScale scale;
  std::istringstream numbers(text);
  if (!(numbers >> scale.factor >> scale.good >> scale.skipped) || !scale.is_possible(steps))
    throw Error(ErrorCode::invalid_argument,
                path + " says that the loss is scaled by '" + text + "'; take another file");
  return scale;
}

/// What must be the same on all ranks, a line for each.
std::string description_of(const SessionOptions& options) {
  const LearnerOptions& o = options.learner;
  std::ostringstream text;
  text.precision(17);
  text << "network " << nn::to_text(*o.network) << "\nbatch_size " << options.batch_size << "\naccumulation "
       << options.accumulation << "\nprecision " << static_cast<int>(o.precision) << "\noptimizer "
       << o.optimizer.kind << "\nmomentum " << o.optimizer.momentum << "\nnesterov " << o.optimizer.nesterov
       << "\nweight_decay " << o.optimizer.weight_decay << "\ndecay_all " << o.optimizer.decay_all
       << "\nbeta1 " << o.optimizer.beta1 << "\nbeta2 " << o.optimizer.beta2 << "\nepsilon "
       << o.optimizer.epsilon << "\nema_decay " << o.ema_decay << "\nlabel_smoothing " << o.label_smoothing
       << "\nsync_batch_norm " << o.sync_batch_norm << "\nseed " << o.seed << "\nmax_norm "
       << o.reducer.max_norm << "\ndeterministic_micro_batches " << o.reducer.deterministic_micro_batches
       << "\n";
  return text.str();
}

const SessionOptions& checked(const SessionOptions& options, ProcessGroup* group) {
  if (options.batch_size == 0 || options.accumulation < 1)
    throw Error(ErrorCode::invalid_argument,
                "a step of no samples; give a batch_size and an accumulation of 1 or more");
  if (const Form form = options.learner.reducer.sharding.form; form != Form::ddp)
    throw Error(ErrorCode::unsupported,
                std::string("a session keeps the whole model on every rank, and not the form ") +
                    name_of(form) + "; muster-train has the forms");
  if (group != nullptr && group->size() > 1)
    parallel::agree(*group, nullptr,
                    {"options", "which options it has",
                     "the ranks were given different networks or options: ", "give every rank the same ones"},
                    description_of(options));
  return options;
}

}  // namespace

std::shared_ptr<nn::gpu::Ops> open_gpu(int local_rank) {
  return nn::gpu::open_device("cuda", local_rank);
}

Session::Session(const SessionOptions& options, FillStep fill, ProcessGroup* group, nn::gpu::Ops* device)
    : options_(checked(options, group)), fill_(std::move(fill)), group_(group) {
  const LearnerTask task = {options_.learner, {}, options_.batch_size, options_.accumulation};
  learner_.emplace(task, Samples([this](const WantedBatch& batch) { this->fill(batch); }), group, device);
  shape_.rank = group == nullptr ? 0 : group->rank();
  shape_.ranks = group == nullptr ? 1 : group->size();
  shape_.batch_size = options_.batch_size;
  shape_.accumulation = options_.accumulation;
  shape_.fixed = learner_->micro_batch_plan();
}

/// Runs the part of a call in which the ranks wait for each other.
template <typename Body>
void Session::together(const std::string& what, const Body& body) {
  if (!failure_.empty())
    throw Error(ErrorCode::state, "the learner failed before: " + failure_ + "; make a new one");
  try {
    body();
  } catch (const std::exception& error) {
    failure_ = error.what();
    if (shape_.ranks > 1 && !group_->has_failed())
      group_->abort("rank " + std::to_string(shape_.rank) + " failed in " + what + ": " + failure_);
    throw;
  }
}

/// Runs `body` on rank 0; all ranks throw what it throws there.
template <typename Body>
void Session::on_first(const Body& body) {
  std::string text;
  std::int32_t code = 0;
  if (shape_.rank == 0) {
    try {
      body();
    } catch (const Error& error) {
      code = static_cast<std::int32_t>(error.code());
      text = error.what();
    } catch (const std::exception& error) {
      code = static_cast<std::int32_t>(ErrorCode::state);
      text = error.what();
    }
  }
  if (shape_.ranks > 1) {
    group_->broadcast(&code, sizeof(code), 0);
    if (code != 0) text = all_texts(group_, text).front();
  }
  if (code != 0) throw Error(static_cast<ErrorCode>(code), text);
}

void Session::fill(const WantedBatch& batch) {
  if (given_ == nullptr) return fill_(batch, learner_->steps() - (batch.training ? 1 : 0));
  const auto take = [this](auto places) {
    std::memcpy(places.data(), given_, places.size_bytes());
    given_ += places.size_bytes();
  };
  batch.ids.empty() ? take(batch.inputs) : take(batch.ids);
}

StepResult Session::step(std::size_t samples, float learning_rate) {
  if (samples < 1 || samples > global_batch())
    throw Error(ErrorCode::invalid_argument, "a step of " + std::to_string(samples) +
                                                 " samples of all ranks, which can be 1 to " +
                                                 std::to_string(global_batch()));
  if (!(learning_rate >= 0))
    throw Error(ErrorCode::invalid_argument,
                "a learning rate of " + std::to_string(learning_rate) + "; give 0 or more");
  StepResult result;
  together("step " + std::to_string(learner_->steps() + 1), [&] {
    std::vector<std::uint32_t> numbers(samples);
    std::iota(numbers.begin(), numbers.end(), 0U);
    learner_->begin_epoch(plan_epoch(numbers, shape_), 0);
    result = learner_->step({shape_.micro_batches(), learning_rate, samples, {}});
    if (result.samples != static_cast<std::int64_t>(samples))
      throw Error(ErrorCode::mismatch, "the ranks were asked for steps of different sizes: this one for " +
                                           std::to_string(samples) + " samples of all ranks, and " +
                                           std::to_string(result.samples) +
                                           " came together; give every rank the same number");
  });
  return result;
}

Score Session::evaluate(std::size_t samples) {
  Score score;
  together("an evaluation after step " + std::to_string(learner_->steps()),
           [&] { score = learner_->evaluate(plan_evaluation(samples, shape_)).value(); });
  return score;
}

void Session::predict(const void* inputs, std::size_t samples, float* results) {
  // What a network has room for, as in plan_evaluation().
  const std::size_t most = shape_.fixed
                               ? steps_for(global_batch(), static_cast<std::size_t>(shape_.fixed->total))
                               : options_.batch_size;
  BatchPlan plan;
  for (std::size_t first = 0; first < samples; first += most) {
    auto& batch = plan.emplace_back(std::min(most, samples - first));
    std::iota(batch.begin(), batch.end(), static_cast<std::uint32_t>(first));
  }
  given_ = static_cast<const std::byte*>(inputs);
  try {
    learner_->results(std::move(plan), results);
  } catch (...) {
    given_ = nullptr;
    throw;
  }
  given_ = nullptr;
}

void Session::save(const std::string& path, bool all) {
  together("saving " + path, [&] { learner_->share_statistics(); });
  on_first([&] {
    const std::int64_t batches = learner_->steps() * shape_.micro_batches();
    auto tensors = torch_views(views(learner_->model_tensors(!all)), batches);
    std::map<std::string, std::string> metadata = {{"format", "pt"}};
    if (all) {
      const auto state = views(learner_->state_tensors());
      tensors.insert(tensors.end(), state.begin(), state.end());
      metadata[kSteps] = std::to_string(learner_->steps());
      if (const LossScale& scale = learner_->loss_scale(); scale != LossScale())
        metadata[kLossScale] = text_of(scale);
    }
    checkpoint::write_safetensors(path, tensors, metadata);
  });
}

bool Session::load(const std::string& path) {
  std::int64_t steps = -1;
  LossScale scale;
  on_first([&] {
    const checkpoint::TensorFiles file{checkpoint::SafetensorsFile(path)};
    auto to = destinations(learner_->model_tensors());
    const auto found = file.metadata().find(kSteps);
    if (found != file.metadata().end()) {
      const auto state = destinations(learner_->state_tensors());
      to.insert(to.end(), state.begin(), state.end());
      steps = parse_number<std::int64_t>(found->second).value_or(-1);
      const auto scaled = file.metadata().find(kLossScale);
      if (scaled != file.metadata().end()) scale = loss_scale_of(scaled->second, steps, path);
      if (steps < 0)
        throw Error(ErrorCode::invalid_argument,
                    path + " says that " + found->second + " steps were made; take another file");
    }
    checkpoint::fill(file, to);
  });
  together("loading " + path, [&] {
    if (shape_.ranks > 1) {
      group_->broadcast(&steps, sizeof(steps), 0);
      group_->broadcast(&scale, sizeof(scale), 0);
    }
    learner_->share_state();
    if (steps < 0) return;
    learner_->set_steps(steps);
    learner_->loss_scale() = scale;
  });
  return steps >= 0;
}

}  // namespace muster::train
