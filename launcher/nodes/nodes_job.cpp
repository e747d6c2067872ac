// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/nodes_job.hpp"

#include "agent/process/process_tree.hpp"
#include "launcher/core/job_spec.hpp"
#include "launcher/exit_report/finish_job.hpp"
#include "launcher/nodes/coordinator_line.hpp"
#include "launcher/nodes/core/node_spec.hpp"
#include "launcher/nodes/log_gather.hpp"
#include "launcher/nodes/node_console.hpp"
#include "launcher/nodes/node_fleet.hpp"
#include "launcher/nodes/stdin_feed.hpp"
#include "launcher/start/local_node.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/log/terminal_text.hpp"
#include "rendezvous/server/descriptor_limit.hpp"
#include "rendezvous/tls/peer_identity.hpp"
#include "rendezvous/tls/secret.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using agent::NodeReport;
using rendezvous::PeerIdentity;
using rendezvous::Secret;
using Error = boost::system::error_code;

/// After the grace period every agent has killed everything and reports; one that does not is stuck.
constexpr std::chrono::seconds kReportLateAfter{20};
/// A second Ctrl-C ends everything within a second, with or without the agents' help.
constexpr std::chrono::milliseconds kKillLateAfter{600};
/// Clients that we have killed.
constexpr std::chrono::milliseconds kCutLateAfter{3000};
/// Once the user wants the end, what we print to may pause for so long.
constexpr std::chrono::seconds kNoProgressAtMost{5};
constexpr std::chrono::milliseconds kFlushWhenKilled{50};
constexpr std::chrono::milliseconds kHangUpAfterRelay{500};
constexpr std::chrono::seconds kShowLifeEvery{5};
constexpr int kKillLimitMs = 10'000;
/// Each node's agent is started once.
constexpr std::uint64_t kIncarnation = 1;

void append(std::string& text, const Secret& secret) {
  for (const unsigned char byte : secret.bytes()) text += static_cast<char>(byte);
}

/// Nodes on this host, forked before there is an event loop.
std::map<std::size_t, StartedProcess> fork_local_nodes(const JobSpec& spec, const NodesJobOptions& options) {
  std::map<std::size_t, StartedProcess> local;
  for (std::size_t i = 0; i < spec.nodes.size(); ++i)
    if (spec.nodes[i].local) local.emplace(i, fork_local_node(options.version, options.signals));
  return local;
}

class NodesJob {
 public:
  NodesJob(const JobSpec& spec, NodeStarter& starter, const NodesJobOptions& options)
      : spec_(spec),
        options_(options),
        local_(fork_local_nodes(spec, options)),
        signals_(context_),
        window_(context_),
        deadline_(context_),
        late_(context_),
        late_line_(context_),
        life_(context_),
        logs_(spec.gather_logs),
        workers_(spec.nodes.size()),
        fleet_(
            context_.get_executor(), spec, starter, std::move(local_), options.version,
            [this](std::size_t node, const auto& hellos) { return instruct(node, hellos); }, fleet_events()),
        console_(context_.get_executor(), spec.nodes.size(), NodeConsole::Streams{1, 2, spec.raw_output},
                 [this](std::size_t node, std::int64_t bytes) { fleet_.taken(node, bytes); }) {}

  int run() {
    rendezvous::guard_process(rendezvous::ProcessFiles::closed);
    catch_signals();  // before there is a process that a signal would leave behind
    fleet_.start();
    derive_keys();
    watch_deadline();
    context_.run();
    judge();
    const int code = finish_job(spec_, reports_, end_);
    block_signals();
    return code;
  }

 private:
  NodeFleet::Events fleet_events() {
    NodeFleet::Events events;
    events.report = [this](std::size_t, NodeReport report) {
      reports_.push_back(std::move(report));
      hang_up();
    };
    events.output = [this](std::size_t node, bool is_error, std::string bytes) {
      console_.feed(node, is_error, std::move(bytes));
    };
    events.listening = [this](const agent::LinkEndpoint& endpoint) {
      dial(endpoint);
      feed_stdin();
    };
    events.input_taken = [this](std::size_t node, std::int64_t bytes) {
      // Whoever had the rank before may still be about to say so.
      if (stdin_ && node == stdin_to_) stdin_->taken(bytes);
    };
    events.file = [this](std::size_t node, const agent::FilePiece& piece, std::int64_t bytes) {
      logs_.take(node, spec_.nodes[node].name, piece);
      fleet_.taken(node, bytes);
    };
    events.relay = [this](std::size_t node) -> std::unique_ptr<agent::ByteTransport> {
      return line_ ? line_->open(spec_.nodes[node].name) : nullptr;
    };
    events.relay_comes = [this] { return line_ && line_->connecting(); };
    events.ended = [this](std::size_t node, const std::string& cause) {
      if (line_) line_->node_ended(spec_.nodes[node].name, cause);
    };
    events.waiting = [this](const std::string& text) { say_waiting(text); };
    events.without = [this](std::size_t node) { lost_for_stdin(node); };
    events.failed = [this] { end_if_late(spec_.agent.shutdown_timeout + kReportLateAfter); };
    events.over = [this] { finish(); };
    return events;
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

  /// While the logins are under way: the first use of OpenSSL takes milliseconds.
  void derive_keys() {
    for (const NodePlan& plan : spec_.nodes)
      keys_.push_back(rendezvous::derive_key(
          secret_, {PeerIdentity::Role::agent, spec_.agent.run_id, plan.name, kIncarnation}));
  }

  void dial(const agent::LinkEndpoint& endpoint) {
    const bool loopback = endpoint.host.starts_with("127.") || endpoint.host == "::1";
    // An only node that nothing led to by ssh (srun) listens for itself; nodes that were told to meet on
    // loopback are on this machine.
    const bool told = !spec_.interface_name.empty() || !spec_.local_addr.empty();
    if (loopback && !told && !spec_.nodes.front().local) return;
    try {
      CoordinatorLineOptions options{endpoint, spec_.agent.run_id, options_.version, spec_.agent.host, {}, {},
                                     {}};
      options.job_closed = [this](const std::string& node, bool lost, const std::string& reason) {
        if (lost) fleet_.expect_nothing_of(node, reason, false);
      };
      options.node_lost = [this](const std::string& node, const std::string& reason) {
        fleet_.expect_nothing_of(node, reason, true);
      };
      options.lost = [this] { show_life(); };
      line_.emplace(context_.get_executor(), std::move(options), secret_);
    } catch (const std::exception& error) {
      log_warning(std::string("the launcher cannot dial the coordinator: ") + error.what());
    }
  }

  /// The coordinator cannot tell the agents any more that we live; they would stop.
  void show_life() {
    life_.expires_after(kShowLifeEvery);
    life_.async_wait([this](const Error& error) {
      if (error || finishing_) return;
      for (std::size_t node = 0; node < spec_.nodes.size(); ++node) fleet_.taken(node, 0);
      show_life();
    });
  }

  /// The daemon stays until everybody has hung up, and its node until the daemon ends.
  void hang_up() {
    if (reports_.size() + fleet_.failures().size() < spec_.nodes.size()) return;
    // A link that leads through the coordinator has something to acknowledge first.
    late_line_.expires_after(fleet_.relays() ? kHangUpAfterRelay : std::chrono::milliseconds(0));
    late_line_.async_wait([this](const Error& error) {
      if (!error) line_.reset();
    });
  }

  /// Who has the rank that reads our stdin: nodes keep their order in every round.
  std::size_t stdin_node() const {
    std::size_t node = 0;
    for (int first = 0; node < workers_.size(); first += workers_[node++])
      if (spec_.stdin_rank < first + workers_[node]) break;
    return node;
  }

  /// Every node that could be started has its number of workers by now.
  void feed_stdin() {
    if (spec_.stdin_rank < 0 || stdin_ || stdin_node() == workers_.size()) return;
    stdin_to_ = stdin_node();
    stdin_.emplace(context_.get_executor(), STDIN_FILENO, [this](std::string bytes) {
      if (stdin_to_ < workers_.size()) fleet_.input(stdin_to_, std::move(bytes));
    });
    stdin_->start();
  }

  /// Ranks move up when a node is gone: who has the one that reads now gets the rest of our stdin.
  void lost_for_stdin(std::size_t node) {
    workers_[node] = 0;
    if (!stdin_ || std::exchange(stdin_to_, stdin_node()) == stdin_node()) return;
    stdin_->next_reader();
  }

  void say_waiting(const std::string& text) {
    if (text == waiting_text_) return;
    waiting_text_ = text;
    std::fprintf(stderr, "muster: note: %s\n", for_terminal(text).c_str());
  }

  // --- signals

  void catch_signals() {
    for (const HandledSignal& handled : spec_.signals)
      if (!options_.signals.ignored(handled.number)) signals_.add(handled.number);
    watch_signals();
    window_.add(SIGWINCH);
    watch_window();
  }

  /// The exit code is decided: a signal that comes while our handlers go must not put its own in its place.
  void block_signals() const {
    sigset_t handled;
    ::sigemptyset(&handled);
    for (const HandledSignal& signal : spec_.signals) ::sigaddset(&handled, signal.number);
    ::pthread_sigmask(SIG_BLOCK, &handled, nullptr);
  }

  void watch_signals() {
    signals_.async_wait([this](const Error& error, int signal) {
      if (error) return;
      on_signal(signal);
      watch_signals();
    });
  }

  void watch_window() {
    window_.async_wait([this](const Error& error, int) {
      if (error) return;
      fleet_.resize();
      watch_window();
    });
  }

  /// Ctrl-C: once an orderly end, twice "now", three times "leave": guardians clean up without us. Other
  /// signals come twice by themselves (a closed terminal sends SIGHUP twice).
  void on_signal(int signal) {
    if (signal == SIGINT && ++interrupts_ > 1) {
      killed_ = true;
      hurry_console();
      if (interrupts_ > 2) return leave();
      log_warning("second Ctrl-C: killing all workers");
      fleet_.kill();
      return end_if_late(kKillLateAfter);
    }
    hurry_console();
    // What is left is to print the rest; the verdict is made.
    if (finishing_) return;
    if (end_.cause == JobEnd::Cause::finished) {
      end_.cause = JobEnd::Cause::interrupted;
      end_.signal = signal;
    }
    if (!killed_) stop(signal);
  }

  /// Without such an order, whoever reads our output may take as long as it likes, as with any program.
  void hurry_console() {
    if (killed_)
      console_.give_up_after(kFlushWhenKilled);
    else
      console_.give_up_without_progress(kNoProgressAtMost);
  }

  void watch_deadline() {
    if (spec_.deadline.count() == 0) return;
    deadline_.expires_after(spec_.deadline);
    deadline_.async_wait([this](const Error& error) {
      if (error) return;
      hurry_console();
      if (finishing_ || end_.cause != JobEnd::Cause::finished) return;
      end_.cause = JobEnd::Cause::deadline;
      stop(SIGTERM);
    });
  }

  void stop(int signal) {
    fleet_.stop(signal);
    end_if_late(spec_.agent.shutdown_timeout + kReportLateAfter);
  }

  // --- the end

  /// If nodes are left after `limit`: cut them, and end.
  void end_if_late(std::chrono::milliseconds limit) {
    late_.expires_after(limit);
    late_.async_wait([this](const Error& error) {
      if (error) return;
      end_.unreported = fleet_.unreported();
      fleet_.cut_all();
      late_.expires_after(kCutLateAfter);
      late_.async_wait([this](const Error& again) {
        if (!again) finish();
      });
    });
  }

  void leave() {
    killed_ = true;
    end_.unreported = fleet_.unreported();
    fleet_.cut_all();
    finish();
  }

  void finish() {
    if (std::exchange(finishing_, true)) return;
    late_.cancel();
    stdin_.reset();
    late_line_.cancel();
    life_.cancel();
    line_.reset();
    console_.finish([this] {
      // Last of three nets: usually there is no child left.
      agent::end_all_descendants(options_.not_ours, kKillLimitMs);
      context_.stop();
    });
  }

  void judge() {
    end_.hosts = fleet_.failures();
    end_.notes = console_.notes();
    if (!spec_.gather_logs.empty())
      for (std::string& note : logs_.notes()) end_.notes.push_back(std::move(note));
    if (end_.cause != JobEnd::Cause::finished) {
      // The order came when every worker had succeeded.
      const bool all_told = reports_.size() + end_.hosts.size() == spec_.nodes.size();
      if (all_told && all_succeeded(spec_, reports_, end_.hosts)) end_.cause = JobEnd::Cause::finished;
    }
  }

  const JobSpec& spec_;
  const NodesJobOptions& options_;
  std::map<std::size_t, StartedProcess> local_;
  /// Drawn after the nodes of this host were forked: they must not inherit it.
  Secret secret_ = Secret::random();
  /// Of each node.
  std::vector<Secret> keys_;
  asio::io_context context_{1};
  asio::signal_set signals_;
  asio::signal_set window_;
  asio::steady_timer deadline_;
  asio::steady_timer late_;
  asio::steady_timer late_line_;
  asio::steady_timer life_;
  LogGather logs_;
  std::optional<StdinFeed> stdin_;
  std::size_t stdin_to_ = 0;
  /// Of each node, as far as it was told.
  std::vector<int> workers_;
  NodeFleet fleet_;
  NodeConsole console_;
  std::optional<CoordinatorLine> line_;
  std::vector<NodeReport> reports_;
  JobEnd end_;
  std::string waiting_text_;
  int interrupts_ = 0;
  bool killed_ = false;
  bool finishing_ = false;
};

}  // namespace

int run_nodes_job(const JobSpec& spec, NodeStarter& starter, const NodesJobOptions& options) {
  rendezvous::raise_descriptor_limit();
  return NodesJob(spec, starter, options).run();
}

}  // namespace muster::launcher
