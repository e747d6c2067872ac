// SPDX-License-Identifier: Apache-2.0
// A gradient that is ready is final, and its parameter free for the optimizer: the reducer steps a bucket in
// the middle of backward.
#include "catch.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace muster::nn;

namespace {

struct Tensors {
  std::vector<std::vector<float>> values, gradients, buffers;
  std::vector<ParameterSlot> slots;
  std::vector<float*> buffer_slots;

  explicit Tensors(const ModelSpec& spec) {
    for (const auto& parameter : spec.parameters) {
      values.emplace_back(parameter.elements());
      gradients.emplace_back(parameter.elements());
    }
    for (const auto& buffer : spec.buffers) buffers.emplace_back(buffer.elements());
    for (std::size_t i = 0; i < values.size(); ++i) slots.push_back({values[i].data(), gradients[i].data()});
    for (auto& buffer : buffers) buffer_slots.push_back(buffer.data());
    initialize(spec, slots, 3);
    initialize_buffers(spec, buffer_slots);
  }
};

/// Gradients as they stood when each was ready; `spoil`: parameters are overwritten at that moment.
std::vector<std::vector<float>> backward(const std::string& model, Precision precision, bool spoil) {
  constexpr std::int64_t kBatch = 2;
  NetworkOptions options;
  options.precision = precision;
  const auto network = make_network(model, options);
  Tensors tensors(network->spec());
  network->bind(tensors.slots, tensors.buffer_slots);
  std::vector<float> images(kBatch * 32 * 32 * 3);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i % 17) / 8 - 1;
  const float* logits = network->forward(images.data(), kBatch, Mode::train);
  std::vector<float> gradient(logits, logits + kBatch * 10);
  std::vector<std::vector<float>> seen(tensors.values.size());
  network->backward(gradient.data(), [&](std::size_t i) {
    seen[i] = tensors.gradients[i];
    if (spoil)
      std::fill(tensors.values[i].begin(), tensors.values[i].end(), std::numeric_limits<float>::quiet_NaN());
  });
  CHECK(seen == tensors.gradients);
  return seen;
}

}  // namespace

TEST_CASE("Parameters may change from the moment on when their gradients are ready") {
  for (const std::string& model : model_names())
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      if (!supports(precision)) continue;
      INFO(model);
      CHECK(backward(model, precision, true) == backward(model, precision, false));
    }
}
