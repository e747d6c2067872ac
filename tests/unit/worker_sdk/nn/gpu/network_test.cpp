// SPDX-License-Identifier: Apache-2.0
// Whole networks as the GPU runs them, on a device of the host's, against the CPU's own networks with the
// same weights and images.
#include "tests/support/catch.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "tests/unit/worker_sdk/nn/gpu/values.hpp"
#include "tests/unit/worker_sdk/nn/model_tensors.hpp"
#include "tests/unit/worker_sdk/nn/reference.hpp"
#include "tests/unit/worker_sdk/nn/small_lists.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/gpu/network/device_network.hpp"
#include "worker_sdk/nn/models/make_network.hpp"
#include "worker_sdk/nn/plan.hpp"
#include "worker_sdk/nn/segments.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace muster::nn::gpu {
namespace {

using test::apart;
using test::ModelTensors;
using test::random_floats;

struct Result {
  std::vector<float> logits;
  std::vector<std::size_t> order;  ///< in which gradients were ready
};

Result run(Network& network, ModelTensors& tensors, const void* images, std::int64_t batch, Mode mode) {
  network.parameters_changed();
  const auto count = static_cast<std::size_t>(batch * tensors.spec.classes);
  Result result;
  const float* logits = network.forward(images, batch, mode);
  result.logits.assign(logits, logits + count);
  if (mode == Mode::evaluate) return result;
  const auto gradient = random_floats(count, 50);
  network.backward(gradient.data(), [&](std::size_t i) {
    CHECK(tensors.gradients[i][0] != 1e30F);
    result.order.push_back(i);
  });
  return result;
}

Result run_cpu(ModelTensors& tensors, const std::vector<float>& images, std::int64_t batch, Mode mode) {
  const auto network = make_network(tensors.spec.name, {});
  network->bind(tensors.slots, tensors.places);
  return run(*network, tensors, images.data(), batch, mode);
}

/// Samples of a network on the CPU as one on a device wants them.
template <typename T>
void copy_samples(const Input& input, const SampleFormat& format, const std::vector<float>& samples, T* to) {
  const auto from = static_cast<std::size_t>(input.channels);
  const auto wide = static_cast<std::size_t>(format.channels);
  for (std::size_t i = 0; i < samples.size() / from * wide; ++i)
    to[i] = from_float<T>(i % wide < from ? samples[i / wide * from + i % wide] : 0.0F);
}

void* given(HostOps& ops, const Network& network, const Input& input, const std::vector<float>& samples,
            std::int64_t batch) {
  const SampleFormat format = network.sample_format();
  void* const place = ops.allocate(static_cast<std::size_t>(batch) * format.bytes(), "samples");
  if (input.kind == InputKind::ids)
    std::memcpy(place, samples.data(), samples.size() * sizeof(float));
  else if (format.type == Precision::bf16)
    copy_samples(input, format, samples, static_cast<Bf16*>(place));
  else if (format.type == Precision::f16)
    copy_samples(input, format, samples, static_cast<F16*>(place));
  else
    copy_samples(input, format, samples, static_cast<float*>(place));
  return place;
}

/// The images as a network on a device wants them.
void* widened(HostOps& ops, const Network& network, const std::vector<float>& images, std::int64_t batch) {
  void* const place =
      ops.allocate(static_cast<std::size_t>(batch) * network.sample_format().bytes(), "images");
  if (network.sample_format().type == Precision::bf16)
    test::widen_images(images, static_cast<Bf16*>(place));
  else
    test::widen_images(images, static_cast<float*>(place));
  return place;
}

Result run_device(ModelTensors& tensors, const std::vector<float>& images, std::int64_t batch, Mode mode,
                  Precision precision) {
  HostOps ops;
  const auto network = make_device_network(tensors.spec.name, precision, 10, batch + 1, ops);
  network->bind(tensors.slots, tensors.places);
  return run(*network, tensors, widened(ops, *network, images, batch), batch, mode);
}

/// How far rounding to eight bits takes the gradients of a layer that has `above` others behind it, of
/// `layers` in all: each rounding on the way there and back is off by 2^-8 at most.
double bf16_bound(std::size_t above, std::size_t layers) {
  return static_cast<double>(layers + above) / 256;
}

std::vector<float> rounded(std::vector<float> values) {
  for (float& value : values) value = to_float(from_float<Bf16>(value));
  return values;
}

}  // namespace

TEST_CASE("a network on a device computes what the CPU's does", "[gpu]") {
  // resnet18 itself has the blocks of the other stem, and is 15 times as much work.
  const std::string model = GENERATE(as<std::string>(), "small-cnn", "resnet18-imagenet-stem");
  const std::int64_t batch = 3;
  CAPTURE(model);
  const auto images = random_floats(static_cast<std::size_t>(batch) * 32 * 32 * 3, 51);
  ModelTensors cpu(model_spec(model), 7);
  ModelTensors device(model_spec(model), 7);
  const Result wanted = run_cpu(cpu, images, batch, Mode::train);
  const Result got = run_device(device, images, batch, Mode::train, Precision::f32);
  CHECK(apart(wanted.logits, got.logits) < 1e-4);
  for (std::size_t i = 0; i < cpu.gradients.size(); ++i) {
    CAPTURE(cpu.spec.parameters[i].name);
    // 20 layers of batch norm over three images: a last bit grows.
    CHECK(apart(cpu.gradients[i], device.gradients[i]) < 2e-3);
  }
  for (std::size_t i = 0; i < cpu.buffers.size(); ++i) {
    CAPTURE(cpu.spec.buffers[i].name);
    CHECK(apart(cpu.buffers[i], device.buffers[i]) < 1e-4);
  }
  CHECK(got.order == wanted.order);
}

TEST_CASE("a network of any layers on a device computes what the CPU's does", "[gpu]") {
  const std::int64_t batch = 5;
  for (const Description& description : test::small_lists()) {
    CAPTURE(description.name);
    const auto samples = test::samples_of(description.input, batch, 56);
    const ModelSpec spec = plan_of(description).spec;
    ModelTensors on_cpu(spec, 7), on_device(spec, 7);
    const auto cpu = make_network(description, {});
    cpu->bind(on_cpu.slots, on_cpu.places);
    cpu->set_draws({5, 2, 0, 0});
    const Result wanted = run(*cpu, on_cpu, samples.data(), batch, Mode::train);
    HostOps ops;
    const auto network = make_device_network(description, Precision::f32, batch, ops);
    network->bind(on_device.slots, on_device.places);
    network->set_draws({5, 2, 0, 0});
    const void* const input = given(ops, *network, description.input, samples, batch);
    const Result got = run(*network, on_device, input, batch, Mode::train);
    CHECK(apart(wanted.logits, got.logits) < 1e-4);
    for (std::size_t i = 0; i < spec.parameters.size(); ++i) {
      CAPTURE(spec.parameters[i].name);
      CHECK(apart(on_cpu.gradients[i], on_device.gradients[i]) < 1e-3);
    }
    CHECK(got.order == wanted.order);
    CHECK(network->first_not_finite().empty());

    HostOps halves;
    const auto rough = make_device_network(description, Precision::bf16, batch, halves);
    rough->bind(on_device.slots, on_device.places);
    rough->set_draws({5, 2, 0, 0});
    const void* const rounded = given(halves, *rough, description.input, samples, batch);
    CHECK(apart(wanted.logits, run(*rough, on_device, rounded, batch, Mode::train).logits) < 0.05);
  }
}

TEST_CASE("an evaluation on a device uses the running statistics", "[gpu]") {
  const std::string model = "resnet18-imagenet-stem";
  ModelTensors cpu(model_spec(model), 7);
  ModelTensors device(model_spec(model), 7);
  for (ModelTensors* tensors : {&cpu, &device})
    for (std::size_t i = 0; i < tensors->buffers.size(); ++i)
      for (std::size_t k = 0; k < tensors->buffers[i].size(); ++k)
        tensors->buffers[i][k] += 0.01F * static_cast<float>(k % 7);
  const auto images = random_floats(std::size_t{2} * 32 * 32 * 3, 52);
  const Result wanted = run_cpu(cpu, images, 2, Mode::evaluate);
  const Result got = run_device(device, images, 2, Mode::evaluate, Precision::f32);
  CHECK(apart(wanted.logits, got.logits) < 1e-4);
  CHECK(cpu.buffers == device.buffers);
}

// Without ReLU and maxima every value changes as little as what it is computed from.
TEST_CASE("in bf16 and fp16 a network is off by its roundings", "[gpu]") {
  const std::int64_t batch = 5;
  const Precision precision = GENERATE(Precision::bf16, Precision::f16);
  // fp16 rounds to eleven bits.
  const double share = precision == Precision::bf16 ? 1 : 1.0 / 8;
  const std::vector<std::string> lists = {
      R"({"input": {"kind": "features", "channels": 24}, "layers": [{"layer": "linear", "out": 40},
          {"layer": "linear", "out": 32}, {"layer": "linear", "out": 8}]})",
      R"({"input": {"kind": "images", "side": 8}, "layers": [{"layer": "convolution", "out": 16},
          {"layer": "average_pool"}, {"layer": "linear", "out": 8}]})"};
  for (const std::string& list : lists) {
    const Description description = description_from(list);
    const auto samples = test::samples_of(description.input, batch, 57);
    const ModelSpec spec = plan_of(description).spec;
    ModelTensors on_cpu(spec, 7), on_device(spec, 7);
    const auto cpu = make_network(description, {});
    cpu->bind(on_cpu.slots, on_cpu.places);
    const Result wanted = run(*cpu, on_cpu, samples.data(), batch, Mode::train);
    HostOps ops;
    const auto network = make_device_network(description, precision, batch, ops);
    network->bind(on_device.slots, on_device.places);
    const void* const input = given(ops, *network, description.input, samples, batch);
    const Result got = run(*network, on_device, input, batch, Mode::train);
    const std::size_t layers = spec.parameters.size() / 2;
    CHECK(apart(wanted.logits, got.logits) < share * bf16_bound(0, layers));
    for (std::size_t i = 0; i < spec.parameters.size(); ++i) {
      CAPTURE(spec.parameters[i].name);  // weights and biases take turns
      CHECK(apart(on_cpu.gradients[i], on_device.gradients[i]) <
            share * bf16_bound(layers - 1 - i / 2, layers));
    }
  }
}

// Of the values before a ReLU or a maximum some are so near to the other side that rounding changes it: what
// they carry is there or not. How much that is, the CPU's network says, with nothing but images and weights
// rounded; values and gradients, which are rounded on the way, do as much again.
TEST_CASE("in bf16 a network with ReLU stays near the one in 32 bits", "[gpu]") {
  const std::int64_t batch = 4;
  const auto images = random_floats(static_cast<std::size_t>(batch) * 32 * 32 * 3, 53);
  ModelTensors cpu(model_spec("small-cnn"), 7);
  ModelTensors near(model_spec("small-cnn"), 7);
  ModelTensors device(model_spec("small-cnn"), 7);
  for (auto& values : near.values) {
    const auto to = rounded(values);
    std::copy(to.begin(), to.end(), values.begin());
  }
  const Result wanted = run_cpu(cpu, images, batch, Mode::train);
  (void)run_cpu(near, rounded(images), batch, Mode::train);
  const Result got = run_device(device, images, batch, Mode::train, Precision::bf16);
  CHECK(apart(wanted.logits, got.logits) < 0.02);
  const std::size_t layers = cpu.gradients.size() / 2;
  for (std::size_t i = 0; i < cpu.gradients.size(); ++i) {
    CAPTURE(cpu.spec.parameters[i].name);
    // Found: 0.15 in the first layer, where this allows 0.19, and 0.005 in the last, where it allows 0.012.
    CHECK(apart(cpu.gradients[i], device.gradients[i]) <
          std::sqrt(2.0) * apart(cpu.gradients[i], near.gradients[i]) +
              bf16_bound(layers - 1 - i / 2, layers) / 2);
  }
}

TEST_CASE("a batch of none has gradients of zero, each ready once", "[gpu]") {
  const std::string model = GENERATE(as<std::string>(), "small-cnn", "resnet18-imagenet-stem");
  ModelTensors tensors(model_spec(model), 7);
  HostOps ops;
  const auto network = make_device_network(model, Precision::bf16, 10, 2, ops);
  network->bind(tensors.slots, tensors.places);
  network->parameters_changed();
  CHECK(network->forward(nullptr, 0, Mode::train) == nullptr);
  std::set<std::size_t> ready;
  network->backward(nullptr, [&](std::size_t i) { CHECK(ready.insert(i).second); });
  CHECK(ready.size() == tensors.gradients.size());
  for (const auto& gradient : tensors.gradients) CHECK(gradient == std::vector<float>(gradient.size()));
}

TEST_CASE("only a network in tf32 lets floats be rounded for products", "[gpu]") {
  class Listening final : public HostOps {
   public:
    void convolve(const ConvolutionCall& call) override { ++(call.tf32 ? rounded : exact); }

    int rounded = 0;
    int exact = 0;
  };

  for (const Precision precision : {Precision::tf32, Precision::f32, Precision::bf16}) {
    CAPTURE(static_cast<int>(precision));
    ModelTensors tensors(model_spec("resnet18-imagenet-stem"), 7);
    Listening ops;
    const auto network = make_device_network(tensors.spec.name, precision, 10, 1, ops);
    network->bind(tensors.slots, tensors.places);
    network->forward(widened(ops, *network, std::vector<float>(32 * 32 * 3), 1), 1, Mode::train);
    CHECK(ops.rounded + ops.exact > 0);
    CHECK((precision == Precision::tf32 ? ops.exact : ops.rounded) == 0);
  }
}

// Ranks whose exchanges differ in number or length wait for each other for ever.
TEST_CASE("a rank without images exchanges the statistics that one with images does", "[gpu]") {
  const std::string model = "resnet18-imagenet-stem";
  const auto images = random_floats(std::size_t{2} * 32 * 32 * 3, 54);
  const auto exchanges = [&](std::int64_t batch) {
    std::vector<std::size_t> counts;
    ModelTensors tensors(model_spec(model), 7);
    HostOps ops;
    const auto network =
        make_device_network(model, Precision::f32, 10, 2, ops,
                            [&](double*, std::size_t count, void*) { counts.push_back(count); });
    network->bind(tensors.slots, tensors.places);
    const Result result = run(*network, tensors, widened(ops, *network, images, 2), batch, Mode::train);
    for (const std::size_t i : result.order) counts.push_back(i);
    for (const auto& gradient : tensors.gradients)
      CHECK((batch > 0 || gradient == std::vector<float>(gradient.size())));
    return counts;
  };
  const auto wanted = exchanges(2);
  CHECK(wanted.size() == 2 * 20 + 62);
  CHECK(exchanges(0) == wanted);
}

TEST_CASE("a network on a device names the layer where a number is lost", "[gpu]") {
  const Precision precision = GENERATE(Precision::f32, Precision::bf16);
  const auto [model, parameter, layer] = GENERATE(table<std::string, std::size_t, std::string>(
      {{"resnet18-imagenet-stem", 3, "layer1.0.conv1"}, {"small-cnn", 4, "fc1"}, {"small-cnn", 6, "fc2"}}));
  CAPTURE(layer);
  const auto images = random_floats(std::size_t{2} * 32 * 32 * 3, 55);
  ModelTensors tensors(model_spec(model), 7);
  HostOps ops;
  const auto network = make_device_network(model, precision, 10, 2, ops);
  network->bind(tensors.slots, tensors.places);
  const void* const input = widened(ops, *network, images, 2);
  network->parameters_changed();
  network->forward(input, 2, Mode::train);
  CHECK(network->first_not_finite().empty());
  tensors.values[parameter][0] = std::numeric_limits<float>::quiet_NaN();
  network->parameters_changed();
  network->forward(input, 2, Mode::train);
  CHECK(network->first_not_finite() == layer);
}

TEST_CASE("a network says what it costs, wherever it is computed", "[gpu]") {
  const std::string model = GENERATE(as<std::string>(), "small-cnn", "resnet18");
  HostOps ops;
  const auto network = make_device_network(model, Precision::bf16, 10, 2, ops);
  const MemoryUse use = network->memory();
  CHECK(use.activations > 0);
  CHECK(use.workspace > model_spec(model).parameter_count() * sizeof(Bf16));
  CHECK(use.activations + use.workspace == ops.allocated());
  CHECK(network->flops_per_sample() == make_network(model, {})->flops_per_sample());
}

namespace {

struct Steps {
  std::vector<std::vector<std::vector<float>>> results;  ///< gradients of each step, running statistics
  std::size_t activations = 0;

  bool operator==(const Steps& other) const { return results == other.results; }
};

/// Three steps of SGD, an evaluation between the second and the third.
Steps three_steps(const Description& description, Precision precision, std::int64_t batch,
                  const std::string& word) {
  ModelTensors tensors(plan_of(description).spec, 7);
  HostOps ops;
  const auto network = make_device_network(description, precision, 2, ops, {}, checkpoints_of(word));
  Steps steps;
  steps.activations = network->memory().activations;
  CHECK(steps.activations + network->memory().workspace == ops.allocated());
  network->bind(tensors.slots, tensors.places);
  const auto samples = test::samples_of(description.input, batch, 57);
  const void* const input = given(ops, *network, description.input, samples, batch);
  for (std::uint64_t number = 0; number < 3; ++number) {
    network->set_draws({5, number, 0, 0});
    run(*network, tensors, input, batch, Mode::train);
    steps.results.push_back(tensors.gradients);
    for (std::size_t i = 0; i < tensors.values.size(); ++i) {
      std::vector<float>& gradient = tensors.gradients[i];
      for (std::size_t k = 0; k < gradient.size(); ++k)
        tensors.values[i][k] -= 0.01F * std::exchange(gradient[k], 1e30F);
    }
    if (number == 1) run(*network, tensors, input, 1, Mode::evaluate);
  }
  steps.results.push_back(tensors.buffers);
  return steps;
}

}  // namespace

TEST_CASE("activations that a device computes again have the same bits", "[gpu]") {
  for (const char* const name : {"small-cnn", "vit-tiny"}) {
    const Description description = built_in(name, 10);
    const Steps wanted = three_steps(description, Precision::f32, 1, "none");
    for (const char* const word : {"block", "sqrt"}) {
      CAPTURE(name, word);
      const Steps got = three_steps(description, Precision::f32, 1, word);
      CHECK(got == wanted);
      CHECK(got.activations < wanted.activations);
    }
  }
  for (const Description& description : test::small_lists())
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      const Steps wanted = three_steps(description, precision, 2, "none");
      for (const char* const word : {"block", "sqrt"}) {
        CAPTURE(description.name, static_cast<int>(precision), word);
        CHECK(three_steps(description, precision, 2, word) == wanted);
      }
    }
}

TEST_CASE("a model that is none, or with too many classes, is refused", "[gpu]") {
  HostOps ops;
  CHECK_THROWS_WITH(make_device_network("vgg", Precision::bf16, 10, 1, ops),
                    Contains("there is no model \"vgg\""));
  CHECK_THROWS_WITH(make_device_network("resnet18", Precision::bf16, 3000, 1, ops), Contains("at most 2048"));
  CHECK(ops.allocated() == 0);
  const auto network = make_device_network("small-cnn", Precision::bf16, 10, 2, ops);
  CHECK_THROWS_WITH(network->forward(nullptr, 3, Mode::train), Contains("made for at most 2"));
}

}  // namespace muster::nn::gpu
