// SPDX-License-Identifier: Apache-2.0
// A command line, resolved on a machine that a test made up.
#pragma once

#include "catch.hpp"
#include "launcher/cli/parse_options.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/job_spec/resolve_job.hpp"
#include "tests/unit/launcher/job_spec/fake_system.hpp"

#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace muster::launcher {

using Arguments = std::vector<std::string>;

/// The arguments in `text`, which are set apart by blanks.
inline Arguments words(const std::string& text) {
  std::istringstream stream(text);
  return Arguments(std::istream_iterator<std::string>(stream), {});
}

/// What `muster run` makes of `arguments`; where they name no program, it is `true`.
inline ResolvedJob resolve(const Arguments& arguments, const FakeSystem& system = {}) {
  CliOptions options =
      parse_run_options(arguments, [&system](const std::string& name) { return system.variable(name); });
  if (options.program.empty()) options.program = {"true"};
  return resolve_job(options, system);
}

/// The message with which they are refused; "" when they are not.
inline std::string resolve_error(const Arguments& arguments, const FakeSystem& system = {}) {
  try {
    resolve(arguments, system);
  } catch (const LaunchError& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "";
}

inline std::optional<std::string> value_of(const Environment& environment, const std::string& name) {
  for (const auto& [key, value] : environment)
    if (key == name) return value;
  return std::nullopt;
}

}  // namespace muster::launcher
