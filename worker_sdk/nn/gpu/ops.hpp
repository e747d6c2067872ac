// SPDX-License-Identifier: Apache-2.0
// What a network needs of a device, as an interface: memory, kernels, convolutions, a second stream. The CUDA
// one is in nn/gpu/cuda; tests have one that does everything on the host.
#pragma once

#include "worker_sdk/nn/gpu/kernels/arena_sums.hpp"
#include "worker_sdk/nn/gpu/kernels/batch_norm.hpp"
#include "worker_sdk/nn/gpu/kernels/channel_sums.hpp"
#include "worker_sdk/nn/gpu/kernels/dropout.hpp"
#include "worker_sdk/nn/gpu/kernels/embedding.hpp"
#include "worker_sdk/nn/gpu/kernels/gather.hpp"
#include "worker_sdk/nn/gpu/kernels/half_wire.hpp"
#include "worker_sdk/nn/gpu/kernels/layer_norm.hpp"
#include "worker_sdk/nn/gpu/kernels/loss.hpp"
#include "worker_sdk/nn/gpu/kernels/map_rows.hpp"
#include "worker_sdk/nn/gpu/kernels/multiply.hpp"
#include "worker_sdk/nn/gpu/kernels/optimizer.hpp"
#include "worker_sdk/nn/gpu/kernels/pool.hpp"
#include "worker_sdk/nn/gpu/kernels/row_maps.hpp"
#include "worker_sdk/nn/gpu/kernels/row_sums.hpp"
#include "worker_sdk/nn/gpu/kernels/softmax.hpp"
#include "worker_sdk/nn/gpu/kernels/weights.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

namespace muster::nn::gpu {

using MultiplyFloats = MultiplyMatrices<float, float>;
using MultiplyBf16 = MultiplyMatrices<Bf16, Bf16>;
using MultiplyBf16ToFloats = MultiplyMatrices<Bf16, float>;

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
  X(UnpackGradient<T>, unpack_gradient_##suffix)        \
  X(ReluForward<T>, relu_##suffix)                      \
  X(ReluBackward<T>, relu_back_##suffix)                \
  X(GeluForward<T>, gelu_##suffix)                      \
  X(GeluBackward<T>, gelu_back_##suffix)                \
  X(AddRows<T>, add_rows_##suffix)                      \
  X(AddRepeated<T>, add_repeated_##suffix)              \
  X(CopyRows<T>, copy_rows_##suffix)                    \
  X(RowSums<T>, row_sums_##suffix)                      \
  X(LayerNormForward<T>, layer_norm_##suffix)           \
  X(LayerNormBackward<T>, layer_norm_back_##suffix)     \
  X(SoftmaxForward<T>, softmax_##suffix)                \
  X(SoftmaxBackward<T>, softmax_back_##suffix)          \
  X(EmbeddingForward<T>, embedding_##suffix)            \
  X(EmbeddingBackward<T>, embedding_back_##suffix)      \
  X(DropoutRows<T>, dropout_##suffix)                   \
  X(TransposeImages<T>, transpose_images_##suffix)      \
  X(GreyPixels<T>, grey_##suffix)

#define MUSTER_GPU_KERNELS(X)                   \
  MUSTER_GPU_KERNELS_OF(X, float, f32)          \
  MUSTER_GPU_KERNELS_OF(X, Bf16, bf16)          \
  X(MultiplyFloats, multiply_f32)               \
  X(MultiplyBf16, multiply_bf16)                \
  X(MultiplyBf16ToFloats, multiply_bf16_to_f32) \
  X(SetDropoutKey, set_dropout_key)             \
  X(NormRunning, norm_running)                  \
  X(NormGradients, norm_gradients)              \
  X(BiasGradient, bias_gradient)                \
  X(CrossEntropy, cross_entropy)                \
  X(SquaredError, squared_error)                \
  X(AddScore, add_score)                        \
  X(SetValues, set_values)                      \
  X(SetSamples, set_samples)                    \
  X(SetTally, set_tally)                        \
  X(AddGradients, add_gradients)                \
  X(SquareSums, square_sums)                    \
  X(ClipFactor, clip_factor)                    \
  X(MoveAverage, move_average)                  \
  X(SwapArenas, swap_arenas)                    \
  X(PackHalf, pack_half)                        \
  X(SumHalf, sum_half)                          \
  X(UnpackHalf, unpack_half)                    \
  X(SgdStep, sgd_step)                          \
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
/// channels, weights out x height x width x in, all of one type; sums are 32-bit floats.
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

/// result = a * b for each of `batches`: a is m x k, b is k x n, and the result m x n, whose rows are
/// `result_row` elements apart and whose columns lie side by side. All extents are positive; sums are 32-bit
/// floats. Of one batch the distances of batches do not matter. The result overlaps neither a nor b.
struct MultiplyCall {
  std::int64_t batches = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Matrix a;
  Matrix b;
  void* result = nullptr;
  std::int64_t result_row = 0;
  std::int64_t result_batch = 0;
  bool bf16 = false;         ///< a and b are bf16, else 32-bit floats
  bool bf16_result = false;  ///< the result is bf16, as it may only be where a and b are
  bool tf32 = false;         ///< 32-bit floats may be rounded to TF32 before they are multiplied
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
  virtual void multiply(const MultiplyCall& call) = 0;

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

  /// Puts a mark onto the stream that calls go onto; a recorded one is put anew by each launch. `number`: a
  /// small one, which may be used again.
  virtual void mark(std::size_t number) = 0;
  /// The time that the device took from one mark to another, both of which it has passed.
  virtual std::chrono::nanoseconds between(std::size_t from, std::size_t to) = 0;

  /// Whether calls can be recorded; else capture() throws.
  virtual bool records() const { return true; }

  /// What people should know of how calls are done, once; "" where there is nothing new.
  virtual std::string take_note() { return ""; }

  /// Throws Error (backend) when the device has failed, and does not wait for it.
  virtual void require_working() {}

  /// The main stream (a cudaStream_t), for calls of others that are to be in its order.
  virtual void* stream() = 0;
  /// Bytes of the device that this object holds.
  virtual std::size_t allocated() const = 0;

  /// Bytes of the device that nobody holds; 0 where that is not known.
  virtual std::size_t free_bytes() const { return 0; }
};

/// A product by our own kernel, which takes every layout.
inline void multiply_by_kernel(Ops& ops, const MultiplyCall& call) {
  const auto run = [&]<typename T, typename Result>(MultiplyMatrices<T, Result> kernel) {
    kernel = {
        call.batches,    call.m,           call.n, call.k, call.a, call.b, static_cast<Result*>(call.result),
        call.result_row, call.result_batch};
    ops.run(kernel);
  };
  if (!call.bf16) return run(MultiplyFloats{});
  if (call.bf16_result) return run(MultiplyBf16{});
  run(MultiplyBf16ToFloats{});
}

}  // namespace muster::nn::gpu
