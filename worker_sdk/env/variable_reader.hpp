// SPDX-License-Identifier: Apache-2.0
// Reads variables of a launcher's contract; every complaint names the variable. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace muster {

/// Looks a variable of the environment up.
using Lookup = std::function<std::optional<std::string>(const std::string&)>;

/// The highest number of ranks that is accepted, more than any job has; it bounds what a wrong number can ask
/// for.
constexpr int kMostRanks = 1 << 24;

/// Reads a whole number in [low, high]. Throws std::invalid_argument that names `name` if `text` is none.
int parse_variable(const std::string& name, const std::string& text, int low, int high);

/// Reads the variables of one launcher. `hint` follows "NAME is not set, though others of the launcher's
/// variables are; ".
class VariableReader {
 public:
  VariableReader(const Lookup& lookup, std::string hint) : lookup_(lookup), hint_(std::move(hint)) {}

  bool has(const std::string& name) const { return lookup_(name).has_value(); }

  /// The number in a variable. Throws std::invalid_argument if it is not in the range, or missing without a
  /// `fallback`.
  int number(const std::string& name, int low, int high, std::optional<int> fallback = std::nullopt) const;

  std::string text(const std::string& name, const std::string& fallback) const {
    return lookup_(name).value_or(fallback);
  }

 private:
  const Lookup& lookup_;
  std::string hint_;
};

/// Makes a lookup in this process's own environment.
Lookup process_environment();

}  // namespace muster
