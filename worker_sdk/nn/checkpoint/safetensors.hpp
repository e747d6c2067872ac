// SPDX-License-Identifier: Apache-2.0
// Files of tensors in the safetensors format (its README at github.com/huggingface/safetensors, "Format"):
// 8 bytes of length, a JSON header that names tensors and their places, the bytes.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "worker_sdk/nn/checkpoint/durable_file.hpp"
#include "worker_sdk/nn/checkpoint/safetensors_header.hpp"
#include "worker_sdk/nn/checkpoint/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster::checkpoint {

/// A file whose header was read and checked; tensors are read when wanted. One thread.
class SafetensorsFile {
 public:
  /// Throws Error (io) for a file that cannot be read and Error (invalid_argument) for one that breaks the
  /// format, naming the file, the tensor and the rule.
  explicit SafetensorsFile(std::string path);

  /// The tensors of the file, in the order of their bytes.
  const std::vector<StoredTensor>& tensors() const { return header_.tensors; }

  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  /// Null if there is none of that name.
  const StoredTensor* find(std::string_view name) const;

  /// The bytes of a tensor of this file into `to`, which is as long. Throws Error (io), also where the file
  /// became shorter meanwhile.
  void read(const StoredTensor& tensor, std::span<std::byte> to) const;
  /// Reads the elements of a tensor from `first` on as floats, as many as `to` has: F32 as they are; BF16,
  /// F16 and F64 converted. Throws Error (invalid_argument) for other types, and for more elements than there
  /// are.
  void read_floats(const StoredTensor& tensor, std::span<float> to, std::uint64_t first = 0) const;

  const std::string& path() const { return path_; }

  /// Keeps no descriptor between reads from now on, as where there are many files.
  void close() { fd_.reset(); }

 private:
  void read_at(std::span<std::byte> to, std::uint64_t offset) const;

  std::string path_;
  UniqueFd fd_;
  SafetensorsHeader header_;
  std::uint64_t data_ = 0;  ///< where the bytes begin
};

/// Throws Error (io) where write_safetensors() could not make this file now.
void require_safetensors_place(const std::string& path);

/// Writes a file for other programs tensor by tensor, and gives it its name at once: a temporary name, fsync,
/// rename. Symbolic links stay. Its calls throw Error (io) that says what failed (a full disk, a device of
/// that name), and leave an earlier file of that name as it was. One thread.
class SafetensorsWriter {
 public:
  /// `metadata` goes into the header as it is ("format": "pt" is what PyTorch's users expect). Of the tensors
  /// only names, types and shapes count. Throws Error (invalid_argument) for two of one name.
  SafetensorsWriter(const std::string& path, std::span<const TensorView> tensors,
                    const std::map<std::string, std::string>& metadata);
  /// Leaves nothing behind of a file that was not finished.
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The numbers of the tensors given, in the order in which append() wants them.
  const std::vector<std::size_t>& order() const { return order_; }

  /// Writes the next tensor, whole.
  void append(const void* data);
  /// Throws Error (state) where a tensor is missing.
  void finish();

 private:
  std::string place_;
  std::string unfinished_;
  std::vector<std::size_t> order_;
  std::vector<std::uint64_t> bytes_;  ///< of each tensor, in that order
  std::size_t appended_ = 0;
  std::optional<DurableFile> file_;
};

/// Writes a file with these tensors, which are whole, by SafetensorsWriter. Throws Error (invalid_argument)
/// for a slice.
void write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace muster::checkpoint
