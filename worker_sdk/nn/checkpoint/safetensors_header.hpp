// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file, from bytes and to bytes. Pure.
#pragma once

#include "worker_sdk/nn/checkpoint/tensor.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::checkpoint {

/// A tensor of a file.
struct StoredTensor {
  std::string name;
  Type type = Type::f32;
  Shape shape;
  std::uint64_t begin = 0;  ///< first byte, counted from the end of the header
  std::uint64_t bytes = 0;
};

struct SafetensorsHeader {
  /// The tensors of the file, in the order of their bytes.
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// The format's own bound for the header.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// Length of the header, from the first 8 bytes of a file of `file_bytes`. Throws Error (invalid_argument)
/// that says what is wrong and does not name the file.
std::uint64_t header_length(std::string_view first_bytes, std::uint64_t file_bytes);

/// Reads the JSON text; `data_bytes` follow it in the file. Refused, as header_length() does: what is no JSON
/// object, a name twice, an unknown type or member, a shape that does not give the bytes, bytes that overlap,
/// leave a gap or do not end with the file.
SafetensorsHeader parse_header(std::string_view json, std::uint64_t data_bytes);

/// A file that is to have certain tensors.
struct FileLayout {
  std::string header;              ///< the first bytes of the file
  std::vector<std::size_t> order;  ///< the numbers of the tensors, as they lie behind it: the widest elements
                                   ///< first, so that all are aligned and none needs padding
  std::vector<std::uint64_t> bytes;  ///< of each tensor, in that order
};

/// Plans a file; of the tensors only names, types and shapes count. Throws Error (invalid_argument) for a
/// shape that no tensor has, and as format_header().
FileLayout lay_out(std::span<const TensorView> tensors, const std::map<std::string, std::string>& metadata);

/// The first bytes of a file with these tensors, length included, padded to 8 bytes. `tensors` get their
/// places in the order given. Throws Error (invalid_argument) for a name twice.
std::string format_header(std::span<const StoredTensor> tensors,
                          const std::map<std::string, std::string>& metadata);

}  // namespace muster::checkpoint
