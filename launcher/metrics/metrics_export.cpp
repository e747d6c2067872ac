// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/metrics_export.hpp"

#include "launcher/exit_report/finish_job.hpp"
#include "launcher/files/writer_thread.hpp"
#include "launcher/metrics/core/job_metrics.hpp"
#include "launcher/metrics/metrics_listener.hpp"
#include "rendezvous/base/wall_clock.hpp"

#include <boost/asio/steady_timer.hpp>

#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace muster::launcher {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

// Shared with the questions under way, which change nothing once the export has ended.
struct MetricsExport::State : std::enable_shared_from_this<State> {
  using Done = std::function<void(const std::string& text)>;

  State(const boost::asio::any_io_executor& executor, Options given, const JobCard& card,
        const JobHistory& its_history, Look its_look)
      : options(std::move(given)), history(its_history), look(std::move(its_look)), timer(executor) {
    answer.card = card;
  }

  /// Calls `done` with the text of a new picture. Who asks while the nodes are being asked gets that answer.
  void ask(Done done) {
    waiting.push_back(std::move(done));
    if (waiting.size() > 1) return;
    const bool asked = look([weak = weak_from_this()](JobAnswer fresh) {
      if (const auto self = weak.lock()) self->answered(std::move(fresh));
    });
    if (!asked) tell();
  }

  void answered(JobAnswer fresh) {
    answer = std::move(fresh);
    // A node that has no agent is described by the launcher.
    for (const agent::NodeStatus& node : answer.nodes)
      if (node.pid != 0) heard[metrics_name(node)] = Clock::now();
    tell();
  }

  void tell() {
    const std::string now = text();
    for (const Done& done : std::exchange(waiting, {})) done(now);
  }

  std::string text() const {
    JobMetrics metrics{answer, history.course().counts(), history.settled(), {}, wall_clock_ms()};
    for (const auto& [node, at] : heard)
      metrics.heard_ms_ago[node] =
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - at).count();
    return metrics_text(metrics);
  }

  void write_each() {
    ask([this](const std::string& now) { file->give(now); });
    timer.expires_after(kWriteEach);
    timer.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (!error && self && self->file) self->write_each();
    });
  }

  Options options;
  const JobHistory& history;
  Look look;
  boost::asio::steady_timer timer;
  JobAnswer answer;
  /// When each node has answered last.
  std::map<std::string, Clock::time_point> heard;
  std::vector<Done> waiting;
  std::unique_ptr<WriterThread> file;
  std::optional<MetricsListener> listener;
};

MetricsExport::MetricsExport(const boost::asio::any_io_executor& executor, Options options,
                             const JobCard& card, const JobHistory& history, Look look)
    : state_(std::make_shared<State>(executor, std::move(options), card, history, std::move(look))) {
  State& state = *state_;
  if (!state.options.textfile.empty()) {
    // The umask is the whole process's: it is looked at before there is another thread here.
    const auto write = [path = state.options.textfile, mode = default_mode()](const std::string& text,
                                                                              const std::atomic<bool>&) {
      return write_file(path, text, mode);
    };
    state.file = std::make_unique<WriterThread>(write, 1, WriterThread::Full::drop_oldest);
    state.write_each();
  }
  if (state.options.listen.fd() < 0) return;
  std::fprintf(stderr, "muster: note: metrics are served at %s\n", state.options.listen.where().c_str());
  state.listener.emplace(executor, std::move(state.options.listen),
                         [&state](MetricsListener::Reply reply) { state.ask(std::move(reply)); });
}

MetricsExport::~MetricsExport() {
  finish();
}

std::string MetricsExport::finish() {
  State& state = *state_;
  state.listener.reset();
  state.timer.cancel();
  state.waiting.clear();
  if (!state.file) return "";
  for (agent::NodeStatus& node : state.answer.nodes) node.hang = {};
  state.file->give(state.text());
  const WriterThread::Loss loss = state.file->finish(kFileAtMost);
  state.file.reset();
  if (loss.texts == 0) return "";
  return "--metrics-textfile=" + state.options.textfile + " could not be written " +
         std::to_string(loss.texts) + (loss.texts == 1 ? " time (" : " times (") + loss.cause + ")";
}

}  // namespace muster::launcher
