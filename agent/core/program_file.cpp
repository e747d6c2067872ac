// SPDX-License-Identifier: Apache-2.0
#include "agent/core/program_file.hpp"

#include <algorithm>
#include <cerrno>

namespace muster::agent {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kElf =
    "\x7f"
    "ELF";
constexpr std::string_view kNoShebang =
    "it has no '#!' line: add '#!/bin/sh', or what else runs it, as its first line";
constexpr std::string_view kCarriage = "the file has CRLF line ends; run dos2unix on it";

/// Returns a word with a carriage return at its end made visible.
std::string visible(std::string word) {
  if (!word.ends_with('\r')) return word;
  word.pop_back();
  return word + "\\r";
}

bool is_env(std::string_view interpreter) {
  return interpreter == "env" || interpreter.ends_with("/env");
}

}  // namespace

Shebang shebang_of(std::string_view head) {
  if (!head.starts_with("#!")) return {};
  std::string_view line = head.substr(2, std::min(head.find('\n'), kProgramHeadBytes) - 2);
  line = line.substr(0, line.find('\0'));
  const std::size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  line = line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
  const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
  const std::size_t argument = std::min(line.find_first_not_of(kBlanks, end), line.size());
  return {std::string(line.substr(0, end)), std::string(line.substr(argument))};
}

std::string shebang_obstacle(const Shebang& shebang, bool interpreter_is_missing) {
  if (shebang.interpreter.empty()) return "";
  const bool carriage = shebang.interpreter.ends_with('\r');
  if (interpreter_is_missing)
    return "its interpreter '" + visible(shebang.interpreter) + "' does not exist" +
           (carriage ? ": " + std::string(kCarriage) : "; install it or mend the first line of the file");
  // env looks for a program of that name; behind -S it parts words, and takes the mark for a blank.
  if (is_env(shebang.interpreter) && !shebang.argument.starts_with('-') && shebang.argument.ends_with('\r'))
    return "its interpreter '" + visible(shebang.argument) + "' does not exist: " + std::string(kCarriage);
  return "";
}

std::string exec_obstacle(int error_number, std::string_view head) {
  if (error_number == ENOENT) {
    // The file is there, so that what is missing is what it names.
    if (head.starts_with(kElf))
      return "the dynamic loader that it names does not exist: it was linked for another system; see "
             "'readelf -l'";
    return shebang_obstacle(shebang_of(head), true);
  }
  if (error_number != ENOEXEC) return "";
  if (head.empty()) return "the file is empty";
  if (head.starts_with(kElf)) return "it was compiled for another kind of processor; see 'file'";
  if (head.starts_with("#!")) return "its '#!' line names no interpreter";
  return head.find('\0') == std::string_view::npos ? std::string(kNoShebang)
                                                   : "it is no program for this system";
}

}  // namespace muster::agent
