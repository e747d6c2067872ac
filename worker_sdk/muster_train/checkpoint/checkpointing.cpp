// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/checkpoint/checkpointing.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/comm/texts.hpp"
#include "worker_sdk/muster_train/checkpoint/given_checkpoint.hpp"
#include "worker_sdk/nn/checkpoint/match.hpp"
#include "worker_sdk/nn/learner/tensor_views.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <utility>

namespace muster::train {
namespace {

/// Far beyond what a disk takes for a model; a write that hangs is an error, not a pause.
constexpr std::chrono::minutes kWriteDeadline{1};

void require_same(const std::string& path, const std::string& what, const std::string& theirs,
                  const std::string& ours) {
  if (theirs == ours) return;
  throw Error(ErrorCode::invalid_argument, "checkpoint " + path + " is of a run with " + what + " " + theirs +
                                               ", this one has " + ours +
                                               "; give what it was made with, or another --checkpoint-dir");
}

Position position_of(const checkpoint::Checkpoint& from, std::size_t images) {
  const checkpoint::Scalars& scalars = from.manifest.scalars;
  Position position;
  try {
    position.epoch = static_cast<int>(scalars.integer("epoch", 0, std::numeric_limits<int>::max()));
    position.step = scalars.integer("step", 0, kMostSteps);
    position.sample =
        static_cast<std::size_t>(scalars.integer("sample", 0, static_cast<std::int64_t>(images)));
    position.loss = scalars.number("epoch_loss");
    position.correct = scalars.number("epoch_correct");
  } catch (const Error& error) {
    throw Error(error.code(), "checkpoint " + from.path + ": " + error.what() + "; take another one");
  }
  return position;
}

/// What the memory of a hook depends on.
std::string hook_layout(const ReducerOptions& options) {
  if (options.hook == nullptr) return "";
  std::string text = options.hook->describe() + ", buckets of";
  for (const std::size_t bytes :
       {options.first_bucket_bytes, options.bucket_bytes, options.last_bucket_bytes})
    text += " " + std::to_string(bytes);
  return text;
}

/// In blocks that compile to vectors: a large model is looked through while its training stands still.
bool all_finite(std::span<const float> values) {
  constexpr std::size_t kBlock = 1024;
  constexpr std::uint32_t kExponent = 0x7F800000;
  while (values.size() >= kBlock) {
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < kBlock; ++i)
      found |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(values[i]) & kExponent) == kExponent);
    if (found != 0) return false;
    values = values.subspan(kBlock);
  }
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

/// What `body` returns; its error names the flag that led to it.
template <typename Body>
auto naming(const char* flag, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(error.code(), std::string(flag) + ": " + error.what());
  }
}

bool is_first(const ProcessGroup* group) {
  return group == nullptr || group->rank() == 0;
}

checkpoint::Share share_of(const Learner& learner, const ProcessGroup* group) {
  if (!learner.is_in_shards()) return {};
  return {group->rank(), group->size()};
}

/// What a rank says of a checkpoint that it does not see at all.
constexpr const char* kUnseen = "unseen";

/// Refuses a checkpoint that some ranks see, and others do not.
void require_seen(const std::vector<std::string>& told, const std::string& path) {
  const auto unseen = std::find(told.begin(), told.end(), kUnseen);
  if (unseen == told.end() || std::count(unseen, told.end(), kUnseen) == std::ssize(told)) return;
  throw Error(ErrorCode::invalid_argument,
              "rank " + std::to_string(unseen - told.begin()) + " does not see " + path +
                  ", and where the model is in shards every rank reads its part; give a place that all hosts "
                  "share");
}

/// What a rank that has no error of its own throws: that of the first one that has.
Error consequence(const std::vector<std::string>& errors) {
  const auto first =
      std::find_if(errors.begin(), errors.end(), [](const auto& error) { return !error.empty(); });
  return {ErrorCode::aborted, "rank " + std::to_string(first - errors.begin()) + ": " + *first};
}

}  // namespace

Checkpointing::Checkpointing(const CheckpointOptions& options, const TrainerOptions& run, Trainer& trainer,
                             ProcessGroup* group)
    : options_(options),
      run_(run),
      trainer_(trainer),
      group_(group),
      hook_(trainer.learner().hook_state(), hook_layout(run.learner.reducer), group),
      share_(share_of(trainer.learner(), group)) {
  // Now, not after the training.
  if (is_first(group) && !options.export_file.empty())
    naming("--export", [&] { checkpoint::require_safetensors_place(options.export_file); });
  if (options.folder.empty() || options.only_read || !reads()) return;
  if (is_first(group)) {
    checkpoint::StoreOptions store;
    store.folder = options.folder;
    store.keep = options.keep;
    store_ = naming("--checkpoint-dir",
                    [&] { return std::make_shared<checkpoint::CheckpointStore>(std::move(store)); });
  }
  checkpoint::Together together{share_};
  together.largest = [group](int mine) {
    std::int32_t number = mine;
    group->all_reduce(&number, 1, DataType::i32, ReduceOp::max);
    return number;
  };
  together.exchange = [group](const std::string& mine) { return all_texts(group, mine); };
  writer_.emplace(options.folder, store_, std::move(together), kWriteDeadline);
}

Checkpointing::~Checkpointing() = default;

checkpoint::TrainingState Checkpointing::state() {
  const Position& position = trainer_.position();
  Learner& learner = trainer_.learner();
  checkpoint::TrainingState state;
  state.model = learner.spec().name;
  state.tensors = views(learner.model_tensors(false, Extent::written));
  state.state = views(learner.state_tensors(Extent::written));
  const std::vector<checkpoint::TensorView> hook = hook_.tensors();
  state.state.insert(state.state.end(), hook.begin(), hook.end());
  state.scalars.set("hook", hook_.layout());
  state.scalars.set("epoch", std::int64_t{position.epoch});
  state.scalars.set("step", position.step);
  state.scalars.set("sample", static_cast<std::int64_t>(position.sample));
  state.scalars.set("epoch_loss", position.loss);
  state.scalars.set("epoch_correct", position.correct);
  state.scalars.set("world_size", std::int64_t{trainer_.shape().ranks});
  state.scalars.set("global_batch", static_cast<std::int64_t>(trainer_.shape().global_batch()));
  state.scalars.set("seed", std::to_string(run_.seed));
  state.scalars.set("optimizer", std::string(learner.optimizer_kind()));
  state.scalars.set("train_images", static_cast<std::int64_t>(trainer_.train_images()));
  add_provenance(state.scalars, options_.provenance, run_);
  if (learner.loss_scale() != LossScale()) add_loss_scale(state.scalars, learner.loss_scale());
  return state;
}

void Checkpointing::resume(const checkpoint::Checkpoint& from, std::vector<std::string>& notes) {
  const checkpoint::Scalars& scalars = from.manifest.scalars;
  Learner& learner = trainer_.learner();
  require_same(from.path, "model", from.manifest.model, learner.spec().name);
  require_same(from.path, "optimizer", scalars.text("optimizer"), learner.optimizer_kind());
  require_same(from.path, "seed", scalars.text("seed"), std::to_string(run_.seed));
  require_same(from.path, "training images", std::to_string(scalars.integer("train_images")),
               std::to_string(trainer_.train_images()));
  for (std::string& note : compare_provenance(from.path, scalars, options_.provenance, run_))
    notes.push_back(std::move(note));
  checkpoint::restore(from.model, destinations(learner.model_tensors()));
  checkpoint::restore(from.state, destinations(learner.state_tensors()), kHookPrefix);
  const std::string note = hook_.read(from.state, scalars.has("hook") ? scalars.text("hook") : "");
  if (!note.empty()) notes.push_back(note);
  const auto now = static_cast<std::int64_t>(trainer_.shape().global_batch());
  if (const std::int64_t then = scalars.integer("global_batch"); then != now)
    notes.push_back("the checkpoint was made with " + std::to_string(then) +
                    " images per step, this run has " + std::to_string(now) +
                    ": the rate goes on by images; --global-batch " + std::to_string(then) +
                    " keeps the steps");
  trainer_.set_position(position_of(from, trainer_.train_images()));
  learner.loss_scale() = loss_scale_of(from);
}

/// Runs `body` on a rank that reads or writes. Where it throws on one of them, it does on all.
template <typename Body>
void Checkpointing::alike(const Body& body) {
  std::optional<Error> error;
  try {
    body();
  } catch (const Error& own) {
    error = own;
  } catch (const std::exception& own) {
    error = Error(ErrorCode::state, own.what());
  }
  if (share_.count > 1) {
    std::int32_t failed = error ? 1 : 0;
    group_->all_reduce(&failed, 1, DataType::i32, ReduceOp::max);
    if (failed == 0) return;
    const std::vector<std::string> errors = all_texts(group_, error ? error->what() : "");
    if (!error) error = consequence(errors);
  }
  if (error) throw *error;
}

Checkpointing::Opened Checkpointing::open(const std::string& path, const Opener& opener) {
  Opened opened;
  std::string why;
  try {
    opened.checkpoint = opener(path, share_);
  } catch (const Error& error) {
    opened.error = error;
    std::error_code ignored;
    why = std::filesystem::exists(path, ignored) ? error.what() : kUnseen;
  }
  if (share_.count == 1) return opened;
  const std::vector<std::string> all = all_texts(group_, why);
  require_seen(all, path);
  if (std::any_of(all.begin(), all.end(), [](const auto& error) { return !error.empty(); })) {
    if (!opened.error) opened.error = consequence(all);
    opened.checkpoint.reset();
  }
  return opened;
}

std::optional<checkpoint::Checkpoint> Checkpointing::newest(std::vector<std::string>& notes) {
  std::string names;
  alike([&] {
    if (is_first(group_)) names = joined(checkpoint::list_checkpoints(options_.folder), "\n");
  });
  if (share_.count > 1) names = all_texts(group_, names).front();
  std::istringstream lines(names);
  for (std::string name; std::getline(lines, name);) {
    const std::string path = options_.folder + "/" + name;
    Opened opened = open(path, checkpoint::open_checkpoint);
    if (opened.checkpoint) return std::move(opened.checkpoint);
    notes.push_back("skipped checkpoint " + path + ": " + opened.error->what());
  }
  return std::nullopt;
}

std::optional<checkpoint::Checkpoint> Checkpointing::find(std::vector<std::string>& notes) {
  if (!options_.folder.empty() && options_.resume) {
    if (auto found = naming("--checkpoint-dir", [&] { return newest(notes); })) {
      if (store_) store_->continue_from(*found);
      newest_ = found->path;
      return found;
    }
  }
  if (options_.resume_from.empty()) return std::nullopt;
  return naming("--resume-from", [this] {
    Opened opened = open(options_.resume_from, open_given);
    if (opened.error) throw *opened.error;
    return std::move(opened.checkpoint);
  });
}

std::vector<std::string> Checkpointing::read(bool& resumed) {
  std::vector<std::string> notes;
  if (const auto from = find(notes)) {
    if (options_.only_read) {
      alike([&] {
        for (std::string& note : read_model(*from, run_, trainer_.learner()))
          notes.push_back(std::move(note));
      });
      notes.push_back("scores " + from->path);
      return notes;
    }
    alike([&] { resume(*from, notes); });
    resumed = true;
    notes.push_back("resumed from " + from->path + ": epoch " +
                    std::to_string(trainer_.position().epoch + 1) + ", step " +
                    std::to_string(trainer_.position().step));
    return notes;
  }
  if (options_.only_read && options_.init_from.empty())
    throw Error(ErrorCode::invalid_argument,
                "there is no complete checkpoint in " + options_.folder +
                    ", so nothing to score; give another --checkpoint-dir, or weights with --init-from");
  if (!options_.init_from.empty()) {
    const nn::ModelSpec& spec = trainer_.learner().spec();
    naming("--init-from", [&] {
      alike([&] {
        notes.push_back(checkpoint::init_from(checkpoint::SafetensorsFile(options_.init_from),
                                              destinations(trainer_.learner().model_tensors()),
                                              checkpoint::layer_of(spec.parameters.back().name)));
      });
    });
  }
  return notes;
}

void Checkpointing::share(bool resumed) {
  Position position = trainer_.position();
  // Resumed, from the newest of the folder; epoch, step, sample; steps of the loss scale.
  LossScale& scale = trainer_.learner().loss_scale();
  std::array<std::int64_t, 7> counts = {resumed ? 1 : 0,
                                        newest_.empty() ? 0 : 1,
                                        position.epoch,
                                        position.step,
                                        static_cast<std::int64_t>(position.sample),
                                        scale.good,
                                        scale.skipped};
  std::array<double, 3> sums = {position.loss, position.correct, scale.factor};
  if (group_ != nullptr && group_->size() > 1) {
    group_->broadcast(counts.data(), sizeof counts, 0);
    group_->broadcast(sums.data(), sizeof sums, 0);
  }
  trainer_.learner().share_state();
  if (counts[0] == 0) return;
  position.epoch = static_cast<int>(counts[2]);
  position.step = counts[3];
  position.sample = static_cast<std::size_t>(counts[4]);
  position.loss = sums[0];
  position.correct = sums[1];
  trainer_.set_position(position);
  if (counts[1] == 1) saved_ = position;
  trainer_.learner().set_steps(position.step);
  scale = {sums[2], counts[5], counts[6]};
  hook_.share();
}

std::vector<std::string> Checkpointing::begin() {
  if (options_.folder.empty() && options_.init_from.empty() && options_.resume_from.empty()) return {};
  bool resumed = false;
  std::vector<std::string> notes;
  if (reads()) notes = read(resumed);
  share(resumed);
  return is_first(group_) ? notes : std::vector<std::string>();
}

checkpoint::TrainingState Checkpointing::gather() {
  // A checkpoint holds rank 0's running statistics; from here on, so do the others.
  trainer_.learner().share_statistics();
  hook_.gather();
  return writer_ ? state() : checkpoint::TrainingState();
}

void Checkpointing::require_finite(const std::vector<checkpoint::TensorView>& tensors,
                                   const char* what) const {
  for (const checkpoint::TensorView& tensor : tensors) {
    const std::span<const float> values(static_cast<const float*>(tensor.data),
                                        checkpoint::slice_of(tensor).count);
    if (all_finite(values)) continue;
    throw Error(ErrorCode::invalid_argument, "step " + std::to_string(trainer_.position().step) + ": " +
                                                 tensor.name + " is no longer finite, so " + what +
                                                 "; training diverged: try a smaller --lr, or --clip-norm 1" +
                                                 (newest_.empty() ? std::string() : ", from " + newest_));
  }
}

void Checkpointing::require_finite(const checkpoint::TrainingState& state) const {
  for (const auto* tensors : {&state.tensors, &state.state})
    require_finite(*tensors, "no checkpoint of it is written");
}

void Checkpointing::written(const std::string& path) {
  if (!path.empty()) newest_ = path;
}

void Checkpointing::after_step() {
  if (options_.folder.empty()) return;
  if (writer_) {
    writer_->start_held();
    written(writer_->poll());
  }
  if (options_.every == 0 || trainer_.position().step % options_.every != 0) return;
  const checkpoint::TrainingState now = gather();
  if (!writer_) return;
  alike([&] { require_finite(now); });
  written(writer_->hold(now));
}

void Checkpointing::save() {
  if (options_.folder.empty() || saved_ == trainer_.position()) return;
  const checkpoint::TrainingState now = gather();
  saved_ = trainer_.position();
  if (!writer_) return;
  alike([&] { require_finite(now); });
  written(writer_->start(now));
}

std::string Checkpointing::save_now() {
  save();
  if (writer_) written(writer_->wait());
  return newest_;
}

void Checkpointing::finish() {
  if (writer_) written(writer_->wait());
  if (options_.export_file.empty()) return;
  trainer_.learner().share_statistics();
  naming("--export", [this] { export_model(); });
}

/// A collective call; rank 0 writes one parameter after the other.
void Checkpointing::export_model() {
  Learner& learner = trainer_.learner();
  const std::int64_t batches = trainer_.position().step * trainer_.shape().micro_batches();
  const std::vector<checkpoint::TensorView> model = views(learner.model_tensors(true));
  if (reads()) alike([&] { require_finite(model, "the weights are not exported"); });
  const std::vector<checkpoint::TensorView> tensors = torch_views(model, batches);
  std::optional<checkpoint::SafetensorsWriter> file;
  if (is_first(group_))
    file.emplace(options_.export_file, tensors, std::map<std::string, std::string>{{"format", "pt"}});
  std::size_t next = 0;
  const auto append = [&](const void* data) {
    file->append(data);
    ++next;
  };
  // Parameters are the first of the tensors; what lies before or behind them in the file is rank 0's own.
  const auto append_others = [&] {
    while (file && next < tensors.size() && file->order()[next] >= learner.spec().parameters.size())
      append(tensors[file->order()[next]].data);
  };
  append_others();
  learner.each_parameter(true, append);
  append_others();
  if (file) file->finish();
}

}  // namespace muster::train
