// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/memory_estimate.hpp"

#include "worker_sdk/muster_train/data/cifar10.hpp"
#include "worker_sdk/nn/learner/text.hpp"
#include "worker_sdk/nn/models/data_parallel.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/parallel/deterministic.hpp"
#include "worker_sdk/parallel/shard_layout.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace muster::train {
namespace {

std::size_t floats(std::size_t count) {
  return count * sizeof(float);
}

std::size_t divided_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

void add(std::vector<nn::BatchSize>& sizes, std::size_t samples, bool trains) {
  if (samples == 0) return;
  for (nn::BatchSize& known : sizes)
    if (known.samples == static_cast<std::int64_t>(samples)) {
      known.trains |= trains;
      return;
    }
  sizes.push_back({static_cast<std::int64_t>(samples), trains});
}

/// Images of a rank's micro-batch, at most.
std::size_t micro_batch(const TrainerOptions& options, int ranks) {
  const auto fixed = static_cast<std::size_t>(options.learner.reducer.deterministic_micro_batches);
  if (fixed == 0) return options.batch_size;
  const auto parts = static_cast<std::size_t>(options.accumulation) * static_cast<std::size_t>(ranks);
  return divided_up(options.batch_size * parts, fixed);
}

/// Micro-batches of a rank in a step.
std::size_t parts_of_step(const TrainerOptions& options, int ranks) {
  const auto fixed = static_cast<std::size_t>(options.learner.reducer.deterministic_micro_batches);
  return fixed == 0 ? static_cast<std::size_t>(options.accumulation)
                    : divided_up(fixed, static_cast<std::size_t>(ranks));
}

/// Arenas of gradients that wait for the end of a step (see parallel::Accumulator).
std::size_t waiting_arenas(const TrainerOptions& options, int ranks) {
  const std::size_t parts = parts_of_step(options, ranks);
  const bool tree = options.learner.reducer.deterministic_micro_batches > 0;
  if (parts < 2) return 0;
  return tree ? static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(parts - 1))) : 1;
}

/// Floats of a rank's arenas, as parallel::ShardedBuckets and UnitValues have them.
struct Arenas {
  std::size_t values;
  std::size_t gradients;
  std::size_t state;    ///< one of the optimizer's, or the average
  std::size_t waiting;  ///< one of micro-batches
};

Arenas arenas_of(const nn::Plan& plan, const LearnerOptions& learner, int ranks) {
  ReducerOptions options = parallel::with_tree(learner.reducer);
  options.sharding.form = options.sharding.form_in(ranks);
  const int sharing = options.sharding.sharing(ranks);
  for (const nn::ParameterUnit& unit : plan.units) options.sharding.unit_begins.push_back(unit.first);
  const Form form = options.sharding.form;
  const parallel::BucketLayout layout = parallel::plan_buckets(plan.spec.parameters, options, sharing);
  const std::size_t all = layout.elements;
  if (form == Form::ddp) return {all, all, all, all};
  std::vector<std::size_t> sizes;
  for (const parallel::Bucket& bucket : layout.buckets) sizes.push_back(bucket.elements);
  const auto in_use = [&](std::size_t ahead) { return parallel::plan_places(sizes, ahead).floats; };
  const std::size_t shards = parallel::plan_shards(layout, 0, sharing).elements;
  return {form == Form::fsdp ? shards + in_use(options.sharding.prefetch) : all,
          form == Form::zero1 ? all : shards + in_use(1), shards, all};
}

/// The ranks that hold the same part of a model in shards, and each write a portion of it.
std::size_t copies_of_part(const LearnerOptions& learner, int ranks) {
  const Sharding& sharding = learner.reducer.sharding;
  return sharding.form_in(ranks) == Form::ddp ? 1 : static_cast<std::size_t>(ranks / sharding.sharing(ranks));
}

std::size_t arenas_of_state(const optim::OptimizerOptions& options) {
  return optim::make_optimizer(options, {nullptr, nullptr, 1, {}})->state().size();
}

/// The images, the orders of an epoch, and the batches that are prepared for training and for evaluations.
std::size_t bytes_of_data(const TrainerOptions& options, const data::ImageCounts& images, int ranks,
                          const KernelMemory& kernels) {
  const std::size_t pixels = (images.train + images.test) * data::kImageBytes;
  const std::size_t largest = micro_batch(options, ranks);
  if (kernels.on_device) return pixels + largest * kernels.sample_bytes;
  const auto slots = static_cast<std::size_t>(options.loader.prefetch) + 1;
  const auto prepared = [&](std::size_t own) {
    return std::min(slots, divided_up(own, largest)) * std::min(largest, own) * kernels.sample_bytes;
  };
  const auto share = [ranks](std::size_t all) { return divided_up(all, static_cast<std::size_t>(ranks)); };
  return pixels + 2 * images.train * sizeof(std::uint32_t) + prepared(share(images.train)) +
         prepared(share(images.test));
}

/// What each replica's network meets of these batches.
std::vector<nn::BatchSize> shares_of(const std::vector<nn::BatchSize>& batches, std::size_t replica,
                                     std::size_t replicas) {
  std::vector<nn::BatchSize> shares;
  for (const nn::BatchSize& batch : batches)
    add(shares, static_cast<std::size_t>(nn::share_of(batch.samples, replica, replicas)), batch.trains);
  return shares;
}

void add_kernels(MemoryTable& table, const nn::MemoryUse& use) {
  table.activations += use.activations;
  table.workspace += use.workspace;
}

/// The law of dp beyond that of ddp.
void add_replicas(MemoryEstimate& estimate, const nn::Plan& plan, const TrainerOptions& options,
                  const std::vector<nn::BatchSize>& batches, const KernelMemory& kernels) {
  const auto replicas = static_cast<std::size_t>(options.learner.replicas);
  std::size_t buffers = 0;
  for (const ParameterSpec& buffer : plan.spec.buffers) buffers += buffer.elements();
  for (std::size_t r = 0; r < replicas; ++r) {
    const nn::MemoryUse use = kernels.of(shares_of(batches, r, replicas));
    if (r == 0)
      add_kernels(estimate.table, use);
    else
      estimate.table.replicas +=
          floats(2 * plan.spec.parameter_count() + buffers) + use.activations + use.workspace;
  }
  std::size_t most = 0;
  for (const nn::BatchSize& batch : batches) most = std::max(most, static_cast<std::size_t>(batch.samples));
  const std::size_t logits = floats(static_cast<std::size_t>(plan.spec.classes));
  estimate.table.activations += most * logits;
  estimate.table.workspace += most * (kernels.sample_bytes + logits);
}

}  // namespace

std::string form_of(const TrainerOptions& options, int ranks) {
  if (options.learner.replicas > 1) return "dp";
  return name_of(options.learner.reducer.sharding.form_in(ranks));
}

std::size_t MemoryEstimate::total() const {
  return table.parameters + table.gradients + table.optimizer_state + table.average + table.activations +
         table.workspace + table.data + table.checkpoint + table.replicas;
}

std::vector<nn::BatchSize> batches_of(const TrainerOptions& options, const data::ImageCounts& images,
                                      int ranks) {
  std::vector<nn::BatchSize> sizes;
  const std::size_t largest = micro_batch(options, ranks);
  const auto add_set = [&](std::size_t all, bool trains) {
    const std::size_t own = divided_up(all, static_cast<std::size_t>(ranks));
    if (own >= largest) add(sizes, largest, trains);
    add(sizes, own % largest, trains);
  };
  if (!options.only_scores) add_set(images.train, true);
  add_set(images.test, false);
  return sizes;
}

MemoryEstimate estimate_memory(const nn::Plan& plan, const TrainerOptions& options,
                               const data::ImageCounts& images, int ranks, const KernelMemory& kernels,
                               bool checkpoints) {
  MemoryEstimate estimate;
  MemoryTable& table = estimate.table;
  const LearnerOptions& learner = options.learner;
  const Arenas arenas = arenas_of(plan, learner, ranks);
  for (const ParameterSpec& buffer : plan.spec.buffers) table.parameters += floats(buffer.elements());
  // The copy lies in memory of the host, and on a device the sum is that of the device.
  checkpoints = checkpoints && !kernels.on_device;
  if (checkpoints) table.checkpoint = table.parameters;
  table.parameters += floats(arenas.values);
  estimate.waiting = waiting_arenas(options, ranks) * floats(arenas.waiting);
  table.gradients = floats(arenas.gradients) + estimate.waiting;
  table.optimizer_state = arenas_of_state(learner.optimizer) * floats(arenas.state);
  table.average = learner.ema_decay > 0 ? floats(arenas.state) : 0;
  if (checkpoints)
    table.checkpoint +=
        (floats(arenas.state) + table.optimizer_state + table.average) / copies_of_part(learner, ranks);
  table.data = bytes_of_data(options, images, ranks, kernels);
  const std::vector<nn::BatchSize> batches = batches_of(options, images, ranks);
  std::int64_t most = 0;
  for (const nn::BatchSize& batch : batches) most = std::max(most, batch.samples);
  if (learner.replicas > 1) {
    add_replicas(estimate, plan, options, batches, kernels);
    most = nn::share_of(most, 0, static_cast<std::size_t>(learner.replicas));
  } else {
    add_kernels(table, kernels.of(batches));
  }
  for (const nn::StepMemory& step : kernels.steps)
    estimate.layers.emplace_back(step.name, step.bytes_per_sample * static_cast<std::size_t>(most));
  return estimate;
}

std::size_t largest_batch(const std::function<std::size_t(std::size_t)>& total, std::size_t free,
                          std::size_t most) {
  std::size_t fits = 0;
  std::size_t above = most + 1;  // the smallest that is known not to fit, or beyond the bound
  std::size_t at = std::min<std::size_t>(most, 1);
  std::size_t bytes_at_fit = 0;
  // From one known point the next one is where a straight line meets the bound.
  for (int tries = 0; tries < 12 && fits + 1 < above; ++tries) {
    const std::size_t bytes = total(at);
    if (bytes > free) {
      above = at;
      at = fits + (above - fits) / 2;
      if (fits > 0 && bytes > bytes_at_fit)
        at = fits + static_cast<std::size_t>(static_cast<double>(free - bytes_at_fit) /
                                             static_cast<double>(bytes - bytes_at_fit) *
                                             static_cast<double>(above - fits));
    } else {
      const std::size_t step = at - fits;
      const double slope =
          fits == 0 ? 0
                    : static_cast<double>(bytes - std::min(bytes, bytes_at_fit)) / static_cast<double>(step);
      fits = at;
      bytes_at_fit = bytes;
      if (free - bytes < free / 100) break;  // as good as full
      const double more =
          slope > 0 ? static_cast<double>(free - bytes) / slope : 7.0 * static_cast<double>(at);
      at = fits + static_cast<std::size_t>(std::min(more, static_cast<double>(above - fits)));
    }
    at = std::clamp(at, fits + 1, above - 1);
  }
  return fits;
}

std::string estimate_table(const MemoryEstimate& estimate) {
  const auto row = [](const std::string& name, std::size_t bytes) {
    return bytes == 0 ? std::string() : format("  %-24s %12s\n", name.c_str(), megabytes(bytes).c_str());
  };
  std::string text = memory_table(estimate.table);
  text += row("total", estimate.total());
  if (estimate.waiting > 0)
    text += "of the gradients " + megabytes(estimate.waiting) + " wait for the other batches of a step\n";
  text += "activations by layer, for the largest batch:\n";
  for (const auto& [name, bytes] : estimate.layers) text += row(name.empty() ? "(no name)" : name, bytes);
  return text;
}

}  // namespace muster::train
