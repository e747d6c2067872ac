// SPDX-License-Identifier: Apache-2.0
// Files and folders that are on the disk when a call returns.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "worker_sdk/nn/checkpoint/manifest.hpp"
#include "worker_sdk/nn/checkpoint/tensor.hpp"
#include "worker_sdk/nn/checkpoint/xxh64.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace muster::checkpoint {

/// Throws Error (io): "cannot WHAT PATH: No space left on device; free some or ...".
[[noreturn]] void fail_io(const std::string& what, const std::string& path, int error);

/// Writes one new file from its beginning, and knows its hash. One thread.
class DurableFile {
 public:
  /// Called after every piece of 1 MiB that was written; may be empty.
  using OnPiece = std::function<void()>;

  /// Throws Error (io) where the file exists or cannot be made.
  explicit DurableFile(std::string path, OnPiece on_piece = {});

  void write(std::span<const std::byte> bytes);

  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Syncs and closes; the name in the result is that of the last part of the path.
  FileEntry finish();

 private:
  std::string path_;
  OnPiece on_piece_;
  UniqueFd fd_;
  Xxh64 hash_;
  std::uint64_t bytes_ = 0;
};

/// Writes a safetensors file into `file`.
void write_tensors(DurableFile& file, std::span<const TensorView> tensors,
                   const std::map<std::string, std::string>& metadata);

/// Makes the names in a folder durable.
void sync_folder(const std::string& path);
void make_folder(const std::string& path);
void rename_path(const std::string& from, const std::string& to);
/// A folder with what is in it, or a file; what cannot be removed stays.
void remove_quietly(const std::string& path) noexcept;

struct OpenFile {
  UniqueFd fd;
  std::uint64_t bytes = 0;
};

/// Opens a file for reading. Throws Error (io), also for a device and for a pipe: they may have no end.
OpenFile open_file(const std::string& path);

/// Size and hash of a file. One of another size than `expected` is not read, and its hash is 0. Throws Error
/// (io).
FileEntry measure_file(const std::string& path, std::uint64_t expected);

}  // namespace muster::checkpoint
