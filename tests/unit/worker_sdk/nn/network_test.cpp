// SPDX-License-Identifier: Apache-2.0
// The built-in networks as a trainer uses them: names and sizes, whole-network gradients, reproducible bits,
// empty batches, clear errors.
#include "worker_sdk/nn/network.hpp"

#include "catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/worker_sdk/nn/maps.hpp"
#include "tests/unit/worker_sdk/nn/model.hpp"
#include "tests/unit/worker_sdk/nn/small_lists.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/models/make_network.hpp"
#include "worker_sdk/nn/plan.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace network_test {

using namespace muster::test;
using namespace muster::nn;

namespace {

#ifdef MUSTER_SANITIZED
constexpr const char* kAnyModel = "small-cnn";  // instrumented, eleven million parameters take their time
#else
constexpr const char* kAnyModel = "resnet18-imagenet-stem";
#endif

/// For each parameter: along its gradient the loss rises as steeply as the gradient is long.
void check_gradients(Model& model) {
  model.one_step();
  const Tensors gradients = model.gradients;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    CAPTURE(model.network->spec().parameters[i].name);
    const std::vector<float> saved = model.values[i];
    const double steepness = length(gradients[i]);
    REQUIRE(steepness > 0);
    const double step = std::min(0.01, 0.01 / steepness);
    const auto loss_at = [&](double distance) {
      for (std::size_t k = 0; k < saved.size(); ++k)
        model.values[i][k] = saved[k] + static_cast<float>(distance / steepness) * gradients[i][k];
      return model.loss();
    };
    const double slope = (loss_at(step) - loss_at(-step)) / (2 * step);
    model.values[i] = saved;
    CHECK(slope == Approx(steepness).epsilon(0.03));
  }
}

}  // namespace

TEST_CASE("the models have the parameters that PyTorch's have") {
  CHECK(model_spec("resnet18").parameter_count() == 11'173'962);
  CHECK(model_spec("resnet18-imagenet-stem").parameter_count() == 11'181'642);
  CHECK(model_spec("resnet18-imagenet-stem", 1000).parameter_count() == 11'689'512);
  CHECK(model_spec("small-cnn").parameter_count() == 545'098);
  const ModelSpec spec = model_spec("resnet18");
  CHECK(spec.parameters.size() == 62);
  CHECK(spec.buffers.size() == 40);
  CHECK(spec.parameters[0].name == "conv1.weight");
  CHECK(spec.parameters[21].name == "layer2.0.downsample.0.weight");
  CHECK(spec.parameters[21].shape == std::vector<std::int64_t>{128, 64, 1, 1});
  CHECK(spec.buffers[1].name == "bn1.running_var");
  for (const auto& parameter : spec.parameters) CHECK(parameter.decay == (parameter.shape.size() > 1));
}

TEST_CASE("the small CNN has the logits of its definition") {
  Model model("small-cnn", 2);
  const auto floats = [](const Doubles& values) { return std::vector<float>(values.begin(), values.end()); };
  const auto maps =
      floats(reference_conv_block(model.images, model.values[0], model.values[1], 2, 3, 32, 32));
  const auto features = floats(reference_conv_block(maps, model.values[2], model.values[3], 2, 32, 64, 16));
  const auto hidden = floats(reference_linear(features, model.values[4], model.values[5], true));
  const Doubles wanted = reference_linear(hidden, model.values[6], model.values[7], false);
  CHECK(distance(wanted, model.network->forward(model.images.data(), 2, Mode::evaluate)) < 1e-5);
}

TEST_CASE("gradients of a whole network are slopes of its loss") {
#ifdef MUSTER_SANITIZED
  const std::vector<std::string> names = {"small-cnn"};
#else
  const std::vector<std::string> names = {"small-cnn", "resnet18-imagenet-stem"};
#endif
  for (const std::string& name : names) {
    Model model(name, 6);
    check_gradients(model);
  }
}

TEST_CASE("gradients of every kind of layer are slopes of a network's loss") {
  for (const Description& description : small_lists()) {
    CAPTURE(description.name);
    Model model(description, 6);
    model.network->set_draws({5, 1, 0, 0});
    check_gradients(model);
  }
}

TEST_CASE("a network holds for each image what its steps say") {
  std::vector<Description> descriptions = small_lists();
  descriptions.push_back(built_in(kAnyModel, 10));
  for (const Description& description : descriptions) {
    CAPTURE(description.name);
    constexpr std::int64_t kBatch = 8;
    Model model(description, kBatch);
    model.one_step();
    const std::vector<StepMemory> steps = model.network->memory_by_step();
    std::size_t sum = 0;
    for (const StepMemory& step : steps) sum += kBatch * step.bytes_per_sample;
    // Each piece of memory is whole pages. No step of these has more than 16 pieces.
    const std::size_t held = model.network->memory().activations;
    CHECK(held >= sum);
    CHECK(held < sum + steps.size() * 16 * 4096);
  }
}

TEST_CASE("dropout draws by the key, and not at all in an evaluation") {
  const Description description = small_lists()[1];
  REQUIRE(description.name == "rows");
  Model model(description, 6);
  const double evaluated = model.loss(Mode::evaluate);
  const auto loss_of = [&](std::uint64_t step) {
    model.network->set_draws({5, step, 0, 0});
    return model.loss();
  };
  const double first = loss_of(1);
  CHECK(first != evaluated);
  CHECK(loss_of(2) != first);
  CHECK(loss_of(1) == first);
  CHECK(model.loss(Mode::evaluate) == evaluated);
}

TEST_CASE("every gradient is announced once, last layers first, in the same order also without images") {
  for (const char* name : {"small-cnn", kAnyModel}) {
    CAPTURE(name);
    Model model(name, 2);
    model.loss();
    const std::vector<std::size_t> order = model.backward();
    CHECK(order.front() + 1 == model.values.size());
    CHECK(order.back() == 0);
    std::vector<std::size_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) CHECK(sorted[i] == i);
    CHECK(sorted.size() == model.values.size());

    Model empty(name, 0);
    const Tensors before = empty.buffers;
    empty.loss();
    CHECK(empty.backward() == order);
    CHECK(empty.buffers == before);
    for (const auto& gradient : empty.gradients)
      CHECK(std::all_of(gradient.begin(), gradient.end(), [](float g) { return g == 0; }));
  }
}

// A gradient that is ready is final, and its parameter free for the optimizer: the reducer steps a bucket in
// the middle of backward.
TEST_CASE("parameters may change from the moment on when their gradients are ready") {
  const auto when_ready = [](const std::string& name, Precision precision, bool spoil) {
    NetworkOptions options;
    options.precision = precision;
    Model model(name, 2, options);
    model.loss();
    Tensors seen(model.values.size());
    model.backward([&](std::size_t i) {
      seen[i] = model.gradients[i];
      if (spoil)
        std::fill(model.values[i].begin(), model.values[i].end(), std::numeric_limits<float>::quiet_NaN());
    });
    CHECK(seen == model.gradients);
    return seen;
  };
  // The other models have the same steps, and more of them.
  for (const std::string name : {"small-cnn", "resnet18-imagenet-stem", "vit-tiny"})
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      if (!supports(precision)) continue;
      INFO(name);
      CHECK(when_ready(name, precision, true) == when_ready(name, precision, false));
    }
}

TEST_CASE("equal seeds give equal bits, in parameters and in gradients") {
  Model one(kAnyModel, 3), two(kAnyModel, 3);
  CHECK(one.values == two.values);
  CHECK(one.one_step() == two.one_step());
  CHECK(one.buffers == two.buffers);
  CHECK(one.one_step() == two.one_step());  // primitives that exist already
  initialize(two.network->spec(), two.slots, 4);
  CHECK(one.values != two.values);
}

#ifndef MUSTER_SANITIZED
TEST_CASE("convolutions of ResNets start with He's deviation") {
  Model model("resnet18-imagenet-stem", 0);
  const std::vector<float>& weight = model.values[3];  // 64 channels to 64, 3 x 3
  const double deviation = length(weight) / std::sqrt(static_cast<double>(weight.size()));
  CHECK(deviation == Approx(std::sqrt(2.0 / (64 * 9))).epsilon(0.02));
}

TEST_CASE("the number of threads changes no more than rounding") {
  const int before = threads();
  NetworkOptions options;
  options.threads = 2;
  Model two("resnet18-imagenet-stem", 4, options);
  const Tensors by_two = two.one_step();
  options.threads = 1;
  Model one("resnet18-imagenet-stem", 4, options);
  const Tensors by_one = one.one_step();
  for (std::size_t i = 0; i < by_one.size(); ++i) CHECK(apart(by_one[i], by_two[i]) <= 1e-3);
  set_threads(before);
}
#endif

TEST_CASE("batches of other sizes, evaluation and training may follow each other") {
  Model model(kAnyModel, 4);
  model.one_step();
  const Tensors first = model.one_step();
  model.loss(Mode::evaluate);
  std::vector<float> image(3072, 0.5F);
  model.network->forward(image.data(), 1, Mode::evaluate);
  CHECK(model.one_step() == first);
  CHECK(model.network->memory().activations > 0);
  CHECK(model.network->flops_per_sample() > 3e7);
}

TEST_CASE("the layer where a number is lost is named") {
  Model model("resnet18-imagenet-stem", 2);
  model.loss();
  CHECK(model.network->first_not_finite().empty());
  model.values[3][0] = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(std::isfinite(model.loss()));
  CHECK(model.network->first_not_finite() == "layer1.0.conv1");
  Model small("small-cnn", 2);
  small.values[2][0] = std::numeric_limits<float>::infinity();
  CHECK_FALSE(std::isfinite(small.loss()));
  CHECK(small.network->first_not_finite() == "conv2");
}

TEST_CASE("a wrong model, number of classes or number of tensors is refused in a sentence") {
  CHECK(contains(error_of([] { make_network("vgg", {}); }), "resnet18-imagenet-stem"));
  CHECK(contains(error_of([] { model_spec("resnet18", 1); }), "at least 2"));
  CHECK(contains(error_of([] { make_network("resnet18", {})->bind({}, {}); }), "62 parameters"));
  CHECK(contains(error_of([] { make_network("resnet18", {Precision::tf32}); }), "train on a GPU"));
  if (!supports(Precision::bf16))
    CHECK(contains(error_of([] { make_network("resnet18", {Precision::bf16}); }), "use fp32"));
}

}  // namespace network_test
