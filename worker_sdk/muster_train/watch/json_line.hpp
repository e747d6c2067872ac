// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::train {

/// Builds one JSON object on one line, its members in the order in which they are added.
class JsonLine {
 public:
  JsonLine& add(std::string_view name, std::string_view value);

  JsonLine& add(std::string_view name, const char* value) { return add(name, std::string_view(value)); }

  /// A number that reads back as the same float; null for what is not finite.
  JsonLine& add(std::string_view name, double value);
  JsonLine& add(std::string_view name, std::int64_t value);

  /// The object as text, without the line's end.
  std::string text() const { return text_ + "}"; }

 private:
  void key(std::string_view name);

  std::string text_ = "{";
};

}  // namespace muster::train
