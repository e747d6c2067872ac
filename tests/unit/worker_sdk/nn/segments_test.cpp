// SPDX-License-Identifier: Apache-2.0
// Activations that are computed again: where networks are cut, the law of memory, the same bits as without.
#include "worker_sdk/nn/segments.hpp"

#include "catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/worker_sdk/nn/model.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/models/make_network.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace muster::nn {
namespace {

using test::error_of;
using test::Model;
using test::Tensors;

using Firsts = std::vector<std::size_t>;

const std::vector<std::string> kWords = {"block", "sqrt", "2", "4"};

Firsts cut_of(const std::string& model, const std::string& word) {
  return segments_of(plan_of(built_in(model, 10)), checkpoints_of(word));
}

NetworkOptions with(const std::string& word) {
  NetworkOptions options;
  options.activation_checkpoints = checkpoints_of(word);
  return options;
}

/// Batch norm, dropout and every kind of residual layer, ten steps of which nine may begin a segment.
Description mixed() {
  const std::string relu = R"(, {"layer": "relu"}, )";
  return description_from(R"({"name": "mixed", "input": {"kind": "images", "side": 8}, "layers": [)" +
                          test::normed(16, 3, 1) + relu + R"({"layer": "residual", "body": [)" +
                          test::normed(16, 3, 1) + "]}" + relu + R"({"layer": "residual", "body": [)" +
                          test::normed(32, 3, 2) + R"(], "shortcut": [)" + test::normed(32, 1, 2) + "]}" +
                          relu + R"({"layer": "residual", "body": [)" + test::normed(32, 3, 1) + "]}" + relu +
                          R"({"layer": "average_pool"}, {"layer": "linear", "out": 24}, {"layer": "relu"},
      {"layer": "dropout", "share": 0.3},
      {"layer": "residual", "body": [{"layer": "layer_norm"}, {"layer": "linear", "out": 24},
                                     {"layer": "dropout"}]},
      {"layer": "linear", "out": 5}]})");
}

/// The gradients of three steps of SGD, an evaluation of a smaller batch behind the second, and all values
/// and running statistics at the end.
struct Steps {
  std::vector<Tensors> gradients;
  Tensors values, buffers;
  std::vector<std::size_t> order;
};

Steps three_steps(const Description& description, const NetworkOptions& options) {
  Model model(description, 2, options);
  Steps steps;
  for (std::uint64_t number = 0; number < 3; ++number) {
    model.network->set_draws({5, number, 0, 0});
    model.loss();
    steps.order = model.backward();
    steps.gradients.push_back(model.gradients);
    for (std::size_t i = 0; i < model.values.size(); ++i)
      for (std::size_t k = 0; k < model.values[i].size(); ++k)
        model.values[i][k] -= 0.01F * model.gradients[i][k];
    if (number != 1) continue;
    model.network->parameters_changed();
    model.network->forward(model.images.data(), 1, Mode::evaluate);
  }
  steps.values = model.values;
  steps.buffers = model.buffers;
  return steps;
}

std::size_t sum_of(const std::vector<StepMemory>& steps) {
  std::size_t sum = 0;
  for (const StepMemory& step : steps) sum += step.bytes_per_sample;
  return sum;
}

/// Counts what is exchanged, of ranks that all have the same.
class Counting final : public StatisticsExchange {
 public:
  void sum(std::span<double> values) override {
    counts.push_back(values.size());
    for (double& value : values) value *= 2;
  }

  std::vector<std::size_t> counts;
};

}  // namespace

TEST_CASE("segments are words or numbers, and no more than there are steps to begin them") {
  CHECK(cut_of("vit-tiny", "none") == Firsts{0});
  CHECK(cut_of("vit-tiny", "1") == Firsts{0});
  for (const char* const word : {"", "0", "-1", "3x", " 3", "2.5", "all", "99999999999999999999"})
    CHECK(contains(error_of([&] { checkpoints_of(word); }), "give none, block, sqrt or a number from 1"));
  CHECK(contains(error_of([] { activation_checkpoints("5", "small-cnn"); }),
                 "\"small-cnn\" cannot be cut into 5 segments; give a number from 1 to 4"));
  CHECK(contains(error_of([] { make_network("small-cnn", with("5")); }), "from 1 to 4"));
  CHECK(activation_checkpoints("4", "small-cnn").segments == 4);
}

TEST_CASE("a block is a residual layer, or another one with parameters") {
  CHECK(cut_of("small-cnn", "block") == Firsts{0, 1, 2, 3});
  CHECK(cut_of("resnet18", "block") == Firsts{0, 1, 2, 3, 4, 5, 6, 7, 8, 10});  // the pool: with layer4.1
  CHECK(cut_of("mlp-8", "block") == Firsts{0, 2, 4, 6, 8, 10, 12, 14, 16});     // ReLU: in place
  CHECK(cut_of("vit-tiny", "block") == Firsts{0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17});
}

TEST_CASE("segments are as many as wanted, and the largest is as small as can be") {
  CHECK(cut_of("small-cnn", "sqrt").size() == 2);
  CHECK(cut_of("resnet18", "sqrt").size() == 3);
  CHECK(cut_of("vit-tiny", "sqrt").size() == 4);
  // Nine equal values and one of ten numbers: three in a segment.
  CHECK(cut_of("mlp-8", "3") == Firsts{0, 4, 10});
  // Each half of a layer is held by a segment.
  CHECK(cut_of("vit-tiny", "2") == Firsts{0, 9});
  const Plan plan = plan_of(mixed());
  for (std::size_t count = 1; count <= 9; ++count) {
    const Firsts firsts = segments_of(plan, {ActivationCheckpoints::Kind::count, count});
    CHECK(firsts.size() == count);
    CHECK(firsts.front() == 0);
    CHECK(std::is_sorted(firsts.begin(), firsts.end()));
    CHECK(std::adjacent_find(firsts.begin(), firsts.end()) == firsts.end());
  }
  CHECK_THROWS(segments_of(plan, {ActivationCheckpoints::Kind::count, 10}));
  CHECK_THROWS(segments_of(plan, {ActivationCheckpoints::Kind::count, 0}));
}

TEST_CASE("memory is what segments read, and what the largest one holds") {
  const std::vector<StepMemory> held = {{"a", 10}, {"b", 20}, {"c", 25}, {"d", 5}, {"e", 7}};
  const auto shares = [&](const Firsts& segments, const Firsts& read) {
    Firsts bytes;
    for (const StepMemory& step : share_memory(held, segments, read)) bytes.push_back(step.bytes_per_sample);
    return bytes;
  };
  CHECK(shares({0}, {99}) == Firsts{10, 20, 25, 5, 7});
  CHECK(shares({0, 2, 4}, {99, 3, 4}) == Firsts{10, 20, 3, 0, 4});  // the first of two equal ones
  CHECK(shares({0, 1, 4}, {99, 2, 4}) == Firsts{0, 22, 25, 5, 4});
}

TEST_CASE("a network in segments holds what the law says") {
  constexpr std::int64_t kBatch = 8;
  const auto bytes_read = [](const PlannedStep& step) { return step.in.elements() * sizeof(float); };
  for (const char* const name : {"resnet18", "small-cnn", "mlp-8", "vit-tiny"}) {
    const Plan plan = plan_of(built_in(name, 10));
    const auto whole = make_network(name, {});
    for (const std::string& word : kWords) {
      CAPTURE(name, word);
      const Firsts segments = segments_of(plan, checkpoints_of(word));
      Firsts read;
      for (const std::size_t first : segments) read.push_back(bytes_read(plan.steps[first]));
      const auto law = share_memory(whole->memory_by_step(), segments, read);
      const auto network = make_network(name, with(word));
      const auto steps = network->memory_by_step();
      REQUIRE(steps.size() == law.size());
      for (std::size_t i = 0; i < steps.size(); ++i) {
        CHECK(steps[i].name == law[i].name);
        CHECK(steps[i].bytes_per_sample == law[i].bytes_per_sample);
      }
      CHECK((sum_of(steps) < sum_of(whole->memory_by_step()) ||
             (name == std::string("mlp-8") && word == "block")));  // keeps what each layer reads, as without
      CHECK(network->memory().workspace == whole->memory().workspace);
    }
  }
  // The room, at the batch that it has met: whole pages more.
  Model whole("vit-tiny", kBatch);
  Model cut("vit-tiny", kBatch, with("sqrt"));
  for (Model* model : {&whole, &cut}) model->one_step();
  const std::size_t wanted = kBatch * sum_of(cut.network->memory_by_step());
  CHECK(cut.network->memory().activations >= wanted);
  CHECK(cut.network->memory().activations < wanted + (std::size_t{3} << 20));
  CHECK(cut.network->memory().activations * 2 < whole.network->memory().activations);
  CHECK(cut.network->memory().workspace == whole.network->memory().workspace);
}

TEST_CASE("what is computed again has the same bits") {
  std::vector<Description> descriptions = {built_in("small-cnn", 10), built_in("mlp-8", 10),
                                           built_in("vit-tiny", 10), mixed()};
#ifndef MUSTER_SANITIZED
  descriptions.push_back(built_in("resnet18", 10));
#endif
  for (const Description& description : descriptions) {
    const Steps wanted = three_steps(description, {});
    for (const std::string& word : kWords) {
      CAPTURE(description.name, word);
      const Steps got = three_steps(description, with(word));
      CHECK(got.gradients == wanted.gradients);
      CHECK(got.values == wanted.values);
      CHECK(got.buffers == wanted.buffers);
      CHECK(got.order == wanted.order);
    }
  }
}

TEST_CASE("any list of layers may be cut wherever it can be") {
  std::vector<Description> descriptions = test::small_lists();
  descriptions.push_back(mixed());
  // Positions that are not in place, and whose gradient is where that of their result is.
  descriptions.push_back(
      description_from(R"({"name": "positions", "input": {"kind": "features", "channels": 24}, "layers": [
      {"layer": "linear", "out": 16}, {"layer": "relu"}, {"layer": "positions"}, {"layer": "linear", "out": 16},
      {"layer": "gelu"}, {"layer": "linear", "out": 3}]})"));
  for (const Description& description : descriptions) {
    const Steps wanted = three_steps(description, {});
    const Plan plan = plan_of(description);
    for (std::size_t count = 1; count <= plan.steps.size(); ++count) {
      CAPTURE(description.name, count);
      NetworkOptions options;
      options.activation_checkpoints = {ActivationCheckpoints::Kind::count, count};
      const std::string refused = error_of([&] { (void)segments_of(plan, options.activation_checkpoints); });
      if (!refused.empty()) {
        CHECK(contains(refused, "give a number from 1 to"));
        break;
      }
      const Steps got = three_steps(description, options);
      CHECK(got.gradients == wanted.gradients);
      CHECK(got.values == wanted.values);
      CHECK(got.buffers == wanted.buffers);
    }
  }
}

TEST_CASE("ranks exchange statistics once, also one without images") {
  const auto exchanged = [](const std::string& word, std::int64_t batch) {
    Counting exchange;
    NetworkOptions options = with(word);
    options.sync_batch_norm = &exchange;
    Model model(mixed(), batch, options);
    model.loss();
    model.backward();
    CHECK((batch > 0 || model.gradients.front() == std::vector<float>(model.gradients.front().size())));
    return exchange.counts;
  };
  const auto wanted = exchanged("none", 3);
  CHECK(wanted.size() == 2 * 5);
  for (const std::string& word : kWords)
    for (const std::int64_t batch : {3, 0}) CHECK(exchanged(word, batch) == wanted);
}

TEST_CASE("a segment reads no parameter whose gradient is ready") {
  for (const std::string& word : kWords) {
    Model model(mixed(), 3, with(word));
    model.loss();
    Tensors seen(model.values.size());
    model.backward([&](std::size_t i) {
      seen[i] = model.gradients[i];
      std::fill(model.values[i].begin(), model.values[i].end(), std::numeric_limits<float>::quiet_NaN());
    });
    CHECK(seen == model.gradients);
    Model wanted(mixed(), 3);
    CHECK(seen == wanted.one_step());
  }
}

TEST_CASE("the layer where a number is lost is named in whatever segment it is") {
  for (const std::string& word : kWords)
    for (const auto& [parameter, layer] : {std::pair<std::size_t, std::string>{2, "conv2"}, {6, "fc2"}}) {
      CAPTURE(word, layer);
      Model model("small-cnn", 2, with(word));
      const double loss = model.loss();
      CHECK(model.network->first_not_finite().empty());
      CHECK(model.loss() == loss);
      model.values[parameter][0] = std::numeric_limits<float>::quiet_NaN();
      model.loss();
      CHECK(model.network->first_not_finite() == layer);
    }
}

}  // namespace muster::nn
