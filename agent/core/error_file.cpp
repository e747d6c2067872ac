// SPDX-License-Identifier: Apache-2.0
#include "agent/core/error_file.hpp"

#include <nlohmann/json.hpp>

#include <charconv>

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

}  // namespace muster::agent
