// SPDX-License-Identifier: Apache-2.0
// The nodes of a job as the launcher's Job sees them, and the two kinds there are.
#pragma once

#include "agent/core/node_event.hpp"
#include "agent/core/node_report.hpp"
#include "agent/core/node_status.hpp"
#include "launcher/core/job_orders.hpp"
#include "launcher/nodes/node_questions.hpp"
#include "launcher/start/node_starter.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace muster::launcher {

struct JobSpec;

/// Used from the executor's one thread.
class JobNodes {
 public:
  /// What happens to the nodes: JobOrders::node_failed; ::reported, where nobody else limits the time until
  /// the guardian ends; ::nodes_ended.
  using Event = JobActions (JobOrders::*)();

  /// Who keeps the course of the job; all are given, or none. `node`: its name in the job, or its host's.
  struct Watcher {
    std::function<void(const std::string& node, const agent::NodeEvent&)> event;
    /// A node could not be started, or is lost; `spared`: the job goes on without it.
    std::function<void(const std::string& node, const std::string& cause, bool spared)> lost;
    /// The connection to a node had ended, and another way leads there.
    std::function<void(const std::string& node)> back;
  };

  virtual ~JobNodes() = default;

  /// Call it before start().
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }

  /// Starts the nodes; call it before anything else. `tell` is not called inside a call of this class.
  virtual void start(std::function<void(Event)> tell) = 0;
  /// Does what concerns the nodes: all but `finish` and `late_after`. After `cut_all` the ends of the nodes
  /// follow.
  virtual void obey(const JobActions& actions) = 0;
  /// Passes on that the terminal has a new size.
  virtual void resize() = 0;
  /// Whether this class wants to learn itself how this child of ours has ended.
  virtual bool waits_for(pid_t child) const = 0;
  /// Passes on a signal that ends nothing, to the workers that handle it.
  virtual void pass_notice_on(int signal) = 0;
  /// Asks the nodes what they do. `done` is called later, within kNodeAnswersWithin, unless this object ends
  /// before.
  virtual void ask(const agent::NodeQuery& query, NodeQuestions::Done done) = 0;
  /// Ends all dealings with the nodes, of which nothing counts any more; `done` is called once their output
  /// is written.
  virtual void finish(std::function<void()> done) = 0;

  /// Adds to `end` what the ends of the nodes tell, and returns the reports in the order in which they came.
  virtual std::vector<agent::NodeReport> conclude(JobEnd& end) = 0;

 protected:
  Watcher watcher_;
};

/// Makes the only node that this launcher has. Its workers have our own standard streams. `forked` is its
/// guardian (start/local_node.hpp).
std::unique_ptr<JobNodes> make_direct_node(const boost::asio::any_io_executor& executor, const JobSpec& job,
                                           StartedProcess forked);

/// Makes the nodes of JobSpec::nodes; streams travel over their links. `local` are those of this host, which
/// were forked; `starter`, which must live as long, starts the others. `version` is ours: agents of another
/// one are refused. Call it after the last fork, for it draws the job's secret.
std::unique_ptr<JobNodes> make_started_nodes(const boost::asio::any_io_executor& executor, const JobSpec& job,
                                             NodeStarter& starter,
                                             std::map<std::size_t, StartedProcess> local,
                                             const std::string& version);

}  // namespace muster::launcher
