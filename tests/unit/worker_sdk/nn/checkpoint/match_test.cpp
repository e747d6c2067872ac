// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/match.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/checkpoint/folder.hpp"

using namespace muster::checkpoint;
using muster::test::error_of;
using muster::test::Folder;

namespace {

/// A file with tensors of one value each, and a model that they are to fill.
struct Case {
  void add_to_file(const std::string& name, const Shape& shape, Type type = Type::f32) {
    tensors.push_back({name, type, shape, sevens.data()});
  }

  void add_to_model(const std::string& name, const Shape& shape) {
    values.emplace_back(*elements_of(shape), 1.0F);
    model.push_back({name, shape, nullptr});
  }

  TensorFiles file() {
    for (std::size_t i = 0; i < model.size(); ++i) model[i].values = values[i].data();
    write_safetensors(folder / "weights", tensors, {});
    return SafetensorsFile(folder / "weights");
  }

  /// Nothing was written to the model.
  bool untouched() const {
    for (const auto& tensor : values)
      if (tensor != std::vector<float>(tensor.size(), 1.0F)) return false;
    return true;
  }

  Folder folder;
  std::vector<float> sevens = std::vector<float>(4096, 7.0F);
  std::vector<TensorView> tensors;
  std::vector<std::vector<float>> values;
  std::vector<Destination> model;
};

/// conv1, a batch norm and a classifier, as torchvision saves them with 1000 classes; here with 10.
void make_transfer(Case& c) {
  c.add_to_file("conv1.weight", {4, 3, 3, 3});
  c.add_to_file("bn1.running_mean", {4});
  c.add_to_file("bn1.num_batches_tracked", {}, Type::i64);
  c.add_to_file("fc.weight", {1000, 4});
  c.add_to_file("fc.bias", {1000});
  c.add_to_model("conv1.weight", {4, 3, 3, 3});
  c.add_to_model("bn1.running_mean", {4});
  c.add_to_model("fc.weight", {10, 4});
  c.add_to_model("fc.bias", {10});
}

}  // namespace

TEST_CASE("Weights of another training come in by name, the head starts anew") {
  Case c;
  make_transfer(c);
  CHECK_THAT(
      init_from(c.file(), c.model, "fc."),
      StartsWith("2 tensors from ") &&
          EndsWith("; fc.weight [10, 4] starts anew, the file has [1000, 4]; fc.bias [10] starts anew, the "
                   "file has [1000]"));
  CHECK(c.values[0] == std::vector<float>(4 * 27, 7.0F));
  CHECK(c.values[1] == std::vector<float>(4, 7.0F));
  CHECK(c.values[2] == std::vector<float>(40, 1.0F));
}

TEST_CASE("A head with the same classes is taken, too") {
  Case c;
  c.add_to_file("fc.weight", {10, 4});
  c.add_to_model("fc.weight", {10, 4});
  CHECK_THAT(init_from(c.file(), c.model, "fc."), StartsWith("1 tensors from "));
  CHECK(c.values[0][0] == 7.0F);
}

TEST_CASE("Weights of another model: every difference is named, nothing is written") {
  Case c;
  make_transfer(c);
  c.add_to_file("layer9.weight", {2, 2});
  c.add_to_file("whole", {4}, Type::i32);
  c.add_to_model("whole", {4});
  c.add_to_model("layer1.weight", {3, 3});
  c.add_to_file("bn2.weight", {8});
  c.add_to_model("bn2.weight", {16});
  c.add_to_file("fc.scale", {10, 5});
  c.add_to_model("fc.scale", {10, 4});
  const TensorFiles file = c.file();
  const std::string text = error_of([&] { init_from(file, c.model, "fc."); });
  CHECK_THAT(text, Contains("whole [4] is I32 in the file"));
  CHECK_THAT(text, Contains("layer1.weight [3, 3] is missing"));
  CHECK_THAT(text, Contains("bn2.weight [16] is [8] in the file"));
  CHECK_THAT(text, Contains("fc.scale [10, 4] is [10, 5] in the file"));
  CHECK_THAT(text, Contains("the file has layer9.weight [2, 2], which the model lacks"));
  CHECK(text.find("num_batches_tracked") == std::string::npos);
  CHECK(c.untouched());
}

TEST_CASE("A long list of differences is whole") {
  Case c;
  std::string wanted = "/weights are of another model: ";
  for (int i = 0; i < 300; ++i) {
    c.add_to_model("p" + std::to_string(i), {1});
    wanted += "p" + std::to_string(i) + " [1] is missing; ";
  }
  const TensorFiles file = c.file();
  CHECK_THAT(error_of([&] { init_from(file, c.model, ""); }),
             Contains(wanted + "give weights of this model, or train that one"));
}

TEST_CASE("restore() names the first tensor that differs, and both shapes") {
  Case c;
  c.add_to_file("conv1.weight", {4, 3});
  c.add_to_file("conv2.weight", {5});
  c.add_to_model("conv1.weight", {4, 3});
  SECTION("as saved") {
    c.add_to_model("conv2.weight", {5});
    restore(c.file(), c.model);
    CHECK(c.values[1] == std::vector<float>(5, 7.0F));
    return;
  }
  SECTION("another shape") {
    c.add_to_model("conv2.weight", {6});
    c.add_to_model("conv3.weight", {6});
    const TensorFiles file = c.file();
    CHECK_THAT(error_of([&] { restore(file, c.model); }),
               Contains("has conv2.weight [5], this run has [6] (the first difference)"));
  }
  SECTION("one more") {
    c.add_to_model("conv2.weight", {5});
    c.add_to_model("conv3.weight", {6});
    const TensorFiles file = c.file();
    CHECK_THAT(error_of([&] { restore(file, c.model); }), Contains("lacks conv3.weight [6]"));
  }
  SECTION("one less") {
    const TensorFiles file = c.file();
    CHECK_THAT(error_of([&] { restore(file, c.model); }), Contains("has conv2.weight [5], which is no part"));
  }
  SECTION("another type") {
    c.tensors[1].type = Type::bf16;
    c.add_to_model("conv2.weight", {5});
    const TensorFiles file = c.file();
    CHECK_THAT(error_of([&] { restore(file, c.model); }), Contains("conv2.weight as BF16, not as F32"));
  }
  CHECK(c.untouched());
}

TEST_CASE("The head is the layer of the last parameter") {
  CHECK(layer_of("fc.weight") == "fc.");
  CHECK(layer_of("layer1.0.bn1.bias") == "layer1.0.bn1.");
  CHECK(layer_of("weight").empty());
}
