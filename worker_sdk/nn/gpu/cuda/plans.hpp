// SPDX-License-Identifier: Apache-2.0
// How cuDNN computes one operation: descriptors of its backend, the plans that it proposes, which of them may
// be taken, and running them.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/nn/gpu/cuda/library.hpp"
#include "worker_sdk/nn/gpu/kernels/pack.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster::nn::gpu {

/// One descriptor of cuDNN's backend, destroyed with the object.
class Descriptor {
 public:
  Descriptor(const Library& api, cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t name, const Descriptor& value);
  void finalize(const char* what);

  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  const Library& api_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

/// The bytes that the address of each tensor is a multiple of.
inline constexpr std::int64_t kTensorAlignment = 16;

/// "bf16", "f16"; of 32-bit floats "tf32" where they may be rounded to that, else "f32".
const char* text_of(Element element, bool tf32);

/// `extents` and `strides`, in elements, are of one length.
void describe_tensor(Descriptor& tensor, std::int64_t id, Element element,
                     std::span<const std::int64_t> extents, std::span<const std::int64_t> strides);

/// The types of an operation's numbers.
struct Numbers {
  Element element = Element::f32;
  bool tf32 = false;  ///< 32-bit floats may be rounded to TF32
};

/// Whether a plan of cuDNN's with these notes may compute with such numbers: not one whose result differs
/// from run to run; for 32-bit floats, none that rounds them first, which those on tensor cores do (to TF32,
/// unless that is allowed). Pure.
bool is_wanted(const Numbers& numbers, std::span<const cudnnBackendNumericalNote_t> notes);

/// A plan that cuDNN proposes.
struct Proposal {
  std::int64_t engine = -1;                        ///< cuDNN's number of it
  std::vector<cudnnBackendNumericalNote_t> notes;  ///< what its engine does to numbers
  std::unique_ptr<Descriptor> plan;                ///< null where it does not fit
};

/// The tensors of an operation by their numbers, and where they lie.
struct TensorPlaces {
  std::array<std::int64_t, 3> ids;
  std::array<const void*, 3> places;
};

/// Plans on one stream with one workspace. One thread.
class Plans {
 public:
  using Plan = std::unique_ptr<Descriptor>;
  /// Names an operation, for an error.
  using Text = std::function<std::string()>;

  /// `autotune`: the fastest of the plans that heuristics propose, by measurement; else their first, which
  /// gives the same bits in every run on one kind of device. Calls use `workspace`.
  Plans(const Library& api, CUstream stream, void* workspace, std::size_t workspace_bytes, bool autotune);
  ~Plans();
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  /// The plan of an operation, once it was looked for.
  struct Chosen {
    Plan plan;                ///< null: there is none
    std::size_t refused = 0;  ///< plans before it that were made and then could not be executed
    bool works = false;       ///< whether it was executed, as those that were measured
  };

  /// Runs the Operation of a call by the plan of `chosen`, for which it looks the first time, when no step
  /// may be captured; where cuDNN cannot execute a plan that it has made, by the next one. False where there
  /// is none (left), or cuDNN does not take the description. Measuring runs it, too.
  template <typename Operation, typename Call>
  bool run(std::optional<Chosen>& chosen, const Call& call, const TensorPlaces& tensors,
           const Text& text) const {
    if (!chosen) chosen = Chosen{choose_for<Operation>(call, tensors, text, 0), 0, autotune_};
    while (chosen->plan && !works(*chosen, tensors, text)) {
      const std::size_t refused = chosen->refused + 1;
      chosen = Chosen{choose_for<Operation>(call, tensors, text, refused), refused};
    }
    return chosen->plan != nullptr;
  }

  void execute(const Descriptor& plan, const TensorPlaces& tensors, const Text& text) const;

  /// Every plan that cuDNN proposes for an operation, wanted or not, the best first.
  void each_proposed(cudnnBackendDescriptor_t operation,
                     const std::function<void(const Proposal&)>& look) const;

  const Library& api() const { return api_; }

 private:
  void free_all();

  template <typename Operation, typename Call>
  Plan choose_for(const Call& call, const TensorPlaces& tensors, const Text& text,
                  std::size_t refused) const {
    std::optional<Operation> operation;
    try {
      operation.emplace(api_, call);
    } catch (const Error&) {
      return nullptr;
    }
    return choose(operation->get(), {call.element, call.tf32}, tensors, text, refused);
  }

  bool works(Chosen& chosen, const TensorPlaces& tensors, const Text& text) const;
  bool is_refused(cudnnStatus_t result, const Text& text) const;
  cudnnStatus_t try_execute(const Descriptor& plan, const TensorPlaces& tensors) const;
  Plan graph_of(cudnnBackendDescriptor_t operation) const;
  Plan choose(cudnnBackendDescriptor_t operation, const Numbers& numbers, const TensorPlaces& tensors,
              const Text& text, std::size_t refused) const;
  std::vector<Plan> propose(const Descriptor& graph, cudnnBackendHeurMode_t mode) const;
  Plan make_plan(cudnnBackendDescriptor_t config, const Numbers& numbers) const;
  Plan make_plan(cudnnBackendDescriptor_t config) const;
  float milliseconds(const Descriptor& plan, const TensorPlaces& tensors, const Text& text) const;

  const Library& api_;
  const CUstream stream_;
  void* const workspace_;
  const std::size_t workspace_bytes_;
  const bool autotune_;
  cudnnHandle_t handle_ = nullptr;
  CUevent begin_ = nullptr;
  CUevent end_ = nullptr;
};

}  // namespace muster::nn::gpu
