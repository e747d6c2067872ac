// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/embedded_service.hpp"

#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/log/log.hpp"

#include <boost/asio/io_context.hpp>

#include <utility>

namespace muster::rendezvous {
namespace {

/// Once the agent is gone: for what is still on its way out.
constexpr std::chrono::milliseconds kFarewell = std::chrono::seconds(1);

}  // namespace

CoordinatorOptions coordinator_options(const EmbeddedOptions& options) {
  CoordinatorOptions coordinator;
  coordinator.run_id = options.run_id;
  coordinator.software = options.version;
  coordinator.round.min_nodes = options.min_nodes;
  coordinator.round.max_nodes = options.max_nodes;
  coordinator.round.join_timeout = options.join_timeout;
  coordinator.round.last_call_timeout = options.last_call_timeout;
  coordinator.max_restarts = options.max_restarts;
  return coordinator;
}

int serve_embedded(const EmbeddedOptions& options,
                   const std::function<StoreOpener(boost::asio::any_io_executor)>& make_opener) {
  boost::asio::io_context context(1);
  bool ended = false;
  try {
    std::unique_ptr<ByteStream> stream = adopt_socket(context.get_executor(), options.control_fd);
    CoordinatorOptions coordinator = coordinator_options(options);
    // The peer is on this host: the end of its connection says exactly that it is gone, while silence may
    // only mean that it was stopped for a debugger or starved.
    coordinator.membership.dead_after = Milliseconds(0);
    CoordinatorService service(context.get_executor(), std::move(coordinator),
                               make_opener(context.get_executor()),
                               [&ended](const std::string&) { ended = true; });
    service.add(std::move(stream));
    while (!ended && context.run_one() > 0) {
    }
    service.stop();
    context.restart();
    context.run_for(kFarewell);
  } catch (const std::exception& error) {
    log_error("rendezvous daemon: " + std::string(error.what()));
    return kExitLauncherFailure;
  }
  return 0;
}

}  // namespace muster::rendezvous
