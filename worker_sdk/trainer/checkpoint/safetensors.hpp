// SPDX-License-Identifier: Apache-2.0
// Files of tensors in the safetensors format (its README at github.com/huggingface/safetensors, "Format"):
// 8 bytes of length, a JSON header that names tensors and their places, the bytes.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "worker_sdk/trainer/checkpoint/safetensors_header.hpp"
#include "worker_sdk/trainer/checkpoint/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
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
  /// Reads a tensor as floats: F32 as it is; BF16, F16 and F64 converted. Throws Error (invalid_argument) for
  /// other types.
  void read_floats(const StoredTensor& tensor, std::span<float> to) const;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd fd_;
  SafetensorsHeader header_;
  std::uint64_t data_ = 0;  ///< where the bytes begin
};

/// Throws Error (io) where write_safetensors() could not make this file now.
void require_safetensors_place(const std::string& path);

/// Writes a file for other programs under its own name at once: a temporary name, fsync, rename. `metadata`
/// goes into the header as it is ("format": "pt" is what PyTorch's users expect). Symbolic links stay. Throws
/// Error (io) that says what failed (a full disk, a device of that name), leaving nothing behind and an
/// earlier file of that name as it was; Error (invalid_argument) for two tensors of one name.
void write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace muster::checkpoint
