// SPDX-License-Identifier: Apache-2.0
// The files of PyTorch's NCCL flight recorder: tells the workers where to write them, and reads them when a
// round has ended badly.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/flight_record.hpp"
#include "agent/core/worker_environment.hpp"
#include "agent/nccl_ras_client.hpp"
#include "rendezvous/protocol/ids.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace muster::agent {

/// Used from the executor's one thread.
class FlightDumps {
 public:
  /// How long it is waited for the files.
  static constexpr std::chrono::milliseconds kReadWithin{500};

  /// `has_gpus`: whether NCCL can run here at all, without which nothing is set.
  explicit FlightDumps(boost::asio::any_io_executor executor,
                       bool has_gpus = NcclRasClient::has_nvidia_driver())
      : executor_(std::move(executor)), has_gpus_(has_gpus) {}

  /// A round's workers, of these ranks, are about to start with this environment: removes from it what a job
  /// around this one has put there for its own ranks, and adds where their flight recorders write, which is
  /// the log directory, unless there is none, or the user has set that; and the pipe in `folder` by which
  /// they can be asked to, unless there is no folder, no file, or hangs are not watched for.
  void prepare(Environment& environment, const AgentSpec& spec, rendezvous::RoundNumber round,
               const std::vector<int>& ranks, const std::string& folder);

  /// Reads what the workers have written, on a thread of its own, which is left to itself after kReadWithin.
  /// Files that are older than the round, or cannot be read as flight records, are left out.
  boost::asio::awaitable<std::vector<FlightRank>> read();

 private:
  struct File {
    int rank = 0;
    std::string path{};
  };

  struct State;

  static void read_files(State& state);

  boost::asio::any_io_executor executor_;
  bool has_gpus_;
  std::vector<File> files_;
  /// When the round's workers were about to start.
  std::chrono::system_clock::time_point began_{};
};

}  // namespace muster::agent
