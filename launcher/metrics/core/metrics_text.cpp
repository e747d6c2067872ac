// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/core/metrics_text.hpp"

#include <cstdio>

namespace muster::launcher {
namespace {

/// The bytes of a label's value: quotes, backslashes and line ends are escaped, and what is no UTF-8 there
/// would make the whole text unreadable: bytes above ASCII become '?'.
std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\n')
      text += "\\n";
    else if (c == '"' || c == '\\')
      (text += '\\') += c;
    else
      text += static_cast<unsigned char>(c) < 0x80 ? c : '?';
  }
  return text;
}

}  // namespace

void MetricsText::family(std::string_view name, std::string_view type, std::string_view unit,
                         std::string_view help) {
  name_ = name;
  const auto line = [this](std::string_view word, std::string_view rest) {
    ((((text_ += "# ") += word) += ' ') += name_) += ' ';
    (text_ += rest) += '\n';
  };
  line("TYPE", type);
  if (!unit.empty()) line("UNIT", unit);
  line("HELP", help);
  if (type == "counter") name_ += "_total";
  if (type == "info") name_ += "_info";
}

void MetricsText::add(const Labels& labels, std::string_view value) {
  text_ += name_;
  char before = '{';
  for (const auto& [label, text] : labels) {
    (text_ += before) += label;
    ((text_ += "=\"") += escaped(text)) += '"';
    before = ',';
  }
  if (!labels.empty()) text_ += '}';
  ((text_ += ' ') += value) += '\n';
}

void MetricsText::seconds(const Labels& labels, std::int64_t milliseconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(milliseconds / 1000),
                static_cast<long long>(milliseconds % 1000));
  add(labels, text);
}

std::string MetricsText::finish() && {
  return std::move(text_) + "# EOF\n";
}

}  // namespace muster::launcher
