// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/run/run.hpp"

#include "worker_sdk/nn/learner/step_profile.hpp"
#include "worker_sdk/nn/learner/text.hpp"

#include <cinttypes>
#include <cstdio>
#include <utility>

namespace muster::train {
namespace {

ProcessGroup* group_of(World& world) {
  return world.info().size == 1 ? nullptr : &world.group();
}

/// Models are compared over the store: it answers before any rank waits for another one's gradients.
TrainerOptions trainer_options(const RunOptions& run, World& world) {
  TrainerOptions options = run.trainer;
  if (world.info().size > 1) options.learner.reducer.store = &world.store();
  options.learner.reducer.meet_first = !run.profile.empty();
  return options;
}

/// "545,098"
std::string grouped(std::size_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, ",");
  return digits;
}

const char* schedule_name(optim::ScheduleKind kind) {
  switch (kind) {
    case optim::ScheduleKind::constant:
      return "constant";
    case optim::ScheduleKind::step:
      return "step";
    case optim::ScheduleKind::cosine:
      return "cosine";
    case optim::ScheduleKind::one_cycle:
      return "one-cycle";
  }
  return "";
}

std::string replica_table(const ReplicaFigures& figures) {
  const auto row = [](const char* name, double bytes, double seconds) {
    std::string text = format("  %-24s %12s", name, megabytes(static_cast<std::size_t>(bytes)).c_str());
    return text + (seconds > 0 ? format("  %10.3f ms\n", 1000 * seconds) : std::string("\n"));
  };
  return format("%d replicas in this process, a step:\n", figures.replicas) +
         row("memory of replica 0", static_cast<double>(figures.first_bytes), 0) +
         row("memory of another one", static_cast<double>(figures.other_bytes), 0) +
         row("parameters out of 0", figures.parameters_out, figures.copying) +
         row("gradients into 0", figures.gradients_in, figures.adding) +
         row("samples out of 0", figures.samples_out, 0) + row("logits into 0", figures.logits_in, 0);
}

/// Says that batch norm has too few images for its statistics, which the loss does not show before the test
/// images are scored; "" where it has enough, or there is none. `ranks`: of the world.
std::string few_images_note(const nn::ModelSpec& spec, const TrainerOptions& options, std::size_t ranks) {
  constexpr std::size_t kFewImages = 8;
  const LearnerOptions& learner = options.learner;
  const auto parts = static_cast<std::size_t>(learner.reducer.deterministic_micro_batches);
  std::size_t images = options.batch_size / static_cast<std::size_t>(learner.replicas);
  if (learner.sync_batch_norm) images *= ranks;
  if (parts > 0) images = options.batch_size * static_cast<std::size_t>(options.accumulation) * ranks / parts;
  if (spec.buffers.empty() || images >= kFewImages) return "";
  const bool may_sync = ranks > 1 && parts == 0 && learner.replicas == 1 && !learner.sync_batch_norm;
  return format(
      "note: batch norm takes its statistics from %zu image%s at a time; below %zu they are poor: %s\n",
      images, images == 1 ? "" : "s", kFewImages,
      parts > 0  ? "give a larger --batch-size, or fewer --micro-batches"
      : may_sync ? "give a larger --batch-size, or --sync-batch-norm"
                 : "give a larger --batch-size");
}

}  // namespace

Run::Run(const RunOptions& options, const data::ImageData& data, World& world, const std::atomic<bool>* stop,
         std::function<void(const std::string&)> write)
    : options_(options),
      world_(world),
      group_(group_of(world)),
      stop_(stop),
      write_(std::move(write)),
      trainer_(data, group_, trainer_options(options, world)),
      checkpoints_(options.checkpoints, options.trainer, trainer_, group_) {
  if (world.info().rank == 0) log_.emplace(options.log, write_);
  trainer_.max_steps = options.max_steps;
  if (stop_ != nullptr || options.time_limit > 0)
    trainer_.votes = [this] {
      return Votes{options_.time_limit > 0 && elapsed().count() >= options_.time_limit,
                   stop_ != nullptr && (stop_->load() || world_.should_stop())};
    };
  if (!options.profile.empty()) {
    if (speaks()) require_trace_place(options.profile);
    origin_ = shared_origin(group_, world.info().node_rank, world.info().nodes);
    trace_.emplace();
    trainer_.learner().record(&*trace_);
  }
}

std::string Run::introduction() {
  const nn::ModelSpec& spec = trainer_.learner().spec();
  const LearnerOptions& learner = options_.trainer.learner;
  const auto global = static_cast<std::int64_t>(trainer_.shape().global_batch());
  return format("%s, %s parameters, %s, %s at rate %g (%s), %" PRId64 " images per step\n", spec.name.c_str(),
                grouped(spec.parameter_count()).c_str(), name_of(learner.precision).c_str(),
                learner.optimizer.kind.c_str(), full_rate(options_.trainer.recipe, global),
                schedule_name(options_.trainer.recipe.schedule), global);
}

JsonLine Run::facts() {
  JsonLine line;
  line.add("event", "start")
      .add("model", trainer_.learner().spec().name)
      .add("parameters", static_cast<std::int64_t>(trainer_.learner().spec().parameter_count()))
      .add("ranks", std::int64_t{world_.info().size})
      .add("global_batch", static_cast<std::int64_t>(trainer_.shape().global_batch()))
      .add("steps_per_epoch", static_cast<std::int64_t>(trainer_.steps_per_epoch()))
      .add("epochs", std::int64_t{options_.trainer.epochs})
      .add("seed", std::to_string(options_.trainer.seed))
      .add("restart", std::int64_t{world_.info().restart_count});
  if (options_.trainer.learner.replicas > 1)
    line.add("replicas", std::int64_t{options_.trainer.learner.replicas});
  return line;
}

RunEnd Run::run() {
  if (speaks()) {
    write_(introduction());
    const auto ranks = static_cast<std::size_t>(world_.info().size);
    const std::string note = few_images_note(trainer_.learner().spec(), options_.trainer, ranks);
    if (!options_.eval_only && !note.empty()) write_(note);
    log_->start(facts());
  }
  for (const std::string& text : checkpoints_.begin())
    log_->note("checkpoint", text, trainer_.position(), elapsed());
  if (!options_.eval_only) return train();
  Score test;
  if (trainer_.evaluate(test) == Stop::told_to_stop) return RunEnd::told_to_stop;
  finish(test);
  write_profile();
  return RunEnd::done;
}

void Run::on_step(const StepReport& report) {
  world_.set_step(static_cast<std::uint64_t>(report.position.step));
  if (const std::string note = trainer_.learner().take_note(); !note.empty()) {
    if (speaks())
      log_->note("note", note, trainer_.position(), elapsed());
    else
      std::fprintf(stderr, "muster-train: rank %d: note: %s\n", world_.info().rank, note.c_str());
  }
  if (speaks()) log_->step(report, elapsed());
  checkpoints_.after_step();
}

RunEnd Run::stop() {
  const std::string path = checkpoints_.save_now();
  if (speaks())
    log_->note("stopped",
               format("told to stop after step %" PRId64, trainer_.position().step) +
                   (path.empty() ? "" : ", checkpoint " + path),
               trainer_.position(), elapsed());
  write_profile();
  // A rank that ended before rank 0 had written would look like one that failed.
  if (group_ != nullptr) group_->barrier();
  return RunEnd::told_to_stop;
}

RunEnd Run::train() {
  Score test;
  Stop stop = Stop::none;
  while (stop == Stop::none && trainer_.position().epoch < options_.trainer.epochs) {
    const Seconds begin = elapsed();
    if (speaks()) log_->begin_epoch(trainer_.position().epoch, begin);
    Score score;
    stop = trainer_.train_epoch([this](const StepReport& report) { on_step(report); }, score);
    const Seconds training = elapsed() - begin;
    if (stop == Stop::told_to_stop || trainer_.evaluate(test) == Stop::told_to_stop) return this->stop();
    if (speaks()) tell_of_epoch(score, training, test, stop);
    if (stop == Stop::none) trainer_.next_epoch();
    checkpoints_.save();
  }
  // A run that had already ended when it was resumed.
  if (test.samples == 0 && trainer_.evaluate(test) == Stop::told_to_stop) return this->stop();
  // What the run was for comes before what a disk may refuse.
  finish(test);
  write_profile();
  checkpoints_.finish();
  return RunEnd::done;
}

void Run::tell_of_epoch(const Score& train, Seconds training, const Score& test, Stop stop) {
  log_->end_epoch(trainer_.position(), train, training, test, elapsed());
  if (stop == Stop::time_is_up)
    log_->note(
        "stopped",
        format("the time of %g s is up after step %" PRId64, options_.time_limit, trainer_.position().step),
        trainer_.position(), elapsed());
}

void Run::finish(const Score& test) {
  const StepTimes mean = trainer_.profile().mean(group_);
  const std::uint64_t hash = trainer_.learner().parameter_hash();
  if (!speaks()) return;
  log_->evaluation(trainer_.position(), test, elapsed());
  write_(time_table(mean, trainer_.profile().steps(), world_.info().size));
  MemoryTable memory = trainer_.memory();
  memory.checkpoint = checkpoints_.copy_bytes();
  log_->memory(trainer_.position(), memory, elapsed());
  write_(memory_table(memory));
  if (const auto replicas = trainer_.learner().replicas()) {
    write_(replica_table(*replicas));
    log_->replicas(*replicas, trainer_.position(), elapsed());
  }
  write_("test accuracy " + percent(test.accuracy) + "\n");
  write_(format("parameter hash %016" PRIx64 "\n", hash));
}

void Run::write_profile() {
  if (!trace_) return;
  const std::string straggler = write_trace(options_.profile, *trace_, origin_, world_.info().host, group_);
  if (speaks())
    log_->note("profile", "trace in " + options_.profile + ": " + straggler, trainer_.position(), elapsed());
}

}  // namespace muster::train
