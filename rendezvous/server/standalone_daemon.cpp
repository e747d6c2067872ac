// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/standalone_daemon.hpp"

#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/host_port.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/server/descriptor_limit.hpp"
#include "rendezvous/server/listen_socket.hpp"
#include "rendezvous/server/store_server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <stdexcept>

namespace muster::rendezvous {
namespace {

// A mistake in the options, as opposed to a machine that does not let us listen.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

StoreServerOptions server_options(const StandaloneOptions& options) {
  const auto target = parse_host_port(options.listen);
  if (!target) {
    throw UsageError("--listen '" + options.listen +
                     "' is not HOST:PORT (port 0 to 65535; write an IPv6 address as [::1]:PORT)");
  }
  StoreServerOptions result;
  result.host = target->host;
  result.port = target->port;
  result.same_user_only = options.same_user_only;
  result.allow_wildcard = options.listen_any;
  for (const std::string& text : options.allow_from) {
    const auto cidr = Cidr::parse(text);
    if (!cidr)
      throw UsageError("--allow-from '" + text + "' is neither an address nor a block such as 10.0.0.0/8");
    result.allow_from.push_back(*cidr);
  }
  for (const SocketAddress& address : resolve(target->host, target->port)) {
    const std::string refusal = refuse_to_listen(address, !result.allow_from.empty(), result.allow_wildcard);
    if (!refusal.empty()) throw UsageError(refusal);
  }
  return result;
}

void announce(const SocketAddress& endpoint) {
  std::printf("{\"endpoint\":\"%s\"}\n", endpoint.text().c_str());
  if (std::fflush(stdout) != 0)
    log_warning("nobody reads our standard output; the endpoint is " + endpoint.text());
}

}  // namespace

int run_standalone_daemon(const StandaloneOptions& options) {
  try {
    const StoreServerOptions store_options = server_options(options);
    raise_descriptor_limit();
    boost::asio::io_context context(1);
    boost::asio::signal_set signals(context, SIGTERM, SIGINT);
    StoreServer server(context.get_executor(), store_options);
    signals.async_wait([&](const boost::system::error_code&, int) { server.close(); });
    announce(server.endpoint());
    context.run();
    return kExitSuccess;
  } catch (const UsageError& error) {
    log_error(error.what());
    return kExitUsage;
  } catch (const std::exception& error) {
    log_error(error.what());
    return kExitLauncherFailure;
  }
}

}  // namespace muster::rendezvous
