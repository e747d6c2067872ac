// SPDX-License-Identifier: Apache-2.0
// The embedded daemon with its store as a parameter: the seam for tests. Includes Asio.
#pragma once

#include "rendezvous/server/coordinator_service.hpp"
#include "rendezvous/server/embedded_daemon.hpp"

#include <functional>

namespace muster::rendezvous {

/// What the options say of the rounds, for both kinds of daemon.
CoordinatorOptions coordinator_options(const EmbeddedOptions& options);

/// run_embedded_daemon() with stores from `make_opener(executor)`.
int serve_embedded(const EmbeddedOptions& options,
                   const std::function<StoreOpener(boost::asio::any_io_executor)>& make_opener);

}  // namespace muster::rendezvous
