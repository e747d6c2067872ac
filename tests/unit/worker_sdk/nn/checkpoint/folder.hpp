// SPDX-License-Identifier: Apache-2.0
// What the tests of checkpoints share.
#pragma once

#include "tests/support/error_of.hpp"
#include "tests/support/folder.hpp"
#include "worker_sdk/nn/checkpoint/checkpoint.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::test {

/// A state whose every number follows from its step.
struct SampleState {
  explicit SampleState(std::int64_t step, std::int64_t elements = 8)
      : weights(static_cast<std::size_t>(elements), static_cast<float>(step)),
        momentum(static_cast<std::size_t>(elements), static_cast<float>(-step)) {
    state.model = "small-cnn";
    state.tensors = {{"conv1.weight", checkpoint::Type::f32, {elements / 2, 2}, weights.data()}};
    state.state = {{"momentum/conv1.weight", checkpoint::Type::f32, {elements / 2, 2}, momentum.data()}};
    state.scalars.set("step", step);
    state.scalars.set("loss", 0.1 * static_cast<double>(step));
    state.scalars.set("seed", std::string("18446744073709551615"));
  }

  SampleState(const SampleState&) = delete;
  SampleState& operator=(const SampleState&) = delete;

  std::vector<float> weights;
  std::vector<float> momentum;
  checkpoint::TrainingState state;
};

/// Whether all parts of a checkpoint are of one step.
inline bool is_whole(const checkpoint::Checkpoint& found, std::int64_t elements = 8) {
  const auto step = static_cast<float>(found.manifest.scalars.integer("step"));
  std::vector<float> values(static_cast<std::size_t>(elements));
  found.model.read_floats(found.model.tensors().begin()->second, values);
  if (values != std::vector<float>(values.size(), step)) return false;
  found.state.read_floats(found.state.tensors().begin()->second, values);
  return values == std::vector<float>(values.size(), -step);
}

/// A checkpoint that cannot be read.
struct Skipped {
  std::string path;
  std::string why;
};

/// The newest checkpoint that is complete; `skipped` gets the newer ones.
inline std::optional<checkpoint::Checkpoint> newest_complete(const std::string& folder,
                                                             std::vector<Skipped>& skipped) {
  for (const std::string& name : checkpoint::list_checkpoints(folder)) {
    try {
      return checkpoint::open_checkpoint(folder + "/" + name);
    } catch (const Error& error) {
      skipped.push_back({folder + "/" + name, error.what()});
    }
  }
  return std::nullopt;
}

}  // namespace muster::test
