// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/checkpoint/given_checkpoint.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/muster_train/checkpoint/provenance.hpp"
#include "worker_sdk/nn/checkpoint/match.hpp"
#include "worker_sdk/nn/learner/tensor_views.hpp"

#include <filesystem>

namespace muster::train {

checkpoint::Checkpoint open_given(const std::string& path, const checkpoint::Share& share) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error) &&
      !std::filesystem::exists(path + "/manifest.json", error)) {
    const std::string names = joined_by(checkpoint::list_checkpoints(path),
                                        [&path](const std::string& name) { return path + "/" + name; });
    if (!names.empty())
      throw Error(ErrorCode::invalid_argument,
                  path + " is a folder of checkpoints; give one of them: " + names);
  }
  return checkpoint::open_checkpoint(path, share);
}

std::vector<std::string> read_model(const checkpoint::Checkpoint& from, const TrainerOptions& options,
                                    Learner& learner) {
  const std::string average = "ema/";
  const nn::ModelSpec& spec = learner.spec();
  if (from.manifest.model != spec.name)
    throw Error(ErrorCode::invalid_argument, "checkpoint " + from.path + " is of a run with model " +
                                                 from.manifest.model + ", this one has " + spec.name +
                                                 "; give that --model, or another checkpoint");
  std::vector<std::string> notes = compare_inputs(from.manifest.scalars, options);
  const std::vector<checkpoint::Destination> model = destinations(learner.model_tensors());
  std::vector<checkpoint::Destination> averaged(
      model.begin(), model.begin() + static_cast<std::ptrdiff_t>(spec.parameters.size()));
  for (checkpoint::Destination& tensor : averaged) tensor.name = average + tensor.name;
  checkpoint::restore(from.model, model);
  if (from.state.find(averaged.front().name) == nullptr) return notes;
  checkpoint::fill(from.state, averaged);
  notes.push_back("the weights are the average that " + from.path + " holds");
  return notes;
}

}  // namespace muster::train
