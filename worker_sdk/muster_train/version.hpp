// SPDX-License-Identifier: Apache-2.0
// What `muster-train --version` tells: this build, and what it finds for GPUs on this machine.
#pragma once

#include "worker_sdk/comm/plugin/found_libraries.hpp"

#include <string>
#include <vector>

namespace muster::examples {

/// What was found.
struct VersionFacts {
  std::string version;       ///< of muster-train
  std::string instructions;  ///< that its loops use: "avx2"
  std::vector<plugin::FoundLibrary> libraries;
  std::string gpu;             ///< the name of the first GPU that the process sees; "" where none is used
  std::string reason_against;  ///< why no GPU is used, a sentence that says what to do; "" where one is
};

/// Looks at this machine: loads NVIDIA's libraries and the plug-in of devices, but makes no context on a GPU.
VersionFacts read_version_facts();

/// Lines for people. Pure.
std::string version_text(const VersionFacts& facts);

/// An object of the schema "muster.train-version", version 1: muster_version, instructions, libraries (each
/// with name, version, cuda, path, reason_against; null for what is not known), gpu, reason_against. Pure.
std::string version_json(const VersionFacts& facts);

}  // namespace muster::examples
