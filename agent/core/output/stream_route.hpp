// SPDX-License-Identifier: Apache-2.0
// Decides where one stream of a worker goes: to a file, to the console, or where ours goes. Pure.
#pragma once

#include "agent/core/agent_spec.hpp"

namespace muster::agent {

struct StreamRoute {
  bool inherit = false;
  bool to_file = false;
  bool to_console = false;
  bool teed = false;
  /// Whether each line of the stream has a prefix on the console.
  bool prefixed = false;
  bool pty = false;
  /// Whether the stream goes to the console and nowhere else, as it is.
  bool plain = false;
};

/// `only_worker`: the node has no other, which then inherits each stream that nothing of `spec` asks for.
/// `console_here`: the console is our own stream of this name, not elsewhere; `terminal`: and it is a
/// terminal.
StreamRoute route_of(const OutputSpec& spec, StreamBits stream, int local_rank, bool only_worker,
                     bool console_here, bool terminal);

}  // namespace muster::agent
