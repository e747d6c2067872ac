// SPDX-License-Identifier: Apache-2.0
// Which Muster a plug-in is of. It stands beside the table, whose layout another version may not know.
#pragma once

#include "muster/abi/types.h"

#include <cstdint>
#include <string>

#define MUSTER_PLUGIN_TEXT(number) #number
#define MUSTER_PLUGIN_VERSION(major, minor, patch) \
  MUSTER_PLUGIN_TEXT(major) "." MUSTER_PLUGIN_TEXT(minor) "." MUSTER_PLUGIN_TEXT(patch)

namespace muster::plugin {

inline constexpr const char* kRelease =
    MUSTER_PLUGIN_VERSION(MUSTER_VERSION_MAJOR, MUSTER_VERSION_MINOR, MUSTER_VERSION_PATCH);
/// The name of the exported text, an array of char that 0 ends.
inline constexpr const char* kReleaseSymbol = "muster_plugin_release";

/// What is said of an opened plug-in whose table is another one than ours: its file, and both versions.
std::string say_both_releases(void* handle, std::uint32_t its_table, std::uint32_t our_table);

}  // namespace muster::plugin
