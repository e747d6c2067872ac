// SPDX-License-Identifier: Apache-2.0
// The first half of a plan: each layer with its name, what it reads and writes, and its tensors. Pure.
#pragma once

#include "worker_sdk/nn/plan.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster::nn {

/// A layer in its place.
struct Node {
  const Layer* layer = nullptr;
  std::string name;
  ValueShape in;
  ValueShape out;
  std::size_t parameter = 0;  ///< numbers of its first tensors
  std::size_t buffer = 0;
  std::vector<Node> body;
  std::vector<Node> shortcut;

  LayerKind kind() const { return layer->kind; }
};

/// The nodes of `description`, which outlives them. Tensors are added to `spec`. Throws Error
/// (invalid_argument).
std::vector<Node> nodes_of(const Description& description, ModelSpec& spec);

/// Throws Error (invalid_argument): layer "conv1" (convolution) of network "x" `what`.
[[noreturn]] void refuse(const std::string& network, const Node& node, const std::string& what);

}  // namespace muster::nn
