// SPDX-License-Identifier: Apache-2.0
// The kernels of a device, each under its name. Compiled for the host (tests, numbers of kernels) and, by
// kernels.cu, for devices.
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

#include <cstdint>
#include <type_traits>

namespace muster::nn::gpu {

using MultiplyFloats = MultiplyMatrices<float, float>;
using MultiplyBf16 = MultiplyMatrices<Bf16, Bf16>;
using MultiplyBf16ToFloats = MultiplyMatrices<Bf16, float>;
using MultiplyF16 = MultiplyMatrices<F16, F16>;
using MultiplyF16ToFloats = MultiplyMatrices<F16, float>;

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
  MUSTER_GPU_KERNELS_OF(X, F16, f16)            \
  X(MultiplyFloats, multiply_f32)               \
  X(MultiplyBf16, multiply_bf16)                \
  X(MultiplyBf16ToFloats, multiply_bf16_to_f32) \
  X(MultiplyF16, multiply_f16)                  \
  X(MultiplyF16ToFloats, multiply_f16_to_f32)   \
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

}  // namespace muster::nn::gpu
