// SPDX-License-Identifier: Apache-2.0
#include "agent/core/node_report.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace muster::agent {
namespace {

using Json = nlohmann::json;

std::int64_t timestamp_from(const Json& holder) {
  const auto found = holder.find("timestamp");
  if (found == holder.end()) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  std::int64_t seconds = 0;
  if (found->is_string()) {
    const auto& text = found->get_ref<const std::string&>();
    std::from_chars(text.data(), text.data() + text.size(), seconds);
  }
  return seconds;
}

/// Lines of code and of call stacks are indented, and may hold such words as well.
bool names_error(const std::string& line) {
  static constexpr auto kWords =
      std::to_array<std::string_view>({"error", "exception", "fatal", "assert", "panic", "abort"});
  if (line.empty() || line.front() == ' ' || line.front() == '\t') return false;
  std::string lower = line;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return std::any_of(kWords.begin(), kWords.end(),
                     [&lower](std::string_view word) { return lower.find(word) != std::string::npos; });
}

std::string without_control_characters(std::string line) {
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return line;
}

std::string text_from(const Json& holder, const char* name) {
  const auto found = holder.find(name);
  return found != holder.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

WorkerError parse_error_file(const std::string& text) {
  WorkerError error;
  const Json file = Json::parse(text, nullptr, false);
  const auto message = file.is_object() ? file.find("message") : file.end();
  if (!file.is_object() || message == file.end()) {
    error.message = text;
  } else if (message->is_string()) {
    error.message = message->get<std::string>();
    error.timestamp_s = timestamp_from(file);
  } else if (message->is_object()) {
    error.message = text_from(*message, "message");
    const auto extra = message->find("extraInfo");
    if (extra != message->end() && extra->is_object()) {
      error.traceback = text_from(*extra, "py_callstack");
      error.timestamp_s = timestamp_from(*extra);
    }
  } else {
    error.message = text;
  }
  return error;
}

std::string error_line(const WorkerError& error, const std::vector<std::string>& last_lines) {
  const std::size_t begin = error.message.find_first_not_of("\r\n");
  if (begin != std::string::npos)
    return without_control_characters(
        error.message.substr(begin, error.message.find_first_of("\r\n", begin) - begin));
  const auto found = std::find_if(last_lines.begin(), last_lines.end(), names_error);
  return found == last_lines.end() ? std::string() : without_control_characters(*found);
}

}  // namespace muster::agent
