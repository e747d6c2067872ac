// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/core/launch_error.hpp"

#include <cstddef>
#include <string>

namespace muster::launcher {

/// One line of text from outside: the value of a flag or variable, or a line of a file.
struct SourceLine {
  std::string text;
  /// "--host" or "hosts.txt:3".
  std::string name;
  bool in_file = false;

  static SourceLine of(const GivenText& given) { return {given.text, given.source, false}; }

  /// "--host, position 4" or "hosts.txt:3:4", counted from 1.
  std::string place(std::size_t at) const;

  /// "<place>: <what>", with the text around `at` (an index of `text`, or its end) and a caret under it.
  UsageError wrong(std::size_t at, const std::string& what) const;
};

/// `text` as messages quote it: cut after 40 characters.
std::string quote(const std::string& text);

}  // namespace muster::launcher
