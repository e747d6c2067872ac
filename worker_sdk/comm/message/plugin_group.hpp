// SPDX-License-Identifier: Apache-2.0
// A plug-in whose work is done by a MessageGroup; only the connections differ from plug-in to plug-in.
#pragma once

#include "worker_sdk/comm/message/transport.hpp"
#include "worker_sdk/comm/plugin/plugin_side.hpp"

#include <memory>
#include <string>

namespace muster::message {

inline constexpr plugin::Words kWords{"no memory for a call's data; use smaller buffers", ""};

/// The name of a rank of the group in texts: "rank 1 (host a)".
std::string name_of(const muster_plugin_group_options& options, int rank);
/// Tells at the store that this rank has come to the group.
void say_here(const muster_plugin_group_options& options, const plugin::Host& host);
/// The ranks that have not called say_here(): "rank 1 (host a), rank 3 (host b)"; "" when all have.
std::string list_absent(const muster_plugin_group_options& options, const plugin::Host& host);
/// The error of a rank whose time for joining is over, when list_absent() names some ranks.
Error too_late(const muster_plugin_group_options& options, const std::string& absent);

/// Makes the connections of a group.
using Connect = std::unique_ptr<Transport> (*)(const muster_plugin_group_options& options,
                                               const plugin::Host& host);

std::unique_ptr<plugin::Group> make_group(Connect connect, const muster_plugin_group_options& options,
                                          const plugin::Host& host);

/// What differs from plug-in to plug-in whose groups send messages over the transports that `connect` makes.
template <Connect connect>
constexpr plugin::Maker maker_of(const char* name, std::string (*probe)(int local_rank)) {
  return {.name = name,
          .is_device = false,
          .words = kWords,
          .probe = probe,
          .create = [](const muster_plugin_group_options& options, const plugin::Host& host) {
            return make_group(connect, options, host);
          }};
}

}  // namespace muster::message
