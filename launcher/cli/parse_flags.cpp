// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/parse_flags.hpp"

#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/nearest_name.hpp"

#include <CLI/CLI.hpp>

#include <utility>

namespace muster::launcher {
namespace {

/// Says what is wrong with the first word that nothing was made of, up to where the help is named.
std::string unexpected(const CLI::App& app, const std::string& word) {
  if (!word.starts_with('-') || word == "-")
    return "'" + word + "' is one word too many for " + app.get_name() + "; see";
  const std::string meant = did_you_mean_flag(word, flag_names(app));
  return "'" + word + "' is not a flag of " + app.get_name() + "; " +
         (meant.empty() ? "see" : meant + " See");
}

}  // namespace

void parse_flags(CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> stack(arguments.rbegin(), arguments.rend());  // as CLI11 takes it
  try {
    app.parse(std::move(stack));
  } catch (const CLI::ParseError& error) {
    // What is said to be missing may have been misspelt.
    const std::vector<std::string> unknown = app.remaining();
    throw UsageError(
        (unknown.empty() ? error.what() + std::string("; see") : unexpected(app, unknown.front())) + " '" +
        app.get_name() + " --help'");
  }
}

}  // namespace muster::launcher
