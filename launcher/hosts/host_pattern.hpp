// SPDX-License-Identifier: Apache-2.0
// Expands host names with ranges: "n[00-15,20]", "rack[1-2]-n[0-9]", and IPv6 addresses in brackets.
#pragma once

#include "launcher/core/launch_error.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster::launcher {

/// One line of text from outside: the value of a flag or variable, or a line of a file.
struct SourceLine {
  std::string text;
  /// The name of the place in messages: "--host" or "hosts.txt:3".
  std::string name;
  bool in_file = false;

  static SourceLine of(const GivenText& given) { return {given.text, given.source, false}; }

  /// Returns a place such as "--host, position 4" or "hosts.txt:3:4", counted from 1.
  std::string place(std::size_t at) const;

  /// Returns the error "<place>: <what>", with the text around `at` (an index of `text`, or its end) and a
  /// caret under it.
  UsageError wrong(std::size_t at, const std::string& what) const;
};

/// Returns `text` as messages quote it: cut after 40 characters.
std::string quote(const std::string& text);

/// Most hosts of a job, and most bytes of a list or file of hosts: far above any real one, small enough for
/// any machine.
constexpr std::size_t kMaxHosts = 65'536;
constexpr std::size_t kMaxHostText = 4U << 20;

/// A part of a line, from `begin` to before `end`.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Returns the parts of `whole` between `separator`s that stand outside brackets. Throws UsageError for a
/// bracket that is not closed, not opened, or inside another.
std::vector<Span> split_outside_brackets(const SourceLine& line, Span whole, char separator);

/// Returns the names that the pattern in `span` stands for, the last range turning fastest as in Slurm; an
/// IPv6 address loses its brackets. At most kMaxHosts. Throws UsageError: empty, bad range, or a name that no
/// host has (a leading dash would be an option of ssh).
std::vector<std::string> expand_hosts(const SourceLine& line, Span span);

/// Whether the pattern is an IPv6 address in brackets (then no range).
bool is_bracketed_address(const SourceLine& line, Span span);

/// Whether the text is an IPv6 address without brackets.
bool is_address(const SourceLine& line, Span span);

/// Reads a decimal number of `span`, from `low` to `high`; `what` says what it is ("a number of slots").
int number_at(const SourceLine& line, Span span, int low, int high, const std::string& what);

/// Reads SLURM_JOB_NODELIST: "n[00-15,20],login1,rack[1-2]-n[0-3]", in Slurm's order. Throws UsageError with
/// the place.
std::vector<std::string> expand_node_list(const GivenText& given);

}  // namespace muster::launcher
