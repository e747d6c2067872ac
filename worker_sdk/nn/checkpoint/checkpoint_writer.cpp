// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/checkpoint_writer.hpp"

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

namespace muster::checkpoint {
namespace {

/// One file a line.
std::string text_of(const std::vector<FileEntry>& files) {
  std::string text;
  for (const FileEntry& file : files)
    text += file.name + " " + std::to_string(file.bytes) + " " + std::to_string(file.xxh64) + "\n";
  return text;
}

/// The files of all processes: for each kind one of each.
std::vector<FileEntry> files_of(const std::vector<std::string>& results) {
  std::vector<std::vector<FileEntry>> kinds;
  for (const std::string& result : results) {
    std::istringstream lines(result);
    FileEntry file;
    for (std::size_t kind = 0; lines >> file.name >> file.bytes >> file.xxh64; ++kind) {
      if (kind == kinds.size()) kinds.emplace_back();
      kinds[kind].push_back(file);
    }
  }
  std::vector<FileEntry> files;
  for (const auto& kind : kinds) files.insert(files.end(), kind.begin(), kind.end());
  return files;
}

Error error_of(const std::exception& thrown) {
  const auto* const own = dynamic_cast<const Error*>(&thrown);
  return own != nullptr ? *own : Error(ErrorCode::state, thrown.what());
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::string folder, std::shared_ptr<CheckpointStore> store,
                                   Together together, std::chrono::milliseconds deadline)
    : folder_(std::move(folder)),
      store_(std::move(store)),
      together_(std::move(together)),
      writer_(folder_, deadline) {}

std::string CheckpointWriter::hold(const TrainingState& state) {
  std::string before = advance(true);
  step_ = state.scalars.integer("step");
  begin();
  writer_.copy(state);
  phase_ = Phase::held;
  return before;
}

/// Gives the checkpoint its name. An error of one process is that of all.
void CheckpointWriter::begin() {
  std::string name;
  try {
    // After an error of a disk that does not answer.
    if (writer_.is_busy())
      throw Error(ErrorCode::state, "an earlier checkpoint is still being written into " + folder_);
    if (store_ && !is_alone()) name = store_->begin(step_);
  } catch (const std::exception& error) {
    failure_ = error_of(error);
  }
  if (is_alone()) {
    if (failure_) throw *std::exchange(failure_, std::nullopt);
    return;
  }
  if (together_.largest(failure_ ? 1 : 0) > 0) fail(together_.exchange(failure_ ? failure_->what() : ""));
  name_ = together_.exchange(name).front();
}

void CheckpointWriter::start_held() {
  if (phase_ != Phase::held) return;
  if (is_alone()) {
    writer_.start([store = store_](const TrainingState& state) { return store->write(state); });
    phase_ = Phase::manifest;
    return;
  }
  const auto on_point = store_ ? store_->on_point() : nullptr;
  writer_.start([folder = unfinished_folder(folder_, name_), share = together_.share,
                 on_point](const TrainingState& state) {
    return text_of(write_files(folder, share, state, on_point));
  });
  phase_ = Phase::files;
}

std::string CheckpointWriter::start(const TrainingState& state) {
  std::string before = hold(state);
  start_held();
  return before;
}

std::string CheckpointWriter::poll() {
  return advance(false);
}

std::string CheckpointWriter::wait() {
  start_held();
  return advance(true);
}

std::string CheckpointWriter::advance_alone(bool wait) {
  std::optional<std::string> path;
  try {
    path = wait ? writer_.wait() : writer_.poll();
  } catch (...) {
    if (!writer_.is_busy()) phase_ = Phase::idle;
    throw;
  }
  if (path) phase_ = Phase::idle;
  return path.value_or("");
}

std::string CheckpointWriter::advance(bool wait) {
  if (is_alone() && phase_ == Phase::manifest) return advance_alone(wait);
  while (phase_ == Phase::files || phase_ == Phase::manifest) {
    const auto all = static_cast<State>(together_.largest(static_cast<int>(own_state(wait))));
    if (all == State::busy) return {};
    if (all == State::failed) {
      own_state(
          true);  // nobody writes any more when the files are removed, but for a disk that does not answer
      fail(together_.exchange(failure_ ? failure_->what() : ""));
    }
    const std::vector<std::string> results = together_.exchange(*std::exchange(result_, std::nullopt));
    if (phase_ == Phase::files) {
      begin_manifest(results);
      continue;
    }
    phase_ = Phase::idle;
    return results.front();
  }
  return {};
}

/// Where this process is; with `wait` it is never busy.
CheckpointWriter::State CheckpointWriter::own_state(bool wait) {
  if (failure_) return State::failed;
  if (result_) return State::done;
  try {
    result_ = wait ? writer_.wait() : writer_.poll();
  } catch (const std::exception& thrown) {
    failure_ = error_of(thrown);
    // A disk that does not answer would hold this thread, too, if it looked for the checkpoint before.
    if (phase_ == Phase::files && !writer_.is_busy()) failure_ = not_written(*failure_, folder_, step_);
    return State::failed;
  }
  return result_ ? State::done : State::busy;
}

/// All files are on the disk.
void CheckpointWriter::begin_manifest(const std::vector<std::string>& results) {
  phase_ = Phase::manifest;
  if (!store_) {
    result_ = "";
    return;
  }
  writer_.start([store = store_, name = name_, files = files_of(results)](const TrainingState& facts) {
    return store->commit(name, facts, files);
  });
}

void CheckpointWriter::fail(const std::vector<std::string>& errors) {
  result_.reset();
  // Behind the manifest a checkpoint may have its name already, and the store has cleared up after itself.
  if (std::exchange(phase_, Phase::idle) == Phase::files && store_ && !writer_.is_busy()) store_->drop(name_);
  if (failure_) throw *std::exchange(failure_, std::nullopt);
  const auto first =
      std::find_if(errors.begin(), errors.end(), [](const auto& error) { return !error.empty(); });
  throw Error(ErrorCode::aborted, "rank " + std::to_string(first - errors.begin()) + ": " + *first);
}

}  // namespace muster::checkpoint
