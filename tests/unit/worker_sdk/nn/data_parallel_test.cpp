// SPDX-License-Identifier: Apache-2.0
// Replicas that share a batch: the gradients of its parts, and those of the whole.
#include "worker_sdk/nn/models/data_parallel.hpp"

#include "catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/worker_sdk/nn/model_tensors.hpp"
#include "tests/unit/worker_sdk/nn/small_lists.hpp"
#include "worker_sdk/nn/models/make_network.hpp"
#include "worker_sdk/nn/plan.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace data_parallel_test {

using namespace muster::test;
using namespace muster::nn;
using muster::ErrorCode;
using Tensors = std::vector<std::vector<float>>;

namespace {

Description list_of(const std::string& name) {
  for (const Description& description : small_lists())
    if (description.name == name) return description;
  throw std::logic_error("there is no list " + name);
}

std::vector<std::unique_ptr<Network>> networks_of(const Description& description, std::size_t count) {
  std::vector<std::unique_ptr<Network>> networks;
  for (std::size_t i = 0; i < count; ++i) networks.push_back(make_network(description, {}));
  return networks;
}

/// A network and its parameters; the gradient of a logit is the logit.
struct Trained : ModelTensors {
  Trained(const Description& description, std::unique_ptr<Network> one)
      : ModelTensors(plan_of(description).spec, 3), network(std::move(one)) {
    network->bind(slots, places);
  }

  std::vector<float> logits(const std::vector<float>& samples, std::int64_t batch, Mode mode = Mode::train) {
    network->parameters_changed();
    const float* const from = network->forward(samples.data(), batch, mode);
    return from == nullptr ? std::vector<float>() : std::vector<float>(from, from + batch * spec.classes);
  }

  Tensors gradients_of(const std::vector<float>& samples, std::int64_t batch) {
    const std::vector<float> gradient = logits(samples, batch);
    order.clear();
    network->backward(gradient.data(), [this](std::size_t i) { order.push_back(i); });
    return gradients;
  }

  std::unique_ptr<Network> network;
  std::vector<std::size_t> order;
};

/// The samples that replica r of n gets.
std::vector<float> part_of(const std::vector<float>& samples, std::size_t batch, std::size_t r,
                           std::size_t n) {
  const std::size_t row = batch == 0 ? 0 : samples.size() / batch;
  std::vector<float> part;
  for (std::size_t i = r; i < batch; i += n)
    part.insert(part.end(), samples.begin() + static_cast<std::ptrdiff_t>(i * row),
                samples.begin() + static_cast<std::ptrdiff_t>((i + 1) * row));
  return part;
}

/// The gradients of the parts by one network, added in their order.
Tensors sum_of_parts(const Description& description, const std::vector<float>& samples, std::size_t batch,
                     std::size_t n) {
  Trained one(description, make_network(description, {}));
  Tensors sum = one.gradients_of({}, 0);
  for (std::size_t r = 0; r < std::min(n, batch); ++r) {
    const std::vector<float> part = part_of(samples, batch, r, n);
    const Tensors more = one.gradients_of(part, static_cast<std::int64_t>((batch + n - 1 - r) / n));
    for (std::size_t i = 0; i < sum.size(); ++i)
      for (std::size_t k = 0; k < sum[i].size(); ++k)
        sum[i][k] = r == 0 ? more[i][k] : sum[i][k] + more[i][k];
  }
  return sum;
}

/// Throws in forward or in backward; else it is another network.
class Failing final : public Network {
 public:
  Failing(std::unique_ptr<Network> network, bool in_backward, bool memory)
      : network_(std::move(network)), in_backward_(in_backward), memory_(memory) {}

  const ModelSpec& spec() const override { return network_->spec(); }

  SampleFormat sample_format() const override { return network_->sample_format(); }

  void bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) override {
    network_->bind(parameters, buffers);
  }

  void parameters_changed() override { network_->parameters_changed(); }

  void set_draws(const DropoutKey& draws) override { network_->set_draws(draws); }

  const float* forward(const void* images, std::int64_t batch, Mode mode) override {
    if (!in_backward_) fail();
    return network_->forward(images, batch, mode);
  }

  void backward(const float*, const Ready&) override { fail(); }

  std::string first_not_finite() override { return network_->first_not_finite(); }

  const std::vector<ParameterUnit>& units() const override { return network_->units(); }

  void set_unit_user(UnitUser* user) override { network_->set_unit_user(user); }

  MemoryUse memory() const override { return network_->memory(); }

  MemoryUse memory_for(std::span<const BatchSize> sizes) const override {
    return network_->memory_for(sizes);
  }

  std::vector<StepMemory> memory_by_step() const override { return network_->memory_by_step(); }

  double flops_per_sample() const override { return network_->flops_per_sample(); }

 private:
  [[noreturn]] void fail() const {
    if (memory_) throw std::bad_alloc();
    throw muster::Error(ErrorCode::unsupported, "this cannot be computed");
  }

  const std::unique_ptr<Network> network_;
  const bool in_backward_;
  const bool memory_;
};

}  // namespace

TEST_CASE("Replicas have the gradients of their parts, added in order, and all but those of the whole") {
  for (const char* const name : {"pooled", "tokens", "grey"}) {
    const Description description = list_of(name);
    Trained whole(description, make_network(description, {}));
    for (const std::size_t n : {1U, 2U, 3U}) {
      Trained replicas(description, std::make_unique<DataParallel>(networks_of(description, n)));
      // 8 and 7: uneven parts; 2 of 3: one of none; 0: a batch of none behind one that left gradients.
      for (const std::size_t batch : {8U, 7U, 2U, 0U}) {
        CAPTURE(name, n, batch);
        const auto count = static_cast<std::int64_t>(batch);
        const std::vector<float> samples = samples_of(description.input, count, 5);
        const Tensors got = replicas.gradients_of(samples, count);
        CHECK((got == sum_of_parts(description, samples, batch, n)));
        const Tensors wanted = whole.gradients_of(samples, count);
        CHECK(replicas.order == whole.order);
        for (std::size_t i = 0; i < got.size(); ++i) CHECK(apart(wanted[i], got[i]) < 1e-4);
        // Logits come back in the order of the samples.
        CHECK(apart(whole.logits(samples, count), replicas.logits(samples, count)) < 1e-5);
      }
    }
  }
}

TEST_CASE("Replicas follow the parameters and running statistics of the first") {
  const Description description = list_of("maps");
  const std::vector<float> samples = samples_of(description.input, 6, 5);
  Trained replicas(description, std::make_unique<DataParallel>(networks_of(description, 2)));
  Trained first(description, make_network(description, {}));
  replicas.gradients_of(samples, 6);
  first.gradients_of(part_of(samples, 6, 0, 2), 3);
  CHECK((replicas.buffers == first.buffers));
  for (auto* const model : {&replicas, &first})
    for (std::vector<float>& values : model->values)
      for (float& value : values) value *= 1.5F;
  // In an evaluation all samples see the parameters and statistics of replica 0.
  CHECK(apart(first.logits(samples, 6, Mode::evaluate), replicas.logits(samples, 6, Mode::evaluate)) < 1e-5);
}

TEST_CASE("What replicas move is counted: parameters out of the first, gradients into it") {
  const Description description = list_of("pooled");
  auto owned = std::make_unique<DataParallel>(networks_of(description, 4));
  const DataParallel& network = *owned;
  Trained replicas(description, std::move(owned));
  const std::size_t p = replicas.spec.parameter_count() * sizeof(float);
  const std::vector<float> samples = samples_of(description.input, 6, 5);
  replicas.logits(samples, 6, Mode::evaluate);
  CHECK(network.traffic().parameters_out == 0);
  for (int step = 0; step < 2; ++step) replicas.gradients_of(samples, 6);
  CHECK(network.traffic().steps == 2);
  CHECK(network.traffic().parameters_out == 2 * 3 * p);
  CHECK(network.traffic().gradients_in == 2 * 3 * p);
  CHECK(network.traffic().logits_in == 2 * 4 * 3 * sizeof(float));  // 4 of the 6 samples, 3 classes
  CHECK(network.other_bytes() >= 3 * 2 * p);
}

TEST_CASE("What a replica throws reaches the caller with its name") {
  const Description description = list_of("grey");
  const std::vector<float> samples = samples_of(description.input, 4, 5);
  for (const bool in_backward : {false, true})
    for (const bool memory : {false, true}) {
      auto networks = networks_of(description, 3);
      networks[1] = std::make_unique<Failing>(std::move(networks[1]), in_backward, memory);
      Trained replicas(description, std::make_unique<DataParallel>(std::move(networks)));
      const auto step = [&] { replicas.gradients_of(samples, 4); };
      CHECK(error_of(step, memory ? ErrorCode::out_of_memory : ErrorCode::unsupported) ==
            (memory ? "replica 1 of 3 got no more memory; give a smaller batch"
                    : "replica 1 of 3: this cannot be computed"));
      // The others are not stuck.
      CHECK(!error_of(step).empty());
    }
  CHECK(error_of([] { DataParallel none({}); }, ErrorCode::invalid_argument).find("no replicas") !=
        std::string::npos);
}

}  // namespace data_parallel_test
