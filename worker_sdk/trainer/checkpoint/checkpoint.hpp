// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a training run: folders that are complete or not there. Rank 0 writes and reads them.
//
//   FOLDER/000017-step-1200/manifest.json       step, counters, sizes and hashes of the others
//   FOLDER/000017-step-1200/model.safetensors   parameters and buffers, under PyTorch's names
//   FOLDER/000017-step-1200/state.safetensors   the rest: optimizer, average of weights, hooks
//
// Each is written under another name, every file and folder fsynced, then renamed. The first number counts
// the checkpoints of the folder, whatever their steps; the highest is the newest.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "worker_sdk/trainer/checkpoint/manifest.hpp"
#include "worker_sdk/trainer/checkpoint/safetensors.hpp"
#include "worker_sdk/trainer/checkpoint/tensor.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::checkpoint {

/// The contents of a checkpoint. Tensors are memory of the caller.
struct TrainingState {
  std::string model;  ///< "resnet18"
  /// Parameters and buffers, canonical shapes, under the names of an export.
  std::vector<TensorView> tensors;
  /// All other large tensors: "momentum/conv1.weight".
  std::vector<TensorView> state;
  /// epoch, step, position in the epoch, world size, seed, counters: what set() was given.
  Scalars scalars;
};

/// A complete checkpoint: sizes and hashes were compared with the manifest.
struct Checkpoint {
  std::string path;
  Manifest manifest;
  SafetensorsFile model;
  SafetensorsFile state;
};

/// Reads one checkpoint folder. Throws Error (io or invalid_argument) that names the file and what is wrong
/// with it.
Checkpoint open_checkpoint(const std::string& path);

/// A checkpoint that was passed over.
struct Skipped {
  std::string path;
  std::string why;
};

/// Paths of the checkpoints in a folder, the newest first, complete or not. Throws Error (io).
std::vector<std::string> list_checkpoints(const std::string& folder);

/// The newest that is complete, or nothing; `skipped` gets the newer ones and why. Throws Error (io) where
/// there is no such folder.
std::optional<Checkpoint> newest_complete(const std::string& folder, std::vector<Skipped>& skipped);

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

/// The folder of one run. One process at a time: a lock is held. One thread at a time.
class CheckpointStore {
 public:
  /// Makes the folder where it is missing and removes what killed writes left. Throws Error (state) when
  /// another process keeps the lock beyond the deadline; Error (io) where the folder cannot be made.
  explicit CheckpointStore(StoreOptions options);
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Writes one, then removes what this run wrote before its newest `keep` whole ones. Checkpoints of other
  /// runs stay. Returns its path. Throws Error (io) that says what failed (a full disk), which checkpoint is
  /// the newest now, and leaves nothing of the new one.
  std::string write(const TrainingState& state);

  /// Says, before the first write, that this run goes on from a checkpoint of this folder. Then the
  /// checkpoints that its run wrote before are its own; without this call the run is a new one.
  void continue_from(const Checkpoint& checkpoint);

  const std::string& folder() const { return options_.folder; }

 private:
  void remove_leftovers();
  void write_files(const std::string& folder, const TrainingState& state) const;
  bool is_whole(std::uint64_t serial, const std::string& path);
  void retain();
  void point(std::string_view name) const;

  const StoreOptions options_;
  UniqueFd lock_;
  std::uint64_t first_ = 0;                  ///< number of this run's first checkpoint; 0: it has none yet
  std::map<std::uint64_t, bool> looked_at_;  ///< this run's checkpoints, and whether each was whole
};

}  // namespace muster::checkpoint
