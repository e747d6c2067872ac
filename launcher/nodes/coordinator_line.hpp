// SPDX-License-Identifier: Apache-2.0
// The launcher's own connection to the coordinator: tells agents whose ssh was cut that we live, and carries
// their links then.
#pragma once

#include "agent/core/link_text.hpp"
#include "rendezvous/wire/byte_stream.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <string>

namespace muster::rendezvous {
class Secret;
}

namespace muster::launcher {

struct CoordinatorLineOptions {
  agent::LinkEndpoint endpoint;
  std::string run_id;
  /// Our version and host, for texts.
  std::string version;
  std::string host;
  /// Called when the coordinator has ended the job. `node` is where that began, as far as it is known, and
  /// `lost` whether that node is gone (no worker of it is known to have failed).
  std::function<void(const std::string& node, bool lost, const std::string& reason)> job_closed;
  /// Called when a round has ended because a node is gone; the job may go on without it.
  std::function<void(const std::string& node, const std::string& reason, bool says_decision)> node_lost;
};

/// A node that has not reported and will not.
struct GoneNode {
  std::string node;
  /// Why the node is gone, for people.
  std::string cause;
  /// Whether nothing leads to the node any more, though its agent may live; otherwise it has no guardian, and
  /// so soon no agent.
  bool given_up = false;
};

/// Used from the executor's one thread.
class CoordinatorLine {
 public:
  /// Begins to dial; the key is derived from the job's secret. A coordinator that cannot be reached is one
  /// line in the log: the job then depends on ssh.
  CoordinatorLine(const boost::asio::any_io_executor& executor, CoordinatorLineOptions options,
                  const rendezvous::Secret& job_secret);
  ~CoordinatorLine();
  CoordinatorLine(const CoordinatorLine&) = delete;
  CoordinatorLine& operator=(const CoordinatorLine&) = delete;

  /// Opens a way to the agent of a node that does not lead through ssh; null if there is none. The way is
  /// closed if the coordinator does not know that node.
  std::unique_ptr<rendezvous::ByteStream> open(const std::string& node);

  /// Tells the coordinator, once there is a connection, that it need not wait for that node, or for the
  /// node's connection to be made again.
  void node_ended(const GoneNode& node);

  /// Whether open() may succeed soon.
  bool connecting() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// The launcher's name in the identity that its key is made for.
inline constexpr const char* kLauncherName = "launcher";

}  // namespace muster::launcher
