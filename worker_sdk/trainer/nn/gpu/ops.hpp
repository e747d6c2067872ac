// SPDX-License-Identifier: Apache-2.0
// What a network needs of a device, as an interface: memory, kernels, convolutions, a second stream. The CUDA
// one is in nn/gpu/cuda; tests have one that does everything on the host.
#pragma once

#include "worker_sdk/trainer/nn/gpu/kernels/arena_sums.hpp"
#include "worker_sdk/trainer/nn/gpu/kernels/batch_norm.hpp"
#include "worker_sdk/trainer/nn/gpu/kernels/channel_sums.hpp"
#include "worker_sdk/trainer/nn/gpu/kernels/gather.hpp"
#include "worker_sdk/trainer/nn/gpu/kernels/half_wire.hpp"
#include "worker_sdk/trainer/nn/gpu/kernels/loss.hpp"
#include "worker_sdk/trainer/nn/gpu/kernels/optimizer.hpp"
#include "worker_sdk/trainer/nn/gpu/kernels/pool.hpp"
#include "worker_sdk/trainer/nn/gpu/kernels/weights.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace muster::nn::gpu {

/// Every kernel with its name in the compiled object.
#define MUSTER_GPU_KERNELS_OF(X, T, suffix)             \
  X(NormMoments<T>, moments_##suffix)                   \
  X(NormStatistics<T>, norm_statistics_##suffix)        \
  X(ScaleAddRelu<T>, scale_add_relu_##suffix)           \
  X(NormGradientSums<T>, norm_gradient_sums_##suffix)   \
  X(GradientSums<T>, gradient_sums_##suffix)            \
  X(NormBackward<T>, norm_backward_##suffix)            \
  X(MaxPool<T>, max_pool_##suffix)                      \
  X(MaxPoolBackward<T>, max_pool_backward_##suffix)     \
  X(AveragePool<T>, average_pool_##suffix)              \
  X(AveragePoolBackward<T>, average_pool_back_##suffix) \
  X(Gather<T>, gather_##suffix)                         \
  X(FinishLogits<T>, finish_logits_##suffix)            \
  X(PadGradient<T>, pad_gradient_##suffix)              \
  X(PackWeights<T>, pack_weights_##suffix)              \
  X(UnpackGradient<T>, unpack_gradient_##suffix)

#define MUSTER_GPU_KERNELS(X)          \
  MUSTER_GPU_KERNELS_OF(X, float, f32) \
  MUSTER_GPU_KERNELS_OF(X, Bf16, bf16) \
  X(NormRunning, norm_running)         \
  X(NormGradients, norm_gradients)     \
  X(BiasGradient, bias_gradient)       \
  X(CrossEntropy, cross_entropy)       \
  X(AddScore, add_score)               \
  X(SetValues, set_values)             \
  X(SetSamples, set_samples)           \
  X(SetTally, set_tally)               \
  X(AddGradients, add_gradients)       \
  X(SquareSums, square_sums)           \
  X(ClipFactor, clip_factor)           \
  X(MoveAverage, move_average)         \
  X(SwapArenas, swap_arenas)           \
  X(PackHalf, pack_half)               \
  X(SumHalf, sum_half)                 \
  X(UnpackHalf, unpack_half)           \
  X(SgdStep, sgd_step)                 \
  X(AdamStep, adam_step)

/// The place of every kernel in that list, and how many there are.
enum class KernelNumber : std::uint32_t {
#define MUSTER_GPU_NUMBER(Kernel, name) name,
  MUSTER_GPU_KERNELS(MUSTER_GPU_NUMBER)
#undef MUSTER_GPU_NUMBER
      count
};

/// The number of a kernel by its type.
#define MUSTER_GPU_NUMBER_OF(Kernel, name)                           \
  constexpr KernelNumber kernel_number(std::type_identity<Kernel>) { \
    return KernelNumber::name;                                       \
  }
MUSTER_GPU_KERNELS(MUSTER_GPU_NUMBER_OF)
#undef MUSTER_GPU_NUMBER_OF

enum class Direction : std::uint8_t { forward, input_gradient, weight_gradient };

/// Square images and windows; channels are multiples of eight.
struct ConvolutionShape {
  int in = 0;
  int out = 0;
  int side = 0;  ///< height and width of the input
  int kernel = 0;
  int stride = 0;
  int padding = 0;

  constexpr int out_side() const { return (side + 2 * padding - kernel) / stride + 1; }
};

/// forward: a = x, b = weights, result = y; input_gradient: a = dy, b = weights, result = dx;
/// weight_gradient: a = x, b = dy, result = dw, summed over the images. Maps are images x height x width x
/// channels, weights out x height x width x in, all of one type; sums are 32-bit floats. A linear layer is a
/// convolution of images of one pixel.
struct ConvolutionCall {
  Direction direction;
  ConvolutionShape shape;
  std::int64_t images;
  bool bf16;
  const void* a;
  const void* b;
  void* result;
  bool tf32 = false;  ///< 32-bit floats may be rounded to TF32 before they are multiplied
};

/// How many blocks and threads of each run a kernel.
struct Grid {
  int blocks = 1;
  int threads = kBlockThreads;
};

/// A recorded sequence of calls.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch() = 0;
};

/// Calls go onto a stream, in order, and return at once unless they say otherwise. Every call throws Error
/// (backend, out_of_memory). One thread.
class Ops {
 public:
  virtual ~Ops() = default;

  /// Gives zeroed memory, which is freed with the object. `what` it is for goes into the error.
  virtual void* allocate(std::size_t bytes, const char* what) = 0;
  virtual void clear(void* memory, std::size_t bytes) = 0;
  /// Copy to the device and back. Both wait until the copy is done, after all that was called before.
  virtual void to_device(void* to, const void* from, std::size_t bytes) = 0;
  virtual void from_device(void* to, const void* from, std::size_t bytes) = 0;

  virtual void convolve(const ConvolutionCall& call) = 0;

  /// Runs a kernel of the list.
  template <typename Kernel>
  void run(const Kernel& kernel) {
    launch(kernel_number(std::type_identity<Kernel>()), &kernel, {kernel.blocks(), threads_of<Kernel>()});
  }

  /// `kernel` is the structure of that number, and is copied.
  virtual void launch(KernelNumber number, const void* kernel, const Grid& grid) = 0;

  /// Runs `work`, whose calls go onto the side stream, behind what the main stream has so far. It gets the
  /// side stream (a cudaStream_t).
  virtual void on_side(const std::function<void(void* stream)>& work) = 0;
  /// The main stream waits for the side stream.
  virtual void join_side() = 0;

  /// Records the calls of `work` instead of doing them. Everything that `work` allocates or chooses by
  /// measurement must have been so before: run it once first.
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& work) = 0;
  virtual void synchronize() = 0;

  /// The main stream (a cudaStream_t), for calls of others that are to be in its order.
  virtual void* stream() = 0;
  /// Bytes of the device that this object holds.
  virtual std::size_t allocated() const = 0;
};

}  // namespace muster::nn::gpu
