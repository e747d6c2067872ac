// SPDX-License-Identifier: Apache-2.0
// What the workers of a node read and print: on this host's console, or over the link to a launcher
// elsewhere.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/process/input_feeder.hpp"
#include "agent/process/output/link_console.hpp"
#include "agent/process/output/worker_output.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/wire/channel.hpp"
#include "rendezvous/wire/event.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

/// One thread, the executor's. Destroy it only when no callback of the executor runs any more.
class NodeOutput {
 public:
  /// `spec` outlives the object. `is_wanted`: whether the launcher is there, and the job was not ordered to
  /// end.
  NodeOutput(const boost::asio::any_io_executor& executor, const AgentSpec& spec,
             std::function<bool()> is_wanted);

  /// Of a node that was started from elsewhere: streams and log files go through channels that `open` makes.
  void go_over_link(LinkConsole::OpenChannel open);
  /// The log directory is known.
  void open();

  bool is_open() const { return workers_ != nullptr; }

  WorkerOutput& workers() { return *workers_; }

  /// The stdin of a worker with --stdin, where one rank reads the launcher's; -1: what it gets without that.
  int standard_input(int local_rank, int first_rank);
  /// What the launcher reads comes through `channel`.
  void take_input(std::shared_ptr<rendezvous::Channel> channel);
  /// The workers of a round have been started.
  void started();

  /// Waits until what ended workers have printed is read, and the last lines of each are known. `at_once`:
  /// nobody waits for it.
  boost::asio::awaitable<void> drain(bool at_once);
  /// Everything that workers printed goes where it belongs, as long as somebody takes it.
  boost::asio::awaitable<void> finish(bool at_once);
  /// Sends the log files of this node to the launcher, if it is to have them.
  boost::asio::awaitable<void> send_logs();
  /// The launcher is gone: all that waits for it is dropped.
  void give_up();
  void resize();

  std::vector<std::string> notes() const { return workers_->notes(); }

 private:
  void watch_progress();

  boost::asio::any_io_executor executor_;
  const AgentSpec& spec_;
  std::function<bool()> is_wanted_;
  boost::asio::steady_timer progress_timer_;
  rendezvous::Event done_;
  /// Null: the console is this host's.
  std::shared_ptr<LinkConsole> console_;
  std::optional<InputFeeder> input_;
  std::shared_ptr<WorkerOutput> workers_;
  /// The stdin of workers that may not read ours (--stdin).
  UniqueFd null_device_;
  /// Bytes that the link's console had sent when it was last looked at.
  std::uint64_t progress_ = 0;
};

}  // namespace muster::agent
