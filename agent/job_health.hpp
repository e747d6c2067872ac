// SPDX-License-Identifier: Apache-2.0
// What a node knows of the health of its job, for who looks at the job and for its report: the verdict on a
// hang, the ranks that are slow, and what is wrong on this host.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/host_causes.hpp"
#include "agent/core/last_hang.hpp"
#include "agent/core/worker_environment.hpp"
#include "agent/flight_dumps.hpp"
#include "agent/host_watch.hpp"
#include "agent/job_news.hpp"
#include "rendezvous/protocol/message.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

class RoundRunner;

/// One thread, the executor's.
class JobHealth {
 public:
  struct Events {
    /// Returns the round's runner; null before the first round.
    std::function<RoundRunner*()> runner;
    /// Tells the coordinator.
    std::function<void(const rendezvous::HostNews&)> tell;
  };

  /// `spec` and `news` outlive the object.
  JobHealth(const boost::asio::any_io_executor& executor, const AgentSpec& spec, JobNews& news,
            Events events);

  /// Looks at this host from now on, whose workers inherit this environment.
  void start(const Environment& inherited);

  /// A round begins, of which nothing has been said.
  void begin_round();

  /// The round's workers are about to start with this environment, to which is added where NCCL's flight
  /// recorder writes, and its pipe in `folder` (empty: none).
  void prepare(Environment& environment, const rendezvous::RoundResult& place, const std::string& folder);

  /// Tells the coordinator what is wrong on this host, if that is news to it. Call it when the round's
  /// workers have been started, too.
  void tell_host();

  /// The round begins to end, as LastHang::end() has it. What is wrong on this host then is kept for the
  /// report.
  void end();

  /// Adds what NCCL's flight recorder has written, if the round was no success, and of ranks without a file
  /// what their recorders had told when the round began to end, if it hung. Waits for the files for
  /// FlightDumps::kReadWithin at most.
  boost::asio::awaitable<void> add_flight_records(NodeReport& report);

  /// What the coordinator says.
  void key_wait(const rendezvous::KeyWait& wait);
  void notice(const rendezvous::JobNotice& notice);
  void slow_ranks(const rendezvous::SlowRanks& slow);

  /// Adds what is known to a report, and to an answer.
  void describe(NodeReport& report) const;
  void describe(NodeStatus& status) const;

 private:
  HostWatch::Events host_events();
  std::vector<pid_t> workers() const;

  const AgentSpec& spec_;
  JobNews& news_;
  Events events_;
  LastHang hang_;
  /// As said last and not taken back.
  std::string slow_;
  HostWatch host_;
  FlightDumps flight_dumps_;
  /// What the coordinator was told in this round.
  std::string told_;
  /// What flight recorders had told when a hang was said last: the report has its text, and not that of a
  /// rank which has stirred since.
  std::vector<FlightRank> flights_of_hang_;
  /// What they had told when the round began to end.
  std::vector<FlightRank> flights_at_end_;
  /// The causes when the round began to end.
  std::optional<std::vector<HostCause>> at_end_;
};

}  // namespace muster::agent
