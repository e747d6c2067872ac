// SPDX-License-Identifier: Apache-2.0
// The nodes of a job that are started from here: what the launcher writes, reads and holds for them.
#include "agent/core/exit_status.hpp"
#include "agent/core/link_message.hpp"
#include "launcher/core/job_spec.hpp"
#include "launcher/nodes/coordinator_line.hpp"
#include "launcher/nodes/core/node_spec.hpp"
#include "launcher/nodes/hang_news.hpp"
#include "launcher/nodes/job_nodes.hpp"
#include "launcher/nodes/log_gather.hpp"
#include "launcher/nodes/node_console.hpp"
#include "launcher/nodes/node_fleet.hpp"
#include "launcher/nodes/node_log.hpp"
#include "launcher/nodes/stdin_feed.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/log/terminal_text.hpp"
#include "rendezvous/tls/peer_identity.hpp"
#include "rendezvous/tls/secret.hpp"

#include <boost/asio/steady_timer.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using agent::NodeReport;
using rendezvous::PeerIdentity;
using rendezvous::Secret;
using Error = boost::system::error_code;

/// Longest pause of whoever reads our output, once the user wants the end.
constexpr std::chrono::seconds kNoProgressAtMost{5};
constexpr std::chrono::milliseconds kFlushWhenKilled{50};
constexpr std::chrono::milliseconds kHangUpAfterRelay{500};
/// Each node's agent is started once.
constexpr std::uint64_t kIncarnation = 1;

void append(std::string& text, const Secret& secret) {
  for (const unsigned char byte : secret.bytes()) text += static_cast<char>(byte);
}

class StartedNodes : public JobNodes {
 public:
  StartedNodes(const asio::any_io_executor& executor, const JobSpec& spec, NodeStarter& starter,
               std::map<std::size_t, StartedProcess> local, const std::string& version)
      : executor_(executor),
        spec_(spec),
        version_(version),
        workers_(spec.nodes.size()),
        fleet_(std::make_shared<NodeFleet>(
            executor, spec, starter, std::move(local), version,
            [this](std::size_t node, const auto& hellos) { return instruct(node, hellos); }, fleet_events())),
        console_(executor, spec.nodes.size(),
                 NodeConsole::Streams{1, 2, spec.agent.output.raw_output, spec.agent.output.framed}) {
    rendezvous::guard_process(rendezvous::ProcessFiles::closed);
  }

  ~StartedNodes() override { fleet_->close(); }

  void start(std::function<void(Event)> tell) override {
    tell_ = std::move(tell);
    fleet_->start();
    show_life();
    derive_keys();
  }

  /// Unless the user wants the end, whoever reads our output may take as long as it likes, as with any
  /// program.
  void obey(const JobActions& actions) override {
    if (actions.hurry_output) console_.give_up_without_progress(kNoProgressAtMost);
    if (actions.drop_output) console_.give_up_after(kFlushWhenKilled);
    if (actions.stop_signal != 0)
      fleet_->stop(actions.stop_signal, {std::string(actions.stop_reason), actions.grace});
    if (actions.kill) fleet_->kill();
    if (!actions.cut_all) return;
    if (unreported_.empty()) unreported_ = fleet_->board().unreported();
    fleet_->cut_all();
  }

  void resize() override { fleet_->tell_all(agent::LinkMessage::Kind::resize); }

  bool waits_for(pid_t child) const override { return fleet_->waits_for(child); }

  void pass_notice_on(int signal) override {
    const auto& nodes = fleet_->board().nodes();
    if (std::none_of(nodes.begin(), nodes.end(), [](const RemoteNode& node) { return node.instructed(); }))
      log_warning("no node works yet; nobody got " + agent::signal_name(signal));
    fleet_->tell_all(agent::LinkMessage::Kind::signal, signal);
  }

  void ask(const agent::NodeQuery& query, NodeQuestions::Done done) override {
    std::map<std::size_t, std::string> asked;
    std::map<std::size_t, agent::NodeStatus> known;
    for (std::size_t i = 0; i < spec_.nodes.size(); ++i) {
      const RemoteNode& node = fleet_->board().nodes()[i];
      if (!finishing_ && node.awaits_report() && !node.severed())
        asked.emplace(i, node.name());
      else
        known.emplace(
            i, without_agent(node.name(), node.phase() < RemoteNode::Phase::working ? "is being started"
                                          : node.failed()                           ? "is lost"
                                                                                    : "has ended"));
    }
    const std::string text = to_json(query);
    questions_.begin(
        std::move(asked), std::move(known),
        [this, &text](std::size_t node, std::int64_t number) { fleet_->ask(node, number, text); },
        std::move(done));
  }

  void finish(std::function<void()> done) override {
    finishing_ = true;
    stdin_.reset();
    late_line_.cancel();
    hang_news_.flush();
    life_.cancel();
    line_.reset();
    console_.finish(std::move(done));
  }

  std::vector<NodeReport> conclude(JobEnd& end) override {
    end.hosts = fleet_->board().failures();
    end.unreported = unreported_;
    end.notes = console_.notes();
    if (!spec_.gather_logs.empty())
      for (std::string& note : logs_.notes()) end.notes.push_back(std::move(note));
    return std::move(reports_);
  }

 private:
  NodeFleet::Events fleet_events() {
    NodeFleet::Events events;
    events.report = [this](std::size_t, NodeReport report) {
      reports_.push_back(std::move(report));
      hang_up();
    };
    events.answer = [this](std::size_t node, std::int64_t number, agent::NodeStatus status) {
      questions_.answered(node, number, std::move(status));
    };
    events.back = [this](std::size_t node) {
      if (watcher_.back) watcher_.back(spec_.nodes[node].name);
    };
    events.told = [this](std::size_t node, const agent::LinkMessage& message) {
      if (message.kind == agent::LinkMessage::Kind::event) {
        if (watcher_.event) watcher_.event(spec_.nodes[node].name, agent::node_event_from_json(message.body));
        return;
      }
      agent::HangReport hang = agent::hang_report_from_json(message.body);
      const auto& nodes = fleet_->board().nodes();
      const auto working = std::count_if(nodes.begin(), nodes.end(), [](const RemoteNode& one) {
        return one.awaits_report() && !one.severed();
      });
      if (!finishing_) hang_news_.told(node, std::move(hang), static_cast<std::size_t>(working));
    };
    events.opened = [this](std::size_t node, std::string_view what,
                           std::shared_ptr<rendezvous::Channel> channel) {
      receive(node, what, std::move(channel));
    };
    events.listening = [this](const agent::LinkEndpoint& endpoint) {
      dial(endpoint);
      feed_stdin();
    };
    events.relay = [this](std::size_t node) {
      std::unique_ptr<rendezvous::ByteStream> way = line_ ? line_->open(spec_.nodes[node].name) : nullptr;
      relays_ = relays_ || way;
      return way;
    };
    events.relay_comes = [this] { return line_ && line_->connecting(); };
    events.ended = [this](std::size_t node, const std::string& cause, bool given_up) {
      const GoneNode gone{spec_.nodes[node].name, cause, given_up};
      if (line_)
        line_->node_ended(gone);
      else
        ended_.push_back(gone);
    };
    events.waiting = [this](const std::string& text) { say_waiting(text); };
    events.without = [this](std::size_t node) {
      tell_lost(spec_.nodes[node].name);
      lost_for_stdin(node);
    };
    events.failed = [this] { tell_(&JobOrders::node_failed); };
    events.over = [this] { tell_(&JobOrders::nodes_ended); };
    return events;
  }

  void receive(std::size_t node, std::string_view what, std::shared_ptr<rendezvous::Channel> channel) {
    if (what.starts_with(agent::kFileChannel))
      logs_.receive(node, spec_.nodes[node].name, what.substr(agent::kFileChannel.size()),
                    std::move(channel));
    else if (what == agent::kStdoutChannel || what == agent::kStderrChannel)
      console_.receive(node, what == agent::kStderrChannel, std::move(channel));
    else
      throw std::invalid_argument("a channel for nothing that an agent sends");
  }

  NodeFleet::Instructions instruct(std::size_t node, const std::vector<agent::NodeHello>& hellos) {
    NodeFleet::Instructions orders;
    orders.spec = spec_for(spec_, node, hellos, kIncarnation);
    workers_[node] = orders.spec.workers;
    orders.keys.reserve(2 * Secret::kBytes);  // growing would leave a copy behind
    append(orders.keys, keys_[node]);
    if (orders.spec.node.coordinator) {
      append(orders.keys, secret_);
      orders.key_count = 2;
    }
    return orders;
  }

  /// Derives the nodes' keys while the logins are under way, because the first use of OpenSSL takes
  /// milliseconds.
  void derive_keys() {
    for (const NodePlan& plan : spec_.nodes)
      keys_.push_back(rendezvous::derive_key(
          secret_, {PeerIdentity::Role::agent, spec_.agent.run_id, plan.name, kIncarnation}));
  }

  void dial(const agent::LinkEndpoint& endpoint) {
    const bool loopback = endpoint.host.starts_with("127.") || endpoint.host == "::1";
    // The only node of a job listens on its own loopback if no ssh led there (srun), and we cannot reach it;
    // nodes that were told to meet on loopback are on this machine.
    const bool told = !spec_.agent.node.interface_name.empty() || !spec_.agent.node.local_addr.empty();
    if (loopback && !told && !spec_.nodes.front().local) return;
    try {
      CoordinatorLineOptions options{endpoint, spec_.agent.run_id, version_, spec_.agent.host, {}, {}};
      options.job_closed = [this](const std::string& node, bool lost, const std::string& reason) {
        if (lost) fleet_->expect_nothing_of(node, {reason, true}, false);
      };
      options.node_lost = [this](const std::string& node, const std::string& reason, bool says_decision) {
        fleet_->expect_nothing_of(node, {reason, says_decision}, true);
      };
      line_.emplace(executor_, std::move(options), secret_);
      for (const GoneNode& node : ended_) line_->node_ended(node);
    } catch (const std::exception& error) {
      log_warning(std::string("the launcher cannot dial the coordinator: ") + error.what());
    }
  }

  void show_life() {
    life_.expires_after(agent::kLauncherSpeaksEvery);
    life_.async_wait([this](const Error& error) {
      if (error || finishing_) return;
      fleet_->show_life();
      show_life();
    });
  }

  /// Hangs up when every node has reported or failed: the daemon stays until everybody has hung up, and its
  /// node until the daemon ends.
  void hang_up() {
    if (reports_.size() + fleet_->board().failures().size() < spec_.nodes.size()) return;
    // A link that leads through the coordinator has something to acknowledge first.
    late_line_.expires_after(relays_ ? kHangUpAfterRelay : std::chrono::milliseconds(0));
    late_line_.async_wait([this](const Error& error) {
      if (!error) line_.reset();
    });
  }

  /// Returns the node that has the rank which reads our stdin: nodes keep their order in every round.
  std::size_t stdin_node() const {
    std::size_t node = 0;
    for (int first = 0; node < workers_.size(); first += workers_[node++])
      if (spec_.agent.stdin_rank < first + workers_[node]) break;
    return node;
  }

  /// Begins to read our stdin when the coordinator listens: every node that could be started has its number
  /// of workers by then.
  void feed_stdin() {
    if (spec_.agent.stdin_rank < 0 || stdin_ || stdin_node() == workers_.size()) return;
    stdin_to_ = stdin_node();
    stdin_.emplace(executor_, STDIN_FILENO);
    stdin_->feed(fleet_->open_stdin(stdin_to_));
  }

  /// Sends the rest of our stdin to another node if need be: ranks move up when a node is gone, and so
  /// another worker may have the rank that reads.
  void lost_for_stdin(std::size_t node) {
    workers_[node] = 0;
    if (!stdin_ || std::exchange(stdin_to_, stdin_node()) == stdin_node()) return;
    stdin_->feed(stdin_to_ < workers_.size() ? fleet_->open_stdin(stdin_to_) : nullptr);
  }

  /// The board has just noted it, unless the job was ending.
  void tell_lost(const std::string& name) {
    const auto& failures = fleet_->board().failures();
    if (watcher_.lost && !failures.empty() && failures.back().node == name)
      watcher_.lost(name, lost_text(failures.back()), failures.back().spared);
  }

  void say_waiting(const std::string& text) {
    if (text == waiting_text_) return;
    waiting_text_ = text;
    std::fprintf(stderr, "muster: note: %s\n", for_terminal(text).c_str());
  }

  asio::any_io_executor executor_;
  const JobSpec& spec_;
  std::string version_;
  std::function<void(Event)> tell_;
  /// The job's secret, drawn after the nodes of this host were forked, because they must not inherit it.
  Secret secret_ = Secret::random();
  /// The key of each node, by which its agent proves itself to the coordinator.
  std::vector<Secret> keys_;
  asio::steady_timer late_line_{executor_};
  asio::steady_timer life_{executor_};
  LogGather logs_{spec_.gather_logs};
  std::optional<StdinFeed> stdin_;
  std::size_t stdin_to_ = 0;
  /// The number of workers of each node, as far as the node was told.
  std::vector<int> workers_;
  NodeQuestions questions_{executor_};
  NodeLog hang_log_{spec_};
  HangNews hang_news_{executor_,
                      [this](std::size_t node, const std::string& line) { hang_log_.line(node, line); }};
  std::shared_ptr<NodeFleet> fleet_;
  NodeConsole console_;
  std::optional<CoordinatorLine> line_;
  /// Nodes that ended before there was a line to the coordinator.
  std::vector<GoneNode> ended_;
  std::vector<NodeReport> reports_;
  std::vector<std::string> unreported_;
  std::string waiting_text_;
  /// Whether a link has gone on through the coordinator.
  bool relays_ = false;
  bool finishing_ = false;
};

}  // namespace

std::unique_ptr<JobNodes> make_started_nodes(const asio::any_io_executor& executor, const JobSpec& job,
                                             NodeStarter& starter,
                                             std::map<std::size_t, StartedProcess> local,
                                             const std::string& version) {
  return std::make_unique<StartedNodes>(executor, job, starter, std::move(local), version);
}

}  // namespace muster::launcher
