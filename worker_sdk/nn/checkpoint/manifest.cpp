// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/manifest.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/checkpoint/xxh64.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

namespace muster::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "muster checkpoint";
/// A checkpoint in two files.
constexpr int kWhole = 2;
/// One in slices.
constexpr int kSlices = 3;

/// Between what is hashed and the hash.
constexpr std::string_view kSeal = ",\n \"xxh64\": \"";
constexpr std::string_view kEnd = "\"}\n";
constexpr std::size_t kHashDigits = 16;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

std::string hexadecimal(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::uint64_t from_hexadecimal(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16)
    refuse("the hash \"" + text + "\" is none");
  return value;
}

std::uint64_t hash_of(std::string_view text) {
  Xxh64 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.digest();
}

void require_seal(std::string_view text) {
  constexpr std::size_t kLength = kSeal.size() + kHashDigits + kEnd.size();
  const std::size_t size = text.size() - std::min(text.size(), kLength);
  if (sealed(text.substr(0, size)) != text) refuse("it is damaged: its hash is not that of its text");
}

Json value_of(const Scalars::Value& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Scalars::Value from_value(const std::string& name, const Json& value) {
  if (value.is_number_float()) return value.get<double>();
  if (value.is_number_integer()) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)
      refuse("the number " + name + " is too large");
    return value.get<std::int64_t>();
  }
  if (value.is_string()) return value.get<std::string>();
  refuse("the value of " + name + " is neither number nor text");
}

/// A list with one entry a line.
template <typename Entries, typename Write>
std::string lines_of(const char* name, const Entries& entries, char open, char close, const Write& write) {
  std::string text = Json(name).dump() + ": " + open;
  const char* separator = "\n  ";
  for (const auto& entry : entries) {
    text += separator + write(entry);
    separator = ",\n  ";
  }
  return text + "\n" + close;
}

/// Numbers of a shape are positive integers; get() alone would take fractions.
Shape shape_from(const Json& extents) {
  Shape shape;
  for (const Json& extent : extents) {
    if (!extent.is_number_unsigned()) refuse("a shape has what is no size");
    shape.push_back(extent.get<std::int64_t>());
  }
  return shape;
}

std::vector<ParameterEntry> tensors_from(const Json& list) {
  std::vector<ParameterEntry> tensors;
  for (const Json& tensor : list)
    tensors.push_back({tensor.at("name").get<std::string>(), shape_from(tensor.at("shape"))});
  return tensors;
}

Manifest from_json(const Json& json) {
  if (json.at("format") != kFormat) refuse("it is not of the format \"muster checkpoint\"");
  const Json& version = json.at("version");
  if (version != kWhole && version != kSlices)
    refuse("it has the version " + version.dump() + ", this program reads versions " +
           std::to_string(kWhole) + " and " + std::to_string(kSlices));
  Manifest manifest;
  manifest.software = json.at("software").get<std::string>();
  manifest.model = json.at("model").get<std::string>();
  if (!json.at("first").is_number_unsigned()) refuse("the number of the run's first checkpoint is none");
  manifest.first = json.at("first").get<std::uint64_t>();
  for (const auto& [name, value] : json.at("scalars").items())
    manifest.scalars.set(name, from_value(name, value));
  manifest.tensors = tensors_from(json.at("tensors"));
  if (version == kSlices) manifest.state = tensors_from(json.at("state"));
  for (const Json& file : json.at("files")) {
    if (!file.at("bytes").is_number_unsigned()) refuse("the size of a file is none");
    manifest.files.push_back({file.at("name").get<std::string>(), file.at("bytes").get<std::uint64_t>(),
                              from_hexadecimal(file.at("xxh64").get<std::string>())});
  }
  return manifest;
}

}  // namespace

void Scalars::set(const std::string& name, Value value) {
  if (const double* const number = std::get_if<double>(&value); number != nullptr && !std::isfinite(*number))
    refuse("the value of " + name + " is not finite, so no checkpoint can hold it");
  values_[name] = std::move(value);
}

std::int64_t Scalars::integer(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) refuse("there is no " + name);
  const auto* const value = std::get_if<std::int64_t>(&found->second);
  if (value == nullptr) refuse(name + " is no integer");
  return *value;
}

std::int64_t Scalars::integer(const std::string& name, std::int64_t least, std::int64_t most) const {
  const std::int64_t value = integer(name);
  if (value < least || value > most)
    refuse(name + " is " + std::to_string(value) + ", not from " + std::to_string(least) + " to " +
           std::to_string(most));
  return value;
}

double Scalars::number(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) refuse("there is no " + name);
  if (const auto* const value = std::get_if<double>(&found->second)) return *value;
  return static_cast<double>(integer(name));
}

const std::string& Scalars::text(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) refuse("there is no " + name);
  const auto* const value = std::get_if<std::string>(&found->second);
  if (value == nullptr) refuse(name + " is no text");
  return *value;
}

std::string sealed(std::string_view object) {
  return std::string(object) + std::string(kSeal) + hexadecimal(hash_of(object)) + std::string(kEnd);
}

std::string to_json(const Manifest& manifest) {
  try {
    const int version = manifest.state.empty() && manifest.files.size() <= 2 ? kWhole : kSlices;
    std::string text = "{\"format\": " + Json(kFormat).dump() + ", \"version\": " + std::to_string(version) +
                       ",\n \"software\": " + Json(manifest.software).dump() +
                       ",\n \"model\": " + Json(manifest.model).dump() +
                       ",\n \"first\": " + std::to_string(manifest.first) + ",\n ";
    text += lines_of("scalars", manifest.scalars.all(), '{', '}', [](const auto& scalar) {
      return Json(scalar.first).dump() + ": " + value_of(scalar.second).dump();
    });
    text +=
        ",\n " + lines_of("files", manifest.files, '[', ']', [](const FileEntry& file) {
          return Json{{"name", file.name}, {"bytes", file.bytes}, {"xxh64", hexadecimal(file.xxh64)}}.dump();
        });
    const auto tensors = [](const char* name, const std::vector<ParameterEntry>& entries) {
      return ",\n " + lines_of(name, entries, '[', ']', [](const ParameterEntry& tensor) {
               return Json{{"name", tensor.name}, {"shape", tensor.shape}}.dump();
             });
    };
    text += tensors("tensors", manifest.tensors);
    if (version == kSlices) text += tensors("state", manifest.state);
    return sealed(text);
  } catch (const nlohmann::json::exception&) {
    refuse("a name in the manifest is no UTF-8");
  }
}

Manifest manifest_from_json(std::string_view text) {
  try {
    Manifest manifest = from_json(Json::parse(text));
    require_seal(text);
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    refuse("it is no manifest (" + std::string(error.what()) + ")");
  }
}

}  // namespace muster::checkpoint
