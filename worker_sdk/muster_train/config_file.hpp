// SPDX-License-Identifier: Apache-2.0
// A file of flags.
#pragma once

#include <string>
#include <vector>

namespace muster::examples {

/// One member of a configuration file: a flag's name without its dashes, and its value as the command line
/// has it.
struct ConfigEntry {
  std::string name;
  std::string value;
};

/// Reads a JSON object of flags: {"model": "resnet18", "batch-size": 128, "flip": true}. Throws Error (io) or
/// (invalid_argument) that names the file and the place.
std::vector<ConfigEntry> read_config(const std::string& path);

/// Reads the same from `text`, which is that of the file `path`.
std::vector<ConfigEntry> parse_config(const std::string& text, const std::string& path);

}  // namespace muster::examples
