// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/models/data_parallel.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/cpu/pieces.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/models/make_network.hpp"
#include "worker_sdk/nn/models/replica.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

namespace muster::nn {
namespace {

/// Adds the time of its life to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}

  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Copies `rows` rows that lie `step` rows apart, from the first on, to or from rows without gaps.
void take_rows(const char* from, std::size_t step, std::size_t rows, std::size_t bytes, char* to) {
  for (std::size_t i = 0; i < rows; ++i) std::memcpy(to + i * bytes, from + i * step * bytes, bytes);
}

void put_rows(const char* from, std::size_t step, std::size_t rows, std::size_t bytes, char* to) {
  for (std::size_t i = 0; i < rows; ++i) std::memcpy(to + i * step * bytes, from + i * bytes, bytes);
}

}  // namespace

std::int64_t share_of(std::int64_t batch, std::size_t replica, std::size_t replicas) {
  const auto count = static_cast<std::int64_t>(replicas);
  return (batch + count - 1 - static_cast<std::int64_t>(replica)) / count;
}

DataParallel::DataParallel(std::vector<std::unique_ptr<Network>> replicas) {
  if (replicas.empty())
    throw Error(ErrorCode::invalid_argument, "a data-parallel network of no replicas; give at least one");
  const int count = static_cast<int>(replicas.size());
  const int all = threads();
  for (int r = 0; r < count; ++r)
    replicas_.push_back(
        std::make_unique<Replica>(std::move(replicas[static_cast<std::size_t>(r)]),
                                  "replica " + std::to_string(r) + " of " + std::to_string(count),
                                  std::max(1, all / count + (r < all % count ? 1 : 0))));
}

DataParallel::~DataParallel() = default;

const ModelSpec& DataParallel::spec() const {
  return replicas_.front()->network().spec();
}

SampleFormat DataParallel::sample_format() const {
  return replicas_.front()->network().sample_format();
}

std::vector<StepMemory> DataParallel::memory_by_step() const {
  return replicas_.front()->network().memory_by_step();
}

double DataParallel::flops_per_sample() const {
  return replicas_.front()->network().flops_per_sample();
}

void DataParallel::bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) {
  replicas_.front()->network().bind(parameters, buffers);
  replicas_.front()->slots.assign(parameters.begin(), parameters.end());
  buffers_.assign(buffers.begin(), buffers.end());
  for (std::size_t r = 1; r < replicas_.size(); ++r) {
    Replica& replica = *replicas_[r];
    replica.slots.clear();
    replica.buffers.clear();
    replica.own(spec());
    replica.network().bind(replica.slots, replica.buffers);
  }
}

void DataParallel::parameters_changed() {
  changed_ = true;
}

const std::vector<ParameterUnit>& DataParallel::units() const {
  return replicas_.front()->network().units();
}

void DataParallel::set_unit_user(UnitUser* user) {
  if (user != nullptr)
    throw Error(ErrorCode::unsupported,
                "replicas in one process use all their parameters at once; shards "
                "need a rank for each, with the form fsdp");
}

void DataParallel::set_draws(const DropoutKey& draws) {
  draws_ = draws;
}

std::int64_t DataParallel::samples_of(std::size_t replica) const {
  return share_of(batch_, replica, replicas_.size());
}

/// Calls work(number, replica) on the threads of the replicas. Those without samples rest, but for the first.
template <typename Work>
void DataParallel::each_replica(const Work& work) {
  std::exception_ptr error;
  const auto used = std::clamp<std::size_t>(static_cast<std::size_t>(batch_), 1, replicas_.size());
  for (std::size_t r = 0; r < used; ++r) {
    Replica& replica = *replicas_[r];
    replica.start([&work, r, &replica] { work(r, replica); });
  }
  for (std::size_t r = 0; r < used; ++r) {
    const std::exception_ptr own = replicas_[r]->wait();
    if (error == nullptr) error = own;
  }
  if (error != nullptr) std::rethrow_exception(error);
}

void DataParallel::copy_parameters() {
  const std::vector<ParameterSpec>& specs = spec().parameters;
  const std::vector<ParameterSlot>& first = replicas_.front()->slots;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    cpu::each_piece(specs[i].elements(), [&](std::size_t at, std::size_t count) {
      for (std::size_t r = 1; r < replicas_.size(); ++r)
        std::copy_n(first[i].value + at, count, replicas_[r]->slots[i].value + at);
    });
  }
  for (const auto& replica : replicas_) replica->network().parameters_changed();
}

void DataParallel::copy_buffers() {
  for (std::size_t r = 1; r < replicas_.size(); ++r)
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      std::copy_n(buffers_[i], spec().buffers[i].elements(), replicas_[r]->buffers[i]);
}

const float* DataParallel::forward(const void* images, std::int64_t batch, Mode mode) {
  batch_ = batch;
  const std::size_t count = replicas_.size();
  const std::size_t bytes = sample_format().bytes();
  ReplicaTraffic of_evaluation;
  ReplicaTraffic& traffic = mode == Mode::train ? traffic_ : of_evaluation;
  {
    const Stopwatch stopwatch(traffic.copying);
    if (std::exchange(changed_, false)) {
      copy_parameters();
      ++traffic.steps;
      traffic.parameters_out += (count - 1) * spec().parameter_count() * sizeof(float);
    }
    if (mode == Mode::evaluate) copy_buffers();
    for (std::size_t r = 0; r < count; ++r) {
      const auto samples = static_cast<std::size_t>(samples_of(r));
      std::vector<char>& own = replicas_[r]->samples;
      own.resize(std::max(own.size(), samples * bytes));
      take_rows(static_cast<const char*>(images) + r * bytes, count, samples, bytes, own.data());
      if (r > 0) traffic.samples_out += samples * bytes;
    }
  }
  each_replica([&](std::size_t r, Replica& replica) {
    DropoutKey draws = draws_;
    draws.first += r * draws.stride;
    draws.stride *= count;
    replica.network().set_draws(draws);
    replica.logits = replica.network().forward(replica.samples.data(), samples_of(r), mode);
  });
  if (batch == 0) return nullptr;
  const auto width = static_cast<std::size_t>(spec().classes);
  logits_.resize(std::max(logits_.size(), static_cast<std::size_t>(batch) * width));
  for (std::size_t r = 0; r < count; ++r) {
    const auto samples = static_cast<std::size_t>(samples_of(r));
    if (samples == 0) continue;
    put_rows(reinterpret_cast<const char*>(replicas_[r]->logits), count, samples, width * sizeof(float),
             reinterpret_cast<char*>(logits_.data() + r * width));
    if (r > 0) traffic.logits_in += samples * width * sizeof(float);
  }
  return logits_.data();
}

void DataParallel::backward(const float* logits_gradient, const Ready& ready) {
  const std::size_t row = static_cast<std::size_t>(spec().classes) * sizeof(float);
  const auto* const all = reinterpret_cast<const char*>(logits_gradient);
  order_.clear();
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    const auto samples = static_cast<std::size_t>(samples_of(r));
    std::vector<char>& own = replicas_[r]->gradient;
    own.resize(std::max(own.size(), samples * row));
    take_rows(all + r * row, replicas_.size(), samples, row, own.data());
    if (r > 0) traffic_.samples_out += samples * row;
  }
  each_replica([&](std::size_t r, Replica& replica) {
    replica.network().backward(reinterpret_cast<const float*>(replica.gradient.data()),
                               [&](std::size_t parameter) {
                                 if (r == 0) order_.push_back(parameter);
                               });
  });
  for (const std::size_t parameter : order_) {
    add_gradients(parameter);
    ready(parameter);
  }
}

void DataParallel::add_gradients(std::size_t parameter) {
  const Stopwatch stopwatch(traffic_.adding);
  const std::size_t elements = spec().parameters[parameter].elements();
  const std::size_t used =
      std::min(replicas_.size(), static_cast<std::size_t>(std::max<std::int64_t>(1, batch_)));
  float* const sum = replicas_.front()->slots[parameter].gradient;
  cpu::each_piece(elements, [&](std::size_t at, std::size_t count) {
    for (std::size_t r = 1; r < used; ++r) {
      const float* const more = replicas_[r]->slots[parameter].gradient;
      for (std::size_t i = at; i < at + count; ++i) sum[i] += more[i];
    }
  });
  traffic_.gradients_in += (used - 1) * elements * sizeof(float);
}

std::string DataParallel::first_not_finite() {
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    if (r > 0 && samples_of(r) == 0) break;
    std::string name;
    replicas_[r]->start([&name, &replica = *replicas_[r]] { name = replica.network().first_not_finite(); });
    if (const std::exception_ptr error = replicas_[r]->wait()) std::rethrow_exception(error);
    if (!name.empty()) return name + " of replica " + std::to_string(r);
  }
  return "";
}

MemoryUse DataParallel::memory() const {
  MemoryUse use = replicas_.front()->network().memory();
  use.activations += logits_.size() * sizeof(float);
  for (const auto& replica : replicas_) use.workspace += replica->samples.size() + replica->gradient.size();
  return use;
}

std::size_t DataParallel::other_bytes() const {
  std::size_t sum = 0;
  for (std::size_t r = 1; r < replicas_.size(); ++r) {
    const MemoryUse use = replicas_[r]->network().memory();
    sum += replicas_[r]->bytes() + use.activations + use.workspace;
  }
  return sum;
}

MemoryUse DataParallel::memory_for(std::span<const BatchSize> batches) const {
  std::vector<BatchSize> shares;
  std::size_t most = 0;
  for (const BatchSize& batch : batches) {
    shares.push_back({share_of(batch.samples, 0, replicas_.size()), batch.trains});
    most = std::max(most, static_cast<std::size_t>(batch.samples));
  }
  MemoryUse use = replicas_.front()->network().memory_for(shares);
  const std::size_t row = static_cast<std::size_t>(spec().classes) * sizeof(float);
  use.activations += most * row;
  use.workspace += most * (sample_format().bytes() + row);
  return use;
}

std::unique_ptr<DataParallel> make_data_parallel(const Description& description,
                                                 const NetworkOptions& options, int replicas) {
  std::vector<std::unique_ptr<Network>> networks;
  for (int r = 0; r < replicas; ++r) networks.push_back(make_network(description, options));
  return std::make_unique<DataParallel>(std::move(networks));
}

}  // namespace muster::nn
