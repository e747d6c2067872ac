// SPDX-License-Identifier: Apache-2.0
// Between messages and JSON values; for the sources of this room only.
#pragma once

#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/protocol/message.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace muster::rendezvous {

using Json = nlohmann::json;

inline constexpr int kMaxInt = std::numeric_limits<int>::max();

template <typename Value, std::size_t size>
using Words = std::array<std::pair<Value, const char*>, size>;

inline constexpr Words<Role, 2> kRoles{{{Role::node, "node"}, {Role::launcher, "launcher"}}};

inline constexpr Words<RoundOutcome, 3> kOutcomes{{{RoundOutcome::succeeded, "succeeded"},
                                                   {RoundOutcome::failed, "failed"},
                                                   {RoundOutcome::stopped, "stopped"}}};

inline constexpr Words<NextStep, 3> kNextSteps{
    {{NextStep::join, "join"}, {NextStep::wait, "wait"}, {NextStep::end, "end"}}};

inline constexpr Words<ChannelKind, 2> kChannelKinds{
    {{ChannelKind::store, "store"}, {ChannelKind::link, "link"}}};

inline constexpr Words<RoundEndCause, 4> kCauses{{{RoundEndCause::node_failed, "node_failed"},
                                                  {RoundEndCause::node_left, "node_left"},
                                                  {RoundEndCause::node_lost, "node_lost"},
                                                  {RoundEndCause::nodes_waiting, "nodes_waiting"}}};

/// Reads the fields of one message; every complaint names the type and the field.
class Fields {
 public:
  Fields(const Json& object, std::string type) : object_(object), type_(std::move(type)) {}

  bool has(const char* name) const { return object_.contains(name); }

  int integer(const char* name, int low, int high) const {
    const Json& value = field(name);
    if (!value.is_number_integer()) complain(name, "is not a whole number");
    // A number above the signed range is stored unsigned, so each form is compared as what it is.
    const bool inside = value.is_number_unsigned()
                            ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(high) &&
                                  (low <= 0 || value.get<std::uint64_t>() >= static_cast<std::uint64_t>(low))
                            : value.get<std::int64_t>() >= low && value.get<std::int64_t>() <= high;
    if (!inside) complain(name, "is outside " + std::to_string(low) + ".." + std::to_string(high));
    return value.get<int>();
  }

  int integer_or(const char* name, int low, int high, int absent) const {
    return has(name) ? integer(name, low, high) : absent;
  }

  bool flag_or(const char* name, bool absent) const {
    if (!has(name)) return absent;
    const Json& value = field(name);
    if (!value.is_boolean()) complain(name, "is neither true nor false");
    return value.get<bool>();
  }

  std::uint64_t counter_or_0(const char* name) const { return has(name) ? counter(name) : 0; }

  /// A channel's number or credit.
  std::uint32_t word32(const char* name) const {
    const std::uint64_t value = counter(name);
    if (value > std::numeric_limits<std::uint32_t>::max()) complain(name, "is outside 0..4294967295");
    return static_cast<std::uint32_t>(value);
  }

  std::uint64_t counter(const char* name) const {
    const Json& value = field(name);
    if (!value.is_number_unsigned()) complain(name, "is not a whole number from 0 up");
    return value.get<std::uint64_t>();
  }

  /// Three times what a sender cuts at: each byte that is not UTF-8 is replaced by three.
  std::string text(const char* name) const { return string(field(name), name, 3 * kMaxTextBytes); }

  std::string text_or_empty(const char* name) const { return has(name) ? text(name) : std::string(); }

  std::string error_line_or_empty(const char* name) const {
    return has(name) ? string(field(name), name, 3 * kMaxErrorLineBytes) : std::string();
  }

  std::string name(const char* name) const { return checked_name(field(name), name); }

  std::string name_or_empty(const char* field_name) const {
    return has(field_name) ? name(field_name) : std::string();
  }

  std::string filled_name(const char* field_name) const {
    std::string value = name(field_name);
    if (value.empty()) complain(field_name, "is empty");
    return value;
  }

  std::vector<std::string> names(const char* name, std::size_t limit) const {
    const Json& value = field(name);
    if (!value.is_array() || value.size() > limit)
      complain(name, "is not a list of at most " + std::to_string(limit) + " names");
    std::vector<std::string> names;
    for (const Json& entry : value) names.push_back(checked_name(entry, name));
    return names;
  }

  /// An object of names to names.
  std::map<std::string, std::string> named_values(const char* name, std::size_t limit) const {
    const Json& value = field(name);
    if (!value.is_object() || value.size() > limit)
      complain(name, "is not an object of at most " + std::to_string(limit) + " names");
    std::map<std::string, std::string> values;
    for (const auto& [key, entry] : value.items())
      values.emplace(checked_name(key, name), checked_name(entry, name));
    return values;
  }

  /// Absent: the first of the table.
  template <typename Table>
  auto word_or(const char* name, const Table& table) const {
    return has(name) ? word(name, table) : table.front().first;
  }

  template <typename Table>
  auto word(const char* name, const Table& table) const {
    const std::string value = string(field(name), name, kMaxNameBytes);
    for (const auto& [candidate, word] : table)
      if (value == word) return candidate;
    complain(name, "has an unknown value");
  }

  [[noreturn]] void complain(const char* name, const std::string& what) const {
    throw CoordinatorError(Errc::mend, "control message '" + type_ + "': field '" + name + "' " + what);
  }

 private:
  const Json& field(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) complain(name, "is missing");
    return *found;
  }

  std::string checked_name(const Json& value, const char* name) const {
    std::string text = string(value, name, kMaxNameBytes);
    for (const char character : text) {
      const auto byte = static_cast<unsigned char>(character);
      if (byte < 0x20 || byte == 0x7f) complain(name, "holds a control character");
    }
    return text;
  }

  std::string string(const Json& value, const char* name, std::size_t limit) const {
    if (!value.is_string()) complain(name, "is not a text");
    const std::string& text = value.get_ref<const std::string&>();
    if (text.size() > limit) complain(name, "is longer than " + std::to_string(limit) + " bytes");
    return text;
  }

  const Json& object_;
  std::string type_;
};

/// All fields of a message but its type.
Json json_of(const Message& message);

/// The reader of a type of message; null for an unknown one.
Message (*reader_of(std::string_view type))(const Fields&);

}  // namespace muster::rendezvous
