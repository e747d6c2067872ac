// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/plan.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/nn/plan_nodes.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace muster::nn {
namespace {

using Kind = ValueShape::Kind;
using Nodes = std::span<const Node>;

bool is_pool(const Node& node, std::int64_t kernel, std::int64_t padding) {
  const Layer& layer = *node.layer;
  return node.kind() == LayerKind::max_pool && layer.kernel == kernel && layer.stride == 2 &&
         (layer.padding < 0 ? kernel / 2 : layer.padding) == padding;
}

/// Makes steps of layers. Layers are taken from the front of what is left of a list.
class Fusion {
 public:
  explicit Fusion(Plan& plan) : plan_(plan) {}

  std::vector<PlannedStep> steps(Nodes nodes) {
    std::vector<PlannedStep> steps;
    while (!nodes.empty()) {
      const Node& first = nodes[0];
      nodes = first.in.kind == Kind::map || first.out.kind == Kind::map ? take_maps(nodes, steps)
                                                                        : take_rows(nodes, steps);
    }
    finish(steps);
    return steps;
  }

 private:
  static bool at(Nodes nodes, std::size_t i, LayerKind kind) {
    return i < nodes.size() && nodes[i].kind() == kind;
  }

  [[noreturn]] void refuse(const Node& node, const std::string& what) const {
    nn::refuse(plan_.spec.name, node, what);
  }

  PlannedStep step_of(StepKind kind, const Node& node) const {
    PlannedStep step;
    step.kind = kind;
    step.name = node.name;
    step.in = node.in;
    step.out = node.out;
    step.parameter = node.parameter;
    step.buffer = node.buffer;
    step.bias = node.layer->bias;
    step.heads = node.layer->heads;
    step.vocabulary = node.layer->vocabulary;
    step.share = node.layer->share;
    if (node.kind() == LayerKind::convolution)
      step.convolution = {node.in.channels,
                          node.out.channels,
                          node.in.side,
                          node.layer->kernel,
                          node.layer->stride,
                          node.layer->padding < 0 ? node.layer->kernel / 2 : node.layer->padding,
                          node.in.kind == Kind::images};
    return step;
  }

  Nodes take_maps(Nodes nodes, std::vector<PlannedStep>& steps) {
    const Node& node = nodes[0];
    switch (node.kind()) {
      case LayerKind::convolution:
        return take_convolution(nodes, steps);
      case LayerKind::residual:
        return take_residual(nodes, steps);
      case LayerKind::max_pool:
        if (!is_pool(node, 3, 1))
          refuse(node,
                 "can be 3 wide at stride 2 with padding 1, or behind a convolution with a bias and "
                 "ReLU 2 wide at stride 2 with padding 0");
        return take(StepKind::max_pool, nodes, steps);
      case LayerKind::average_pool:
        return take(StepKind::average_pool, nodes, steps);
      case LayerKind::tokens:
        return take(StepKind::tokens, nodes, steps);
      case LayerKind::flatten:
        // Rows of the channels of each pixel, one behind the other, are a row with the channels last.
        return take(node.layer->channels_last ? StepKind::tokens : StepKind::flatten, nodes, steps);
      case LayerKind::batch_norm:
        refuse(node, "stands behind a convolution without a bias, and nowhere else");
      default:  // ReLU
        refuse(node,
               "of maps stands behind a batch norm, a residual layer, or a convolution with a bias that "
               "a maximum over 2 x 2 follows");
    }
  }

  Nodes take(StepKind kind, Nodes nodes, std::vector<PlannedStep>& steps) const {
    steps.push_back(step_of(kind, nodes[0]));
    return nodes.subspan(1);
  }

  Nodes take_convolution(Nodes nodes, std::vector<PlannedStep>& steps) const {
    const Node& convolution = nodes[0];
    if (at(nodes, 1, LayerKind::batch_norm)) {
      if (convolution.layer->bias)
        refuse(convolution, "has a bias, which the batch norm behind it takes away; give \"bias\": false");
      if (!at(nodes, 2, LayerKind::relu))
        refuse(nodes[1], "needs ReLU behind it, unless a residual layer of maps ends with it");
      steps.push_back(step_of(StepKind::convolution_norm, convolution));
      return nodes.subspan(3);
    }
    const bool relu_first = at(nodes, 1, LayerKind::relu);
    const std::size_t pool = relu_first ? 2 : 1;
    const bool pooled = pool < nodes.size() && is_pool(nodes[pool], 2, 0) &&
                        (relu_first || at(nodes, 2, LayerKind::relu)) && convolution.layer->bias;
    if (!pooled) return take(StepKind::convolution, nodes, steps);
    PlannedStep step = step_of(StepKind::convolution_pool, convolution);
    if (step.convolution.result().side % 2 != 0)
      refuse(nodes[pool], "gets " + to_text(nodes[pool].in) + " and needs an even number of pixels");
    const bool flat = at(nodes, 3, LayerKind::flatten) && nodes[3].layer->channels_last;
    step.pooled_to = flat ? PooledTo::features : PooledTo::map;
    step.out = nodes[flat ? 3 : 2].out;
    steps.push_back(std::move(step));
    return nodes.subspan(flat ? 4 : 3);
  }

  /// A convolution and its norm without ReLU, the last ones of `nodes`.
  PlannedStep last_norm(const Node& residual, Nodes nodes) const {
    const std::size_t count = nodes.size();
    if (count < 2 || nodes[count - 1].kind() != LayerKind::batch_norm ||
        nodes[count - 2].kind() != LayerKind::convolution || nodes[count - 2].layer->bias)
      refuse(residual,
             "of maps needs a body, and a shortcut if it has one, that end with a convolution "
             "without a bias and a batch norm");
    return step_of(StepKind::convolution_norm, nodes[count - 2]);
  }

  Nodes take_residual(Nodes nodes, std::vector<PlannedStep>& steps) {
    const Node& node = nodes[0];
    if (!at(nodes, 1, LayerKind::relu)) refuse(node, "of maps needs ReLU behind it");
    // Its backward gives the gradient of what it reads in two parts.
    if (!steps.empty() && steps.back().kind != StepKind::convolution_norm &&
        steps.back().kind != StepKind::residual_maps && steps.back().kind != StepKind::max_pool)
      refuse(node, "of maps stands behind a batch norm and ReLU, a maximum over 3 x 3 or another one");
    PlannedStep step = step_of(StepKind::residual_maps, node);
    const Nodes body = node.body;
    PlannedStep last = last_norm(node, body);
    step.body = this->steps(body.first(body.size() - 2));
    for (const PlannedStep& inner : step.body)
      if (inner.out.kind != Kind::map || inner.kind == StepKind::residual_maps)
        refuse(node, "of maps has no layer in its body that makes rows, and no residual one");
    count_parameters(last);
    step.body.push_back(std::move(last));
    if (!node.shortcut.empty()) {
      if (node.shortcut.size() != 2) refuse(node, "has a shortcut of one convolution and one batch norm");
      step.shortcut.push_back(last_norm(node, node.shortcut));
      count_parameters(step.shortcut.back());
      if (node.in.elements() > plan_.largest_shortcut.elements()) plan_.largest_shortcut = node.in.extent();
    }
    steps.push_back(std::move(step));
    return nodes.subspan(2);
  }

  Nodes take_rows(Nodes nodes, std::vector<PlannedStep>& steps) {
    const Node& node = nodes[0];
    switch (node.kind()) {
      case LayerKind::linear: {
        const bool hidden = at(nodes, 1, LayerKind::relu) && node.layer->bias && node.in.tokens == 1 &&
                            !steps.empty() && !steps.back().reads_result() &&
                            has_own_gradient(nodes.subspan(2));
        if (!hidden) return take(StepKind::linear, nodes, steps);
        take(StepKind::hidden, nodes, steps);
        return nodes.subspan(2);
      }
      case LayerKind::attention:
        return take_attention(nodes, steps);
      case LayerKind::flatten:  // rows that follow each other are one row already
        return nodes.subspan(1);
      case LayerKind::residual: {
        PlannedStep step = step_of(StepKind::residual_rows, node);
        step.body = this->steps(node.body);
        step.shortcut = this->steps(node.shortcut);
        if (step.body.empty()) refuse(node, "has a body that computes nothing");
        // The gradient of the sum must stay until it has gone past the body, too.
        const PlannedStep& last = step.body.back();
        step.in_place = !last.reads_result() && last.kind != StepKind::dropout &&
                        (last.kind == StepKind::residual_rows || !last.in_place);
        steps.push_back(std::move(step));
        return nodes.subspan(1);
      }
      case LayerKind::dropout: {
        take(StepKind::dropout, nodes, steps);
        steps.back().number = dropouts_++;
        return nodes.subspan(1);
      }
      default:
        return take(kind_of(node), nodes, steps);
    }
  }

  /// Whether the gradient that comes back through `nodes`, the rest of a list, is not that of the list's
  /// result: a hidden step writes into it, and that of a residual layer is needed past the body, too.
  static bool has_own_gradient(Nodes nodes) {
    return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
      return node.kind() != LayerKind::flatten && node.kind() != LayerKind::positions;
    });
  }

  StepKind kind_of(const Node& node) const {
    switch (node.kind()) {
      case LayerKind::linear:
        return StepKind::linear;
      case LayerKind::relu:
        return StepKind::relu;
      case LayerKind::gelu:
        return StepKind::gelu;
      case LayerKind::layer_norm:
        return StepKind::layer_norm;
      case LayerKind::positions:
        return StepKind::positions;
      case LayerKind::token_mean:
        return StepKind::token_mean;
      case LayerKind::embedding:
        return StepKind::embedding;
      case LayerKind::grey:
        return StepKind::grey;
      default:
        refuse(node, "gets " + to_text(node.in) + ", for which there is no such layer");
    }
  }

  Nodes take_attention(Nodes nodes, std::vector<PlannedStep>& steps) const {
    const Node& node = nodes[0];
    PlannedStep in = step_of(StepKind::linear, node);
    in.name += ".in_proj";
    in.out.width *= 3;
    in.bias = true;
    PlannedStep core = step_of(StepKind::attention, node);
    core.in = in.out;
    PlannedStep out = step_of(StepKind::linear, node);
    out.name += ".out_proj";
    out.parameter += 2;
    out.bias = true;
    for (PlannedStep* step : {&in, &core, &out}) steps.push_back(std::move(*step));
    return nodes.subspan(1);
  }

  /// What depends on the neighbours of a step.
  void finish(std::vector<PlannedStep>& steps) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      PlannedStep& step = steps[i];
      const bool follows_kept = i > 0 && steps[i - 1].reads_result();
      const bool could =
          step.kind == StepKind::relu || step.kind == StepKind::positions || step.kind == StepKind::dropout;
      // In an evaluation such a dropout passes on what it reads, which others may read after it.
      const bool follows_passed = i > 0 && steps[i - 1].kind == StepKind::dropout && !steps[i - 1].in_place;
      if (could) step.in_place = i > 0 && !follows_kept && !follows_passed;
      if (follows_kept) plan_.kept_result = std::max(plan_.kept_result, steps[i - 1].out.elements());
      count_parameters(step);
    }
  }

  static void count_parameters(PlannedStep& step) {
    const std::size_t with_bias = step.bias ? 2 : 1;
    switch (step.kind) {
      case StepKind::convolution_norm:
        step.parameters = 3;
        break;
      case StepKind::convolution_pool:
      case StepKind::layer_norm:
        step.parameters = 2;
        break;
      case StepKind::convolution:
      case StepKind::linear:
      case StepKind::hidden:
        step.parameters = with_bias;
        break;
      case StepKind::positions:
      case StepKind::embedding:
        step.parameters = 1;
        break;
      default:
        for (const auto* list : {&step.body, &step.shortcut})
          for (const PlannedStep& inner : *list) step.parameters += inner.parameters;
    }
  }

  Plan& plan_;
  std::uint32_t dropouts_ = 0;
};

/// The last layer of a network becomes its head.
void make_head(const Description& description, const Node& last, Plan& plan) {
  const std::string& name = description.name;
  if (last.kind() != LayerKind::linear) refuse(name, last, "is the last layer, which must be a linear one");
  if (last.in.tokens != 1)
    refuse(name, last,
           "gets " + to_text(last.in) +
               " and needs one row as the last layer; put token_mean or "
               "flatten ahead of it");
  if (!last.layer->bias) refuse(name, last, "is the last layer, which has a bias; leave out \"bias\": false");
  if (description.loss == Loss::cross_entropy && last.out.width < 2)
    refuse(name, last, "gives one number; cross entropy tells at least 2 classes apart");
  plan.steps.back().kind = StepKind::head;
  plan.spec.classes = last.out.width;
}

}  // namespace

double PlannedStep::operations() const {
  double sum = 0;
  switch (kind) {
    case StepKind::convolution_norm:
    case StepKind::convolution_pool:
    case StepKind::convolution:
      return convolution.operations();
    case StepKind::linear:
    case StepKind::hidden:
    case StepKind::head:
      return 2.0 * static_cast<double>(in.width) * static_cast<double>(out.width * out.tokens);
    case StepKind::attention:  // each token with each other one: its key, then its value
      return 4.0 * static_cast<double>(out.tokens * out.tokens) * static_cast<double>(out.width);
    default:
      for (const auto* list : {&body, &shortcut})
        for (const PlannedStep& inner : *list) sum += inner.operations();
      return sum;
  }
}

void each_step(const std::vector<PlannedStep>& steps, const std::function<void(const PlannedStep&)>& visit) {
  for (const PlannedStep& step : steps) {
    each_step(step.body, visit);
    each_step(step.shortcut, visit);
    visit(step);
  }
}

void check_steps(const Plan& plan, const std::function<std::string(const PlannedStep&)>& objection) {
  each_step(plan.steps, [&](const PlannedStep& step) {
    const std::string text = objection(step);
    if (!text.empty())
      throw Error(ErrorCode::unsupported,
                  "layer " + json_text(step.name) + " of network " + json_text(plan.spec.name) + " " + text);
  });
}

std::size_t first_trained(const std::vector<PlannedStep>& steps) {
  std::size_t i = 0;
  while (i + 1 < steps.size() && steps[i].parameters == 0) ++i;
  return i;
}

double Plan::flops_per_sample() const {
  // Forward, gradient of the weights, gradient of the input, which the first one leaves out.
  const PlannedStep& first = steps[first_trained(steps)];
  double sum = first.body.empty() ? -first.operations() : 0;
  for (const PlannedStep& step : steps) sum += 3 * step.operations();
  return sum;
}

Plan plan_of(const Description& description) {
  Plan plan;
  plan.spec.name = description.name;
  plan.input = description.input;
  plan.loss = description.loss;
  const std::vector<Node> nodes = nodes_of(description, plan.spec);
  if (nodes.empty())
    throw Error(ErrorCode::invalid_argument,
                "network " + json_text(description.name) + " has no layers; it needs at least a linear one");
  plan.steps = Fusion(plan).steps(nodes);
  make_head(description, nodes.back(), plan);
  each_step(plan.steps, [&](const PlannedStep& step) { plan.spec.draws |= step.kind == StepKind::dropout; });
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].parameters == 0) continue;
    const std::vector<ParameterUnit> units = units_of(plan.steps[i], i);
    plan.units.insert(plan.units.end(), units.begin(), units.end());
  }
  return plan;
}

std::vector<ParameterUnit> units_of(const PlannedStep& step, std::size_t number) {
  std::vector<ParameterUnit> units;
  std::size_t next = step.parameter;
  bool in_order = step.kind == StepKind::residual_maps;
  for (const PlannedStep& inner : step.body) {
    in_order = in_order && inner.parameters > 0 && inner.parameter == next;
    units.push_back({inner.name, inner.parameter, inner.parameters, number});
    next += inner.parameters;
  }
  for (const PlannedStep& inner : step.shortcut) {
    in_order = in_order && inner.parameter == next;
    if (!units.empty()) units.back().count += inner.parameters;
    next += inner.parameters;
  }
  if (!in_order) return {{step.name, step.parameter, step.parameters, number}};
  return units;
}

std::string to_text(const ValueShape& shape) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  switch (shape.kind) {
    case Kind::rows:
      return (shape.tokens == 1 ? "one row" : number(shape.tokens) + " rows") + " of " + number(shape.width);
    case Kind::ids:
      return number(shape.tokens) + " numbers of tokens";
    default:
      return (shape.kind == Kind::map ? "maps of " : "images of ") + number(shape.channels) + " x " +
             number(shape.side) + " x " + number(shape.side);
  }
}

}  // namespace muster::nn
