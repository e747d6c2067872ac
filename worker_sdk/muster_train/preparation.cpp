// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/preparation.hpp"

#include "muster/error.hpp"
#include "worker_sdk/comm/texts.hpp"
#include "worker_sdk/env/place.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/network.hpp"
#include "worker_sdk/parallel/agreement.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace muster::examples {
namespace {

constexpr const char* kPlugin = "cuda";

/// Whether it is worth loading some hundred megabytes of libraries to look closer.
bool has_driver() {
  return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}

bool all_can(bool can, World& world) {
  std::int32_t all = can ? 1 : 0;
  if (world.info().size > 1) world.group().all_reduce(&all, 1, DataType::i32, ReduceOp::min);
  return all != 0;
}

/// Why a device does not do what the flags ask for; "" where it does.
std::string reason_in_flags(const TrainOptions& options, const nn::gpu::DeviceUsability& device) {
  const nn::Precision wanted = options.run.trainer.learner.precision;
  if (device.bf16 || options.best_on_gpu) return "";
  // It has TF32 where it has bf16; an older one would compute in 32 bits without a word.
  if (wanted == nn::Precision::tf32)
    return "GPU " + device.name + " has no TF32 (compute capability 8.0 and later); use --precision fp32";
  if (wanted == nn::Precision::bf16)
    return "GPU " + device.name + " has no bf16 (compute capability 8.0 and later); use --precision fp16";
  return "";
}

/// Plans that are chosen by their time differ from run to run, and from rank to rank.
void refuse_autotune(const TrainOptions& options) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  const char* const wish = std::getenv("MUSTER_CUDA_AUTOTUNE");
  if (wish == nullptr || std::string(wish) != "1" ||
      options.run.trainer.learner.reducer.deterministic_micro_batches == 0)
    return;
  throw Error(
      ErrorCode::invalid_argument,
      "MUSTER_CUDA_AUTOTUNE=1 chooses cuDNN's plans by their time, and --deterministic-world needs the "
      "same ones in every run; unset MUSTER_CUDA_AUTOTUNE, or leave --deterministic-world out");
}

bool has_shards(const TrainOptions& options) {
  return options.run.trainer.learner.reducer.sharding.form != Form::ddp;
}

}  // namespace

int choose_threads(TrainOptions& options, World& world) {
  const std::string host = world.info().host + "\n";
  const auto all = all_texts(world.info().size == 1 ? nullptr : &world.group(), host + processor_claim());
  std::vector<std::string> claims;
  std::size_t own = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (rank == static_cast<std::size_t>(world.info().rank)) own = claims.size();
    if (all[rank].starts_with(host)) claims.push_back(all[rank].substr(host.size()));
  }
  if (options.threads > 0) return options.threads;
  // Kernels sum in another order on another number of threads.
  if (options.run.trainer.learner.reducer.deterministic_micro_batches > 0) return 1;
  const int share = processor_share(claims, own);
  if (std::getenv("OMP_NUM_THREADS") == nullptr) return share;
  const int threads = nn::threads();
  if (world.info().size > 1 && threads < share)
    options.notes.push_back(
        "OMP_NUM_THREADS=" + std::to_string(threads) + ", which launchers set for several " +
        "workers, leaves processors idle; --threads " + std::to_string(share) + " uses all of them");
  return threads;
}

void require_common_options(const TrainOptions& options, int threads, World& world) {
  if (world.info().size == 1) return;
  std::string mine = options.common + "images with hash " + options.run.checkpoints.provenance.data + "\n";
  if (options.run.trainer.learner.reducer.deterministic_micro_batches > 0)
    mine += "--threads " + std::to_string(threads) + " and --deterministic-world\n";
  parallel::agree(world.group(), &world.store(),
                  {"options", "which options it has",
                   "the ranks were started with different options: ", "give every rank the same ones"},
                  mine);
}

int ranks_of_a_host(std::span<const std::string> hosts) {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::invalid_argument,
                "--shard-within host needs as many ranks on each host, one after the other: " + why +
                    "; start them so, or give --shard-within all");
  };
  std::vector<std::pair<std::string, int>> runs;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (runs.empty() || runs.back().first != hosts[rank]) {
      const auto here = hosts.begin() + static_cast<std::ptrdiff_t>(rank);
      const auto before = std::find(hosts.begin(), here, *here);
      if (before != here)
        refuse("ranks " + std::to_string(before - hosts.begin()) + " and " + std::to_string(rank) +
               " are on " + *here + ", and rank " + std::to_string(rank - 1) + " is on " + hosts[rank - 1]);
      runs.emplace_back(hosts[rank], 0);
    }
    ++runs.back().second;
  }
  for (const auto& [host, ranks] : runs)
    if (ranks != runs.front().second)
      refuse(runs.front().first + " has " + std::to_string(runs.front().second) + ", " + host + " has " +
             std::to_string(ranks));
  return runs.front().second;
}

void choose_shards(TrainOptions& options, World& world) {
  if (!options.shard_within_host || world.info().size == 1) return;
  options.run.trainer.learner.reducer.sharding.ranks =
      ranks_of_a_host(all_texts(&world.group(), world.info().host));
}

void agree_on_precision(TrainOptions& options, World& world) {
  if (!options.best_precision) return;
  nn::Precision& precision = options.run.trainer.learner.precision;
  const bool all = all_can(precision == nn::Precision::bf16, world);
  const bool on_gpus = options.run.trainer.device != nullptr;
  const bool remembers =
      options.run.trainer.learner.reducer.hook && !options.run.trainer.learner.reducer.hook->wire_type();
  precision = all ? nn::Precision::bf16 : on_gpus && !remembers ? nn::Precision::f16 : nn::Precision::f32;
}

void compare_processors(TrainOptions& options, World& world) {
  if (world.info().size == 1) return;
  const train::Provenance& made = options.run.checkpoints.provenance;
  const std::string mine = made.instructions + " on " + std::to_string(made.threads) +
                           (made.threads == 1 ? " thread" : " threads");
  const std::vector<std::string> all = all_texts(&world.group(), mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    options.notes.push_back("rank 0 computes with " + all[0] + ", rank " + std::to_string(rank) + " with " +
                            all[rank] + ": bits depend on which rank computes what");
    return;
  }
}

bool may_use_device(const TrainOptions& options) {
  if (has_shards(options)) return false;
  return options.device == "auto" ? has_driver() : options.device != "cpu";
}

ChosenDevice choose_device(TrainOptions& options, World& world) {
  ChosenDevice chosen;
  if (options.device == "cpu") return chosen;
  if (has_shards(options)) {
    if (has_driver()) chosen.note = "--parallel other than ddp keeps shards in the memory of the host";
    return chosen;
  }
  const bool must = options.device != "auto";
  const int local_rank = world.info().local_rank;
  nn::gpu::DeviceUsability found = {"", "", false};
  if (must || has_driver()) {
    found = nn::gpu::probe_device(kPlugin, local_rank);
    if (found.reason_against.empty()) found.reason_against = reason_in_flags(options, found);
    chosen.note = found.reason_against;
  } else {
    found.reason_against = "there is no driver of a GPU";
  }
  if (must && !found.reason_against.empty())
    throw Error(ErrorCode::unsupported, found.reason_against + kOnProcessors);
  if (!must && !all_can(found.reason_against.empty(), world)) {
    if (found.reason_against.empty()) chosen.note = "another rank cannot use one";
    return chosen;
  }
  refuse_autotune(options);
  chosen.ops = nn::gpu::open_device(kPlugin, local_rank);
  chosen.name = found.name;
  options.run.trainer.device = chosen.ops.get();
  options.best_precision = options.best_on_gpu;
  if (options.best_precision) options.run.trainer.learner.precision = nn::gpu::best_precision(found);
  return chosen;
}

}  // namespace muster::examples
