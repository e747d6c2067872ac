// SPDX-License-Identifier: Apache-2.0
// The layers written down as their definitions, in double precision, with no thought for speed.
#pragma once

#include "rendezvous/base/philox.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::test {

using Doubles = std::vector<double>;

/// Numbers in [-1, 1) for tests.
inline std::vector<float> random_floats(std::size_t count, std::uint64_t stream) {
  RandomStream random(42, stream);
  std::vector<float> values(count);
  for (float& value : values) value = 2.0F * random.unit() - 1.0F;
  return values;
}

/// Images n x side x side x in; weights out x in x 3 x 3; result n x side/2 x side/2 x out.
inline Doubles reference_conv_block(const std::vector<float>& images, const std::vector<float>& weight,
                                    const std::vector<float>& bias, int batch, int in, int out, int side) {
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  const auto convolved = [&](int n, int y, int x, int o) {
    double sum = static_cast<double>(bias[at(o)]);
    for (int c = 0; c < in; ++c)
      for (int ky = 0; ky < 3; ++ky)
        for (int kx = 0; kx < 3; ++kx) {
          const int sy = y + ky - 1;
          const int sx = x + kx - 1;
          if (sy < 0 || sx < 0 || sy >= side || sx >= side) continue;
          sum += static_cast<double>(images[at(((n * side + sy) * side + sx) * in + c)]) *
                 static_cast<double>(weight[at(((o * in + c) * 3 + ky) * 3 + kx)]);
        }
    return sum;
  };
  Doubles result;
  for (int n = 0; n < batch; ++n)
    for (int y = 0; y < side; y += 2)
      for (int x = 0; x < side; x += 2)
        for (int o = 0; o < out; ++o) {
          double best = 0;  // ReLU: nothing below zero
          for (int k = 0; k < 4; ++k) best = std::max(best, convolved(n, y + k / 2, x + k % 2, o));
          result.push_back(best);
        }
  return result;
}

/// input n x in, weight out x in, result n x out.
inline Doubles reference_linear(const std::vector<float>& input, const std::vector<float>& weight,
                                const std::vector<float>& bias, bool relu) {
  const std::size_t out = bias.size();
  const std::size_t in = weight.size() / out;
  Doubles result;
  for (std::size_t n = 0; n < input.size() / in; ++n)
    for (std::size_t o = 0; o < out; ++o) {
      double sum = static_cast<double>(bias[o]);
      for (std::size_t i = 0; i < in; ++i)
        sum += static_cast<double>(input[n * in + i]) * static_cast<double>(weight[o * in + i]);
      result.push_back(relu ? std::max(sum, 0.0) : sum);
    }
  return result;
}

/// Slope of `function` at `values[index]`: a central difference. The step suits a function in double
/// precision.
template <typename Function>
double slope(std::vector<float>& values, std::size_t index, const Function& function, float step = 0x1p-14F) {
  const float saved = values[index];
  values[index] = saved + step;
  const double high = function();
  const double distance = static_cast<double>(values[index]);
  values[index] = saved - step;
  const double low = function();
  const double width = distance - static_cast<double>(values[index]);
  values[index] = saved;
  return (high - low) / width;
}

/// Largest distance between two lists of the same length.
template <typename Values>
double distance(const Doubles& wanted, const Values& got) {
  double worst = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    worst = std::max(worst, std::abs(wanted[i] - static_cast<double>(got[i])));
  return worst;
}

}  // namespace muster::test
