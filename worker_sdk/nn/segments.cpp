// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/segments.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/nn/built_in.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace muster::nn {
namespace {

using How = ActivationCheckpoints::Kind;

/// Steps between which there can be no border.
struct Piece {
  std::size_t first = 0;
  std::size_t held = 0;  ///< elements
  std::size_t read = 0;  ///< elements
};

/// Elements that a step holds for a sample, not counting what it reads.
std::size_t held_elements(const PlannedStep& step) {
  std::size_t sum = step.in_place ? 0 : step.out.elements();
  if (step.kind == StepKind::convolution_norm || step.kind == StepKind::convolution_pool)
    sum += step.convolution.result().elements();
  for (const auto* list : {&step.body, &step.shortcut}) {
    for (const PlannedStep& inner : *list) sum += held_elements(inner);
    // The norms that end body and shortcut write the result of the residual layer.
    if (step.kind == StepKind::residual_maps && !list->empty()) sum -= list->back().out.elements();
  }
  return sum;
}

/// A residual layer is in place within itself. The gradient of what positions read is where that of their
/// result is, and so not where a segment keeps what it reads.
bool can_begin(const PlannedStep& step) {
  return step.kind == StepKind::residual_rows || (!step.in_place && step.kind != StepKind::positions);
}

std::vector<Piece> pieces_of(const std::vector<PlannedStep>& steps) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i == 0 || can_begin(steps[i])) pieces.push_back({i, 0, steps[i].in.elements()});
    pieces.back().held += held_elements(steps[i]);
  }
  return pieces;
}

/// Segments of a list of pieces.
struct Cut {
  std::size_t largest = std::numeric_limits<std::size_t>::max();  ///< elements of the largest segment
  std::size_t read = 0;                                           ///< elements that all segments read
  std::size_t last = 0;                                           ///< first piece of the last segment

  bool operator<(const Cut& other) const {
    return std::pair(largest, read) < std::pair(other.largest, other.read);
  }
};

/// `count` segments whose largest is as small as it can be: for each length of the list and each number of
/// segments, the best place of the last border.
std::vector<std::size_t> cut(const std::vector<Piece>& pieces, std::size_t count) {
  const std::size_t all = pieces.size();
  std::vector<std::size_t> held_before(all + 1);
  for (std::size_t i = 0; i < all; ++i) held_before[i + 1] = held_before[i] + pieces[i].held;
  std::vector<std::vector<Cut>> best(count + 1, std::vector<Cut>(all + 1));
  best[0][0].largest = 0;
  for (std::size_t segments = 1; segments <= count; ++segments)
    for (std::size_t end = segments; end <= all; ++end)
      for (std::size_t last = segments - 1; last < end; ++last) {
        const Cut& before = best[segments - 1][last];
        const Cut now = {std::max(before.largest, held_before[end] - held_before[last]),
                         before.read + pieces[last].read, last};
        best[segments][end] = std::min(best[segments][end], now);
      }
  std::vector<std::size_t> firsts;
  for (std::size_t segments = count, end = all; segments > 0; --segments) {
    end = best[segments][end].last;
    firsts.insert(firsts.begin(), pieces[end].first);
  }
  return firsts;
}

/// Steps without parameters go with those ahead of them, and those ahead of all parameters with the first
/// one.
std::vector<std::size_t> blocks_of(const std::vector<PlannedStep>& steps) {
  std::vector<std::size_t> firsts = {0};
  for (std::size_t i = first_trained(steps) + 1; i < steps.size(); ++i)
    if (steps[i].parameters > 0 && can_begin(steps[i])) firsts.push_back(i);
  return firsts;
}

}  // namespace

ActivationCheckpoints checkpoints_of(const std::string& word) {
  if (word == "none") return {};
  if (word == "block") return {How::block, 0};
  if (word == "sqrt") return {How::sqrt, 0};
  ActivationCheckpoints checkpoints = {How::count, 0};
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, checkpoints.segments);
  if (error != std::errc() || rest != end || checkpoints.segments == 0)
    throw Error(ErrorCode::invalid_argument, json_text(word) +
                                                 " says no segments of a network; give none, block, sqrt or "
                                                 "a number from 1");
  return checkpoints;
}

std::vector<std::size_t> segments_of(const Plan& plan, const ActivationCheckpoints& checkpoints) {
  if (checkpoints.kind == How::none) return {0};
  if (checkpoints.kind == How::block) return blocks_of(plan.steps);
  const std::vector<Piece> pieces = pieces_of(plan.steps);
  std::size_t count = checkpoints.segments;
  if (checkpoints.kind == How::sqrt)
    count =
        std::min(pieces.size(),
                 static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(plan.steps.size())))));
  if (count < 1 || count > pieces.size())
    throw Error(ErrorCode::invalid_argument,
                "network " + json_text(plan.spec.name) + " cannot be cut into " + std::to_string(count) +
                    " segments; give a number from 1 to " + std::to_string(pieces.size()));
  return cut(pieces, count);
}

void set_segments(Plan& plan, const ActivationCheckpoints& checkpoints) {
  plan.segments = segments_of(plan, checkpoints);
  for (ParameterUnit& unit : plan.units) {
    const auto next = std::upper_bound(plan.segments.begin(), plan.segments.end(), unit.step);
    unit.segment = static_cast<std::size_t>(next - plan.segments.begin()) - 1;
  }
  for (const std::size_t first : plan.segments) {
    PlannedStep& step = plan.steps[first];
    if (first == 0 || step.kind != StepKind::residual_maps || !step.shortcut.empty()) continue;
    step.sum_aside = true;
    if (step.out.elements() > plan.largest_shortcut.elements()) plan.largest_shortcut = step.out.extent();
  }
}

std::vector<StepMemory> share_memory(std::vector<StepMemory> held, const std::vector<std::size_t>& segments,
                                     const std::vector<std::size_t>& read) {
  const auto end_of = [&](std::size_t segment) {
    return segment + 1 < segments.size() ? segments[segment + 1] : held.size();
  };
  std::size_t largest = 0;
  std::size_t most = 0;
  for (std::size_t segment = 0; segment < segments.size(); ++segment) {
    std::size_t sum = 0;
    for (std::size_t i = segments[segment]; i < end_of(segment); ++i) sum += held[i].bytes_per_sample;
    if (sum <= most) continue;
    most = sum;
    largest = segment;
  }
  for (std::size_t i = 0; i < held.size(); ++i)
    if (i < segments[largest] || i >= end_of(largest)) held[i].bytes_per_sample = 0;
  for (std::size_t segment = 1; segment < segments.size(); ++segment)
    held[segments[segment]].bytes_per_sample += read[segment];
  return held;
}

ActivationCheckpoints activation_checkpoints(const std::string& word, std::string_view model) {
  const ActivationCheckpoints checkpoints = checkpoints_of(word);
  (void)segments_of(plan_of(built_in(model, 10)), checkpoints);
  return checkpoints;
}

}  // namespace muster::nn
