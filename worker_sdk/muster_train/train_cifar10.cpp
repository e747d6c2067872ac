// SPDX-License-Identifier: Apache-2.0
// muster-train: data-parallel training of a CNN, from the command line to the last line.
#include "muster/error.hpp"
#include "worker_sdk/env/place.hpp"
#include "worker_sdk/muster_train/data/cifar10.hpp"
#include "worker_sdk/muster_train/data/synthetic.hpp"
#include "worker_sdk/muster_train/dry_run.hpp"
#include "worker_sdk/muster_train/preparation.hpp"
#include "worker_sdk/muster_train/process.hpp"
#include "worker_sdk/muster_train/run/run.hpp"
#include "worker_sdk/muster_train/train_options.hpp"
#include "worker_sdk/muster_train/version.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/data/images.hpp"
#include "worker_sdk/nn/network.hpp"
#include "worker_sdk/parallel/bucket_hook.hpp"
#include "worker_sdk/world/world.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace {

using muster::examples::TrainOptions;
using muster::train::RunEnd;

muster::data::ImageData load_data(const TrainOptions& options) {
  if (const auto synthetic = muster::examples::synthetic_images(options.data))
    return muster::data::make_synthetic(*synthetic);
  return muster::data::load_cifar10(options.data, !options.run.eval_only);
}

void write(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// Why gradients of several GPUs do not stay on them; "" where they do.
std::string reason_to_sum_on_host(const TrainOptions& options, muster::World& world) {
  if (world.group().backend() != "nccl")
    return "the backend is " + std::string(world.group().backend()) + ", not nccl";
  const muster::ReducerOptions& reducer = options.run.trainer.learner.reducer;
  if (reducer.deterministic_micro_batches > 0) return "--deterministic-world sums them there";
  if (reducer.hook != nullptr && !reducer.hook->wire_type()) return "--compress powersgd works there";
  return "";
}

void introduce(const TrainOptions& options, const muster::data::ImageData& data, muster::World& world,
               int threads, const muster::examples::ChosenDevice& device) {
  const int ranks = world.info().size;
  const std::string where = device.ops
                                ? "GPU " + device.name
                                : std::to_string(threads) + (threads == 1 ? " thread each" : " threads each");
  write(data.description + "\n" + std::to_string(ranks) + (ranks == 1 ? " rank, " : " ranks, ") + where +
        ", " + std::to_string(options.run.trainer.batch_size) + " images per step and rank\n");
  if (!device.note.empty()) write("no GPU is used: " + device.note + "\n");
  const std::string detour = device.ops && ranks > 1 ? reason_to_sum_on_host(options, world) : "";
  if (!detour.empty())
    write("gradients are summed through the memory of the host, which is slow: " + detour + "\n");
  for (const std::string& note : options.notes) write("note: " + note + "\n");
}

/// Fits options and process to the world, and says what will be done.
muster::examples::ChosenDevice prepare(TrainOptions& options, const muster::data::ImageData& data,
                                       muster::World& world) {
  const int threads = muster::examples::choose_threads(options, world);
  muster::nn::set_threads(threads);
  muster::train::Provenance& made = options.run.checkpoints.provenance;
  made = {muster::train::hash_of(data), options.best_precision, threads, muster::nn::instruction_set()};
  muster::examples::require_common_options(options, threads, world);
  muster::examples::complete(options, world.info().size);
  muster::examples::choose_shards(options, world);
  options.run.log.progress.terminal = isatty(STDOUT_FILENO) == 1;
  muster::examples::ChosenDevice device = muster::examples::choose_device(options, world);
  if (device.ops) made.instructions = device.name;
  made.precision_is_a_choice = options.best_precision;
  muster::examples::agree_on_precision(options, world);
  muster::examples::compare_processors(options, world);
  if (world.info().rank == 0) introduce(options, data, world, threads, device);
  return device;
}

void require_stdout() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw muster::Error(muster::ErrorCode::io,
                        "cannot write to stdout; check the disk or the reader of the pipe");
}

muster::Error out_of_memory(const TrainOptions& options, int ranks) {
  const auto& sharding = options.run.trainer.learner.reducer.sharding;
  std::string advice = ". --dry-run tells what the batch takes and what the model";
  const muster::Form form = sharding.form_in(ranks);
  if (ranks > 1 && sharding.form != muster::Form::fsdp)
    advice += ": if it is too large, --parallel fsdp keeps a part of it on each rank";
  else if (sharding.sharing(ranks) < ranks)
    advice += ": if it is too large, --shard-within all keeps a smaller part of it on each rank";
  else if (form == muster::Form::fsdp && sharding.prefetch > 0)
    advice += ": if a unit of it is too large, --prefetch-units 0 takes less";
  return {
      muster::ErrorCode::out_of_memory,
      "out of memory: this process had " + muster::train::megabytes(muster::train::peak_resident_bytes()) +
          " of it, and got no more for steps of --batch-size " +
          std::to_string(options.run.trainer.batch_size) +
          "; give a smaller one (with --accumulate for the same step), start fewer ranks on this host, or "
          "raise its limit of memory" +
          advice};
}

constexpr const char* kSmallerBatch = "; give a smaller --batch-size, with --accumulate for the same step";

/// Nothing: it failed, and why was said.
std::optional<RunEnd> train(TrainOptions options, const std::string& error_file) {
  // These outlive an error: other ranks hear of the end of a run, or of the world, after its reason was told.
  std::unique_ptr<muster::World> world;
  muster::data::ImageData data;
  muster::examples::ChosenDevice device;
  std::optional<muster::train::Run> run;
  const auto fail = [&](const std::exception& error) {
    muster::examples::report(error, error_file, world.get());
    if (world) world->group().abort(error.what());
    if (run) run->abort(error.what());
  };
  try {
    muster::WorldOptions joining;
    joining.host_memory = !muster::examples::may_use_device(options);
    world = muster::World::init(joining);
    // What fails from here on is told over this connection; later it might not be had.
    if (world->info().size > 1) (void)world->store();
    // After the ranks have met: one whose host lacks a file can say so to the others.
    options.run.trainer.empty_process = muster::train::peak_resident_bytes();
    data = load_data(options);
    device = prepare(options, data, *world);
    // Without checkpoints there is nothing to save: then SIGTERM ends the process at once.
    const auto* stop =
        options.run.checkpoints.folder.empty() ? nullptr : &muster::examples::catch_stop_signal();
    run.emplace(options.run, data, *world, stop, write);
    const RunEnd end = run->run();
    if (end == RunEnd::done) require_stdout();
    world->finalize();
    return end;
  } catch (const std::bad_alloc&) {
    fail(out_of_memory(options, world ? world->info().size : 1));
  } catch (const muster::Error& error) {
    // What is full on a host is not what a batch takes alone.
    const bool on_device = options.run.trainer.device != nullptr;
    if (error.code() == muster::ErrorCode::out_of_memory &&
        (on_device || options.run.trainer.learner.replicas > 1))
      fail(muster::Error(error.code(), std::string(error.what()) + kSmallerBatch));
    else
      fail(error);
  } catch (const std::exception& error) {
    fail(error);
  }
  return std::nullopt;
}

/// What a launcher's variables make wrong about the flags; what is wrong with them is said by World::init().
std::string usage_error_of(const TrainOptions& options) {
  try {
    return muster::examples::reason_against(options, muster::find_place(muster::process_environment()).size);
  } catch (const muster::Error&) {
    return "";
  }
}

int tell_estimate(const TrainOptions& options) {
  try {
    if (muster::find_place(muster::process_environment()).rank == 0)
      write(muster::examples::dry_run(options));
    require_stdout();
    return 0;
  } catch (const muster::Error& error) {
    return muster::examples::report_usage("muster-train: --dry-run: " + std::string(error.what()) + "\n");
  }
}

/// `muster-train --version [--json]`, which no other flag goes with; nothing where that is not asked.
std::optional<int> tell_version(std::span<char* const> words) {
  if (words.empty() || std::string_view(words[0]) != "--version") return std::nullopt;
  const bool json = words.size() == 2 && std::string_view(words[1]) == "--json";
  if (words.size() > 1 && !json)
    return muster::examples::report_usage("muster-train: --version goes with --json alone, not with '" +
                                          std::string(words[1]) + "'\n");
  const muster::examples::VersionFacts facts = muster::examples::read_version_facts();
  write(json ? muster::examples::version_json(facts) : muster::examples::version_text(facts));
  require_stdout();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto code = tell_version(std::span<char* const>(argv, static_cast<std::size_t>(argc)).subspan(1)))
    return *code;
  muster::examples::wait_shortly(argv);
  const auto parsed = muster::examples::parse_train_options(argc, argv);
  if (const auto* early = std::get_if<muster::examples::EarlyExit>(&parsed)) {
    if (early->code != 0) return muster::examples::report_usage(early->text);
    std::fputs(early->text.c_str(), stdout);
    return 0;
  }
  const std::string reason = usage_error_of(std::get<TrainOptions>(parsed));
  if (!reason.empty()) return muster::examples::report_usage("muster-train: " + reason + "\n");
  if (std::get<TrainOptions>(parsed).dry_run) return tell_estimate(std::get<TrainOptions>(parsed));
  const char* const error_file = std::getenv("TORCHELASTIC_ERROR_FILE");
  const auto end = train(std::get<TrainOptions>(parsed), error_file == nullptr ? "" : error_file);
  if (!end) return 1;
  if (*end == RunEnd::told_to_stop) muster::examples::end_by_signal();
  return 0;
}
