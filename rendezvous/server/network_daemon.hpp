// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/server/embedded_daemon.hpp"

namespace muster::rendezvous {

/// run_embedded_daemon() of a job of many machines: `options.network` is set.
int serve_network(const EmbeddedOptions& options);

}  // namespace muster::rendezvous
