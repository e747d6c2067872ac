// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/dry_run.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/allowance.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/env/place.hpp"
#include "worker_sdk/muster_train/checkpoint/provenance.hpp"
#include "worker_sdk/muster_train/data/cifar10.hpp"
#include "worker_sdk/muster_train/memory_estimate.hpp"
#include "worker_sdk/muster_train/preparation.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/gpu/network/device_network.hpp"
#include "worker_sdk/nn/gpu/plugin/device.hpp"
#include "worker_sdk/nn/models/make_network.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <utility>

namespace muster::examples {
namespace {

/// The most that --batch-size takes.
constexpr std::size_t kMostImages = 65536;

/// The job as its launcher tells it.
struct Job {
  int ranks = 1;
  int local_ranks = 1;  ///< on this host
  int local_rank = 0;
  bool tells_local_ranks = false;  ///< the launcher
};

Job find_job() {
  const Place place = find_place(process_environment());
  return {place.size, place.local_size > 0 ? place.local_size : place.size, std::max(0, place.local_rank),
          place.local_size > 0};
}

/// A network of which only is asked what it takes, and what it would be computed on.
struct Kernels {
  std::unique_ptr<nn::gpu::Ops> ops;
  std::unique_ptr<nn::Network> network;
  train::KernelMemory memory;
  std::string device = "processors";
  std::size_t free = 0;
};

Kernels kernels_on_host(const TrainOptions& options, const Job& job) {
  const train::LearnerOptions& learner = options.run.trainer.learner;
  int threads = options.threads;
  if (threads == 0)
    threads = learner.reducer.deterministic_micro_batches > 0 ? 1
              : std::getenv("OMP_NUM_THREADS") != nullptr     ? nn::threads()
                                                              : read_allowance().processors / job.local_ranks;
  nn::set_threads(std::max(1, threads / learner.replicas));
  Kernels kernels;
  nn::NetworkOptions network;
  network.precision = learner.precision;
  network.activation_checkpoints = learner.activation_checkpoints;
  network.keep_weight_copies = train::keeps_weight_copies(learner, job.ranks);
  kernels.network = nn::make_network(learner.model, network);
  kernels.free = free_memory() / static_cast<std::size_t>(job.local_ranks);
  return kernels;
}

/// What a network takes beside maps does not depend on the batch, but for the largest one.
Kernels kernels_on_device(TrainOptions& options, const Job& job) {
  const nn::gpu::DeviceUsability found = nn::gpu::probe_device("cuda", job.local_rank);
  if (!found.reason_against.empty())
    throw Error(ErrorCode::unsupported, found.reason_against + kOnProcessors);
  train::LearnerOptions& learner = options.run.trainer.learner;
  if (options.best_on_gpu) learner.precision = nn::gpu::best_precision(found);
  Kernels kernels;
  kernels.ops = nn::gpu::open_device("cuda", job.local_rank);
  kernels.free = kernels.ops->free_bytes();
  kernels.network = nn::gpu::make_device_network(learner.model, learner.precision, data::kClasses, 1,
                                                 *kernels.ops, {}, learner.activation_checkpoints);
  kernels.device = found.name;
  kernels.memory.on_device = true;
  return kernels;
}

Kernels find_kernels(TrainOptions& options, const Job& job) {
  const bool may = may_use_device(options);
  const bool works = may && (options.device != "auto" ||
                             nn::gpu::probe_device("cuda", job.local_rank).reason_against.empty());
  Kernels kernels = works ? kernels_on_device(options, job) : kernels_on_host(options, job);
  nn::Network& network = *kernels.network;
  // What the device holds that is not the network's: the libraries' workspace.
  const nn::MemoryUse own = network.memory();
  const std::size_t all = kernels.ops ? kernels.ops->allocated() : 0;
  const std::size_t other = all - std::min(all, own.activations + own.workspace);
  kernels.memory.of = [&network, other](std::span<const nn::BatchSize> batches) {
    nn::MemoryUse use = network.memory_for(batches);
    use.workspace += other;
    return use;
  };
  kernels.memory.steps = network.memory_by_step();
  kernels.memory.sample_bytes = network.sample_format().bytes();
  return kernels;
}

data::ImageCounts count_images(const TrainOptions& options) {
  if (const auto synthetic = synthetic_images(options.data))
    return {synthetic->train_images, synthetic->test_images};
  return data::count_cifar10(options.data, !options.run.eval_only);
}

struct Answer {
  const TrainOptions& options;
  const Job& job;
  const Kernels& kernels;
  train::MemoryEstimate estimate;
  std::size_t largest = 0;
};

std::string text_of(const Answer& answer) {
  const train::TrainerOptions& trainer = answer.options.run.trainer;
  const train::LearnerOptions& learner = trainer.learner;
  std::string form = train::form_of(trainer, answer.job.ranks);
  if (learner.replicas > 1) form += " with " + std::to_string(learner.replicas) + " replicas";
  return "estimate for a rank of " + learner.model + ", " + train::name_of(learner.precision) + " on " +
         answer.kernels.device + ", " + form + ", " + std::to_string(answer.job.ranks) +
         (answer.job.ranks == 1 ? " rank, " : " ranks, ") + std::to_string(trainer.batch_size) +
         " images a batch; nothing was trained\n" + train::estimate_table(answer.estimate) +
         "largest batch that fits into " +
         (answer.kernels.free == 0 ? std::string("the free memory: not known, as that is")
                                   : train::megabytes(answer.kernels.free) + " of free memory: " +
                                         (answer.largest == 0 ? "none" : std::to_string(answer.largest))) +
         "\n";
}

std::string json_of(const Answer& answer) {
  const train::TrainerOptions& trainer = answer.options.run.trainer;
  const train::MemoryEstimate& estimate = answer.estimate;
  const train::MemoryTable& table = estimate.table;
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const auto& [name, bytes] : estimate.layers) layers.push_back({{"layer", name}, {"bytes", bytes}});
  const nlohmann::ordered_json document = {{"schema", "muster.memory"},
                                           {"version", 1},
                                           {"model", trainer.learner.model},
                                           {"precision", train::name_of(trainer.learner.precision)},
                                           {"device", answer.kernels.memory.on_device ? "cuda" : "cpu"},
                                           {"form", train::form_of(trainer, answer.job.ranks)},
                                           {"replicas", trainer.learner.replicas},
                                           {"ranks", answer.job.ranks},
                                           {"batch_size", trainer.batch_size},
                                           {"accumulate", trainer.accumulation},
                                           {"bytes",
                                            {{"parameters", table.parameters},
                                             {"gradients", table.gradients - estimate.waiting},
                                             {"waiting_gradients", estimate.waiting},
                                             {"optimizer_state", table.optimizer_state},
                                             {"average", table.average},
                                             {"activations", table.activations},
                                             {"workspace", table.workspace},
                                             {"data", table.data},
                                             {"checkpoint", table.checkpoint},
                                             {"other_replicas", table.replicas},
                                             {"total", estimate.total()}}},
                                           {"activations", layers},
                                           {"free_bytes", answer.kernels.free},
                                           {"largest_batch", answer.largest}};
  return document.dump(2) + "\n";
}

}  // namespace

std::string dry_run(TrainOptions options) {
  const Job job = find_job();
  complete(options, job.ranks);
  if (options.shard_within_host && job.ranks > 1) {
    if (!job.tells_local_ranks)
      throw Error(ErrorCode::invalid_argument,
                  "--shard-within host needs the number of ranks on this host, which nothing tells; start it "
                  "by muster "
                  "run, torchrun, mpirun or srun, or set MUSTER_LOCAL_WORLD_SIZE");
    if (job.ranks % job.local_ranks != 0)
      throw Error(ErrorCode::invalid_argument,
                  "--shard-within host needs as many ranks on each host, and this one has " +
                      std::to_string(job.local_ranks) + " of " + std::to_string(job.ranks) +
                      "; start them so, or give --shard-within all");
    options.run.trainer.learner.reducer.sharding.ranks = job.local_ranks;
  }
  const data::ImageCounts images = count_images(options);
  const nn::Plan plan = nn::plan_of(nn::built_in(options.run.trainer.learner.model, data::kClasses));
  const Kernels kernels = find_kernels(options, job);
  const bool checkpoints = !options.run.checkpoints.folder.empty() && !options.run.eval_only;
  const auto estimate_of = [&](std::size_t batch) {
    train::TrainerOptions trainer = options.run.trainer;
    trainer.batch_size = batch;
    return train::estimate_memory(plan, trainer, images, job.ranks, kernels.memory, checkpoints);
  };
  const std::size_t most =
      std::clamp<std::size_t>(images.train / static_cast<std::size_t>(job.ranks), 1, kMostImages);
  const auto total_of = [&](std::size_t batch) { return estimate_of(batch).total(); };
  const Answer answer = {options, job, kernels, estimate_of(options.run.trainer.batch_size),
                         kernels.free == 0 ? 0 : train::largest_batch(total_of, kernels.free, most)};
  return options.json ? json_of(answer) : text_of(answer);
}

}  // namespace muster::examples
