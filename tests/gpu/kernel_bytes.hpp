// SPDX-License-Identifier: Apache-2.0
// The bytes that a kernel has to move: what it reads and what it writes, each element once.
#pragma once

#include "worker_sdk/nn/gpu/ops.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::nn::gpu {

/// 0: a kernel of a few numbers, which only takes the time of a launch.
template <typename Kernel>
double bytes_of(const Kernel&) {
  return 0;
}

inline double bytes_of(std::int64_t elements, std::size_t element) {
  return static_cast<double>(elements) * static_cast<double>(element);
}

template <typename T>
double map_bytes(const MapSize& map) {
  return bytes_of(map.rows * map.channels, sizeof(T));
}

/// The bytes of a map where there is one.
template <typename T>
double map_bytes(const MapSize& map, const T* place) {
  return place == nullptr ? 0 : map_bytes<T>(map);
}

inline double sign_bytes(const MapSize& map, const std::uint8_t* signs) {
  return signs == nullptr ? 0 : bytes_of(map.packs(), 1);
}

inline double partial_bytes(const MapSize& map) {
  return static_cast<double>(partial_floats(map) * sizeof(float));
}

template <typename T>
double bytes_of(const MapSize& map, const MaskedGradient<T>& gradient) {
  return map_bytes(map, gradient.dy) + map_bytes(map, gradient.dy2) + sign_bytes(map, gradient.signs);
}

/// The partial sums are written and read.
template <typename T, typename Finish>
double bytes_of(const Moments<T, Finish>& kernel) {
  return map_bytes<T>(kernel.map) + 2 * partial_bytes(kernel.map);
}

template <typename T>
double bytes_of(const ScaleAddRelu<T>& kernel) {
  return map_bytes(kernel.map, kernel.x) + map_bytes(kernel.map, kernel.addend) + map_bytes<T>(kernel.map) +
         sign_bytes(kernel.map, kernel.signs);
}

template <typename T, typename Finish>
double bytes_of(const GradientSums<T, Finish>& kernel) {
  return bytes_of(kernel.map, kernel.gradient) + map_bytes(kernel.map, kernel.x) +
         map_bytes<T>(kernel.map, kernel.out) + partial_bytes(kernel.map);
}

inline double bytes_of(const BiasGradient& kernel) {
  return partial_bytes(kernel.map);
}

template <typename T>
double bytes_of(const NormBackward<T>& kernel) {
  return bytes_of(kernel.map, kernel.gradient) + 2 * map_bytes<T>(kernel.map);
}

/// Elements of the maps before and after a pooling.
inline std::int64_t elements_in(const PoolShape& shape, std::int64_t images) {
  return images * shape.side * shape.side * shape.channels;
}

inline std::int64_t elements_out(const PoolShape& shape, std::int64_t images) {
  return images * shape.out_side() * shape.out_side() * shape.channels;
}

template <typename T>
double bytes_of(const MaxPool<T>& kernel) {
  const std::int64_t out = elements_out(kernel.shape, kernel.images);
  return bytes_of(elements_in(kernel.shape, kernel.images) + out, sizeof(T)) +
         (kernel.winners == nullptr ? 0 : bytes_of(out, 1));
}

template <typename T>
double bytes_of(const MaxPoolBackward<T>& kernel) {
  const std::int64_t out = elements_out(kernel.shape, kernel.images);
  return bytes_of(elements_in(kernel.shape, kernel.images), sizeof(T)) + bytes_of(out, 1) +
         bytes_of(out, sizeof(T)) * (kernel.dy2 == nullptr ? 1 : 2);
}

template <typename T>
double bytes_of(const AveragePool<T>& kernel) {
  return bytes_of(kernel.images * kernel.channels * (kernel.pixels + 1), sizeof(T));
}

template <typename T>
double bytes_of(const AveragePoolBackward<T>& kernel) {
  return bytes_of(kernel.images * kernel.channels * (kernel.pixels + 1), sizeof(T));
}

template <typename T>
double bytes_of(const Gather<T>& kernel) {
  return bytes_of(kernel.images * kSide * kSide, kColours + kPack * sizeof(T));
}

template <typename T>
double bytes_of(const PadGradient<T>& kernel) {
  return bytes_of(kernel.images * kernel.classes, sizeof(float)) +
         bytes_of(kernel.images * kernel.padded, sizeof(T));
}

template <typename T>
double bytes_of(const PackWeights<T>& kernel) {
  return bytes_of(kernel.shape.elements(), sizeof(float)) +
         bytes_of(kernel.shape.padded_elements(), sizeof(T));
}

template <typename T>
double bytes_of(const UnpackGradient<T>& kernel) {
  return bytes_of(kernel.shape.elements(), sizeof(float) + sizeof(T));
}

template <typename T>
double bytes_of(const FinishLogits<T>& kernel) {
  return bytes_of(kernel.images * kernel.classes, sizeof(T) + sizeof(float));
}

inline double bytes_of(const CrossEntropy& kernel) {
  return bytes_of(kernel.images * kernel.classes, (kernel.gradient == nullptr ? 1 : 2) * sizeof(float));
}

inline double bytes_of(const SquaredError& kernel) {
  return bytes_of(kernel.images * kernel.width, (kernel.gradient == nullptr ? 2 : 3) * sizeof(float));
}

inline double bytes_of(const AddGradients& kernel) {
  return bytes_of(kernel.range.end - kernel.range.begin, (kernel.add ? 3 : 2) * sizeof(float));
}

/// As if all blocks were as long as most are.
inline double bytes_of(const SquareSums& kernel) {
  return bytes_of(kernel.count * static_cast<std::int64_t>(parallel::kNormBlockFloats), sizeof(float));
}

inline double bytes_of(const MoveAverage& kernel) {
  return bytes_of(kernel.range.end - kernel.range.begin, 3 * sizeof(float));
}

inline double bytes_of(const SwapArenas& kernel) {
  return bytes_of(kernel.range.end - kernel.range.begin, 4 * sizeof(float));
}

/// Values are read and written, gradients read.
inline double bytes_of(const SgdStep& kernel) {
  return bytes_of(kernel.part.end - kernel.part.begin, (kernel.velocity == nullptr ? 3 : 5) * sizeof(float));
}

inline double bytes_of(const AdamStep& kernel) {
  return bytes_of(kernel.part.end - kernel.part.begin, 7 * sizeof(float));
}

template <typename T, typename Result>
double bytes_of(const MultiplyMatrices<T, Result>& kernel) {
  return bytes_of(kernel.batches * (kernel.m + kernel.n) * kernel.k, sizeof(T)) +
         bytes_of(kernel.batches * kernel.m * kernel.n, sizeof(Result));
}

/// Kernels of rows: as many lists of elements as they read and write.
template <typename T, typename Map>
double bytes_of(const EachElement<T, Map>& kernel) {
  return bytes_of(2 * kernel.count, sizeof(T));
}

template <typename T, typename Map>
double bytes_of(const EachPair<T, Map>& kernel) {
  return bytes_of(3 * kernel.count, sizeof(T));
}

template <typename T>
double bytes_of(const AddRepeated<T>& kernel) {
  return bytes_of(2 * kernel.count, sizeof(T)) + bytes_of(kernel.period, sizeof(float));
}

template <typename T>
double bytes_of(const CopyRows<T>& kernel) {
  return bytes_of(2 * kernel.rows * kernel.width, sizeof(T));
}

template <typename T>
double bytes_of(const RowSums<T>& kernel) {
  return bytes_of((kernel.x == nullptr ? 1 : 2) * kernel.rows * kernel.width, sizeof(T)) +
         2 * partial_bytes(kernel.map());
}

template <typename T>
double bytes_of(const LayerNormForward<T>& kernel) {
  return bytes_of(2 * kernel.rows * kernel.width, sizeof(T));
}

template <typename T>
double bytes_of(const LayerNormBackward<T>& kernel) {
  return bytes_of(3 * kernel.rows * kernel.width, sizeof(T));
}

template <typename T>
double bytes_of(const SoftmaxForward<T>& kernel) {
  return bytes_of(2 * kernel.rows * kernel.width, sizeof(T));
}

template <typename T>
double bytes_of(const SoftmaxBackward<T>& kernel) {
  return bytes_of(3 * kernel.rows * kernel.width, sizeof(T));
}

template <typename T>
double bytes_of(const EmbeddingForward<T>& kernel) {
  return bytes_of(kernel.shape.rows * kernel.shape.width, sizeof(float) + sizeof(T));
}

template <typename T>
double bytes_of(const EmbeddingBackward<T>& kernel) {
  return bytes_of(kernel.shape.rows * kernel.shape.width, sizeof(T)) +
         bytes_of(kernel.shape.vocabulary * kernel.shape.width, sizeof(float));
}

template <typename T>
double bytes_of(const DropoutRows<T>& kernel) {
  return bytes_of(2 * kernel.samples * kernel.elements, sizeof(T));
}

template <typename T>
double bytes_of(const TransposeImages<T>& kernel) {
  return bytes_of(2 * kernel.images * kernel.rows * kernel.columns, sizeof(T));
}

template <typename T>
double bytes_of(const GreyPixels<T>& kernel) {
  return bytes_of(kernel.pixels * (kPack + 1), sizeof(T));
}

/// Two maps and the weights, whichever of the three is the result.
inline double bytes_of(const ConvolutionCall& call) {
  const ConvolutionShape& shape = call.shape;
  const std::int64_t in = call.images * shape.side * shape.side * shape.in;
  const std::int64_t out = call.images * shape.out_side() * shape.out_side() * shape.out;
  const std::int64_t weights = std::int64_t{shape.kernel} * shape.kernel * shape.in * shape.out;
  return bytes_of(in + out + weights, static_cast<std::size_t>(bytes_of(call.element)));
}

/// Multiplications and additions.
inline double operations_of(const ConvolutionCall& call) {
  const ConvolutionShape& shape = call.shape;
  return 2.0 * static_cast<double>(call.images * shape.out_side() * shape.out_side()) *
         static_cast<double>(std::int64_t{shape.kernel} * shape.kernel * shape.in * shape.out);
}

/// Both matrices and the result.
inline double bytes_of(const MultiplyCall& call) {
  const std::size_t element = static_cast<std::size_t>(bytes_of(call.element));
  return bytes_of(call.batches * (call.m + call.n) * call.k, element) +
         bytes_of(call.batches * call.m * call.n, static_cast<std::size_t>(bytes_of(call.result_element)));
}

inline double operations_of(const MultiplyCall& call) {
  return 2.0 * static_cast<double>(call.batches * call.m) * static_cast<double>(call.n * call.k);
}

}  // namespace muster::nn::gpu
