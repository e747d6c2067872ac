// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/normalize_arguments.hpp"

#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/nearest_name.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace muster::launcher {
namespace {

constexpr std::string_view kHelp = "help";

bool is_number(const std::string& text) {
  const std::string_view digits = std::string_view(text).substr(1);
  return !digits.empty() && digits.find_first_not_of("0123456789.") == std::string_view::npos &&
         digits != ".";
}

/// Whether a word is a flag: "-" and negative numbers are values (argparse).
bool looks_like_flag(const std::string& text) {
  return text.size() > 1 && text[0] == '-' && !is_number(text);
}

class Normalizer {
 public:
  Normalizer(std::span<const Flag> table, const std::vector<std::string>& arguments)
      : table_(table), arguments_(arguments) {}

  NormalizedArguments run() {
    while (next_ < arguments_.size() && !result_.help) {
      const std::string& argument = arguments_[next_];
      if (!looks_like_flag(argument)) break;
      ++next_;
      if (argument == "--") break;
      if (argument == "-np")  // as mpirun spells it
        add(*find("np", argument), argument, std::nullopt);
      else if (argument.starts_with("--"))
        long_flag(argument);
      else
        short_flags(argument);
    }
    if (!result_.help)
      result_.program.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(next_), arguments_.end());
    return std::move(result_);
  }

 private:
  void long_flag(const std::string& argument) {
    const std::size_t equals = argument.find('=');
    std::optional<std::string> value;
    if (equals != std::string::npos) value = argument.substr(equals + 1);
    std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), '_', '-');
    if (const Flag* flag = find(name, argument)) add(*flag, flag->spelled(), value);
  }

  /// Reads short flags as they may be written: -m, -r3, -r 3, -r=3, -mr 3.
  void short_flags(const std::string& argument) {
    for (std::size_t i = 1; i < argument.size(); ++i) {
      if (argument[i] == 'h') {
        result_.help = true;
        return;
      }
      const auto flag = std::find_if(table_.begin(), table_.end(), [&](const Flag& candidate) {
        return candidate.short_name != 0 && candidate.short_name == argument[i];
      });
      if (flag == table_.end()) throw unknown(argument);
      const std::string rest = argument.substr(i + 1);
      if (flag->takes_value() || rest.starts_with('=')) {
        std::optional<std::string> value;
        if (!rest.empty()) value = rest.substr(rest[0] == '=' ? 1 : 0);
        add(*flag, std::string("-") + argument[i], value);
        return;
      }
      add(*flag, std::string("-") + argument[i], std::nullopt);
    }
  }

  void add(const Flag& flag, const std::string& written, std::optional<std::string> value) {
    result_.flags.push_back(flag.spelled());
    if (!flag.takes_value()) {
      if (value) throw UsageError(written + " is a switch and takes no value; remove '=" + *value + "'");
      return;
    }
    if (!value && next_ < arguments_.size() && !looks_like_value_end(arguments_[next_]))
      value = arguments_[next_++];
    if (!value)
      throw UsageError(written + " needs a value; write " + written + (written.size() > 2 ? "=" : " ") +
                       std::string(flag.value_name));
    if (flag.is_list && lists_.contains(flag.name)) {
      result_.flags.pop_back();
      result_.flags[lists_[flag.name]] += "," + *value;
      return;
    }
    lists_[flag.name] = result_.flags.size();
    result_.flags.push_back(*value);
  }

  /// Whether a word is no value. A word with a blank inside is a value even if it begins with a dash
  /// (argparse): line prefixes do.
  static bool looks_like_value_end(const std::string& text) {
    return looks_like_flag(text) && text.find(' ') == std::string::npos;
  }

  /// Returns the flag called `name` or, if there is only one, beginning with it; null for help.
  const Flag* find(const std::string& name, const std::string& written) {
    std::vector<const Flag*> matches;
    for (const Flag& flag : table_) {
      if (flag.name == name) return &flag;
      if (flag.name.starts_with(name)) matches.push_back(&flag);
    }
    const bool help = kHelp.starts_with(name) && !name.empty();
    if (matches.size() > 1 || (help && !matches.empty()))
      std::erase_if(matches, [](const Flag* flag) { return flag->own; });
    if (help && (name == kHelp || matches.empty())) {
      result_.help = true;
      return nullptr;
    }
    if (matches.size() == 1) return matches.front();
    throw matches.empty() && !any_begins_with(name) ? unknown(written) : ambiguous(name, written);
  }

  bool any_begins_with(const std::string& name) const {
    return std::any_of(table_.begin(), table_.end(),
                       [&](const Flag& flag) { return flag.name.starts_with(name); });
  }

  UsageError ambiguous(const std::string& name, const std::string& written) const {
    std::string candidates;
    for (const Flag& flag : table_)
      if (flag.name.starts_with(name)) candidates += (candidates.empty() ? "" : ", ") + flag.spelled();
    return UsageError(written + " could be any of " + candidates + "; write more of it");
  }

  UsageError unknown(const std::string& written) const {
    std::vector<std::string_view> names;
    for (const Flag& flag : table_) names.push_back(flag.name);
    std::string spelled = written;
    std::replace(spelled.begin(), spelled.end(), '_', '-');
    const std::string meant = did_you_mean_flag(spelled, names);
    return UsageError("'" + written + "' is not a flag of muster run; " +
                      (meant.empty() ? "see" : meant + " See") +
                      " 'muster run --help' (flags of the program go after its name)");
  }

  std::span<const Flag> table_;
  const std::vector<std::string>& arguments_;
  std::size_t next_ = 0;
  /// The place in result_.flags of each flag's value.
  std::map<std::string_view, std::size_t> lists_;
  NormalizedArguments result_;
};

}  // namespace

NormalizedArguments normalize_arguments(std::span<const Flag> table,
                                        const std::vector<std::string>& arguments) {
  return Normalizer(table, arguments).run();
}

}  // namespace muster::launcher
