// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/checkpoint/provenance.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/checkpoint/xxh64.hpp"
#include "worker_sdk/nn/learner/text.hpp"

#include <cinttypes>
#include <span>
#include <utility>

namespace muster::train {
namespace {

std::string text_of(const float (&values)[data::kChannels]) {
  return format("(%g, %g, %g)", static_cast<double>(values[0]), static_cast<double>(values[1]),
                static_cast<double>(values[2]));
}

using Fact = std::pair<const char*, std::string>;

/// What a network should be used with as it was trained: name and value.
std::vector<Fact> input_facts(const TrainerOptions& options) {
  const data::Normalization& normalization = options.loader.normalization;
  return {{"precision", name_of(options.learner.precision)},
          {"normalization", text_of(normalization.mean) + " " + text_of(normalization.deviation)}};
}

/// What may differ, which is then said.
std::vector<Fact> facts_of(const Provenance& made, const TrainerOptions& options) {
  const data::Augmentation& augmentation = options.loader.augmentation;
  std::vector<Fact> facts = input_facts(options);
  facts.emplace_back("crop padding", std::to_string(augmentation.crop_padding));
  facts.emplace_back("flips", augmentation.flip ? "on" : "off");
  if (made.threads > 0) facts.emplace_back("threads", std::to_string(made.threads));
  if (!made.instructions.empty()) facts.emplace_back("instructions", made.instructions);
  return facts;
}

}  // namespace

std::string hash_of(const data::ImageData& data) {
  checkpoint::Xxh64 hash;
  for (const data::Images* images : {&data.train, &data.test})
    for (const auto* bytes : {&images->labels, &images->pixels})
      hash.update(std::as_bytes(std::span(*bytes)));
  return format("%016" PRIx64, hash.digest());
}

std::string name_of(nn::Precision precision) {
  if (precision == nn::Precision::tf32) return "tf32";
  if (precision == nn::Precision::f16) return "fp16";
  return precision == nn::Precision::bf16 ? "bf16" : "fp32";
}

void add_provenance(checkpoint::Scalars& scalars, const Provenance& made, const TrainerOptions& options) {
  if (!made.data.empty()) scalars.set("data", made.data);
  for (auto& [name, value] : facts_of(made, options)) scalars.set(name, std::move(value));
}

void add_loss_scale(checkpoint::Scalars& scalars, const LossScale& scale) {
  scalars.set("loss_scale", scale.factor);
  scalars.set("loss_scale_steps", scale.good);
  scalars.set("skipped_steps", scale.skipped);
}

LossScale loss_scale_of(const checkpoint::Checkpoint& from) {
  const checkpoint::Scalars& scalars = from.manifest.scalars;
  LossScale scale;
  if (!scalars.has("loss_scale")) return scale;
  scale.factor = scalars.number("loss_scale");
  scale.good = scalars.integer("loss_scale_steps");
  scale.skipped = scalars.integer("skipped_steps");
  if (!scale.is_possible(scalars.integer("step")))
    throw Error(ErrorCode::invalid_argument,
                "checkpoint " + from.path + " has a loss_scale of " + std::to_string(scale.factor) + ", " +
                    std::to_string(scale.good) + " steps old, and " + std::to_string(scale.skipped) +
                    " steps that were left out; take another one");
  return scale;
}

std::vector<std::string> compare_provenance(const std::string& path, const checkpoint::Scalars& theirs,
                                            const Provenance& ours, const TrainerOptions& options) {
  if (!ours.data.empty() && theirs.has("data") && theirs.text("data") != ours.data)
    throw Error(ErrorCode::invalid_argument,
                "checkpoint " + path + " is of a run with other images (hash " + theirs.text("data") +
                    ", this run's is " + ours.data +
                    "); give its --data, or another --checkpoint-dir, or only its weights with --init-from");
  std::vector<std::string> notes;
  for (const auto& [name, value] : facts_of(ours, options)) {
    if (!theirs.has(name) || theirs.text(name) == value) continue;
    if (std::string(name) == "precision" && ours.precision_is_a_choice)
      throw Error(ErrorCode::invalid_argument, "checkpoint " + path + " is of a run in " + theirs.text(name) +
                                                   ", and this machine's own choice is " + value +
                                                   "; give --precision " + theirs.text(name) +
                                                   " to go on in it, or " + value + " to change");
    notes.push_back("the checkpoint was made with " + std::string(name) + " " + theirs.text(name) +
                    ", this run has " + value + ": its bits are those of neither");
  }
  return notes;
}

std::vector<std::string> compare_inputs(const checkpoint::Scalars& theirs, const TrainerOptions& options) {
  std::vector<std::string> notes;
  for (const auto& [name, value] : input_facts(options))
    if (theirs.has(name) && theirs.text(name) != value)
      notes.push_back("the checkpoint was made with " + std::string(name) + " " + theirs.text(name) +
                      ", and is scored with " + value);
  return notes;
}

}  // namespace muster::train
