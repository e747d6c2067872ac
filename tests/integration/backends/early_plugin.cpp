// SPDX-License-Identifier: Apache-2.0
// As a plug-in was of which no symbol says its version.
#include "muster/abi/types.h"
#include "worker_sdk/comm/plugin/table.hpp"

extern "C" MUSTER_API const muster_plugin* muster_plugin_entry();

extern "C" const muster_plugin* muster_plugin_entry() {
  static constexpr muster_plugin table = [] {
    muster_plugin made{};
    made.version = muster::plugin::kTableVersion - 1;
    return made;
  }();
  return &table;
}
