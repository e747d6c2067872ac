// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/gloo/gloo_transport.hpp"

namespace muster::gloo_backend {
namespace {

/// Always answers that Gloo can be used: the library came with the plug-in, and every host has TCP.
std::string probe(int) {
  return "";
}

constexpr plugin::Maker kMaker{.name = "gloo",
                               .is_device = false,
                               .words = message::kWords,
                               .probe = probe,
                               .create = message::create<connect>};
constexpr muster_plugin kTable = plugin::table_of<kMaker>();

}  // namespace
}  // namespace muster::gloo_backend

const muster_plugin* muster_plugin_entry() {
  return &muster::gloo_backend::kTable;
}
