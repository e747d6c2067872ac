// SPDX-License-Identifier: Apache-2.0
// What the fakes in the program and the process of a device say to each other: a request, with a file behind
// it where memory is to be mapped, then an answer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fake {

enum class Order : std::uint32_t { map, unmap, find_kernel, launch, convolve, multiply };

constexpr std::size_t kArgumentBytes = 1024;

/// The type of numbers, in the order of nn::gpu::Element.
enum class Element : std::uint32_t { f32, bf16, f16 };

/// A convolution of square images, cross-correlated, with channels innermost in all maps and weights.
struct Convolution {
  enum class Result : std::uint32_t { output, input_gradient, weight_gradient };

  Result result;
  std::int32_t in, out, side, kernel, stride, padding;
  std::int64_t images;
  Element element;
  float factor;  ///< of the result: 1, or something else where a plan is one that must not be chosen
  const void* x;
  const void* w;
  const void* y;
  void* workspace;
  std::uint64_t workspace_bytes;
};

/// A product of matrices in any layout: as nn::gpu::MultiplyCall.
struct Product {
  struct Matrix {
    const void* data;
    std::int64_t row, column, batch;
  };

  std::int64_t batches, m, n, k;
  Matrix a, b, c;  ///< c = a * b
  Element element, result_element;
  float factor;  ///< as of a convolution
  void* workspace;
  std::uint64_t workspace_bytes;
};

struct Request {
  Order order;
  std::uint32_t kernel = 0;
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint64_t place = 0;
  std::uint64_t bytes = 0;

  union {
    char name[128];
    alignas(16) std::byte argument[kArgumentBytes];
    Convolution convolution;
    Product product;
  };

  explicit Request(Order what = Order::map) : order(what), argument{} {}
};

enum class Outcome : std::uint32_t { done, unknown_kernel, bad_launch, no_place };

struct Answer {
  Outcome outcome = Outcome::done;
  std::uint32_t kernel = 0;
  std::uint32_t bytes = 0;  ///< of the kernel's argument
};

/// Where the process of a device finds its end of the socket.
constexpr int kSocket = 3;

}  // namespace fake
