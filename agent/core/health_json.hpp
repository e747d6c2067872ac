// SPDX-License-Identifier: Apache-2.0
// What ranks do, and the verdict on them, as words of JSON. For sources that write or read JSON.
#pragma once

#include "rendezvous/protocol/health_words.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>

namespace muster::rendezvous {

/// Writes a value by its word, and reads one; an unknown word is the first value of the table.
template <typename Json, typename Value, std::size_t size>
void word_to_json(Json& json, Value value, const Words<Value, size>& words) {
  const auto* const found =
      std::find_if(words.begin(), words.end(), [value](const auto& entry) { return entry.first == value; });
  json = (found == words.end() ? words.front() : *found).second;
}

template <typename Json, typename Value, std::size_t size>
void word_from_json(const Json& json, Value& value, const Words<Value, size>& words) {
  const auto* const found = std::find_if(words.begin(), words.end(),
                                         [&json](const auto& entry) { return json == Json(entry.second); });
  value = (found == words.end() ? words.front() : *found).first;
}

template <typename Json>
void to_json(Json& json, const Activity& value) {
  word_to_json(json, value, kActivityWords);
}

template <typename Json>
void from_json(const Json& json, Activity& value) {
  word_from_json(json, value, kActivityWords);
}

template <typename Json>
void to_json(Json& json, const WaitKind& value) {
  word_to_json(json, value, kWaitWords);
}

template <typename Json>
void from_json(const Json& json, WaitKind& value) {
  word_from_json(json, value, kWaitWords);
}

template <typename Json>
void to_json(Json& json, const HangLevel& value) {
  word_to_json(json, value, kHangLevelWords);
}

template <typename Json>
void from_json(const Json& json, HangLevel& value) {
  word_from_json(json, value, kHangLevelWords);
}

}  // namespace muster::rendezvous
