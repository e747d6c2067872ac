// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/env/variable_reader.hpp"

#include "rendezvous/base/text.hpp"

#include <cstdlib>
#include <stdexcept>

namespace muster {

int parse_variable(const std::string& name, const std::string& text, int low, int high) {
  const auto value = parse_number<int>(text);
  if (!value) throw std::invalid_argument(name + "='" + text + "' is not a whole number");
  if (*value < low || *value > high)
    throw std::invalid_argument(name + "=" + text + " is outside " + std::to_string(low) + ".." +
                                std::to_string(high));
  return *value;
}

int VariableReader::number(const std::string& name, int low, int high, std::optional<int> fallback) const {
  const auto text = lookup_(name);
  if (text) return parse_variable(name, *text, low, high);
  if (fallback) return *fallback;
  throw std::invalid_argument(name + " is not set, though others of the launcher's variables are; " + hint_);
}

Lookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

}  // namespace muster
