// SPDX-License-Identifier: Apache-2.0
// What a flag with a number takes, and what it says of another value.
#pragma once

#include <CLI/CLI.hpp>

#include <concepts>
#include <sstream>
#include <string>

namespace muster::examples {

/// Returns a check for a number from `least` to `most`, both included. Words that are no number are told
/// apart from numbers outside. Its messages are parts of a line that names the flag.
template <typename Number>
CLI::Validator between(Number least, Number most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        Number value{};
        const char* kind = std::integral<Number> ? "a whole number" : "a number";
        std::ostringstream message;
        message << "'" << text << "' is ";
        // What is too large for the type is a number all the same.
        [[maybe_unused]] long long wide = 0;
        bool is_number = CLI::detail::lexical_cast(text, value);
        const bool fits = is_number && !(value < least || value > most);
        if constexpr (std::integral<Number>) is_number = is_number || CLI::detail::lexical_cast(text, wide);
        if (!is_number)
          message << "not " << kind << "; give one";
        else if (!fits)
          message << "outside of what is possible; give " << kind;
        else
          return std::string();
        message.precision(12);
        message << " from " << least << " to " << most;
        return message.str();
      },
      "");
}

}  // namespace muster::examples
