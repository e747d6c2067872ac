// SPDX-License-Identifier: Apache-2.0
// The node of this host whose workers have our own standard streams.
#include "agent/core/exit_status.hpp"
#include "agent/core/link_text.hpp"
#include "agent/core/node_traits.hpp"
#include "agent/launcher_link.hpp"
#include "agent/process/guardian.hpp"
#include "agent/process/link_frames.hpp"
#include "agent/process/stop_file.hpp"
#include "launcher/core/job_spec.hpp"
#include "launcher/nodes/job_nodes.hpp"
#include "rendezvous/log/log.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using agent::LinkMessage;
using agent::NodeReport;
using Error = boost::system::error_code;

class DirectNode : public JobNodes {
 public:
  DirectNode(const asio::any_io_executor& executor, const JobSpec& job, StartedProcess forked)
      : executor_(executor),
        host_(job.agent.host),
        of_node_(agent::NodeTraits(job.agent).of_node),
        guardian_(executor, forked.pidfd.release()),
        notices_(executor, forked.err.release()),
        link_end_(std::move(forked.out)) {
    notices_.native_non_blocking(true);
  }

  void start(std::function<void(Event)> tell) override {
    tell_ = std::move(tell);
    agent::LauncherLink::Events link_events;
    link_events.message = [this](const LinkMessage& message) {
      if (message.kind == LinkMessage::Kind::report) take_report(message.body);
      if (message.kind == LinkMessage::Kind::answer)
        questions_.answered(0, message.number, agent::node_status_from_json(message.body));
      if (message.kind == LinkMessage::Kind::event && watcher_.event)
        watcher_.event(host_, agent::node_event_from_json(message.body));
    };
    link_events.closed = [this](const std::string&) {
      link_lost_ = true;
      if (guardian_gone_) tell_(&JobOrders::nodes_ended);
    };
    const int link = link_end_.release();
    link_.emplace(executor_, rendezvous::make_descriptor_stream(executor_, link, link),
                  agent::LauncherLink::Mode::plain, std::move(link_events));
    watch_guardian();
    watch_notices();
  }

  /// Orders about output need nothing here, because workers write for themselves.
  void obey(const JobActions& actions) override {
    if (actions.stop_signal != 0)
      tell_to_end({LinkMessage::Kind::stop, actions.stop_signal,
                   to_json(agent::StopOrder{std::string(actions.stop_reason), actions.grace})});
    killed_ = killed_ || actions.kill;
    if (actions.kill) tell_to_end({LinkMessage::Kind::kill, 0, {}});
    if (!actions.cut_all) return;
    if (!report_)
      late_text_ = std::string(guardian_gone_ ? "the guardian was lost and the agent did not report"
                                              : "the agent did not report after its grace period") +
                   "; everything was killed";
    asio::post(executor_, [this] { tell_(&JobOrders::nodes_ended); });
  }

  void resize() override { link_->send({LinkMessage::Kind::resize, 0, {}}); }

  /// The guardian's report and notices tell all that is of interest about our children.
  bool waits_for(pid_t) const override { return false; }

  void pass_notice_on(int signal) override { link_->send({LinkMessage::Kind::signal, signal, {}}); }

  void ask(const agent::NodeQuery& query, NodeQuestions::Done done) override {
    const auto send = [this, &query](std::size_t, std::int64_t number) {
      link_->send({LinkMessage::Kind::query, number, to_json(query)});
    };
    if (finished_ || link_lost_ || report_)
      questions_.begin({}, {{0, without_agent(host_, "ends")}}, send, std::move(done));
    else
      questions_.begin({{0, host_}}, {}, send, std::move(done));
  }

  void finish(std::function<void()> done) override {
    finished_ = true;
    guardian_.cancel();
    notices_.cancel();
    link_->close();
    done();
  }

  std::vector<NodeReport> conclude(JobEnd& end) override {
    read_notices();
    // After an order to kill it does not matter whether the agent was still there to report.
    if (!killed_) end.error = own_failure(end);
    std::vector<NodeReport> reports;
    if (report_)
      reports.push_back(std::move(*report_));
    else
      agent::remove_left_stop_folders();
    return reports;
  }

 private:
  void take_report(const std::string& text) {
    report_ = agent::node_report_from_json(text);
    agent::continue_guardian(guardian_.native_handle());
    tell_(&JobOrders::reported);
  }

  void watch_guardian() {
    guardian_.async_wait(asio::posix::descriptor_base::wait_read, [this](const Error& error) {
      if (error) return;
      guardian_gone_ = true;
      // Without its guardian the agent ends the workers and reports.
      tell_(report_ || link_lost_ ? &JobOrders::nodes_ended : &JobOrders::node_failed);
    });
  }

  /// Tells the agent to end, and lets whichever of our processes is stopped go on, to obey.
  void tell_to_end(const LinkMessage& order) {
    told_to_end_ = true;
    link_->send(order);
    agent::continue_guardian(guardian_.native_handle());
  }

  void watch_notices() {
    notices_.async_wait(asio::posix::descriptor_base::wait_read, [this](const Error& error) {
      if (!error && read_notices()) watch_notices();
    });
  }

  /// Reads what the guardian noticed. Returns whether there may be more.
  bool read_notices() {
    return reader_.read(notices_.native_handle(), [this](const LinkMessage& notice) { take_notice(notice); });
  }

  void take_notice(const LinkMessage& notice) {
    if (notice.number != LinkMessage::no_loss) {
      const bool agent_lost = notice.number == LinkMessage::agent_lost;
      losses_ += (losses_.empty() ? "" : "; ") +
                 (agent_lost ? agent::agent_lost(of_node_, notice.body) : notice.body);
    } else if (!finished_) {
      log_warning(notice.body);
      if (told_to_end_) agent::continue_guardian(guardian_.native_handle());
    }
  }

  /// Says why the job failed through us. Who ended the job early has said how it ends: that a stuck agent had
  /// to be killed then is only a note.
  std::string own_failure(JobEnd& end) const {
    std::string text;
    if (report_) {
      if (report_->outcome == agent::NodeOutcome::agent_error) text = report_->error;
    } else if (!late_text_.empty()) {
      if (losses_.empty() && end.cause != JobEnd::Cause::finished) {
        end.notes.push_back(late_text_);
        return {};
      }
      text = late_text_;
    } else if (losses_.empty()) {
      text = "guardian and agent were lost; every process of the job was ended";
    }
    if (losses_.empty()) return text;
    return losses_ + (text.empty() ? "" : "; " + text);
  }

  asio::any_io_executor executor_;
  std::string host_;
  std::string of_node_;
  std::function<void(Event)> tell_;
  asio::posix::stream_descriptor guardian_;
  asio::posix::stream_descriptor notices_;
  /// Our end of the link, until start() takes it.
  UniqueFd link_end_;
  std::optional<agent::LauncherLink> link_;
  std::optional<NodeReport> report_;
  std::string late_text_;
  agent::LinkMessageReader reader_;
  NodeQuestions questions_{executor_};
  /// Which of our processes were lost, as the guardian says.
  std::string losses_;
  bool guardian_gone_ = false;
  bool link_lost_ = false;
  bool told_to_end_ = false;
  bool killed_ = false;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<JobNodes> make_direct_node(const asio::any_io_executor& executor, const JobSpec& job,
                                           StartedProcess forked) {
  return std::make_unique<DirectNode>(executor, job, std::move(forked));
}

}  // namespace muster::launcher
