// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/gloo/connect.hpp"
#include "worker_sdk/comm/message/plugin_table.hpp"

namespace {

/// There is nothing to ask: the library came with the plug-in, and TCP is everywhere.
void probe() {}

constexpr muster_plugin kTable = muster::message::table_of<muster::gloo_backend::connect, probe>("gloo");

}  // namespace

extern "C" [[gnu::visibility("default")]] const muster_plugin* muster_plugin_entry();

const muster_plugin* muster_plugin_entry() {
  return &kTable;
}
