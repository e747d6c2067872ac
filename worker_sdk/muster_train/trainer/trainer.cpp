// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/trainer/trainer.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"
#include "worker_sdk/nn/learner/learner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <string>
#include <utility>

namespace muster::train {
namespace {

LearnerTask task_of(const TrainerOptions& options) {
  return {options.learner, options.loader, options.batch_size, options.accumulation};
}

StepShape shape_of(const TrainerOptions& options, ProcessGroup* group, const Learner& learner) {
  StepShape shape;
  shape.rank = group == nullptr ? 0 : group->rank();
  shape.ranks = group == nullptr ? 1 : group->size();
  shape.batch_size = options.batch_size;
  shape.accumulation = options.accumulation;
  shape.fixed = learner.micro_batch_plan();
  return shape;
}

/// Before anything is made of them.
const TrainerOptions& checked(const TrainerOptions& options, const data::ImageData& data,
                              const ProcessGroup* group) {
  const auto ranks = static_cast<std::size_t>(group == nullptr ? 1 : group->size());
  if (options.batch_size == 0 || options.accumulation < 1)
    throw Error(ErrorCode::invalid_argument,
                "a step of no images; give a batch size and an accumulation of 1 or more");
  if (data.train.size() < ranks && !options.only_scores)
    throw Error(ErrorCode::invalid_argument,
                std::to_string(ranks) + " ranks for " + std::to_string(data.train.size()) +
                    " training images, so some would never have one; start fewer ranks");
  const std::size_t step = options.batch_size * static_cast<std::size_t>(options.accumulation) * ranks;
  if (options.drop_last && !options.only_scores && data.train.size() < step)
    throw Error(ErrorCode::invalid_argument,
                "--drop-last leaves nothing: " + std::to_string(data.train.size()) +
                    " training images make no step of " + std::to_string(step) + "; give smaller batches");
  return options;
}

std::int64_t steps_of(double epochs, std::int64_t steps_per_epoch) {
  return std::llround(epochs * static_cast<double>(steps_per_epoch));
}

}  // namespace

double full_rate(const Recipe& recipe, std::int64_t global_batch) {
  return recipe.rate_per_256 > 0 ? optim::scaled_rate(recipe.rate_per_256, global_batch) : recipe.rate;
}

optim::Schedule make_schedule(const Recipe& recipe, int epochs, std::int64_t steps_per_epoch,
                              std::int64_t global_batch) {
  optim::ScheduleOptions options;
  options.kind = recipe.schedule;
  options.rate = full_rate(recipe, global_batch);
  options.total_steps = std::max<std::int64_t>(1, epochs * steps_per_epoch);
  options.step_steps = std::max<std::int64_t>(1, steps_of(recipe.step_epochs, steps_per_epoch));
  options.gamma = recipe.gamma;
  options.minimum = recipe.minimum;
  options.peak_share = recipe.peak_share;
  options.warmup_steps = steps_of(recipe.warmup_epochs, steps_per_epoch);
  options.warmup_start = recipe.warmup_start;
  if (recipe.warmup_start < 0)
    options.warmup_start = recipe.rate_per_256 > 0 ? optim::scaled_warmup_start(global_batch) : 0.1;
  return optim::Schedule(options);
}

Score StepReport::epoch_score() const {
  return mean_score(position.loss, position.correct, static_cast<std::int64_t>(position.sample));
}

Trainer::Trainer(const data::ImageData& data, ProcessGroup* group, const TrainerOptions& options)
    : data_(data),
      group_(group),
      options_(checked(options, data, group)),
      learner_(task_of(options_), data, group_, options_.device),
      shape_(shape_of(options, group_, learner_)),
      schedule_(make_schedule(options.recipe, options.epochs, static_cast<std::int64_t>(steps_per_epoch()),
                              static_cast<std::int64_t>(shape_.global_batch()))) {}

std::size_t Trainer::images_per_epoch() const {
  const std::size_t images = data_.train.size();
  return options_.drop_last ? images - images % shape_.global_batch() : images;
}

std::size_t Trainer::images_left() const {
  const std::size_t left = data_.train.size() - std::min(data_.train.size(), position_.sample);
  // Whole steps also where the epoch began with steps of another size.
  return options_.drop_last ? left - left % shape_.global_batch() : left;
}

std::int64_t Trainer::schedule_step() const {
  return position_.epoch * static_cast<std::int64_t>(steps_per_epoch()) +
         static_cast<std::int64_t>(steps_for(position_.sample, shape_.global_batch()));
}

std::size_t Trainer::steps_per_epoch() const {
  return steps_for(images_per_epoch(), shape_.global_batch());
}

Stop Trainer::after_step(const StepResult& step) const {
  if (step.votes.told_to_stop) return Stop::told_to_stop;
  if (step.votes.time_is_up) return Stop::time_is_up;
  return max_steps > 0 && position_.step >= max_steps ? Stop::enough_steps : Stop::none;
}

/// What fails on this rank's device, in its own words. It fails the group, too: on the other ranks it is a
/// consequence, of which that rank has more to say.
Error Trainer::explained(const Error& error, const std::string& when) const {
  if (options_.device == nullptr) return error;
  try {
    options_.device->require_working();
  } catch (const Error& own) {
    return {own.code(), when + ": " + own.what()};
  }
  if (error.code() != ErrorCode::backend && error.code() != ErrorCode::out_of_memory) return error;
  try {
    if (group_ != nullptr) group_->launch([] {});  // throws where the group has failed
  } catch (const Error&) {
    return {ErrorCode::aborted, error.what()};
  }
  return {error.code(), when + ": " + error.what()};
}

Stop Trainer::train_epoch(const std::function<void(const StepReport&)>& on_step, Score& score) {
  const auto began = std::chrono::steady_clock::now();
  double in_steps = 0;
  const auto order = epoch_order(data_.train.size(), options_.seed, position_.epoch);
  const auto to_do = std::span(order).last(data_.train.size() - position_.sample).first(images_left());
  const std::size_t steps = steps_for(to_do.size(), shape_.global_batch());
  learner_.begin_epoch(plan_epoch(to_do, shape_), position_.epoch);
  StepReport report;
  report.epoch_steps = steps_for(position_.sample, shape_.global_batch()) + steps;
  Stop stop = max_steps > 0 && position_.step >= max_steps ? Stop::enough_steps : Stop::none;
  for (std::size_t left = steps; left > 0 && stop == Stop::none; --left) {
    report.learning_rate = schedule_.at(schedule_step());
    const std::size_t done = (steps - left) * shape_.global_batch();
    const StepRequest request = {shape_.micro_batches(), report.learning_rate,
                                 std::min(shape_.global_batch(), to_do.size() - done),
                                 votes ? votes() : Votes{}};
    try {
      report.step = learner_.step(request);
    } catch (const Error& error) {
      throw explained(error, "step " + std::to_string(position_.step + 1));
    }
    profile_.add(report.step.times);
    in_steps += report.step.times.total;
    ++position_.step;
    position_.sample += static_cast<std::size_t>(report.step.samples);
    position_.loss += report.step.loss;
    position_.correct += report.step.correct;
    if (options_.check_every > 0 && position_.step % options_.check_every == 0) learner_.parameter_hash();
    report.position = position_;
    report.epoch_step = report.epoch_steps - left + 1;
    if (on_step) on_step(report);
    stop = after_step(report.step);
  }
  profile_.add_between(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() -
                       in_steps);
  score = mean_score(position_.loss, position_.correct, static_cast<std::int64_t>(position_.sample));
  return stop;
}

void Trainer::next_epoch() {
  ++position_.epoch;
  position_.sample = 0;
  position_.loss = position_.correct = 0;
}

bool Trainer::all_told_to_stop() {
  if (!votes) return false;
  std::int32_t told = votes().told_to_stop ? 1 : 0;
  if (group_ != nullptr && group_->size() > 1) group_->all_reduce(&told, 1, DataType::i32, ReduceOp::max);
  return told != 0;
}

Stop Trainer::evaluate(Score& score) {
  try {
    return score_test_images(score);
  } catch (const Error& error) {
    throw explained(error, "the evaluation after step " + std::to_string(position_.step));
  }
}

Stop Trainer::score_test_images(Score& score) {
  const auto found =
      learner_.evaluate(plan_evaluation(data_.test.size(), shape_), [this] { return all_told_to_stop(); });
  if (!found) return Stop::told_to_stop;
  score = *found;
  return Stop::none;
}

MemoryTable Trainer::memory() const {
  MemoryTable table = learner_.memory();
  table.empty_process = options_.empty_process;
  table.peak_resident = peak_resident_bytes();
  return table;
}

}  // namespace muster::train
