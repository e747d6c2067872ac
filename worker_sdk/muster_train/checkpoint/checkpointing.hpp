// SPDX-License-Identifier: Apache-2.0
// When a run is written down and where it goes on from. Rank 0 reads and writes, and the others get it from
// there. Where the model is in shards every rank reads and writes its part, so all hosts need the same
// folder.
#pragma once

#include "worker_sdk/muster_train/checkpoint/hook_memory.hpp"
#include "worker_sdk/muster_train/checkpoint/provenance.hpp"
#include "worker_sdk/muster_train/trainer/trainer.hpp"
#include "worker_sdk/nn/checkpoint/checkpoint.hpp"
#include "worker_sdk/nn/checkpoint/checkpoint_writer.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::train {

struct CheckpointOptions {
  /// Folder of this run's checkpoints, which are written after each epoch and when the run stops early;
  /// empty: none are written.
  std::string folder;
  /// Steps between two checkpoints within an epoch; 0: none are written there.
  std::int64_t every = 0;
  /// Number of the newest checkpoints that stay.
  int keep = 3;
  /// Goes on from the newest complete one in the folder, if there is any.
  bool resume = true;
  /// The model is only read, to be scored (see read_model()): nothing is written or locked.
  bool only_read = false;
  /// One checkpoint to go on from where that folder has none yet; empty: none.
  std::string resume_from;
  /// Safetensors file with weights to start from, unless the run goes on from a checkpoint; empty: none.
  std::string init_from;
  /// Safetensors file that gets the weights at the end, the average of them where there is one; empty: none.
  std::string export_file;
  /// Said by checkpoints, and compared with what they say.
  Provenance provenance;
};

/// One thread. All calls are collective.
class Checkpointing {
 public:
  /// `trainer` and `group` (null: a world of one) outlive it. `run` are the trainer's options.
  Checkpointing(const CheckpointOptions& options, const TrainerOptions& run, Trainer& trainer,
                ProcessGroup* group);
  ~Checkpointing();

  /// Brings trainer and learner to where the run goes on from. Returns lines for people, on rank 0: what was
  /// resumed, what was skipped and why, what --init-from replaced. Throws Error where a checkpoint is of
  /// another model, optimizer, seed or data set.
  std::vector<std::string> begin();
  /// Call it after each step. Copies the state where a checkpoint is due. Throws when an earlier write
  /// failed, or, as save(), where a number of the state is not finite. The copy is written beside the
  /// training once the next step's loss is a number, so a run that diverges never replaces a checkpoint that
  /// could go on.
  void after_step();
  /// Call it after an epoch. Starts to write where the run stands, unless the folder's newest checkpoint has
  /// it. Throws Error (invalid_argument) on ranks that write, and writes nothing, where a number is not
  /// finite.
  void save();
  /// Writes where the run stands, and waits until it is on the disk (at most a minute). Returns the path of
  /// the checkpoint that holds it, on rank 0. Throws as save().
  std::string save_now();
  /// Writes the weights for other programs. Waits for the checkpoint under way.
  void finish();

  /// The bytes of the copy of this rank's state that is kept for the next checkpoint.
  std::size_t copy_bytes() const { return writer_ ? writer_->copy_bytes() : 0; }

 private:
  using Opener = std::function<checkpoint::Checkpoint(const std::string& path, const checkpoint::Share&)>;

  /// A checkpoint that every rank that reads has opened, or why not.
  struct Opened {
    std::optional<checkpoint::Checkpoint> checkpoint;
    std::optional<Error> error;
  };

  bool reads() const { return share_.count > 1 || group_ == nullptr || group_->rank() == 0; }

  checkpoint::TrainingState gather();
  void require_finite(const std::vector<checkpoint::TensorView>& tensors, const char* what) const;
  void require_finite(const checkpoint::TrainingState& state) const;
  void written(const std::string& path);
  void resume(const checkpoint::Checkpoint& from, std::vector<std::string>& notes);
  template <typename Body>
  void alike(const Body& body);
  Opened open(const std::string& path, const Opener& opener);
  std::optional<checkpoint::Checkpoint> newest(std::vector<std::string>& notes);
  std::optional<checkpoint::Checkpoint> find(std::vector<std::string>& notes);
  checkpoint::TrainingState state();
  std::vector<std::string> read(bool& resumed);
  void share(bool resumed);
  void export_model();

  const CheckpointOptions options_;
  const TrainerOptions run_;
  Trainer& trainer_;
  ProcessGroup* const group_;
  HookMemory hook_;
  const checkpoint::Share share_;                       ///< of this rank; 0 of 1 where rank 0 does it alone
  std::shared_ptr<checkpoint::CheckpointStore> store_;  ///< rank 0, with a folder
  std::optional<checkpoint::CheckpointWriter> writer_;  ///< with a folder, on ranks that write
  std::optional<Position> saved_;  ///< place in the folder's newest checkpoint, or in the one being written
  std::string newest_;             ///< path of the newest complete checkpoint, on ranks that write
};

}  // namespace muster::train
