// SPDX-License-Identifier: Apache-2.0
// What follows from a list of layers: tensors, steps, units, costs, and what is refused.
#include "worker_sdk/nn/plan.hpp"

#include "catch.hpp"
#include "tests/support/error_of.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/models/make_network.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace plan_test {

using namespace muster::nn;
using muster::test::error_of;

namespace {

Plan plan_of_text(const std::string& input, const std::string& layers) {
  return plan_of(
      description_from(R"({"name": "net", "input": )" + input + R"(, "layers": [)" + layers + "]}"));
}

const std::string kImages = R"({"kind": "images"})";
const std::string kFeatures = R"({"kind": "features", "channels": 8})";
const std::string kHead = R"({"layer": "linear", "name": "head", "out": 10})";

std::vector<StepKind> kinds(const std::vector<PlannedStep>& steps) {
  std::vector<StepKind> kinds;
  kinds.reserve(steps.size());
  for (const PlannedStep& step : steps) kinds.push_back(step.kind);
  return kinds;
}

std::map<std::string, std::vector<std::int64_t>> shapes(const ModelSpec& spec) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& parameter : spec.parameters) shapes[parameter.name] = parameter.shape;
  return shapes;
}

}  // namespace

TEST_CASE("the built-in networks have the parameters and operations that they should") {
  struct Case {
    std::string model;
    std::size_t parameters;
    std::size_t units;
    double operations;  // of a multiplication and an addition, forward
  };

  // Products and sums as the definitions of the layers have them.
  const std::vector<Case> cases = {
      {"small-cnn", 545'098, 4, 2.0 * (32 * 27 * 1024 + 64 * 288 * 256 + 4096 * 128 + 128 * 10)},
      {"resnet18", 11'173'962, 18, 2.0 * 555'422'720},
      {"resnet18-imagenet-stem", 11'181'642, 18, 2.0 * 37'016'576},
      {"resnet50", 23'520'842, 50, 2.0 * 1'297'829'888},
      {"mlp", 8'403'978, 3, 2.0 * (1024.0 * 4096 + 4096.0 * 1024 + 1024 * 10)},
      {"mlp-8", 8 * (1024 * 1024 + 1024) + 10'250, 9, 2.0 * (8 * 1024.0 * 1024 + 1024 * 10)},
      {"vit-tiny", 2'693'194, 16,
       2.0 * (64 * 48 * 192 + 6 * (64 * (12.0 * 192 * 192) + 2.0 * 64 * 64 * 192) + 192 * 10)},
  };
  CHECK(cases.size() == model_names().size());
  for (const Case& one : cases) {
    CAPTURE(one.model);
    const Plan plan = plan_of(built_in(one.model, 10));
    CHECK(plan.spec.parameter_count() == one.parameters);
    CHECK(plan.spec.first_values.size() == plan.spec.parameters.size());
    double sum = 0;
    for (const PlannedStep& step : plan.steps) sum += step.operations();
    CHECK(sum == one.operations);
    CHECK(plan.flops_per_sample() == 3 * sum - plan.steps[first_trained(plan.steps)].operations());
    CHECK(plan.spec.classes == 10);
    // Units are all parameters, each once, in order.
    CHECK(plan.units.size() == one.units);
    std::size_t next = 0;
    for (const ParameterUnit& unit : plan.units) {
      CHECK(unit.first == next);
      next += unit.count;
    }
    CHECK(next == plan.spec.parameters.size());
    for (const auto& parameter : plan.spec.parameters) CHECK(parameter.decay == (parameter.shape.size() > 1));
  }
}

TEST_CASE("tensors have PyTorch's names and shapes") {
  const auto resnet = shapes(model_spec("resnet50"));
  CHECK(resnet.at("layer1.0.conv1.weight") == std::vector<std::int64_t>{64, 64, 1, 1});
  CHECK(resnet.at("layer1.0.downsample.0.weight") == std::vector<std::int64_t>{256, 64, 1, 1});
  CHECK(resnet.at("layer2.0.conv2.weight") == std::vector<std::int64_t>{128, 128, 3, 3});
  CHECK(resnet.at("layer4.2.bn3.bias") == std::vector<std::int64_t>{2048});
  CHECK(resnet.at("fc.weight") == std::vector<std::int64_t>{10, 2048});
  const auto vit = shapes(model_spec("vit-tiny"));
  CHECK(vit.at("conv_proj.weight") == std::vector<std::int64_t>{192, 3, 4, 4});
  CHECK(vit.at("positions.weight") == std::vector<std::int64_t>{64, 192});
  CHECK(vit.at("layers.5.self_attn.in_proj_weight") == std::vector<std::int64_t>{576, 192});
  CHECK(vit.at("layers.5.self_attn.out_proj.bias") == std::vector<std::int64_t>{192});
  CHECK(vit.at("layers.0.linear1.weight") == std::vector<std::int64_t>{768, 192});
  CHECK(vit.at("layers.0.norm2.weight") == std::vector<std::int64_t>{192});
  // Layers without a name are counted, as Sequential does.
  const Plan plan = plan_of_text(kFeatures, R"({"layer": "linear", "out": 6}, {"layer": "relu"},
      {"layer": "residual", "body": [{"layer": "layer_norm"}, {"layer": "linear", "out": 4}],
                            "shortcut": [{"layer": "linear", "out": 4, "bias": false}]},
      {"layer": "linear", "out": 2})");
  std::set<std::string> names;
  for (const auto& parameter : plan.spec.parameters) names.insert(parameter.name);
  CHECK(names == std::set<std::string>{"0.weight", "0.bias", "2.0.weight", "2.0.bias", "2.1.weight",
                                       "2.1.bias", "2.shortcut.0.weight", "3.weight", "3.bias"});
}

TEST_CASE("layers become the steps that sets of layers compute at once") {
  using enum StepKind;
  const Plan small = plan_of(built_in("small-cnn", 10));
  CHECK(small.steps[0].kind == convolution_pool);
  CHECK(small.steps[0].pooled_to == PooledTo::map);
  CHECK(small.steps[1].pooled_to == PooledTo::features);
  CHECK(small.steps[1].out == ValueShape::rows(1, 4096));
  CHECK(small.steps.back().kind == head);
  CHECK(small.kept_result == 128);

  const Plan deep = plan_of(built_in("resnet50", 10));
  CHECK(deep.steps[0].kind == convolution_norm);
  CHECK(kinds(deep.steps[1].body) == std::vector{convolution_norm, convolution_norm, convolution_norm});
  CHECK(deep.steps[1].shortcut.size() == 1);
  CHECK(deep.steps[2].shortcut.empty());
  CHECK(deep.steps[4].body[1].convolution.stride == 2);  // of layer2.0, as torchvision's v1.5
  CHECK(deep.steps[4].body[0].convolution.stride == 1);
  CHECK(deep.largest_shortcut.elements() == std::size_t{256} * 32 * 32);
  CHECK(deep.steps[deep.steps.size() - 2].kind == average_pool);

  const Plan vit = plan_of(built_in("vit-tiny", 10));
  CHECK(vit.steps[0].kind == convolution);
  CHECK(vit.steps[0].convolution.padding == 0);
  CHECK(vit.steps[0].convolution.of_images);
  CHECK(vit.steps[2].in_place);  // positions
  CHECK(kinds(vit.steps[3].body) == std::vector{layer_norm, linear, attention, linear});
  CHECK(vit.steps[3].in_place);
  CHECK(vit.steps[3].body[2].in == ValueShape::rows(64, 576));
  CHECK(vit.steps[3].body[3].parameter == vit.steps[3].body[1].parameter + 2);
}

TEST_CASE("nothing is written where a dropout passes on what it reads") {
  const Plan plan =
      plan_of_text(kFeatures, R"({"layer": "residual", "body": [{"layer": "dropout"}, {"layer": "relu"}]},
      {"layer": "residual", "body": [{"layer": "dropout"}]}, {"layer": "dropout"}, {"layer": "relu"}, )" +
                                  kHead);
  CHECK_FALSE(plan.steps[0].body[1].in_place);
  CHECK_FALSE(plan.steps[1].in_place);
  CHECK(plan.steps[2].in_place);
  CHECK(plan.steps[3].in_place);
}

TEST_CASE("rows are written in place only where nobody else needs them") {
  const Plan plan = plan_of_text(kFeatures, R"({"layer": "dropout", "share": 0.1},
      {"layer": "linear", "out": 6}, {"layer": "relu"}, {"layer": "dropout"},
      {"layer": "residual", "body": [{"layer": "relu"}, {"layer": "linear", "out": 6}]},
      {"layer": "residual", "body": [{"layer": "linear", "out": 6}, {"layer": "relu"}]},
      {"layer": "residual", "body": [{"layer": "linear", "out": 6}, {"layer": "dropout"}]}, )" +
                                                kHead);
  CHECK_FALSE(plan.steps[0].in_place);  // the samples are the caller's
  const std::size_t dropout = plan.steps.size() - 5;
  CHECK(plan.steps[dropout].kind == StepKind::dropout);
  CHECK_FALSE(plan.steps[dropout].in_place);  // ReLU's backward reads its result
  CHECK(plan.steps[dropout].number == 1);
  CHECK_FALSE(plan.steps[dropout + 1].body[0].in_place);  // past the body goes what it reads
  CHECK(plan.steps[dropout + 1].in_place);
  CHECK_FALSE(plan.steps[dropout + 2].in_place);  // the sum may not overwrite what ReLU's backward reads
  CHECK(plan.steps[dropout + 3].body[1].in_place);
  CHECK_FALSE(plan.steps[dropout + 3].in_place);  // dropout's backward overwrites the gradient
  CHECK(plan.steps[dropout + 3].body[1].number == 2);
}

TEST_CASE("no step of a residual layer writes into the gradient that goes past it") {
  using enum StepKind;
  const std::string unit = R"({"layer": "linear", "out": 8}, {"layer": "relu"})";
  const auto body = [&](const std::string& last) {
    const std::string layers =
        R"({"layer": "residual", "body": [{"layer": "layer_norm"}, )" + unit + last + "]}, ";
    return kinds(plan_of_text(kFeatures, layers + kHead).steps[0].body);
  };
  CHECK(body("") == std::vector{layer_norm, linear, relu});
  CHECK(body(R"(, {"layer": "flatten"}, {"layer": "positions"})") ==
        std::vector{layer_norm, linear, relu, positions});
  CHECK(body(R"(, {"layer": "linear", "out": 8})") == std::vector{layer_norm, hidden, linear});
}

TEST_CASE("a list that cannot be computed is refused with the layer, what it gets and what it needs") {
  struct Case {
    std::string input;
    std::string layers;
    std::vector<std::string> words;
  };

  const auto convolution = [](const char* more) {
    return std::string(R"({"layer": "convolution", "name": "c", "out": 16)") + more + "}";
  };
  const std::string plain = convolution(R"(, "bias": false)");
  const std::string norm = R"({"layer": "batch_norm", "name": "bn"})";
  const std::string relu = R"({"layer": "relu", "name": "r"})";
  const std::string normed = plain + "," + norm + "," + relu + ",";
  const std::string pool = R"({"layer": "average_pool"})";
  const std::vector<Case> cases = {
      {kImages, "", {"no layers"}},
      {R"({"kind": "images", "side": 0})", kHead, {"input", "0 pixels"}},
      {kImages, kHead, {"\"head\" (linear)", "gets images of 3 x 32 x 32", "needs rows", "flatten"}},
      {kFeatures, R"({"layer": "linear"},)" + kHead, {"layer \"0\" (linear)", "out 0"}},
      {kFeatures, plain + "," + kHead, {"\"c\"", "one row of 8", "images or maps"}},
      {kFeatures, R"({"layer": "grey"},)" + kHead, {"(grey)", "needs images"}},
      {kFeatures, R"({"layer": "embedding", "out": 3, "vocabulary": 4},)" + kHead, {"numbers of tokens"}},
      {kFeatures, R"({"layer": "attention", "name": "a", "heads": 3},)" + kHead, {"\"a\"", "3 heads"}},
      {kFeatures, R"({"layer": "dropout", "share": 1},)" + kHead, {"share", "below 1"}},
      {kFeatures, R"({"layer": "relu"})", {"(relu)", "last layer"}},
      {kFeatures, R"({"layer": "linear", "name": "l", "out": 1})", {"\"l\"", "2 classes"}},
      {kFeatures, R"({"layer": "linear", "name": "l", "out": 3, "bias": false})", {"\"l\"", "has a bias"}},
      {kFeatures, R"({"layer": "residual", "name": "s", "body": []},)" + kHead, {"\"s\"", "no body"}},
      {kFeatures,
       R"({"layer": "residual", "name": "s", "body": [{"layer": "flatten"}]},)" + kHead,
       {"\"s\"", "computes nothing"}},
      {kFeatures,
       R"({"layer": "residual", "name": "s", "body": [{"layer": "linear", "out": 3}]},)" + kHead,
       {"\"s\"", "one row of 3", "one row of 8", "alike"}},
      {kFeatures,
       R"({"layer": "linear", "name": "x", "out": 3}, {"layer": "linear", "name": "x", "out": 3},)" + kHead,
       {"two parameters \"x.weight\""}},
      {kImages,
       plain + ",{\"layer\": \"tokens\"}," + kHead,
       {"1024 rows of 16", "needs one row", "token_mean"}},
      {kImages,
       convolution("") + "," + norm + "," + relu + "," + pool + "," + kHead,
       {"\"c\"", "\"bias\": false"}},
      {kImages, plain + "," + norm + "," + pool + "," + kHead, {"\"bn\"", "needs ReLU"}},
      {kImages, convolution("") + "," + relu + "," + pool + "," + kHead, {"\"r\" (relu)", "of maps"}},
      {kImages, convolution(R"(, "kernel": 40, "padding": 0)") + "," + pool + "," + kHead, {"40 pixels"}},
      {kImages, convolution(R"(, "padding": 3)") + "," + pool + "," + kHead, {"padding 3", "kernel, 3"}},
      {kImages,
       normed + R"({"layer": "batch_norm", "name": "again"},)" + pool + "," + kHead,
       {"\"again\"", "behind a convolution"}},
      {kImages,
       normed + R"({"layer": "max_pool", "name": "m", "kernel": 5},)" + pool + "," + kHead,
       {"\"m\""}},
      {kImages,
       normed + R"({"layer": "residual", "name": "b", "body": [)" + plain + "," + norm + "]}," + pool + "," +
           kHead,
       {"\"b\"", "needs ReLU behind it"}},
      {kImages,
       normed + R"({"layer": "residual", "name": "b", "body": [)" + plain + "]}," + relu + "," + pool + "," +
           kHead,
       {"\"b\"", "end with a convolution"}},
      {kImages,
       plain + R"(,{"layer": "residual", "name": "b", "body": [)" + plain + "," + norm + "]}," + relu + "," +
           pool + "," + kHead,
       {"\"b\"", "stands behind a batch norm"}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.layers);
    const std::string error = error_of([&] { plan_of_text(one.input, one.layers); });
    CAPTURE(error);
    CHECK(error.find("\"net\"") != std::string::npos);
    for (const std::string& word : one.words) CHECK(error.find(word) != std::string::npos);
  }
}

}  // namespace plan_test
