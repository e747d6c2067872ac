// SPDX-License-Identifier: Apache-2.0
// The part of RoundRunner that serves PyTorch's watchdog: it finds the worker that an expired timer belongs
// to, and sends the signal that the timer asks for.
#include "agent/core/exit_status.hpp"
#include "agent/round_runner.hpp"
#include "rendezvous/log/log.hpp"

#include <signal.h>

#include <algorithm>
#include <exception>

namespace muster::agent {

void RoundRunner::watch_timers(const Environment& inherited) {
  const std::optional<std::string> wish = watchdog_pipe(spec_, inherited);
  if (!wish) return;
  try {
    watchdog_ = std::make_unique<Watchdog>(executor_, *wish,
                                           [this](const ExpiredTimer& timer) { timer_expired(timer); });
    log_info("timers of the watchdog are taken at " + watchdog_->path());
  } catch (const std::exception& error) {
    watchdog_error_ = std::string("no watchdog, which TORCHELASTIC_ENABLE_FILE_TIMER=1 asks for: ") +
                      error.what() + "; see TORCHELASTIC_TIMER_FILE and TMPDIR";
  }
}

/// Sends an expired timer's signal, but only to processes of the job's workers: who writes a number into the
/// pipe may not end anything else.
void RoundRunner::timer_expired(const ExpiredTimer& timer) {
  if (!group_.running()) return;  // from now on the grace period counts
  for (int local_rank = 0; local_rank < spec_.workers; ++local_rank) {
    Worker& worker = workers_[static_cast<std::size_t>(local_rank)];
    if (!alive(local_rank)) continue;
    const bool itself = worker.pid == timer.pid;
    std::vector<ProcessStat> below;
    if (!itself) below = descendants_of(worker.pid);
    const auto process = std::find_if(below.begin(), below.end(),
                                      [&timer](const ProcessStat& one) { return one.pid == timer.pid; });
    if (!itself && process == below.end()) continue;
    const std::string text = describe(timer, place_.first_rank + local_rank, itself);
    log_warning(text + (timer.signal != 0 ? "; it gets " + signal_name(timer.signal)
                                          : "; its program wants no signal sent"));
    if (timer.signal == 0) return;
    worker.watchdog = text;
    worker.watchdog_at = std::chrono::steady_clock::now();
    if (itself)
      ::kill(worker.pid, timer.signal);
    else
      signal_process(*process, timer.signal);
    return;
  }
  log_info("a watchdog timer of process " + std::to_string(timer.pid) +
           " expired, which is no process of this node's workers (any more)");
}

}  // namespace muster::agent
