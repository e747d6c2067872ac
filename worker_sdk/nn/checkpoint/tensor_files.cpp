// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/tensor_files.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace muster::checkpoint {
namespace {

[[noreturn]] void reject(const std::string& text) {
  throw Error(ErrorCode::invalid_argument, text);
}

std::string text_of(const Slice& slice) {
  return "[" + std::to_string(slice.begin) + ":" + std::to_string(slice.end()) + "]";
}

struct SliceName {
  std::string tensor;
  Slice slice;
};

/// "conv1.weight[1024:2048]"; nothing for the name of a whole tensor.
std::optional<SliceName> parse_slice(std::string_view name) {
  const std::size_t open = name.rfind('[');
  if (open == std::string_view::npos || !name.ends_with(']')) return std::nullopt;
  const std::string_view range = name.substr(open + 1, name.size() - open - 2);
  const std::size_t colon = range.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto begin = parse_number<std::uint64_t>(range.substr(0, colon));
  const auto end = parse_number<std::uint64_t>(range.substr(colon + 1));
  if (!begin || !end || *end <= *begin) return std::nullopt;
  return SliceName{std::string(name.substr(0, open)), {*begin, *end - *begin}};
}

void require_all_elements(const std::string& name, const TensorFiles::Tensor& tensor,
                          const std::string& path) {
  const Slice whole = slice_of(Destination{name, tensor.shape, nullptr});
  std::uint64_t next = 0;
  for (const TensorFiles::Piece& piece : tensor.pieces) {
    if (piece.slice.begin < next) reject(name + text_of(piece.slice) + " is there twice, beside " + path);
    if (piece.slice.begin > next) break;
    next = piece.slice.end();
  }
  if (next == whole.count) return;
  reject("the elements of " + name + " from " + std::to_string(next) + " on are missing beside " + path);
}

}  // namespace

std::vector<TensorView> stored_views(std::span<const TensorView> views) {
  std::vector<TensorView> stored;
  for (const TensorView& view : views) {
    const Slice whole = {0, elements_of(view.shape).value_or(0)};
    if (!view.slice || *view.slice == whole)
      stored.push_back({view.name, view.type, view.shape, view.data});
    else if (view.slice->count > 0)
      stored.push_back({view.name + text_of(*view.slice),
                        view.type,
                        {static_cast<std::int64_t>(view.slice->count)},
                        view.data});
  }
  return stored;
}

TensorFiles::TensorFiles(SafetensorsFile file) {
  for (const StoredTensor& stored : file.tensors())
    tensors_[stored.name] = {
        stored.type, stored.shape, {{{0, stored.bytes / size_of(stored.type)}, 0, stored}}};
  files_.push_back(std::move(file));
}

TensorFiles::TensorFiles(std::vector<SafetensorsFile> files, std::span<const ParameterEntry> tensors)
    : files_(std::move(files)) {
  std::map<std::string, Shape> shapes;
  for (const ParameterEntry& entry : tensors) shapes[entry.name] = entry.shape;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (const StoredTensor& stored : files_[i].tensors()) add(i, stored, shapes);
    files_[i].close();
  }
  for (auto& [name, tensor] : tensors_) {
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const Piece& a, const Piece& b) { return a.slice.begin < b.slice.begin; });
    require_all_elements(name, tensor, path());
  }
}

void TensorFiles::add(std::size_t file, const StoredTensor& stored,
                      const std::map<std::string, Shape>& shapes) {
  const std::string& path = files_[file].path();
  const auto part = parse_slice(stored.name);
  const std::string& name = part ? part->tensor : stored.name;
  const auto shape = shapes.find(name);
  if (part && shape == shapes.end())
    reject(path + " has " + stored.name + ", which its manifest does not name");
  Tensor& tensor =
      tensors_.try_emplace(name, Tensor{stored.type, part ? shape->second : stored.shape, {}}).first->second;
  const Slice slice = part ? part->slice : slice_of(TensorView{name, stored.type, stored.shape});
  const std::uint64_t elements = elements_of(tensor.shape).value_or(0);
  const bool fits = slice.begin <= elements && slice.count <= elements - slice.begin &&
                    stored.bytes / size_of(stored.type) == slice.count && stored.type == tensor.type;
  if (!fits)
    reject(path + " has " + stored.name + " " + checkpoint::text_of(stored.shape) +
           ", which is no part of a tensor of shape " + checkpoint::text_of(tensor.shape));
  tensor.pieces.push_back({slice, file, stored});
}

const TensorFiles::Tensor* TensorFiles::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void TensorFiles::read_floats(const Tensor& tensor, std::span<float> to, std::uint64_t first) const {
  if (const std::uint64_t all = tensor.pieces.back().slice.end(); first > all || to.size() > all - first)
    reject("a tensor beside " + path() + " has " + std::to_string(all) + " elements, and no elements " +
           std::to_string(first) + " to " + std::to_string(first + to.size()));
  for (const Piece& piece : tensor.pieces) {
    const std::uint64_t begin = std::max(first, piece.slice.begin);
    const std::uint64_t end = std::min(first + to.size(), piece.slice.end());
    if (begin < end)
      files_[piece.file].read_floats(piece.stored, to.subspan(begin - first, end - begin),
                                     begin - piece.slice.begin);
  }
}

}  // namespace muster::checkpoint
