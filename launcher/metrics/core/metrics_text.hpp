// SPDX-License-Identifier: Apache-2.0
// Metrics in OpenMetrics' text format, version 1.0. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::launcher {

/// What HTTP calls it.
inline constexpr std::string_view kMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Families, each with its samples behind it.
class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  /// Begins a family. A counter's name is given without "_total", an info's without "_info". The unit is the
  /// end of the name, or empty.
  void family(std::string_view name, std::string_view type, std::string_view unit, std::string_view help);

  /// Adds a sample of the family.
  void sample(const Labels& labels, std::int64_t value) { add(labels, std::to_string(value)); }

  /// The same of a time, in seconds.
  void seconds(const Labels& labels, std::int64_t milliseconds);

  /// Returns all of it with its end, "# EOF".
  std::string finish() &&;

 private:
  void add(const Labels& labels, std::string_view value);

  std::string text_;
  std::string name_;
};

}  // namespace muster::launcher
