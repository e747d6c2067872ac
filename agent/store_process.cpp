// SPDX-License-Identifier: Apache-2.0
#include "agent/store_process.hpp"

#include "agent/process/signal_state.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

namespace muster::agent {

rendezvous::EmbeddedOptions begin_store_process(const AgentSpec& spec, int control_fd) {
  ::prctl(PR_SET_NAME, "muster:store");
  // It ends with the job. A signal for the whole job (systemctl stop, a batch system) is for the workers.
  ignore_write_signals();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  rendezvous::EmbeddedOptions options;
  options.control_fd = control_fd;
  options.run_id = spec.run_id;
  options.min_nodes = spec.min_nodes;
  options.max_nodes = spec.max_nodes;
  options.join_timeout = spec.join_timeout;
  options.last_call_timeout = spec.last_call_timeout;
  options.max_restarts = spec.max_restarts;
  options.restart_rule = spec.restart_policy;
  options.store.host = spec.store.host;
  options.store.port = spec.store.port;
  options.store.same_user_only = spec.store.same_user_only;
  return options;
}

void drop_standard_input_and_output() {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return;
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(null.get(), STDOUT_FILENO);
}

}  // namespace muster::agent
