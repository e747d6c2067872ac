// SPDX-License-Identifier: Apache-2.0
// Translates between messages and JSON values; only for the sources of this folder. Reader and writer have
// the same calls, so that one list of a message's fields serves both (message_fields.cpp).
#pragma once

#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/health_words.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/protocol/message.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::rendezvous {

using Json = nlohmann::json;

inline constexpr int kMaxInt = std::numeric_limits<int>::max();

inline constexpr Words<RoundEndCause, 5> kCauses{{{RoundEndCause::node_failed, "node_failed"},
                                                  {RoundEndCause::node_left, "node_left"},
                                                  {RoundEndCause::node_lost, "node_lost"},
                                                  {RoundEndCause::nodes_waiting, "nodes_waiting"},
                                                  {RoundEndCause::hung, "hung"}}};

/// Whether a message without a field is refused, or gets the field's default.
enum class Need { required, optional };

/// Reads the fields of one message; every complaint names the type and the field.
class FieldReader {
 public:
  /// The type of the message that is read into.
  template <typename Type>
  using Of = Type;

  FieldReader(const Json& object, std::string type) : object_(object), type_(std::move(type)) {}

  void integer(const char* name, int& into, int low, int high, Need need = Need::required) const {
    const Json* value = find(name, need);
    if (value == nullptr) return;
    if (!value->is_number_integer()) complain(name, "is not a whole number");
    // A number above the signed range is stored as unsigned, so each form is compared in its own type.
    const bool inside = value->is_number_unsigned()
                            ? value->get<std::uint64_t>() <= static_cast<std::uint64_t>(high) &&
                                  (low <= 0 || value->get<std::uint64_t>() >= static_cast<std::uint64_t>(low))
                            : value->get<std::int64_t>() >= low && value->get<std::int64_t>() <= high;
    if (!inside) complain(name, "is outside " + std::to_string(low) + ".." + std::to_string(high));
    into = value->get<int>();
  }

  /// Reads a list of whole numbers, which may be absent.
  void integers(const char* name, std::vector<int>& into, int low, int high, std::size_t most) const {
    const Json* value = find(name, Need::optional);
    if (value == nullptr) return;
    if (!value->is_array() || value->size() > most)
      complain(name, "is not a list of at most " + std::to_string(most) + " numbers");
    for (const Json& entry : *value) {
      const bool inside =
          entry.is_number_integer() && entry.get<std::int64_t>() >= low && entry.get<std::int64_t>() <= high;
      if (!inside)
        complain(name, "has what is no whole number in " + std::to_string(low) + ".." + std::to_string(high));
      into.push_back(entry.get<int>());
    }
  }

  void duration(const char* name, Milliseconds& into) const {
    int count = static_cast<int>(into.count());
    integer(name, count, 0, kMaxInt, Need::optional);
    into = Milliseconds(count);
  }

  void flag(const char* name, bool& into, Need need = Need::optional) const {
    const Json* value = find(name, need);
    if (value == nullptr) return;
    if (!value->is_boolean()) complain(name, "is neither true nor false");
    into = value->get<bool>();
  }

  void counter(const char* name, std::uint64_t& into, Need need = Need::required) const {
    const Json* value = find(name, need);
    if (value == nullptr) return;
    if (!value->is_number_unsigned()) complain(name, "is not a whole number from 0 up");
    into = value->get<std::uint64_t>();
  }

  /// Reads a value with fields of its own, which `list` names; the value may be absent.
  template <typename Type, typename List>
  void object(const char* name, std::optional<Type>& into, const List& list) const {
    const Json* value = find(name, Need::optional);
    if (value == nullptr) return;
    if (!value->is_object()) complain(name, "is not an object");
    const FieldReader fields(*value, type_ + "." + name);
    list(fields, into.emplace());
  }

  /// Reads a list of values with fields of their own, which may be absent.
  template <typename Type, typename List>
  void objects(const char* name, std::vector<Type>& into, std::size_t most, const List& list) const {
    const Json* value = find(name, Need::optional);
    if (value == nullptr) return;
    if (!value->is_array() || value->size() > most)
      complain(name, "is not a list of at most " + std::to_string(most) + " objects");
    for (const Json& entry : *value) {
      if (!entry.is_object()) complain(name, "has what is no object");
      const FieldReader fields(entry, type_ + "." + name);
      list(fields, into.emplace_back());
    }
  }

  /// Reads a text for people. Up to three times `most` bytes are read, because a sender cuts at `most` and
  /// then each byte that is not UTF-8 is replaced by three.
  void text(const char* name, std::string& into, Need need = Need::required,
            std::size_t most = kMaxTextBytes) const {
    if (const Json* value = find(name, need)) into = string(*value, name, 3 * most);
  }

  void name(const char* name, std::string& into, Need need = Need::required) const {
    if (const Json* value = find(name, need)) into = checked_name(*value, name);
  }

  void filled_name(const char* field, std::string& into) const {
    name(field, into);
    if (into.empty()) complain(field, "is empty");
  }

  void names(const char* name, std::vector<std::string>& into, std::size_t most,
             Need need = Need::required) const {
    const Json* value = find(name, need);
    if (value == nullptr) return;
    if (!value->is_array() || value->size() > most)
      complain(name, "is not a list of at most " + std::to_string(most) + " names");
    for (const Json& entry : *value) into.push_back(checked_name(entry, name));
  }

  /// Reads an object whose fields are names with names as values.
  void named_values(const char* name, std::map<std::string, std::string>& into, std::size_t most) const {
    const Json* value = find(name, Need::optional);
    if (value == nullptr) return;
    if (!value->is_object() || value->size() > most)
      complain(name, "is not an object of at most " + std::to_string(most) + " names");
    for (const auto& [key, entry] : value->items())
      into.emplace(checked_name(key, name), checked_name(entry, name));
  }

  template <typename Value, std::size_t size>
  void word(const char* name, Value& into, const Words<Value, size>& words,
            Need need = Need::required) const {
    const Json* value = find(name, need);
    if (value == nullptr) return;
    const std::string given = string(*value, name, kMaxNameBytes);
    for (const auto& [candidate, word] : words)
      if (given == word) {
        into = candidate;
        return;
      }
    complain(name, "has an unknown value");
  }

  void code(const char* name, Errc& into) const {
    const auto code = errc_from(checked_name(*find(name, Need::required), name));
    if (!code) complain(name, "has an unknown value");
    into = *code;
  }

 private:
  /// The field's value; null if it is optional and missing.
  const Json* find(const char* name, Need need) const {
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    if (need == Need::required) complain(name, "is missing");
    return nullptr;
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

  [[noreturn]] void complain(const char* name, const std::string& what) const {
    throw CoordinatorError(Errc::mend, "control message '" + type_ + "': field '" + name + "' " + what);
  }

  const Json& object_;
  std::string type_;
};

/// Writes the fields of one message. The reader checks the bounds; the writer only cuts texts.
class FieldWriter {
 public:
  /// The type of the message that is written.
  template <typename Type>
  using Of = const Type;

  void integer(const char* name, int value, int /*low*/, int /*high*/, Need = {}) { object_[name] = value; }

  void integers(const char* name, const std::vector<int>& value, int /*low*/, int /*high*/,
                std::size_t /*most*/) {
    object_[name] = value;
  }

  /// Times are cut at what the reader takes, 24 days.
  void duration(const char* name, Milliseconds value) {
    object_[name] = std::min(value, Milliseconds(kMaxInt)).count();
  }

  void flag(const char* name, bool value, Need = {}) { object_[name] = value; }

  void counter(const char* name, std::uint64_t value, Need = {}) { object_[name] = value; }

  void text(const char* name, const std::string& value, Need = {}, std::size_t most = kMaxTextBytes) {
    object_[name] = cut(value, most);
  }

  void name(const char* name, const std::string& value, Need = {}) { object_[name] = value; }

  void filled_name(const char* name, const std::string& value) { object_[name] = value; }

  void names(const char* name, const std::vector<std::string>& value, std::size_t /*most*/, Need = {}) {
    object_[name] = value;
  }

  void named_values(const char* name, const std::map<std::string, std::string>& value, std::size_t /*most*/) {
    object_[name] = value;
  }

  template <typename Value, std::size_t size>
  void word(const char* name, Value value, const Words<Value, size>& words, Need = {}) {
    for (const auto& [candidate, word] : words)
      if (candidate == value) object_[name] = word;
  }

  void code(const char* name, Errc value) { object_[name] = to_string(value); }

  template <typename Type, typename List>
  void object(const char* name, const std::optional<Type>& value, const List& list) {
    if (!value) return;
    FieldWriter fields;
    list(fields, *value);
    object_[name] = fields.take();
  }

  template <typename Type, typename List>
  void objects(const char* name, const std::vector<Type>& values, std::size_t /*most*/, const List& list) {
    Json all = Json::array();
    for (const Type& value : values) {
      FieldWriter fields;
      list(fields, value);
      all.push_back(fields.take());
    }
    object_[name] = std::move(all);
  }

  Json take() { return std::move(object_); }

 private:
  /// Cuts a text between characters, because half a UTF-8 sequence would be replaced by a longer mark.
  static std::string cut(const std::string& text, std::size_t most) {
    if (text.size() <= most) return text;
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
    return text.substr(0, end);
  }

  Json object_ = Json::object();
};

/// The name of the kind with this index in Message.
std::string_view kind_name(std::size_t index);

/// The fields of a message without its type.
Json json_of(const Message& message);

/// The function that reads messages of a type; null for an unknown type.
Message (*reader_of(std::string_view type))(const FieldReader&);

}  // namespace muster::rendezvous
