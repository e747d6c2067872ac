// SPDX-License-Identifier: Apache-2.0
#include "agent/node_agent.hpp"

#include "agent/node_session.hpp"
#include "agent/process/process_tree.hpp"
#include "agent/process/signal_state.hpp"
#include "rendezvous/base/resident_memory.hpp"
#include "rendezvous/server/descriptor_limit.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/prctl.h>

#include <exception>

namespace muster::agent {

int run_node_agent(const NodeAgentOptions& options) {
  ::prctl(PR_SET_NAME, "muster:agent");
  ignore_signals_of_others();
  rendezvous::raise_descriptor_limit();
  become_subreaper();
  boost::asio::io_context context(1);
  NodeSession session(context.get_executor(), options);
  boost::asio::steady_timer started(context, kStartTakes);
  started.async_wait([](const boost::system::error_code& error) {
    if (!error) give_back_code();
  });
  std::exception_ptr failure;
  boost::asio::co_spawn(context, session.run(), [&](std::exception_ptr error) {
    failure = error;
    context.stop();  // nothing that is still pending matters any more
  });
  context.run();
  if (failure) std::rethrow_exception(failure);
  return session.exit_code();
}

}  // namespace muster::agent
