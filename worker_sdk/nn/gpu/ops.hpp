// SPDX-License-Identifier: Apache-2.0
// What a network needs of a device, as an interface: memory, kernels, convolutions, a second stream. The CUDA
// one is in nn/gpu/cuda; tests have one that does everything on the host.
#pragma once

#include "worker_sdk/nn/gpu/kernels/list.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

namespace muster::nn::gpu {

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
  Element element;
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
  Element element = Element::f32;         ///< of a and b
  Element result_element = Element::f32;  ///< of the result: 32-bit floats, or as a and b
  bool tf32 = false;                      ///< 32-bit floats may be rounded to TF32 before they are multiplied
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
  const bool floats = call.result_element == Element::f32;
  switch (call.element) {
    case Element::f32:
      return run(MultiplyFloats{});
    case Element::bf16:
      return floats ? run(MultiplyBf16ToFloats{}) : run(MultiplyBf16{});
    case Element::f16:
      return floats ? run(MultiplyF16ToFloats{}) : run(MultiplyF16{});
  }
}

}  // namespace muster::nn::gpu
