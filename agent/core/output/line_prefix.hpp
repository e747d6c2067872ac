// SPDX-License-Identifier: Apache-2.0
// Makes what stands before each teed line.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace muster::agent {

/// When a line was read.
struct PrefixTime {
  std::chrono::system_clock::time_point now{};
  /// Since the job began on this node.
  std::chrono::milliseconds elapsed{0};
};

/// Values of the names that a template may use.
struct PrefixFields {
  std::string role;
  std::string host;
  int local_rank = 0;
  int rank = 0;
};

/// Returns --log-line-prefix-template with ${role_name}, ${local_rank}, ${rank}, ${hostname}, ${time} and
/// ${elapsed} (or without braces) replaced, `$$` as `$`, other names left as they are (Python's
/// Template.safe_substitute, as torchrun uses). An empty template gives "[<role><local rank>]:". Control
/// characters in role and host are escaped. ${time} is the local time as ISO 8601 has it, with milliseconds
/// and its offset ("2026-03-01T09:30:00.250+01:00"); ${elapsed} is in seconds ("12.345").
std::string line_prefix(std::string_view prefix_template, const PrefixFields& fields,
                        const PrefixTime& time = {});

/// The prefix of one worker's lines.
class LinePrefix {
 public:
  LinePrefix(std::string prefix_template, PrefixFields fields)
      : template_(std::move(prefix_template)), fields_(std::move(fields)) {}

  /// Whether it depends on the time.
  bool tells_time() const;

  std::string text(const PrefixTime& time) const { return line_prefix(template_, fields_, time); }

 private:
  std::string template_;
  PrefixFields fields_;
};

}  // namespace muster::agent
