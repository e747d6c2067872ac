// SPDX-License-Identifier: Apache-2.0
// Maps for tests: written and read as plain nhwc floats, whatever the format.
#pragma once

#include "tests/unit/worker_sdk/nn/reference.hpp"
#include "worker_sdk/nn/cpu/machine.hpp"
#include "worker_sdk/nn/cpu/map.hpp"

#include <bit>
#include <cstring>
#include <vector>

namespace muster::test {

/// The formats that this processor's networks use, and both layouts of f32 in any case.
inline std::vector<nn::cpu::MapFormat> formats() {
  return {{false, false}, {true, false}, {false, true}, {true, true}};
}

/// Rounding of one value: half a unit in the last place.
inline double rounding(const nn::cpu::MapFormat& format) {
  return format.bf16 ? 0x1p-8 : 0x1p-24;
}

inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

/// The value that a map of this format holds.
inline float rounded(float value, const nn::cpu::MapFormat& format) {
  return format.bf16 ? std::bit_cast<float>(std::uint32_t{to_bf16(value)} << 16) : value;
}

inline std::vector<float> rounded(std::vector<float> values, const nn::cpu::MapFormat& format) {
  for (float& value : values) value = rounded(value, format);
  return values;
}

/// A batch of maps in memory of its own.
class TestMap {
 public:
  TestMap(const nn::cpu::MapShape& shape, std::int64_t batch) : shape_(shape), batch_(batch) {
    buffer_.reserve(shape.bytes(batch) + 64);
    std::memset(buffer_.data(), 0x7F, buffer_.bytes());  // large, so that what is not written shows
  }

  TestMap(const nn::cpu::MapShape& shape, std::int64_t batch, const std::vector<float>& nhwc)
      : TestMap(shape, batch) {
    for (std::size_t i = 0; i < nhwc.size(); ++i) {
      if (shape_.format.bf16)
        buffer_.data<std::uint16_t>()[place(i)] = to_bf16(nhwc[i]);
      else
        buffer_.data<float>()[place(i)] = nhwc[i];
    }
  }

  void* data() const { return buffer_.data(); }

  std::vector<float> nhwc() const {
    std::vector<float> values(shape_.elements(batch_));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = shape_.format.bf16
                      ? std::bit_cast<float>(std::uint32_t{buffer_.data<std::uint16_t>()[place(i)]} << 16)
                      : buffer_.data<float>()[place(i)];
    return values;
  }

 private:
  /// Where the element stands whose place in plain nhwc is `index`.
  std::size_t place(std::size_t index) const {
    if (!shape_.format.blocked) return index;
    const auto channels = static_cast<std::size_t>(shape_.channels);
    const std::size_t channel = index % channels;
    const std::size_t pixel = index / channels % shape_.pixels();
    const std::size_t image = index / channels / shape_.pixels();
    return ((image * channels / 16 + channel / 16) * shape_.pixels() + pixel) * 16 + channel % 16;
  }

  nn::cpu::MapShape shape_;
  std::int64_t batch_;
  nn::cpu::Buffer buffer_;
};

inline double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

inline double dot(const Doubles& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * static_cast<double>(b[i]);
  return sum;
}

/// Euclidean length.
inline double length(const std::vector<float>& a) {
  return std::sqrt(dot(a, a));
}

}  // namespace muster::test
