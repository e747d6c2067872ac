// SPDX-License-Identifier: Apache-2.0
#include "muster/error.hpp"
#include "rendezvous/base/nearest_name.hpp"
#include "tests/fuzz/checks.hpp"
#include "worker_sdk/muster_train/config_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace {

using muster::Error;
using muster::ErrorCode;
using muster::nearest_name;
using muster::examples::ConfigEntry;
using muster::examples::parse_config;
using muster::fuzz::require;

const std::vector<std::string> kFlags = {"model", "batch-size", "epochs", "seed", "flip"};

/// Every value as a text: what the command line has.
std::string as_texts(const std::vector<ConfigEntry>& entries) {
  nlohmann::json content = nlohmann::json::object();
  for (const ConfigEntry& entry : entries) content[entry.name] = entry.value;
  return content.dump();
}

void check_entries(const std::vector<ConfigEntry>& entries) {
  std::set<std::string> names;
  for (const ConfigEntry& entry : entries) {
    require(names.insert(entry.name).second, "a flag is there twice");
    require(!entry.value.empty(), "a flag has an empty value");
    const std::string nearest = nearest_name(entry.name, kFlags);
    require(nearest.empty() || std::find(kFlags.begin(), kFlags.end(), nearest) != kFlags.end(),
            "a flag is proposed that there is not");
  }
  for (const std::string& flag : kFlags)
    require(nearest_name(flag, kFlags) == flag, "a flag is not nearest to itself");
  std::vector<ConfigEntry> again;
  try {
    again = parse_config(as_texts(entries), "again");
  } catch (const Error&) {
    require(false, "what was read once is refused as texts");
  }
  require(again.size() == entries.size(), "a flag is lost on the way through texts");
  for (std::size_t i = 0; i < entries.size(); ++i)
    require(again[i].name == entries[i].name && again[i].value == entries[i].value,
            "a flag is another after the way through texts");
}

}  // namespace

bool muster::fuzz::check_config_input(std::string_view input) {
  std::vector<ConfigEntry> entries;
  try {
    entries = parse_config(std::string(input), "the-file");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::invalid_argument, "a wrong text is an error of another kind");
    require(std::string(error.what()).starts_with("--config the-file"),
            "an error does not say which file is wrong");
    return false;
  }
  check_entries(entries);
  return true;
}
