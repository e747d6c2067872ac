// SPDX-License-Identifier: Apache-2.0
// A plug-in as a later Muster could have it.
#include "worker_sdk/comm/plugin/plugin_release.hpp"
#include "worker_sdk/comm/plugin/table.hpp"

extern "C" MUSTER_API const muster_plugin* muster_plugin_entry();

const char muster_plugin_release[] = "7.8.9";

extern "C" const muster_plugin* muster_plugin_entry() {
  static constexpr muster_plugin table = [] {
    muster_plugin made{};
    made.version = muster::plugin::kTableVersion + 1;
    return made;
  }();
  return &table;
}
