// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/match.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <set>

namespace muster::checkpoint {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::invalid_argument, text);
}

bool differ_in_classes_only(const Shape& a, const Shape& b) {
  return a.size() == b.size() && !a.empty() && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

/// "conv1.weight [64, 3, 7, 7]"
std::string with_shape(const std::string& name, const Shape& shape) {
  return name + " " + text_of(shape);
}

void require_no_others(const TensorFiles& file, std::span<const Destination> to, const std::string& aside) {
  std::set<std::string_view> known;
  for (const Destination& destination : to) known.insert(destination.name);
  for (const auto& [name, tensor] : file.tensors())
    if (!known.contains(name) && (aside.empty() || !name.starts_with(aside)))
      refuse(file.path() + " has " + with_shape(name, tensor.shape) + ", which is no part of this run");
}

/// What --init-from is about to do.
class InitPlan {
 public:
  InitPlan(const TensorFiles& file, std::span<const Destination> to, const std::string& head) {
    std::set<std::string_view> known;
    for (const Destination& destination : to) {
      known.insert(destination.name);
      const bool in_head = !head.empty() && destination.name.starts_with(head);
      plan(destination, file.find(destination.name), in_head);
    }
    for (const auto& [name, tensor] : file.tensors())
      if (!known.contains(name) && !name.ends_with("num_batches_tracked"))
        differences.push_back("the file has " + with_shape(name, tensor.shape) + ", which the model lacks");
  }

  std::vector<std::pair<const TensorFiles::Tensor*, const Destination*>> copies;
  std::string replaced_text;
  std::vector<std::string> differences;

 private:
  void plan(const Destination& to, const TensorFiles::Tensor* from, bool in_head) {
    const std::string mine = with_shape(to.name, to.shape);
    if (from != nullptr && from->shape == to.shape) {
      if (from->type == Type::f32 || from->type == Type::bf16 || from->type == Type::f16 ||
          from->type == Type::f64)
        copies.emplace_back(from, &to);
      else
        differences.push_back(mine + " is " + std::string(name_of(from->type)) + " in the file");
      return;
    }
    if (in_head && (from == nullptr || differ_in_classes_only(from->shape, to.shape))) {
      replaced_text +=
          "; " + mine + " starts anew, the file has " + (from == nullptr ? "none" : text_of(from->shape));
      return;
    }
    differences.push_back(from == nullptr ? mine + " is missing"
                                          : mine + " is " + text_of(from->shape) + " in the file");
  }
};

void require_tensors(const TensorFiles& file, std::span<const Destination> to) {
  for (const Destination& destination : to) {
    const TensorFiles::Tensor* const tensor = file.find(destination.name);
    if (tensor == nullptr)
      refuse(file.path() + " lacks " + with_shape(destination.name, destination.shape) +
             ", the first difference to this run");
    if (tensor->shape != destination.shape)
      refuse(file.path() + " has " + with_shape(destination.name, tensor->shape) + ", this run has " +
             text_of(destination.shape) + " (the first difference)");
    if (tensor->type != Type::f32)
      refuse(file.path() + " has " + destination.name + " as " + std::string(name_of(tensor->type)) +
             ", not as F32");
  }
}

void read(const TensorFiles& file, const TensorFiles::Tensor& tensor, const Destination& to) {
  const Slice slice = slice_of(to);
  file.read_floats(tensor, {to.values, slice.count}, slice.begin);
}

void read_all(const TensorFiles& file, std::span<const Destination> to) {
  for (const Destination& destination : to) read(file, *file.find(destination.name), destination);
}

}  // namespace

void restore(const TensorFiles& file, std::span<const Destination> to, const std::string& aside) {
  require_tensors(file, to);
  require_no_others(file, to, aside);
  read_all(file, to);
}

void fill(const TensorFiles& file, std::span<const Destination> to) {
  require_tensors(file, to);
  read_all(file, to);
}

std::string init_from(const TensorFiles& file, std::span<const Destination> to, const std::string& head) {
  const InitPlan plan(file, to, head);
  if (!plan.differences.empty())
    refuse("the weights in " + file.path() + " are of another model: " + joined(plan.differences, "; ") +
           "; give weights of this model, or train that one");
  for (const auto& [tensor, destination] : plan.copies) read(file, *tensor, *destination);
  return std::to_string(plan.copies.size()) + " tensors from " + file.path() + plan.replaced_text;
}

std::string layer_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot + 1);
}

}  // namespace muster::checkpoint
