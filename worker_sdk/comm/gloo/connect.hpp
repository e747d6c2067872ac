// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/message/plugin_group.hpp"

#include <memory>

namespace muster::gloo_backend {

/// Connects this rank to all others over TCP, by way of the store. It listens on one address only: loopback
/// where all ranks are on this host; the address of the interface that was asked for; else the one by which
/// this host reaches the store.
std::unique_ptr<message::Transport> connect(const muster_plugin_group_options& options,
                                            const plugin::Host& host);

}  // namespace muster::gloo_backend
