// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/config_file.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/posix.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

namespace muster::examples {
namespace {

/// Flags take lines, not books.
constexpr std::uintmax_t kMaxBytes = 1U << 20;

std::string value_text(const nlohmann::json& value, const std::string& where) {
  if (value == "")
    throw Error(ErrorCode::invalid_argument, where + " is empty; give a value, or leave it out");
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  // 8.0 is a number of images, too: many programs write every number with a point.
  if (const double number = value.is_number_float() ? value.get<double>() : 0.5;
      std::trunc(number) == number && std::abs(number) < 1e15)
    return std::to_string(static_cast<std::int64_t>(number));
  if (value.is_number()) return value.dump();
  throw Error(ErrorCode::invalid_argument,
              where +
                  " is neither a text nor a number nor true or false; give it as on "
                  "the command line");
}

std::string content_of(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error) throw Error(ErrorCode::io, "cannot read --config " + path + ": " + error.message());
  if (!std::filesystem::is_regular_file(status))
    throw Error(ErrorCode::invalid_argument, "--config " + path + " is no file; give one with flags");
  if (std::filesystem::file_size(path, error) > kMaxBytes)
    throw Error(ErrorCode::invalid_argument,
                "--config " + path + " is larger than a MiB, so it holds no flags; give the right file");
  auto text = read_file(path);
  if (!text) throw Error(ErrorCode::io, "cannot read --config " + path + ": " + std::strerror(errno));
  return std::move(*text);
}

/// Where a name is there twice, the parser would take the last one without a word.
nlohmann::json parse(const std::string& text, const std::string& path) {
  std::set<std::string> names;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json& name) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1 &&
        !names.insert(name.get<std::string>()).second)
      throw Error(ErrorCode::invalid_argument,
                  "--config " + path + " has \"" + name.get<std::string>() + "\" twice; keep one of them");
    return true;
  };
  try {
    return nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::invalid_argument, "--config " + path + " is not JSON: " + error.what());
  }
}

}  // namespace

std::vector<ConfigEntry> read_config(const std::string& path) {
  return parse_config(content_of(path), path);
}

std::vector<ConfigEntry> parse_config(const std::string& text, const std::string& path) {
  const nlohmann::json content = parse(text, path);
  if (!content.is_object())
    throw Error(ErrorCode::invalid_argument,
                "--config " + path + " holds no object; write {\"model\": \"resnet18\", ...}");
  std::vector<ConfigEntry> entries;
  for (const auto& [name, value] : content.items())
    entries.push_back({name, value_text(value, "--config " + path + ": \"" + name + "\"")});
  return entries;
}

}  // namespace muster::examples
