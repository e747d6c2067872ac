// SPDX-License-Identifier: Apache-2.0
// Asks the RAS port of the workers' NCCL which of them wait for others in a collective. The port belongs to
// NCCL, which opens it in every process that makes a communicator; here it is only chosen, so that two jobs
// on a host do not answer for each other.
#pragma once

#include "agent/core/nccl_ras.hpp"
#include "agent/core/worker_environment.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

/// Used from the executor's one thread.
class NcclRasClient {
 public:
  /// Whether NVIDIA's driver is loaded on this host.
  static bool has_nvidia_driver();

  /// `ask_each`: the time between two questions. `has_gpus`: whether NCCL can run here at all, without which
  /// no port is chosen.
  NcclRasClient(const boost::asio::any_io_executor& executor, std::chrono::milliseconds ask_each,
                bool has_gpus = has_nvidia_driver());
  ~NcclRasClient();

  /// Adds NCCL_RAS_ADDR to the environment of a worker: a port of 127.0.0.1 that is free and stays reserved
  /// for this user's processes. What the user has chosen stays, and is asked if it is an address of this
  /// host; NCCL_RAS_ENABLE=0 does, too. Nothing is added where no port can be reserved.
  void prepare(Environment& environment);

  /// Asks, unless it was asked less than `ask_each` ago. Nobody waits: an answer counts from when it comes.
  /// It may be missing, since NCCL's port is that of any one of the processes, and that one may be stopped.
  void ask();

  /// How many collectives the process `pid` has launched by the last answer; nullopt: none told of it.
  std::optional<std::uint64_t> launched_by(int pid) const;

  /// The collective in which the process `pid` waits for others, by the last two answers, both asked for
  /// after `since`: in a job that is well somebody has launched another one meanwhile.
  std::optional<NcclWait> wait_of(int pid, std::chrono::steady_clock::time_point since) const;

 private:
  struct Question;

  void answered(const Question& question);

  boost::asio::any_io_executor executor_;
  std::chrono::milliseconds ask_each_;
  bool has_gpus_;
  UniqueFd reserved_;
  std::string reserved_address_;
  /// "HOST:PORT" where the workers' NCCL listens; empty: nobody is asked.
  std::string address_;
  std::shared_ptr<Question> question_;
  std::optional<std::chrono::steady_clock::time_point> asked_at_{};

  /// An answer, and when it was asked for.
  struct Answer {
    std::vector<NcclRank> ranks{};
    std::chrono::steady_clock::time_point asked_at{};
  };

  Answer last_;
  Answer before_;
  std::vector<std::string> hosts_;
};

}  // namespace muster::agent
