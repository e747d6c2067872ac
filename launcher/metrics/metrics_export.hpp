// SPDX-License-Identifier: Apache-2.0
// Serves and writes the metrics of a running job (--metrics-listen, --metrics-textfile).
#pragma once

#include "launcher/history/job_history.hpp"
#include "launcher/inspect/core/job_card.hpp"
#include "launcher/inspect/core/job_query.hpp"
#include "launcher/metrics/metrics_socket.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace muster::launcher {

/// Used from the executor's one thread; the textfile has a thread of its own. Nodes are asked only for a
/// scrape, and for the textfile each kWriteEach.
class MetricsExport {
 public:
  /// Asks the nodes what they do; returns whether they can be asked. `done` is called later, once, or never.
  using Look = std::function<bool(std::function<void(JobAnswer)> done)>;

  static constexpr std::chrono::seconds kWriteEach{10};
  /// How long the end of the job waits for the textfile.
  static constexpr std::chrono::seconds kFileAtMost{1};

  struct Options {
    /// Where they are served; none: nowhere.
    MetricsSocket listen;
    /// Empty: none.
    std::string textfile;
  };

  /// Begins, and says on stderr where they are served. Call after the last fork. `history` outlives this
  /// object.
  MetricsExport(const boost::asio::any_io_executor& executor, Options options, const JobCard& card,
                const JobHistory& history, Look look);
  ~MetricsExport();
  MetricsExport(const MetricsExport&) = delete;
  MetricsExport& operator=(const MetricsExport&) = delete;

  /// The job has ended, as its history knows: serves nobody any more, and writes the textfile for the last
  /// time. Returns why that failed, for people, or "".
  std::string finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
