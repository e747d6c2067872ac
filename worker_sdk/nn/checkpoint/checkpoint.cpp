// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/checkpoint.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/checkpoint/durable_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

namespace muster::checkpoint {
namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kModel = "model";
constexpr const char* kState = "state";
constexpr std::string_view kWriting = ".writing-";
constexpr std::string_view kRemoving = ".removing-";

/// A share without files.
constexpr Share kReadsNoHashes = {1, 1};

/// What counts higher was not written here; one more must still be a number.
constexpr std::uint64_t kMostCheckpoints = 1'000'000'000'000;

/// "model.safetensors", or "model-2-of-4.safetensors".
std::string file_name(const char* kind, const Share& share) {
  std::string name = kind;
  if (share.count > 1) name += "-" + std::to_string(share.index) + "-of-" + std::to_string(share.count);
  return name + ".safetensors";
}

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

std::vector<ParameterEntry> entries_of(std::span<const TensorView> tensors) {
  std::vector<ParameterEntry> entries;
  for (const TensorView& tensor : tensors) entries.push_back({tensor.name, tensor.shape});
  return entries;
}

/// Before the manifest says so: another process has written it, perhaps on another host.
void require_seen(const std::string& folder, const FileEntry& file) {
  const std::string path = folder + "/" + file.name;
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes == file.bytes) return;
  throw Error(ErrorCode::io, path + ", which was written just now, " +
                                 (error ? "is not seen by rank 0" : "is seen by rank 0 in another size") +
                                 "; where the model is in shards all hosts need the same folder");
}

void check_file(const std::string& folder, const FileEntry& expected, bool by_hash) {
  const std::string path = folder + "/" + expected.name;
  const FileEntry found = by_hash ? measure_file(path, expected.bytes)
                                  : FileEntry{expected.name, open_file(path).bytes, expected.xxh64};
  if (found.bytes != expected.bytes)
    throw Error(ErrorCode::invalid_argument, path + " has " + std::to_string(found.bytes) +
                                                 " bytes, its manifest says " +
                                                 std::to_string(expected.bytes));
  if (found.xxh64 != expected.xxh64)
    throw Error(ErrorCode::invalid_argument, path + " is damaged: its hash is not that of its manifest");
}

void check_tensors(const TensorFiles& files, std::span<const ParameterEntry> expected) {
  for (const ParameterEntry& entry : expected) {
    const TensorFiles::Tensor* const tensor = files.find(entry.name);
    if (tensor == nullptr || tensor->shape != entry.shape)
      throw Error(ErrorCode::invalid_argument, files.path() + " has no " + entry.name + " " +
                                                   text_of(entry.shape) + ", which its manifest names");
  }
}

/// The number of processes whose files a manifest names: for each kind one of each.
int writers_of(const Manifest& manifest, const std::string& path) {
  const auto count = static_cast<int>(manifest.files.size() / 2);
  bool fits = count > 0 && manifest.files.size() % 2 == 0;
  for (int i = 0; fits && i < count; ++i)
    for (const auto& [kind, place] : {std::pair(kModel, i), std::pair(kState, count + i)})
      fits = fits && manifest.files[static_cast<std::size_t>(place)].name == file_name(kind, {i, count});
  if (!fits) throw Error(ErrorCode::invalid_argument, path + ": it does not name the files of a checkpoint");
  return count;
}

TensorFiles open_files(const std::string& path, const char* kind, int count,
                       std::span<const ParameterEntry> tensors) {
  if (count == 1) return SafetensorsFile(path + "/" + file_name(kind, {}));
  std::vector<SafetensorsFile> files;
  for (int i = 0; i < count; ++i) files.emplace_back(path + "/" + file_name(kind, {i, count}));
  return {std::move(files), tensors};
}

}  // namespace

Checkpoint open_checkpoint(const std::string& path, const Share& share) {
  const std::string manifest_path = path + "/" + kManifest;
  Manifest manifest;
  const std::string text = read_manifest(manifest_path);
  try {
    manifest = manifest_from_json(text);
  } catch (const Error& error) {
    throw Error(error.code(), manifest_path + ": " + error.what());
  }
  const int writers = writers_of(manifest, manifest_path);
  for (std::size_t i = 0; i < manifest.files.size(); ++i)
    check_file(path, manifest.files[i],
               i % static_cast<std::size_t>(share.count) == static_cast<std::size_t>(share.index));
  TensorFiles model = open_files(path, kModel, writers, manifest.tensors);
  TensorFiles state = open_files(path, kState, writers, manifest.state);
  check_tensors(model, manifest.tensors);
  check_tensors(state, manifest.state);
  return {path, std::move(manifest), std::move(model), std::move(state)};
}

std::vector<std::string> list_checkpoints(const std::string& folder) {
  std::vector<std::string> names;
  for (const Entry& entry : entries_in(folder))
    names.push_back(std::filesystem::path(entry.path).filename().string());
  return names;
}

std::string unfinished_folder(const std::string& folder, const std::string& name) {
  return folder + "/" + std::string(kWriting) + name;
}

std::vector<FileEntry> write_files(const std::string& folder, const Share& share, const TrainingState& state,
                                   const std::function<void(std::string_view point)>& on_point) {
  const auto point = [&on_point](std::string_view name) {
    if (on_point) on_point(name);
  };
  make_folder(folder);
  point("folder");
  std::vector<FileEntry> files;
  for (const auto& [kind, tensors] : {std::pair(kModel, &state.tensors), std::pair(kState, &state.state)}) {
    DurableFile file(folder + "/" + file_name(kind, share), [&] { point("piece"); });
    write_tensors(file, stored_views(*tensors), {{"format", "pt"}});
    point("before sync");
    files.push_back(file.finish());
  }
  sync_folder(folder);
  return files;
}

Error not_written(const Error& error, const std::string& folder, std::int64_t step) {
  const std::string text =
      "the checkpoint of step " + std::to_string(step) + " was not written: " + error.what();
  try {
    const std::vector<std::string> earlier = list_checkpoints(folder);
    return {error.code(), text + (earlier.empty() ? "; there is no earlier one"
                                                  : "; the last one is " + folder + "/" + earlier.front())};
  } catch (const Error&) {
    return {error.code(), text};  // nobody knows, where the folder cannot be read either
  }
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

std::string CheckpointStore::begin(std::int64_t step) {
  const std::uint64_t serial = next_serial(options_.folder);
  if (first_ == 0) first_ = serial;
  return name_of(serial, step);
}

std::string CheckpointStore::commit(const std::string& name, const TrainingState& facts,
                                    std::vector<FileEntry> files) {
  const std::string unfinished = unfinished_folder(options_.folder, name);
  const std::string path = options_.folder + "/" + name;
  Manifest manifest{std::string("muster ") + MUSTER_VERSION,
                    facts.model,
                    facts.scalars,
                    entries_of(facts.tensors),
                    {},
                    std::move(files),
                    first_};
  if (manifest.files.size() > 2) manifest.state = entries_of(facts.state);
  try {
    for (const FileEntry& file : manifest.files) require_seen(unfinished, file);
    DurableFile file(unfinished + "/" + kManifest, [this] { point("manifest"); });
    file.write(to_json(manifest));
    file.finish();
    sync_folder(unfinished);
    point("before rename");
    rename_path(unfinished, path);
    point("after rename");
    sync_folder(options_.folder);
  } catch (const Error& error) {
    drop(name);
    throw not_written(error, options_.folder, facts.scalars.integer("step"));
  }
  looked_at_[serial_of(name).value()] = true;
  retain();
  return path;
}

void CheckpointStore::drop(const std::string& name) const {
  remove_quietly(unfinished_folder(options_.folder, name));
  remove_quietly(options_.folder + "/" + name);
}

std::string CheckpointStore::write(const TrainingState& state) {
  const std::int64_t step = state.scalars.integer("step");
  const std::string name = begin(step);
  std::vector<FileEntry> files;
  try {
    files = write_files(unfinished_folder(options_.folder, name), {}, state, options_.on_point);
  } catch (const Error& error) {
    drop(name);
    throw not_written(error, options_.folder, step);
  }
  return commit(name, state, std::move(files));
}

bool CheckpointStore::is_whole(std::uint64_t serial, const std::string& path) {
  const auto [found, is_new] = looked_at_.emplace(serial, false);
  if (!is_new) return found->second;
  try {
    // Sizes and headers must do: hashes of all that is kept would take longer than the checkpoint under way.
    open_checkpoint(path, kReadsNoHashes);
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
