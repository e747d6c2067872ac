// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/exit_code.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster::launcher {

/// Says that the job cannot be started. what() is "<what is wrong>; <what to change>"; main prints it after
/// "muster: error: ".
class LaunchError : public std::runtime_error {
 public:
  LaunchError(int exit_code, const std::string& text) : std::runtime_error(text), exit_code_(exit_code) {}

  int exit_code() const { return exit_code_; }

  /// Returns lines to print below the message: the text that is wrong and a caret. Printable ASCII; may be
  /// empty.
  const std::vector<std::string>& excerpt() const { return excerpt_; }

 protected:
  std::vector<std::string> excerpt_;

 private:
  int exit_code_;
};

/// Says that a flag, value or variable is wrong (exit code 2).
class UsageError : public LaunchError {
 public:
  explicit UsageError(const std::string& text, std::vector<std::string> excerpt = {})
      : LaunchError(kExitUsage, text) {
    excerpt_ = std::move(excerpt);
  }
};

/// Text from outside and where it came from, for error messages: "--nproc-per-node" or "PET_NPROC_PER_NODE".
struct GivenText {
  std::string text;
  std::string source;

  /// Returns the text as messages quote it: "--nproc-per-node=four".
  std::string quoted() const { return source + "=" + text; }
};

}  // namespace muster::launcher
