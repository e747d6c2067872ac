// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/plan_nodes.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"

#include <cmath>
#include <set>
#include <utility>

namespace muster::nn {
namespace {

using Kind = ValueShape::Kind;

/// The most that extents may be: products of three of them are far from any overflow.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 20;

/// The most elements of a sample, of a result for one sample, and of a parameter: devices count with 32 bits.
constexpr std::size_t kMaxElements = (std::size_t{1} << 31) - 1;

/// PyTorch's default for weights and biases: within 1 / sqrt(inputs).
FirstValues within_inputs(std::int64_t inputs) {
  return {FirstValues::Kind::uniform,
          static_cast<double>(1.0F / std::sqrt(static_cast<float>(static_cast<std::size_t>(inputs))))};
}

FirstValues constant(double value) {
  return {FirstValues::Kind::constant, value};
}

FirstValues normal(double deviation) {
  return {FirstValues::Kind::normal, deviation};
}

class Walk {
 public:
  Walk(std::string network, ModelSpec& spec) : network_(std::move(network)), spec_(spec) {}

  std::vector<Node> list(const std::vector<Layer>& layers, const std::string& prefix, ValueShape in) {
    std::vector<Node> nodes;
    for (const Layer& layer : layers) {
      Node node;
      node.layer = &layer;
      node.name = prefix + (layer.name.empty() ? std::to_string(nodes.size()) : layer.name);
      node.in = in;
      node.parameter = spec_.parameters.size();
      node.buffer = spec_.buffers.size();
      node.out = in = result_of(node);
      if (node.out.elements() > kMaxElements)
        refuse(network_, node, "gives " + to_text(node.out) + ", too many");
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

 private:
  [[noreturn]] void wants(const Node& node, const std::string& what) const {
    refuse(network_, node, "gets " + to_text(node.in) + " and needs " + what);
  }

  void need(const Node& node, Kind kind, const char* what) const {
    if (node.in.kind != kind) wants(node, what);
  }

  void need_rows(const Node& node) const {
    need(node, Kind::rows, "rows; put flatten, tokens, average_pool, grey or embedding ahead of it");
  }

  void need_map(const Node& node) const { need(node, Kind::map, "maps; put a convolution ahead of it"); }

  void need_extent(const Node& node, const char* field, std::int64_t value) const {
    if (value < 1 || value > kMaxExtent)
      refuse(network_, node,
             "has " + std::string(field) + " " + std::to_string(value) + "; give 1 to " +
                 std::to_string(kMaxExtent));
  }

  void add(const std::string& name, std::vector<std::int64_t> shape, const FirstValues& first) {
    // In floating point, since this product may be beyond any integer.
    double elements = 1;
    for (const std::int64_t extent : shape) elements *= static_cast<double>(extent);
    if (elements > static_cast<double>(kMaxElements))
      throw Error(ErrorCode::invalid_argument,
                  "network " + json_text(network_) + " has a parameter " + json_text(name) +
                      " of more than " + std::to_string(kMaxElements) + " elements; make its layer smaller");
    const bool decay = shape.size() > 1;
    spec_.parameters.push_back({name, std::move(shape), decay});
    spec_.first_values.push_back(first);
  }

  void add_norm(const std::string& name, std::int64_t width) {
    add(name + ".weight", {width}, constant(1));
    add(name + ".bias", {width}, constant(0));
  }

  ValueShape result_of(Node& node) {
    switch (node.kind()) {
      case LayerKind::linear:
        return linear(node);
      case LayerKind::convolution:
        return convolution(node);
      case LayerKind::batch_norm:
        return batch_norm(node);
      case LayerKind::layer_norm:
        need_rows(node);
        add_norm(node.name, node.in.width);
        return node.in;
      case LayerKind::attention:
        return attention(node);
      case LayerKind::embedding:
        return embedding(node);
      case LayerKind::positions:
        need_rows(node);
        add(node.name + ".weight", {node.in.tokens, node.in.width}, normal(0.02));
        return node.in;
      case LayerKind::residual:
        return residual(node);
      default:
        return without_tensors(node);
    }
  }

  ValueShape without_tensors(const Node& node) const {
    const ValueShape& in = node.in;
    const std::int64_t pixels = in.side * in.side;
    switch (node.kind()) {
      case LayerKind::max_pool:
        return max_pool(node);
      case LayerKind::average_pool:
        need_map(node);
        return ValueShape::rows(1, in.channels);
      case LayerKind::flatten:
        if (in.kind == Kind::rows) return ValueShape::rows(1, in.tokens * in.width);
        need_map(node);
        return ValueShape::rows(1, in.channels * pixels);
      case LayerKind::tokens:
        need_map(node);
        return ValueShape::rows(pixels, in.channels);
      case LayerKind::grey:
        need(node, Kind::images, "images; it is a first layer");
        if (in.channels != kColours) wants(node, "three colours");
        return ValueShape::rows(1, pixels);
      case LayerKind::token_mean:
        need_rows(node);
        return ValueShape::rows(1, in.width);
      case LayerKind::dropout:
        need_rows(node);
        if (!(node.layer->share >= 0 && node.layer->share < 1))
          refuse(network_, node,
                 "has a share of " + std::to_string(node.layer->share) + "; give 0 to below 1");
        return in;
      case LayerKind::gelu:
        need_rows(node);
        return in;
      default:  // ReLU
        if (in.kind != Kind::map) need_rows(node);
        return in;
    }
  }

  ValueShape linear(const Node& node) {
    need_rows(node);
    const std::int64_t out = node.layer->out;
    need_extent(node, "out", out);
    const FirstValues first = within_inputs(node.in.width);
    add(node.name + ".weight", {out, node.in.width}, first);
    if (node.layer->bias) add(node.name + ".bias", {out}, first);
    return ValueShape::rows(node.in.tokens, out);
  }

  /// The extent after windows over a map.
  std::int64_t side_after(const Node& node) const {
    const Layer& layer = *node.layer;
    const std::int64_t padding = layer.padding < 0 ? layer.kernel / 2 : layer.padding;
    need_extent(node, "kernel", layer.kernel);
    need_extent(node, "stride", layer.stride);
    if (padding >= layer.kernel)
      refuse(network_, node,
             "has padding " + std::to_string(padding) + "; give less than its kernel, " +
                 std::to_string(layer.kernel));
    const std::int64_t room = node.in.side + 2 * padding - layer.kernel;
    if (room < 0) wants(node, "at least the " + std::to_string(layer.kernel) + " pixels of its kernel");
    return room / layer.stride + 1;
  }

  ValueShape max_pool(const Node& node) const {
    need_map(node);
    return ValueShape::map({node.in.channels, side_after(node)});
  }

  ValueShape convolution(const Node& node) {
    if (node.in.kind != Kind::images) need(node, Kind::map, "images or maps");
    const Layer& layer = *node.layer;
    need_extent(node, "out", layer.out);
    const std::int64_t side = side_after(node);
    const std::int64_t taps = layer.kernel * layer.kernel;
    const FirstValues default_values = within_inputs(node.in.channels * taps);
    const FirstValues he = normal(std::sqrt(2.0 / static_cast<double>(layer.out * taps)));
    add(node.name + ".weight", {layer.out, node.in.channels, layer.kernel, layer.kernel},
        layer.bias ? default_values : he);
    if (layer.bias) add(node.name + ".bias", {layer.out}, default_values);
    return ValueShape::map({layer.out, side});
  }

  ValueShape batch_norm(const Node& node) {
    need_map(node);
    add_norm(node.name, node.in.channels);
    spec_.buffers.push_back({node.name + ".running_mean", {node.in.channels}, false});
    spec_.buffers.push_back({node.name + ".running_var", {node.in.channels}, false});
    return node.in;
  }

  ValueShape attention(const Node& node) {
    need_rows(node);
    const std::int64_t width = node.in.width;
    need_extent(node, "heads", node.layer->heads);
    if (width % node.layer->heads != 0)
      wants(node, "a width that its " + std::to_string(node.layer->heads) + " heads divide");
    const double glorot = std::sqrt(6.0 / static_cast<double>(4 * width));
    add(node.name + ".in_proj_weight", {3 * width, width}, {FirstValues::Kind::uniform, glorot});
    add(node.name + ".in_proj_bias", {3 * width}, constant(0));
    add(node.name + ".out_proj.weight", {width, width}, within_inputs(width));
    add(node.name + ".out_proj.bias", {width}, constant(0));
    return node.in;
  }

  ValueShape embedding(const Node& node) {
    need(node, Kind::ids, "numbers of tokens; it is a first layer");
    need_extent(node, "vocabulary", node.layer->vocabulary);
    need_extent(node, "out", node.layer->out);
    add(node.name + ".weight", {node.layer->vocabulary, node.layer->out}, normal(1));
    return ValueShape::rows(node.in.tokens, node.layer->out);
  }

  ValueShape residual(Node& node) {
    if (node.in.kind != Kind::map) need_rows(node);
    if (node.layer->body.empty()) refuse(network_, node, "has no body");
    node.body = list(node.layer->body, node.name + ".", node.in);
    // Names that are given stand as they are, as torchvision's "downsample.0" do.
    std::string prefix = node.name + ".";
    if (!node.layer->shortcut.empty() && node.layer->shortcut[0].name.empty()) prefix += "shortcut.";
    node.shortcut = list(node.layer->shortcut, prefix, node.in);
    const ValueShape past = node.shortcut.empty() ? node.in : node.shortcut.back().out;
    if (!(node.body.back().out == past))
      refuse(network_, node,
             "adds " + to_text(node.body.back().out) + " of its body to " + to_text(past) +
                 " of its shortcut; they must be alike");
    return past;
  }

  const std::string network_;
  ModelSpec& spec_;
};

ValueShape shape_of(const Description& description) {
  const Input& input = description.input;
  const auto check = [&](const char* what, std::int64_t value, std::int64_t most = kMaxExtent) {
    if (value < 1 || value > most)
      throw Error(ErrorCode::invalid_argument, "the input of network " + json_text(description.name) +
                                                   " has " + std::to_string(value) + " " + what +
                                                   "; give 1 to " + std::to_string(most));
  };
  check("channels", input.channels);
  switch (input.kind) {
    case InputKind::features:
      return ValueShape::rows(1, input.channels);
    case InputKind::ids:
      return {Kind::ids, 0, 0, input.channels, 0};
    default:
      check("pixels a side", input.side);
      check("values in all", input.channels * input.side * input.side,
            static_cast<std::int64_t>(kMaxElements));
      return {Kind::images, input.channels, input.side, 0, 0};
  }
}

void check_names(const std::string& network, const ModelSpec& spec) {
  std::set<std::string> names;
  for (const ParameterSpec& parameter : spec.parameters)
    if (!names.insert(parameter.name).second)
      throw Error(ErrorCode::invalid_argument, "network " + json_text(network) + " has two parameters " +
                                                   json_text(parameter.name) +
                                                   "; give its layers different names");
}

}  // namespace

void refuse(const std::string& network, const Node& node, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "layer " + json_text(node.name) + " (" +
                                               std::string(name_of(node.kind())) + ") of network " +
                                               json_text(network) + " " + what);
}

std::vector<Node> nodes_of(const Description& description, ModelSpec& spec) {
  Walk walk(description.name, spec);
  std::vector<Node> nodes = walk.list(description.layers, "", shape_of(description));
  check_names(description.name, spec);
  return nodes;
}

}  // namespace muster::nn
