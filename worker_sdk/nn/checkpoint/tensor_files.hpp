// SPDX-License-Identifier: Apache-2.0
// Tensors that lie in one file, or in slices over several.
#pragma once

#include "worker_sdk/nn/checkpoint/manifest.hpp"
#include "worker_sdk/nn/checkpoint/safetensors.hpp"
#include "worker_sdk/nn/checkpoint/tensor.hpp"

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::checkpoint {

/// The tensors that a file gets for `views`, each whole, or named after its slice: "conv1.weight[1024:2048]"
/// of the shape [1024]. Slices without elements are left out.
std::vector<TensorView> stored_views(std::span<const TensorView> views);

/// One thread.
class TensorFiles {
 public:
  /// Some elements of a tensor, and where they lie.
  struct Piece {
    Slice slice;
    std::size_t file = 0;
    StoredTensor stored;
  };

  struct Tensor {
    Type type = Type::f32;
    Shape shape;
    std::vector<Piece> pieces;  ///< one at least, ascending, without gaps
  };

  /// All tensors of one file, as its header names them.
  TensorFiles(SafetensorsFile file);  // NOLINT(google-explicit-constructor): a file is one
  /// Files with slices of `tensors`, as stored_views() names them, and perhaps with others that are whole.
  /// Keeps no descriptors. Throws Error (invalid_argument) that names the tensor of which elements are
  /// missing or there twice, or which is none of `tensors`.
  TensorFiles(std::vector<SafetensorsFile> files, std::span<const ParameterEntry> tensors);

  /// By name.
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }

  /// Null if there is none of that name.
  const Tensor* find(std::string_view name) const;

  /// Reads the elements of a tensor from `first` on, as SafetensorsFile::read_floats(), and only those.
  void read_floats(const Tensor& tensor, std::span<float> to, std::uint64_t first = 0) const;

  const std::map<std::string, std::string>& metadata() const { return files_.front().metadata(); }

  /// The file, or the first of the files, for messages.
  const std::string& path() const { return files_.front().path(); }

 private:
  void add(std::size_t file, const StoredTensor& stored, const std::map<std::string, Shape>& shapes);

  std::vector<SafetensorsFile> files_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace muster::checkpoint
