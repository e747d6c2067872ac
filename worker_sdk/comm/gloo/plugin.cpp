// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/gloo/connect.hpp"

namespace muster::gloo_backend {
namespace {

constexpr plugin::Maker kMaker{
    .name = "gloo",
    .is_device = false,
    .words = message::kWords,
    // There is nothing to ask: the library came with the plug-in, and TCP is everywhere.
    .probe = [](int) { return std::string(); },
    .create = [](const muster_plugin_group_options& options,
                 const plugin::Host& host) { return message::make_group(connect, options, host); }};
constexpr muster_plugin kTable = plugin::table_of<kMaker>();

}  // namespace
}  // namespace muster::gloo_backend

const muster_plugin* muster_plugin_entry() {
  return &muster::gloo_backend::kTable;
}
