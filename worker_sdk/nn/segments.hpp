// SPDX-License-Identifier: Apache-2.0
// The segments of a network whose activations backward computes again (ActivationCheckpoints), and what is
// then held. Pure.
#pragma once

#include "worker_sdk/nn/plan.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::nn {

/// Reads "none", "block", "sqrt" or a number of segments, from 1. Throws Error (invalid_argument).
ActivationCheckpoints checkpoints_of(const std::string& word);

/// Reads "none", "block", "sqrt" or a number of segments. Throws Error (invalid_argument) for another word,
/// and for more segments than that built-in model can be cut into.
ActivationCheckpoints activation_checkpoints(const std::string& word, std::string_view model);

/// The first step of each segment, ascending from 0. A step that writes where the one ahead of it has written
/// begins none. Segments of "about equal size" are cut so that the largest is as small as it can be, by the
/// elements that steps hold. Throws Error (invalid_argument) for no segments, and for more than there can be.
std::vector<std::size_t> segments_of(const Plan& plan, const ActivationCheckpoints& checkpoints);

/// Sets plan.segments, and what of the steps depends on them.
void set_segments(Plan& plan, const ActivationCheckpoints& checkpoints);

/// The law of memory: what each segment but the first reads, and what the steps of the largest segment hold.
/// `held` is what each step would hold without segments, `read` what each segment reads, of which the first
/// is not looked at. Returns each step's part of the sum: nothing where others use its memory.
std::vector<StepMemory> share_memory(std::vector<StepMemory> held, const std::vector<std::size_t>& segments,
                                     const std::vector<std::size_t>& read);

}  // namespace muster::nn
