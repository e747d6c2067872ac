// SPDX-License-Identifier: Apache-2.0
// Reads plain data from a pickle, the format of Python's module of that name, as PyTorch's flight recorder
// writes it: numbers, texts, lists, tuples and dicts. Nothing is executed: an opcode that would import, call
// or build anything is an error. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// Bounds on what is read; beyond them it is an error.
struct PickleLimits {
  std::size_t bytes = std::size_t{64} << 20U;
  /// Values, and references to them in lists and dicts and by the memo.
  std::size_t values = std::size_t{1} << 20U;
  /// Containers that are open at the same time.
  std::size_t depth = 64;
};

/// The values of one pickle. Each is named by its index; texts are views into the bytes that were read, which
/// outlive this object.
class Pickle {
 public:
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, list, dict };

  using Value = std::uint32_t;

  /// Throws std::invalid_argument, with the offset, for anything that is not one whole pickle of plain data
  /// within the limits. `go_on` is asked now and then; once it says no, reading fails, too.
  Pickle(std::string_view bytes, const PickleLimits& limits, const std::function<bool()>& go_on);

  Value root() const { return root_; }

  Kind kind(Value value) const { return nodes_.at(value).kind; }

  /// The number of an integer or a boolean; `otherwise` for others.
  std::int64_t integer(Value value, std::int64_t otherwise = 0) const;
  /// The text; empty for others.
  std::string_view text(Value value) const;
  /// The items of a list or tuple; none of others. A list may hold itself.
  const std::vector<Value>& items(Value value) const;
  /// The value of a key in a dict, the last of equal keys; none() if it is not among the last kKeysLookedAt
  /// keys, or `dict` is none.
  Value at(Value dict, std::string_view key) const;
  /// The keys and values of a dict, one after the other; none of others.
  const std::vector<Value>& pairs(Value dict) const;

  /// How many keys a dict has, equal ones counted each; 0 of others.
  std::size_t size(Value dict) const { return pairs(dict).size() / 2; }

  /// A value of Kind::none.
  Value none() const { return 0; }

 private:
  friend class PickleMachine;

  /// A dict with fields has few keys; one of many is not looked through again and again.
  static constexpr std::size_t kKeysLookedAt = 64;

  struct Node {
    Kind kind = Kind::none;
    std::int64_t number = 0;
    std::string_view text{};
    /// The place of the items in `lists_`; only of lists and dicts.
    std::uint32_t list = 0;
  };

  std::vector<Node> nodes_{Node{}};
  std::vector<std::vector<Value>> lists_{{}};
  Value root_ = 0;
};

}  // namespace muster::agent
