// SPDX-License-Identifier: Apache-2.0
// A network on this machine's processors, ready to be trained.
#pragma once

#include "tests/unit/worker_sdk/nn/model_tensors.hpp"
#include "tests/unit/worker_sdk/nn/small_lists.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/loss.hpp"
#include "worker_sdk/nn/models/make_network.hpp"
#include "worker_sdk/nn/network.hpp"
#include "worker_sdk/nn/plan.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace muster::test {

using Tensors = std::vector<std::vector<float>>;

/// A network with its parameters, and a batch to train it on.
class Model : public ModelTensors {
 public:
  explicit Model(std::string_view name, std::int64_t batch, const nn::NetworkOptions& options = {})
      : Model(nn::built_in(name, 10), batch, options) {}

  explicit Model(const nn::Description& description, std::int64_t batch,
                 const nn::NetworkOptions& options = {})
      : ModelTensors(nn::plan_of(description).spec, 3),
        network(nn::make_network(description, options)),
        images(samples_of(description.input, batch, 7)),
        batch_(batch) {
    network->bind(slots, places);
    for (std::int64_t n = 0; n < batch; ++n) labels_.push_back(static_cast<std::uint8_t>(n % spec.classes));
  }

  double loss(nn::Mode mode = nn::Mode::train) {
    network->parameters_changed();
    const float* logits = network->forward(images.data(), batch_, mode);
    const auto classes = static_cast<std::size_t>(spec.classes);
    logits_gradient_.resize(labels_.size() * classes);
    return nn::softmax_cross_entropy(logits, labels_.data(), labels_.size(), classes, logits_gradient_.data())
        .loss;
  }

  /// The parameters whose gradients were said to be ready, in order.
  std::vector<std::size_t> backward() {
    std::vector<std::size_t> order;
    backward([&](std::size_t i) { order.push_back(i); });
    return order;
  }

  void backward(const std::function<void(std::size_t)>& on_ready) {
    network->backward(logits_gradient_.data(), on_ready);
  }

  Tensors one_step() {
    loss();
    backward();
    return gradients;
  }

  std::unique_ptr<nn::Network> network;
  std::vector<float> images;

 private:
  std::int64_t batch_;
  std::vector<std::uint8_t> labels_;
  std::vector<float> logits_gradient_;
};

}  // namespace muster::test
