// SPDX-License-Identifier: Apache-2.0
#include "agent/core/error_file.hpp"

#include "rendezvous/base/text.hpp"

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

/// Whether a line names an error and is not indented: lines of code and of call stacks are indented, and may
/// hold such words as well.
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

constexpr std::size_t kEscape = 6;

/// Returns the number of the escape "\uXXXX" at `at`; -1 if there is none.
int unicode_escape(std::string_view text, std::size_t at) {
  if (at + kEscape > text.size() || text.substr(at, 2) != "\\u") return -1;
  return parse_number<std::uint16_t>(text.substr(at + 2, kEscape - 2), 16).value_or(0);
}

bool is_high_half(int code) {
  return code >= 0xd800 && code < 0xdc00;
}

bool is_low_half(int code) {
  return code >= 0xdc00 && code < 0xe000;
}

/// Replaces escapes that stand for half a character: a character outside of the basic plane is written as two
/// escapes, and JSON allows neither of them alone.
std::string without_lone_halves(std::string text) {
  for (std::size_t at = 0; (at = text.find('\\', at)) != std::string::npos;) {
    const int code = unicode_escape(text, at);
    if (is_high_half(code) && is_low_half(unicode_escape(text, at + kEscape))) {
      at += 2 * kEscape;
    } else if (is_high_half(code) || is_low_half(code)) {
      text.replace(at, kEscape, "\\ufffd");
      at += kEscape;
    } else {
      at += 2;  // also past an escaped backslash
    }
  }
  return text;
}

}  // namespace

std::string mended_json(const std::string& text) {
  if (Json::accept(text)) return text;
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string mended = without_lone_halves(Json::parse(quoted).get<std::string>());
  return Json::accept(mended) ? mended : text;
}

WorkerError parse_error_file(const std::string& text) {
  WorkerError error;
  const Json file = Json::parse(mended_json(text), nullptr, false);
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

WorkerError last_of(WorkerError error, std::size_t most) {
  for (std::string* const text : {&error.message, &error.traceback})
    if (text->size() > most) *text = "[...]" + text->substr(text->size() - most);
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
