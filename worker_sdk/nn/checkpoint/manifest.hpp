// SPDX-License-Identifier: Apache-2.0
// What a checkpoint says about itself. Pure.
#pragma once

#include "worker_sdk/nn/checkpoint/tensor.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster::checkpoint {

/// Numbers and words of a run by name: "step", "epoch", "sample", "world_size", "seed" ...
class Scalars {
 public:
  using Value = std::variant<std::int64_t, double, std::string>;

  /// Throws Error (invalid_argument) for a double that is not finite: JSON has none.
  void set(const std::string& name, Value value);

  /// Throw Error (invalid_argument) that names what is missing or of another type.
  std::int64_t integer(const std::string& name) const;
  /// One that is not between the two is refused, too.
  std::int64_t integer(const std::string& name, std::int64_t least, std::int64_t most) const;
  double number(const std::string& name) const;  ///< integers, too
  const std::string& text(const std::string& name) const;

  bool has(const std::string& name) const { return values_.contains(name); }

  const std::map<std::string, Value>& all() const { return values_; }

  bool operator==(const Scalars&) const = default;

 private:
  std::map<std::string, Value> values_;
};

struct FileEntry {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t xxh64 = 0;

  bool operator==(const FileEntry&) const = default;
};

struct ParameterEntry {
  std::string name;
  Shape shape;

  bool operator==(const ParameterEntry&) const = default;
};

struct Manifest {
  std::string software;  ///< "muster 0.6.0"
  std::string model;
  Scalars scalars;
  std::vector<ParameterEntry> tensors;  ///< the model's tensors, in its order
  /// All other tensors, where files hold slices of them; else empty.
  std::vector<ParameterEntry> state = {};
  std::vector<FileEntry> files = {};
  /// Number of the first checkpoint that its run wrote into its folder.
  std::uint64_t first = 1;

  bool operator==(const Manifest&) const = default;
};

/// Readable JSON that ends with the hash of what precedes it, and a line break. Of version 2 with at most two
/// files and no `state`, as programs before version 3 read it.
std::string to_json(const Manifest& manifest);
/// A manifest's text from `object`, a JSON object without its closing brace: with its hash, and closed.
std::string sealed(std::string_view object);
/// Throws Error (invalid_argument) that says what is wrong and does not name the file: also where a character
/// was changed.
Manifest manifest_from_json(std::string_view text);

}  // namespace muster::checkpoint
