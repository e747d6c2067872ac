// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/checkpoint/checkpoint.hpp"

#include "muster/error.hpp"
#include "worker_sdk/trainer/checkpoint/durable_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

namespace muster::checkpoint {
namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kState = "state.safetensors";
constexpr std::string_view kWriting = ".writing-";
constexpr std::string_view kRemoving = ".removing-";

/// What counts higher was not written here; one more must still be a number.
constexpr std::uint64_t kMostCheckpoints = 1'000'000'000'000;

struct Entry {
  std::uint64_t serial = 0;
  std::string path;
};

/// The first number of "000017-step-1200", or nothing for any other name.
std::optional<std::uint64_t> serial_of(const std::string& name) {
  constexpr std::string_view kMiddle = "-step-";
  std::uint64_t serial = 0;
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto first = std::from_chars(name.data(), end, serial);
  if (first.ec != std::errc() || !std::string_view(first.ptr, end).starts_with(kMiddle)) return std::nullopt;
  const auto second = std::from_chars(first.ptr + kMiddle.size(), end, step);
  if (second.ec != std::errc() || second.ptr != end || step < 0 || serial > kMostCheckpoints)
    return std::nullopt;
  return serial;
}

std::string name_of(std::uint64_t serial, std::int64_t step) {
  char text[64];
  std::snprintf(text, sizeof text, "%06llu-step-%lld", static_cast<unsigned long long>(serial),
                static_cast<long long>(step));
  return text;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) fail_io("read the folder", folder, error.value());
  return names;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

/// The newest first.
std::vector<Entry> entries_in(const std::string& folder) {
  std::vector<Entry> entries;
  for (const std::string& name : names_in(folder))
    if (const auto serial = serial_of(name); serial && is_folder(folder + "/" + name))
      entries.push_back({*serial, folder + "/" + name});
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.serial > b.serial; });
  return entries;
}

/// Beyond every name that looks like a checkpoint's, also that of a file.
std::uint64_t next_serial(const std::string& folder) {
  std::uint64_t last = 0;
  for (const std::string& name : names_in(folder)) last = std::max(last, serial_of(name).value_or(0));
  return last + 1;
}

UniqueFd lock(const std::string& folder, std::chrono::milliseconds limit) {
  const std::string path = folder + "/.lock";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd) fail_io("make", path, errno);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    // Where a file system has no locks, the folder works without.
    if (errno != EWOULDBLOCK) return fd;
    if (std::chrono::steady_clock::now() >= deadline)
      throw Error(ErrorCode::state, "another process writes checkpoints into " + folder +
                                        " and holds its .lock; end it, or give another folder");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return fd;
}

std::string read_manifest(const std::string& path) {
  constexpr std::uint64_t kMost = 64U << 20;
  const OpenFile file = open_file(path);
  if (file.bytes > kMost) throw Error(ErrorCode::invalid_argument, path + " is too large for a manifest");
  std::string text(static_cast<std::size_t>(file.bytes), '\0');
  const ssize_t count = ::read(file.fd.get(), text.data(), text.size());
  if (count < 0) fail_io("read", path, errno);
  text.resize(static_cast<std::size_t>(count));
  return text;
}

void check_file(const std::string& folder, const FileEntry& expected) {
  const std::string path = folder + "/" + expected.name;
  const FileEntry found = measure_file(path, expected.bytes);
  if (found.bytes != expected.bytes)
    throw Error(ErrorCode::invalid_argument, path + " has " + std::to_string(found.bytes) +
                                                 " bytes, its manifest says " +
                                                 std::to_string(expected.bytes));
  if (found.xxh64 != expected.xxh64)
    throw Error(ErrorCode::invalid_argument, path + " is damaged: its hash is not that of its manifest");
}

void check_tensors(const Checkpoint& checkpoint) {
  for (const ParameterEntry& entry : checkpoint.manifest.tensors) {
    const StoredTensor* const tensor = checkpoint.model.find(entry.name);
    if (tensor == nullptr || tensor->shape != entry.shape)
      throw Error(ErrorCode::invalid_argument, checkpoint.model.path() + " has no " + entry.name + " " +
                                                   text_of(entry.shape) + ", which its manifest names");
  }
}

}  // namespace

Checkpoint open_checkpoint(const std::string& path) {
  const std::string manifest_path = path + "/" + kManifest;
  Manifest manifest;
  const std::string text = read_manifest(manifest_path);
  try {
    manifest = manifest_from_json(text);
  } catch (const Error& error) {
    throw Error(error.code(), manifest_path + ": " + error.what());
  }
  if (manifest.files.size() != 2 || manifest.files[0].name != kModel || manifest.files[1].name != kState)
    throw Error(ErrorCode::invalid_argument,
                manifest_path + ": it does not name the two files of a checkpoint");
  for (const FileEntry& file : manifest.files) check_file(path, file);
  Checkpoint checkpoint{path, std::move(manifest), SafetensorsFile(path + "/" + kModel),
                        SafetensorsFile(path + "/" + kState)};
  check_tensors(checkpoint);
  return checkpoint;
}

std::vector<std::string> list_checkpoints(const std::string& folder) {
  std::vector<std::string> paths;
  for (Entry& entry : entries_in(folder)) paths.push_back(std::move(entry.path));
  return paths;
}

std::optional<Checkpoint> newest_complete(const std::string& folder, std::vector<Skipped>& skipped) {
  for (const std::string& path : list_checkpoints(folder)) {
    try {
      return open_checkpoint(path);
    } catch (const Error& error) {
      skipped.push_back({path, error.what()});
    }
  }
  return std::nullopt;
}

CheckpointStore::CheckpointStore(StoreOptions options) : options_(std::move(options)) {
  if (options_.keep < 1)
    throw Error(ErrorCode::invalid_argument,
                "a folder keeps at least 1 checkpoint, not " + std::to_string(options_.keep));
  make_folder(options_.folder);
  lock_ = lock(options_.folder, options_.lock_deadline);
  remove_leftovers();
}

void CheckpointStore::remove_leftovers() {
  for (const std::string& name : names_in(options_.folder))
    if (name.starts_with(kWriting) || name.starts_with(kRemoving))
      remove_quietly(options_.folder + "/" + name);
}

void CheckpointStore::point(std::string_view name) const {
  if (options_.on_point) options_.on_point(name);
}

void CheckpointStore::continue_from(const Checkpoint& checkpoint) {
  const std::filesystem::path path(checkpoint.path);
  const auto serial = serial_of(path.filename().string());
  std::error_code ignored;
  if (!serial || !std::filesystem::equivalent(path.parent_path(), options_.folder, ignored)) return;
  first_ = std::min(checkpoint.manifest.first, *serial);
  looked_at_[*serial] = true;
}

void CheckpointStore::write_files(const std::string& folder, const TrainingState& state) const {
  Manifest manifest{std::string("muster ") + MUSTER_VERSION, state.model, state.scalars, {}, {}, first_};
  for (const TensorView& tensor : state.tensors) manifest.tensors.push_back({tensor.name, tensor.shape});
  for (const auto& [name, tensors] : {std::pair(kModel, &state.tensors), std::pair(kState, &state.state)}) {
    DurableFile file(folder + "/" + name, [this] { point("piece"); });
    write_tensors(file, *tensors, {{"format", "pt"}});
    point("before sync");
    manifest.files.push_back(file.finish());
  }
  DurableFile file(folder + "/" + kManifest, [this] { point("manifest"); });
  file.write(to_json(manifest));
  file.finish();
  sync_folder(folder);
}

std::string CheckpointStore::write(const TrainingState& state) {
  const std::vector<Entry> entries = entries_in(options_.folder);
  const std::uint64_t serial = next_serial(options_.folder);
  const std::string name = name_of(serial, state.scalars.integer("step"));
  if (first_ == 0) first_ = serial;
  const std::string path = options_.folder + "/" + name;
  const std::string unfinished = options_.folder + "/" + std::string(kWriting) + name;
  try {
    make_folder(unfinished);
    point("folder");
    write_files(unfinished, state);
    point("before rename");
    rename_path(unfinished, path);
    point("after rename");
    sync_folder(options_.folder);
  } catch (const Error& error) {
    remove_quietly(unfinished);
    remove_quietly(path);
    throw Error(error.code(), "the checkpoint of step " + std::to_string(state.scalars.integer("step")) +
                                  " was not written: " + error.what() +
                                  (entries.empty() ? "; there is no earlier one"
                                                   : "; the last one is " + entries.front().path));
  }
  looked_at_[serial] = true;
  retain();
  return path;
}

bool CheckpointStore::is_whole(std::uint64_t serial, const std::string& path) {
  const auto [found, is_new] = looked_at_.emplace(serial, false);
  if (!is_new) return found->second;
  try {
    open_checkpoint(path);
    found->second = true;
  } catch (const Error&) {
    // It is passed over at the next start, too, so it is none of those that stay.
  }
  return found->second;
}

void CheckpointStore::retain() {
  std::vector<Entry> entries = entries_in(options_.folder);
  std::erase_if(entries, [this](const Entry& entry) { return entry.serial < first_; });
  std::size_t stay = 0;
  for (int whole = 0; stay < entries.size() && whole < options_.keep; ++stay)
    whole += is_whole(entries[stay].serial, entries[stay].path) ? 1 : 0;
  // The oldest first. What is being removed no longer has a checkpoint's name: a killed removal leaves
  // nothing half.
  for (; entries.size() > stay; entries.pop_back()) {
    const std::string& path = entries.back().path;
    const std::string removing =
        options_.folder + "/" + std::string(kRemoving) + std::filesystem::path(path).filename().string();
    rename_path(path, removing);
    point("removing");
    remove_quietly(removing);
    looked_at_.erase(entries.back().serial);
  }
}

}  // namespace muster::checkpoint
