// SPDX-License-Identifier: Apache-2.0
// Small networks that have every kind of layer between them, for tests of whole networks.
#pragma once

#include "tests/unit/worker_sdk/nn/reference.hpp"
#include "worker_sdk/nn/description.hpp"
#include "worker_sdk/nn/network.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace muster::test {

/// A convolution without a bias, and its batch norm.
inline std::string normed(int out, int kernel, int stride) {
  return R"({"layer": "convolution", "out": )" + std::to_string(out) + R"(, "kernel": )" +
         std::to_string(kernel) + R"(, "stride": )" + std::to_string(stride) +
         R"(, "bias": false}, {"layer": "batch_norm"})";
}

inline std::vector<nn::Description> small_lists() {
  const std::string relu = R"({"layer": "relu"}, )";
  const std::string images = R"({"kind": "images", "side": 8})";
  const std::string features = R"({"kind": "features", "channels": 24})";
  const auto linear = [](int out) { return R"({"layer": "linear", "out": )" + std::to_string(out) + "}"; };
  const auto residual = [](const std::string& body, const std::string& shortcut) {
    return R"({"layer": "residual", "body": [)" + body + R"(], "shortcut": [)" + shortcut + "]}, ";
  };
  const std::string norm = R"({"layer": "layer_norm"}, )";
  const std::string gelu = R"({"layer": "gelu"}, )";
  const std::vector<std::pair<std::string, std::pair<std::string, std::string>>> lists = {
      {"one layer", {features, linear(5)}},
      {"rows",
       {features, linear(40) + ", " + relu + R"({"layer": "dropout", "share": 0.3}, )" + norm +
                      residual(linear(16) + ", " + gelu + linear(40), "") +
                      residual(linear(32) + ", " + relu + linear(16), linear(16)) + relu +
                      residual(relu + linear(16) + ", " + R"({"layer": "relu"})", "") +
                      residual(linear(16) + R"(, {"layer": "dropout"})", "") + linear(5)}},
      {"tokens",
       {R"({"kind": "ids", "channels": 6})",
        R"({"layer": "embedding", "vocabulary": 11, "out": 16}, {"layer": "positions"}, )" +
            residual(norm + R"({"layer": "attention", "heads": 2})", "") +
            residual(norm + linear(32) + ", " + gelu + linear(16), "") + norm +
            R"({"layer": "token_mean"}, )" + linear(4)}},
      {"maps",
       {images,
        normed(16, 3, 1) + ", " + relu + R"({"layer": "max_pool", "stride": 2}, )" +
            residual(normed(16, 1, 1) + ", " + relu + normed(16, 3, 2) + ", " + relu + normed(32, 1, 1),
                     normed(32, 1, 2)) +
            relu + residual(normed(32, 3, 1), "") + relu + R"({"layer": "average_pool"}, )" + linear(8) +
            ", " + relu + linear(3)}},
      {"patches",
       {images, R"({"layer": "convolution", "out": 16, "kernel": 4, "stride": 4, "padding": 0},
                   {"layer": "tokens"}, {"layer": "positions"}, {"layer": "dropout", "share": 0.2},
                   {"layer": "token_mean"}, )" +
                    linear(3)}},
      {"pooled",
       {images, R"({"layer": "convolution", "out": 16}, {"layer": "relu"},
                   {"layer": "max_pool", "kernel": 2, "stride": 2, "padding": 0},
                   {"layer": "convolution", "out": 32}, {"layer": "flatten"}, )" +
                    linear(3)}},
      {"grey", {images, R"({"layer": "grey"}, )" + linear(24) + ", " + relu + linear(3)}},
  };
  std::vector<nn::Description> descriptions;
  for (const auto& [name, list] : lists)
    descriptions.push_back(nn::description_from(R"({"name": ")" + name + R"(", "input": )" + list.first +
                                                R"(, "layers": [)" + list.second + "]}"));
  return descriptions;
}

/// Samples as a network on the CPU reads them.
inline std::vector<float> samples_of(const nn::Input& input, std::int64_t batch, std::uint64_t seed) {
  const std::int64_t pixels = input.kind == nn::InputKind::images ? input.side * input.side : 1;
  std::vector<float> samples = random_floats(static_cast<std::size_t>(batch * input.channels * pixels), seed);
  if (input.kind != nn::InputKind::ids) return samples;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto id = static_cast<std::int32_t>((i * i + seed) % 11);
    std::memcpy(&samples[i], &id, sizeof(id));
  }
  return samples;
}

}  // namespace muster::test
