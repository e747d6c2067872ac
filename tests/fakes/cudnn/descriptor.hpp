// SPDX-License-Identifier: Apache-2.0
// A cuDNN of convolutions and products of matrices alone, without a GPU, for tests: libcudnn.so.9 as far as
// descriptors of the backend go (compiled against the real header). Both are computed by definition, in the
// process of the device (tests/fakes/cuda). FAKE_CUDNN_VERSION is what it says of itself (91900), and
// FAKE_CUDNN_CUDART the CUDA that it was made for (13000), which the driver must know by its major number;
// FAKE_CUDNN_PLANS tells what the heuristics give: "none", "fallback" (nothing in mode A), "broken" (mode A
// does not finalize, either), "refuse" (of mode A only the last one can be executed), "refuse all", or unset,
// the list of engines().
#pragma once

#include "tests/fakes/cuda/device/protocol.hpp"
#include "tests/fakes/cuda/fake_cuda.hpp"

#include <cudnn_graph.h>

#include <cstdint>
#include <map>
#include <variant>
#include <vector>

namespace fake::cudnn {

/// As far off as TF32 may be.
inline constexpr float kTf32 = 1.0004F;

/// An engine of the fake. Those that must not be taken give results that are wrong by a factor.
struct Engine {
  bool finalizes = true;
  std::int64_t workspace = 0;
  float factor = 1;
  float factor_f32 = 1;  ///< in 32-bit floats besides
  std::vector<cudnnBackendNumericalNote_t> notes;
};

/// In the order in which the heuristics name them.
const std::vector<Engine>& engines();
/// Where those for the fallback mode begin.
std::size_t first_fallback();

struct Values {
  cudnnBackendAttributeType_t type;
  std::int64_t count;
  std::vector<std::byte> bytes;
};

/// What a plan knows of a tensor.
struct Tensor {
  std::int64_t id = 0;
  std::int64_t alignment = 1;
  std::size_t bytes = 0;
};

/// Any descriptor: what was set, by name.
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Values> values;
  std::size_t engine = 0;       ///< of an engine, its config, and a plan
  Descriptor* graph = nullptr;  ///< of a config: what it is for
  /// Of a plan, which outlives the graph that it was made for.
  std::variant<Convolution, Product> shape;
  std::vector<Tensor> tensors;  ///< of a plan: x, w and y, or a, b and c

  bool has(cudnnBackendAttributeName_t name) const { return values.contains(name); }

  /// Of an attribute that has_all() found to be there.
  template <typename T>
  const T* get(cudnnBackendAttributeName_t name) const {
    return reinterpret_cast<const T*>(values.at(name).bytes.data());
  }

  Descriptor* child(cudnnBackendAttributeName_t name) const {
    return static_cast<Descriptor*>(*get<cudnnBackendDescriptor_t>(name));
  }
};

/// What is wrong with a descriptor that is to be finalized.
cudnnStatus_t check(const Descriptor& descriptor);

/// Of a tensor: images, channels, height, width; of weights: outputs, inputs, height, width; of matrices:
/// batches, rows, columns.
std::int64_t extent(const Descriptor& tensor, std::size_t place);
std::int64_t stride(const Descriptor& tensor, std::size_t place);
std::size_t rank(const Descriptor& tensor);
Element element_of(const Descriptor& tensor);

/// The three tensors and the convolution of an operation, whatever its direction.
struct Operation {
  const Descriptor* x;
  const Descriptor* w;
  const Descriptor* y;
  const Descriptor* convolution;
};

Operation parts_of(const Descriptor& operation);

/// The matrices of a product c = a * b.
struct ProductParts {
  const Descriptor* a;
  const Descriptor* b;
  const Descriptor* c;
};

ProductParts product_parts_of(const Descriptor& operation);

}  // namespace fake::cudnn

struct cudnnContext {
  int device = 0;
  CUstream stream = nullptr;
};
