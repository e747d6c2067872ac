// SPDX-License-Identifier: Apache-2.0
// Breaks each rule that the fake of cuDNN has for products of matrices, and for its start, to see that it
// notices.
#include "tests/fakes/cuda/on_device.hpp"

#include <cudnn_graph.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace {

using Numbers = std::vector<std::int64_t>;

/// A descriptor of the backend.
class Made {
 public:
  explicit Made(cudnnBackendDescriptorType_t type) {
    REQUIRE(cudnnBackendCreateDescriptor(type, &own_) == CUDNN_STATUS_SUCCESS);
  }

  ~Made() { (void)cudnnBackendDestroyDescriptor(own_); }

  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;

  Made& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
            const void* values) {
    REQUIRE(cudnnBackendSetAttribute(own_, name, type, count, values) == CUDNN_STATUS_SUCCESS);
    return *this;
  }

  Made& set(cudnnBackendAttributeName_t name, const Numbers& numbers) {
    return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(numbers.size()), numbers.data());
  }

  Made& set(cudnnBackendAttributeName_t name, const Made& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.own_);
  }

  cudnnStatus_t finalize() { return cudnnBackendFinalize(own_); }

  cudnnBackendDescriptor_t get() const { return own_; }

 private:
  cudnnBackendDescriptor_t own_ = nullptr;
};

/// A tensor that is described, and not yet finalized.
class Tensor : public Made {
 public:
  Tensor(const Numbers& extents, const Numbers& strides, cudnnDataType_t type = CUDNN_DATA_BFLOAT16)
      : Made(CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
    set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {1});
    set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {16});
    set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(CUDNN_ATTR_TENSOR_DIMENSIONS, extents);
    set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  }
};

/// c = a * b, whose tensors are finalized.
class Product : public Made {
 public:
  Product(Tensor& a, Tensor& b, Tensor& c, cudnnDataType_t sums = CUDNN_DATA_FLOAT)
      : Made(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR), multiplication_(CUDNN_BACKEND_MATMUL_DESCRIPTOR) {
    for (Tensor* tensor : {&a, &b, &c}) REQUIRE(tensor->finalize() == CUDNN_STATUS_SUCCESS);
    multiplication_.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    sums_ = multiplication_.finalize();
    set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set(CUDNN_ATTR_OPERATION_MATMUL_DESC, multiplication_);
  }

  cudnnStatus_t sums() const { return sums_; }

 private:
  Made multiplication_;
  cudnnStatus_t sums_ = CUDNN_STATUS_SUCCESS;
};

/// The notes of the engines that have a plan for a product.
std::vector<std::vector<cudnnBackendNumericalNote_t>> plans(const Product& product) {
  Made graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, product);
  REQUIRE(graph.finalize() == CUDNN_STATUS_SUCCESS);
  Made heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  REQUIRE(heuristics.finalize() == CUDNN_STATUS_SUCCESS);
  std::vector<std::unique_ptr<Made>> configs;
  std::vector<cudnnBackendDescriptor_t> places;
  for (int i = 0; i < 10; ++i) {
    configs.push_back(std::make_unique<Made>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    places.push_back(configs.back()->get());
  }
  std::int64_t count = 0;
  REQUIRE(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 10, &count,
                                   places.data()) == CUDNN_STATUS_SUCCESS);
  std::vector<std::vector<cudnnBackendNumericalNote_t>> result;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    Made plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *configs[i]);
    if (plan.finalize() != CUDNN_STATUS_SUCCESS) continue;
    const Made engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t place = engine.get();
    std::array<cudnnBackendNumericalNote_t, 8> notes{};
    std::int64_t found = 0;
    REQUIRE(cudnnBackendGetAttribute(places[i], CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                     &found, &place) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnBackendGetAttribute(place, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 8,
                                     &found, notes.data()) == CUDNN_STATUS_SUCCESS);
    result.emplace_back(notes.begin(), notes.begin() + found);
  }
  return result;
}

}  // namespace

TEST_CASE("rule: matrices are batches x rows x columns, of which rows or columns lie side by side") {
  CHECK(Tensor({2, 8, 16}, {128, 16, 1}).finalize() == CUDNN_STATUS_SUCCESS);
  CHECK(Tensor({2, 8, 16}, {128, 1, 8}).finalize() == CUDNN_STATUS_SUCCESS);
  CHECK(Tensor({8, 16}, {16, 1}).finalize() == CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  CHECK(Tensor({2, 8, 16}, {512, 32, 2}).finalize() == CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  CHECK(Tensor({2, 0, 16}, {128, 16, 1}).finalize() == CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
  CHECK(Tensor({2, 8, 16}, {16, 1}).finalize() == CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
}

TEST_CASE("rule: extents, batches and types of a product fit, and its sums are floats") {
  Tensor a({2, 8, 16}, {128, 16, 1});
  Tensor b({1, 16, 24}, {384, 24, 1});
  Tensor c({2, 8, 24}, {192, 24, 1}, CUDNN_DATA_FLOAT);
  CHECK(Product(a, b, c).finalize() == CUDNN_STATUS_SUCCESS);
  CHECK(Product(a, b, c, CUDNN_DATA_HALF).sums() == CUDNN_STATUS_NOT_SUPPORTED);
  Tensor shorter({1, 8, 24}, {192, 24, 1});
  CHECK(Product(a, shorter, c).finalize() == CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  Tensor three({3, 16, 24}, {384, 24, 1});
  CHECK(Product(a, three, c).finalize() == CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  Tensor floats({1, 16, 24}, {384, 24, 1}, CUDNN_DATA_FLOAT);
  CHECK(Product(a, floats, c).finalize() == CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  Tensor map({2, 8, 4, 4}, {128, 1, 32, 8});
  CHECK(Product(map, b, c).finalize() == CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_CASE("rule: not every engine for products of floats has a note of its tensor cores") {
  Tensor a({1, 8, 8}, {64, 8, 1}, CUDNN_DATA_FLOAT);
  Tensor b({1, 8, 8}, {64, 1, 8}, CUDNN_DATA_FLOAT);
  Tensor c({1, 8, 8}, {64, 8, 1}, CUDNN_DATA_FLOAT);
  Product product(a, b, c);
  REQUIRE(product.finalize() == CUDNN_STATUS_SUCCESS);
  const auto notes = plans(product);
  CHECK(std::any_of(notes.begin(), notes.end(), [](const auto& note) { return note.empty(); }));
}

TEST_CASE("rule: engines for products move sixteen bytes at once") {
  const std::int64_t row = GENERATE(16, 20, 24);
  Tensor a({1, 8, 16}, {8 * row, row, 1});
  Tensor b({1, 16, 8}, {128, 8, 1});
  Tensor c({1, 8, 8}, {64, 8, 1});
  Product product(a, b, c);
  REQUIRE(product.finalize() == CUDNN_STATUS_SUCCESS);
  CHECK(plans(product).empty() == (row == 20));
}

TEST_CASE("rule: cuDNN starts in a context, under a driver of the major version that it is made for") {
  muster::test::OnDevice fakes;
  cudnnHandle_t handle = nullptr;
  std::thread([&] { CHECK(cudnnCreate(&handle) == CUDNN_STATUS_NOT_INITIALIZED); }).join();
  fakes.set("FAKE_CUDA_DRIVER", "12090");
  CHECK(cudnnGetCudartVersion() == 13000);
  CHECK(cudnnCreate(&handle) == CUDNN_STATUS_NOT_INITIALIZED);
  fakes.set("FAKE_CUDNN_CUDART", "12090");
  REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS);
}
