// SPDX-License-Identifier: Apache-2.0
// Every flag of `muster run`, once: parsing, abbreviations, PET_ variables, help and completion all read this
// table.
#pragma once

#include "launcher/cli/cli_options.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

struct Flag {
  /// The name without its leading dashes, its words joined by dashes; underscores are accepted as well.
  std::string_view name;
  /// The letter of the short form, 'm' for -m; 0 for none.
  char short_name;
  /// Placeholder in the help. Empty: a switch, which takes no value.
  std::string_view value_name;
  std::string_view group;
  /// Whether the flag's default may come from its PET_ variable.
  bool from_environment;
  /// Whether torchrun does not know this flag. Such a flag never makes an abbreviation ambiguous that is
  /// unique under torchrun.
  bool own;
  std::string_view help;
  /// Checks the value (of a switch: "1") and stores it. Throws UsageError.
  void (*apply)(CliOptions& options, const GivenText& given);
  /// Whether the values of a flag that is given several times are one list, joined by commas; otherwise the
  /// last one holds.
  bool is_list = false;

  bool takes_value() const { return !value_name.empty(); }

  std::string spelled() const { return "--" + std::string(name); }
};

/// The highest --node-rank.
constexpr int kMaxNodeRank = 1 << 20;

std::span<const Flag> flag_table();

/// Returns "PET_NPROC_PER_NODE" for nproc-per-node.
std::string variable_of(const Flag& flag);

/// Returns a note about each of `names` of variables that begins as those of flags do and that nobody reads,
/// but a flag is called so, or nearly so. torchrun, too, ignores such a variable, without a word.
std::vector<std::string> unread_variables(const std::vector<std::string>& names);

}  // namespace muster::launcher
