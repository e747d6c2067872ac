// SPDX-License-Identifier: Apache-2.0
// Makes what stands before each teed line.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent {

/// Values of the names that a template may use.
struct PrefixFields {
  std::string role;
  std::string host;
  int local_rank = 0;
  int rank = 0;
};

/// Returns --log-line-prefix-template with ${role_name}, ${local_rank}, ${rank} and ${hostname} (or without
/// braces) replaced, `$$` as `$`, other names left as they are (Python's Template.safe_substitute, as
/// torchrun uses). An empty template gives "[<role><local rank>]:". Control characters in role and host are
/// escaped.
std::string line_prefix(std::string_view prefix_template, const PrefixFields& fields);

}  // namespace muster::agent
