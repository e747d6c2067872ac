// SPDX-License-Identifier: Apache-2.0
// Lists of layers as text: what is read is what was written, and what is wrong is named.
#include "worker_sdk/nn/description.hpp"

#include "catch.hpp"
#include "tests/support/error_of.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/network.hpp"

#include <string>
#include <vector>

namespace description_test {

using namespace muster::nn;
using muster::test::error_of;

TEST_CASE("a network is the same after it was text") {
  for (const std::string& model : model_names()) {
    CAPTURE(model);
    const Description description = built_in(model, 17);
    CHECK(description_from(to_text(description)) == description);
  }
}

TEST_CASE("what a description leaves out has its default") {
  const Description read = description_from(
      R"({"name": "two", "input": {"kind": "features", "channels": 7}, "loss": "mse",
          "layers": [{"layer": "linear", "out": 5, "bias": false}, {"layer": "relu"},
                     {"layer": "residual", "name": "r", "body": [{"layer": "dropout", "share": 0.25}]},
                     {"layer": "linear", "name": "head", "out": 1}]})");
  CHECK(read.name == "two");
  CHECK(read.input.kind == InputKind::features);
  CHECK(read.input.channels == 7);
  CHECK(read.loss == Loss::mse);
  REQUIRE(read.layers.size() == 4);
  CHECK(read.layers[0].out == 5);
  CHECK_FALSE(read.layers[0].bias);
  CHECK(read.layers[1].kind == LayerKind::relu);
  REQUIRE(read.layers[2].body.size() == 1);
  CHECK(read.layers[2].body[0].share == 0.25);
  CHECK(read.layers[3].bias);
  const Input images = description_from(R"({"layers": []})").input;
  CHECK((images.kind == InputKind::images && images.channels == 3 && images.side == 32));
}

TEST_CASE("a wrong description is refused in a sentence that names the place") {
  struct Case {
    std::string text;
    std::vector<std::string> words;  // of the error
  };

  const auto layers = [](const std::string& list) { return "{\"layers\": [" + list + "]}"; };
  std::string deep = R"({"layer": "relu"})";
  for (int i = 0; i < 6; ++i) deep = R"({"layer": "residual", "body": [)" + deep + "]}";
  std::string many = R"({"layer": "relu"})";
  for (int i = 0; i < 13; ++i) many += "," + many;
  const std::vector<Case> cases = {
      {"", {"not JSON"}},
      {"{", {"not JSON"}},
      {"[]", {"no object"}},
      {"{}", {"no layers", "\"layers\""}},
      {R"({"layers": 3})", {"no list"}},
      {R"({"layers": [], "optimizer": "sgd"})", {"no field \"optimizer\"", "name input loss layers"}},
      {R"({"layers": [], "name": 3})", {"name", "not a text"}},
      {R"({"layers": [], "loss": "hinge"})", {"\"hinge\"", "cross_entropy, mse"}},
      {R"({"layers": [], "input": {"kind": "sound"}})", {"\"sound\"", "images, features, ids"}},
      {R"({"layers": [], "input": {"kind": "features", "side": 2}})", {"input", "no field \"side\""}},
      {layers("7"), {"layer 0", "does not say what it is"}},
      {layers(R"({"out": 3})"), {"layer 0", "does not say what it is"}},
      {layers(R"({"layer": "relu"}, {"layer": "Linear"})"), {"layer 1", "\"Linear\"", "linear, convolution"}},
      {layers(R"({"layer": "linear", "name": "fc1", "width": 3})"),
       {"layer 0 \"fc1\" (linear)", "no field \"width\"", "name out bias"}},
      {layers(R"({"layer": "linear", "out": 1.5})"), {"layer 0 (linear)", "out", "1.5", "whole number"}},
      {layers(R"({"layer": "linear", "out": -1})"), {"out", "-1"}},
      {layers(R"({"layer": "linear", "out": 3e12})"), {"out"}},
      {layers(R"({"layer": "linear", "out": 99999999999})"), {"out", "2^31"}},
      {layers(R"({"layer": "linear", "bias": 1})"), {"bias", "true or false"}},
      {layers(R"({"layer": "dropout", "share": "half"})"), {"share", "not a number"}},
      {layers(R"({"layer": "residual", "body": {}})"), {"layer 0 (residual)", "no list"}},
      {layers(R"({"layer": "residual", "body": [{"layer": "relu"}, {"layer": "pool"}]})"),
       {"layer 0.body.1", "\"pool\""}},
      {layers(deep), {"inside"}},
      {std::string(2000, '['), {"nested deeper"}},
      {layers(many), {"more than 4096 layers"}},
      {std::string((1 << 20) + 1, ' '), {"1 MiB"}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.text.substr(0, 200));
    const std::string error =
        error_of([&] { description_from(one.text); }, muster::ErrorCode::invalid_argument);
    CAPTURE(error);
    CHECK(error.find("description of a network") != std::string::npos);
    for (const std::string& word : one.words) CHECK(error.find(word) != std::string::npos);
  }
}

TEST_CASE("an unknown model, or one class, is refused with what there is") {
  CHECK(error_of([] { built_in("vgg", 10); }).find("resnet18-imagenet-stem") != std::string::npos);
  CHECK(error_of([] { built_in("mlp", 1); }).find("at least 2") != std::string::npos);
}

}  // namespace description_test
