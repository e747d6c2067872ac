// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a training run: folders that are complete or not there.
//
//   FOLDER/000017-step-1200/manifest.json       step, counters, sizes and hashes of the others
//   FOLDER/000017-step-1200/model.safetensors   parameters and buffers, under PyTorch's names
//   FOLDER/000017-step-1200/state.safetensors   the rest: optimizer, average of weights, hooks
//
// Where n processes write together, each has two files of its own, model-0-of-4.safetensors and
// state-0-of-4.safetensors, with slices of tensors (stored_views()).
//
// Each is written under another name. The order: every process syncs its files and the folder, then the first
// one writes and syncs the manifest, renames the folder, and syncs the one above. The first number counts the
// checkpoints of the folder, whatever their steps; the highest is the newest.
#pragma once

#include "muster/error.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "worker_sdk/nn/checkpoint/manifest.hpp"
#include "worker_sdk/nn/checkpoint/tensor.hpp"
#include "worker_sdk/nn/checkpoint/tensor_files.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::checkpoint {

/// The contents of a checkpoint. Tensors are memory of the caller. Of several processes that write together
/// each has slices of all tensors, also those of which it has no element, in the same order.
struct TrainingState {
  std::string model;  ///< "resnet18"
  /// Parameters and buffers, canonical shapes, under the names of an export.
  std::vector<TensorView> tensors;
  /// All other large tensors: "momentum/conv1.weight".
  std::vector<TensorView> state;
  /// epoch, step, position in the epoch, world size, seed, counters: what set() was given.
  Scalars scalars;
};

/// One of the processes that write or read a checkpoint together.
struct Share {
  int index = 0;
  int count = 1;
};

/// A complete checkpoint: sizes and hashes were compared with the manifest.
struct Checkpoint {
  std::string path;
  Manifest manifest;
  TensorFiles model;
  TensorFiles state;
};

/// Reads one checkpoint folder, whoever wrote it. Of several processes that read it each compares the hashes
/// of its share of the files. Throws Error (io or invalid_argument) that names the file and what is wrong
/// with it.
Checkpoint open_checkpoint(const std::string& path, const Share& share = {});

/// Names of the checkpoints in a folder, the newest first, complete or not. Throws Error (io).
std::vector<std::string> list_checkpoints(const std::string& folder);

struct StoreOptions {
  std::string folder;
  /// Newest whole checkpoints of a run that stay; at least 1.
  int keep = 3;
  /// Called at each point of a write, with its name; for tests that end the process or fail there.
  std::function<void(std::string_view point)> on_point = {};
  /// Longest wait for an earlier process that holds the lock: it may have been killed a moment ago and still
  /// be ending.
  std::chrono::milliseconds lock_deadline{5000};
};

/// Writes the files of one process into the folder of a checkpoint that has no name yet, which is made where
/// it is missing, and syncs both. Returns what the manifest says of them. `on_point` as in StoreOptions.
/// Throws Error (io).
std::vector<FileEntry> write_files(const std::string& folder, const Share& share, const TrainingState& state,
                                   const std::function<void(std::string_view point)>& on_point = {});

/// An error of a checkpoint of that step that was not written: what failed, and which one is the newest now.
Error not_written(const Error& error, const std::string& folder, std::int64_t step);

/// The folder of one run. One process at a time: a lock is held. One thread at a time.
class CheckpointStore {
 public:
  /// Makes the folder where it is missing and removes what killed writes left. Throws Error (state) when
  /// another process keeps the lock beyond the deadline; Error (io) where the folder cannot be made.
  explicit CheckpointStore(StoreOptions options);
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Writes a checkpoint of this process alone, as begin(), write_files() and commit(). Returns its path.
  /// Throws Error (io) that says what failed (a full disk), which checkpoint is the newest now, and leaves
  /// nothing of the new one.
  std::string write(const TrainingState& state);

  /// The name of the next checkpoint. Its files are written into unfinished_folder().
  std::string begin(std::int64_t step);
  /// Writes the manifest of a checkpoint whose files all processes have written, and gives it its name; then
  /// removes what this run wrote before its newest `keep` whole ones. Checkpoints of other runs stay.
  /// `facts`: model, scalars, and names and shapes of the tensors. `files`: first those of the model, in the
  /// order of the processes, then the others. Returns its path. Throws as write().
  std::string commit(const std::string& name, const TrainingState& facts, std::vector<FileEntry> files);
  /// Removes what there is of a checkpoint that was not finished.
  void drop(const std::string& name) const;

  /// Says, before the first write, that this run goes on from a checkpoint of this folder. Then the
  /// checkpoints that its run wrote before are its own; without this call the run is a new one.
  void continue_from(const Checkpoint& checkpoint);

  const std::string& folder() const { return options_.folder; }

  const std::function<void(std::string_view point)>& on_point() const { return options_.on_point; }

 private:
  void remove_leftovers();
  bool is_whole(std::uint64_t serial, const std::string& path);
  void retain();
  void point(std::string_view name) const;

  const StoreOptions options_;
  UniqueFd lock_;
  std::uint64_t first_ = 0;                  ///< number of this run's first checkpoint; 0: it has none yet
  std::map<std::uint64_t, bool> looked_at_;  ///< this run's checkpoints, and whether each was whole
};

/// Where the files of a checkpoint are until it has its name.
std::string unfinished_folder(const std::string& folder, const std::string& name);

}  // namespace muster::checkpoint
