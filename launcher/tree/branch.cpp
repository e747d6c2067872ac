// SPDX-License-Identifier: Apache-2.0
#include "launcher/tree/branch.hpp"

#include "agent/core/link_message.hpp"
#include "agent/core/link_text.hpp"
#include "agent/process/link_frames.hpp"
#include "agent/process/signal_state.hpp"
#include "launcher/core/exit_code.hpp"
#include "launcher/start/core/line_limit.hpp"
#include "launcher/start/core/start_queue.hpp"
#include "launcher/start/core/start_times.hpp"
#include "launcher/tree/branch_ends.hpp"
#include "launcher/tree/branch_line.hpp"
#include "launcher/tree/branch_node.hpp"
#include "launcher/tree/core/tree_json.hpp"
#include "launcher/tree/frame_stream.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/server/descriptor_limit.hpp"
#include "rendezvous/support/random.hpp"
#include "rendezvous/tls/secret.hpp"
#include "rendezvous/tls/secret_memory.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using Kind = TreeFrame::Kind;
using Clock = std::chrono::steady_clock;
using Error = boost::system::error_code;

constexpr std::chrono::seconds kWriteTimeout{30};
/// The launcher sends it at once.
constexpr std::chrono::seconds kPlanLateAfter{30};
/// With nobody left to start or to carry for: what is on its way to the launcher, if nothing of it moves.
constexpr std::chrono::seconds kLastWordsLateAfter{10};
/// Of all nodes together, on their way to the launcher: then nothing more is read of any until half is gone.
constexpr std::size_t kUpwardBytes = std::size_t{1} << 20;
/// Of what was said before a greeting; for the launcher's text.
constexpr std::size_t kErrorBytes = std::size_t{6} << 10;
constexpr std::size_t kJunkBytes = std::size_t{2} << 10;
static_assert(6 * (kErrorBytes + kJunkBytes) + 1024 < kTreeTextBytes);
constexpr const char* kOurselves = "/proc/self/exe";

class Branch {
 public:
  Branch(const BranchOptions& options, UniqueFd in, UniqueFd out, StartedProcess local)
      : options_(options),
        local_(std::move(local)),
        signals_(context_, SIGTERM, SIGINT, SIGHUP),
        timer_(context_),
        last_words_(context_) {
    FrameStream::Events events;
    events.frame = [this](TreeFrame frame) { from_launcher(std::move(frame)); };
    events.closed = [this](const std::string& nonsense) {
      if (nonsense.empty()) return finish(0);
      log_warning("the launcher sent what no muster sends (" + nonsense + ")");
      finish(kExitLauncherFailure);
    };
    events.sent = [this] { sent(); };
    up_.emplace(context_.get_executor(), std::move(in), std::move(out), "", std::move(events));
    signals_.async_wait([this](const Error& error, int number) {
      if (!error) finish(128 + number);
    });
    timer_.expires_after(kPlanLateAfter);
    timer_.async_wait([this](const Error& error) {
      if (error || plan_) return;
      log_warning("the launcher sent no hosts to start");
      finish(kExitLauncherFailure);
    });
  }

  int run() {
    context_.run();
    return code_;
  }

 private:
  struct Child {
    std::size_t index = 0;
    /// What it must know; of one node: that of a host which starts no others.
    BranchPlan plan;
    std::unique_ptr<NodeConnection> connection;
    std::unique_ptr<BranchNode> node;
    std::unique_ptr<BranchLine> line;
    std::optional<Clock::time_point> greet_by;
    /// The launcher, which shows as many, has to have room for how many were left out.
    LineLimit lines{LineLimit::kLines - 1};
    bool under_way = false;
    /// Nothing comes any more of it and of those below it.
    bool over = false;
  };

  void send(Kind kind, std::size_t node, std::uint64_t number = 0, std::string body = {}) {
    if (body.size() > kTreeTextBytes) body.resize(kTreeTextBytes);
    send({kind, static_cast<std::uint32_t>(node), number, std::move(body)});
  }

  void send(const TreeFrame& frame) {
    if (!up_) return;
    up_->send(frame);
    if (up_->pending() <= kUpwardBytes || paused_) return;
    paused_ = true;
    for (Child& child : children_) {
      if (child.node) child.node->pause();
      if (child.line) child.line->pause();
    }
  }

  void sent() {
    if (all_over_) finish_if_over();
    if (!paused_ || up_->pending() > kUpwardBytes / 2) return;
    paused_ = false;
    for (Child& child : children_) {
      if (child.node) child.node->resume();
      if (child.line) child.line->resume();
    }
  }

  // --- the launcher's orders

  void from_launcher(TreeFrame frame) {
    try {
      if (frame.kind == Kind::plan) return take_plan(frame);
      if (!plan_ || frame.kind == Kind::halt) return halt();
      for (Child& child : children_)
        if (child.index == frame.node || (child.line && child.line->has(frame.node))) {
          obey(child, frame);
          break;
        }
      // There may be a key in it.
      rendezvous::cleanse(frame.body.data(), frame.body.size());
    } catch (const std::exception& error) {
      log_warning(std::string("the launcher's orders cannot be followed: ") + error.what());
      finish(kExitLauncherFailure);
    }
  }

  void take_plan(const TreeFrame& frame) {
    if (plan_) throw std::invalid_argument("a second list of hosts");
    plan_ = branch_plan_from_json(frame.body);
    const std::size_t own = plan_->nodes.front().index;
    std::vector<std::string> servers{"this host"};
    children_.push_back(child_of(own));
    children_.front().plan.nodes.resize(1);
    for (const BranchPlan::Node& node : plan_->nodes) {
      if (node.parent != static_cast<int>(own) || node.index == own) continue;
      children_.push_back(child_of(node.index));
      servers.push_back(server_of(node.target));
    }
    std::minstd_rand engine(static_cast<unsigned>(random_number()));
    queue_.emplace(servers, StartLimits{},
                   [engine]() mutable { return std::uniform_real_distribution<double>(0.0, 1.0)(engine); });
    if (halted_) queue_->stop();
    advance();
  }

  Child child_of(std::size_t index) const {
    Child child;
    child.index = index;
    child.plan = plan_->below(index);
    return child;
  }

  void obey(Child& child, TreeFrame& frame) {
    if (child.line) return child.line->send(frame);
    switch (frame.kind) {
      case Kind::close:
        child.node.reset();
        return;
      case Kind::kill:
        if (child.connection) child.connection->kill();
        return;
      case Kind::bytes:
      case Kind::credit:
        if (child.node) child.node->take(std::move(frame));
        return;
      default:
        throw std::invalid_argument("a frame of kind " + std::to_string(static_cast<int>(frame.kind)));
    }
  }

  void halt() {
    halted_ = true;
    if (queue_) queue_->stop();
    finish_if_over();
    for (Child& child : children_)
      if (child.line) child.line->send({Kind::halt, 0, 0, {}});
  }

  // --- the hosts that it starts

  void advance() {
    const auto now = Clock::now();
    for (const std::size_t place : queue_->take_due(now)) start(place);
    auto due = queue_->next_due().value_or(now + std::chrono::seconds(60));
    for (Child& child : children_) {
      if (!child.greet_by) continue;
      if (now >= *child.greet_by) {
        child.greet_by.reset();
        child.connection->give_up();
      } else {
        due = std::min(due, *child.greet_by);
      }
    }
    timer_.expires_at(due);
    timer_.async_wait([this](const Error& error) {
      if (!error && up_) advance();
    });
  }

  void start(std::size_t place) {
    Child& child = children_[place];
    // Our own start is known: somebody has logged in here for it.
    if (place != 0) send(Kind::starting, child.index);
    NodeConnection::Events events;
    events.greeted = [this, place](const std::string& version, LinkEnds ends) {
      greeted(place, version, std::move(ends));
    };
    events.pushed = [this, place](std::uint64_t bytes, std::uint64_t of) {
      Child& receiver = children_[place];
      if (receiver.greet_by) receiver.greet_by = Clock::now() + kCopyLateAfter;
      send(Kind::pushed, receiver.index, bytes, std::to_string(of));
    };
    events.said = [this, place](const std::string& line) { said(children_[place], line); };
    events.ended = [this, place](const StartEnd& end, bool had_greeting) { ended(place, end, had_greeting); };
    StartedProcess process;
    try {
      process = place == 0 ? std::move(local_) : spawn(child);
    } catch (const std::exception& error) {
      StartEnd end;
      end.errors = error.what();
      end.exit_code = kExitLauncherFailure;
      queue_->failed(place);
      return fail(child, end);
    }
    const std::chrono::milliseconds login{plan_->login_timeout_ms};
    child.greet_by = Clock::now() + (place == 0 ? kForkLateAfter : greeting_limit(login, children_.size()));
    child.under_way = true;
    child.connection = std::make_unique<NodeConnection>(context_.get_executor(), std::move(process),
                                                        plan_->push ? kOurselves : "", std::move(events));
  }

  StartedProcess spawn(const Child& child) const {
    const bool inner = child.plan.nodes.size() > 1;
    const std::string& command = inner ? plan_->branch_command : plan_->agent_command;
    return spawn_client(ssh_arguments(plan_->client, child.plan.nodes.front().target, command, inner),
                        options_.signals, {kResolveSoon});
  }

  void greeted(std::size_t place, const std::string& version, LinkEnds ends) {
    Child& child = children_[place];
    queue_->admitted(place, Clock::now());
    child.greet_by.reset();
    const bool inner = child.plan.nodes.size() > 1;
    if (!inner || version != options_.version) {
      // The launcher knows what to do about another version.
      send(Kind::greeted, child.index, 0, version);
      if (inner) {
        lose_those_below(child);
      } else {
        child.node = std::make_unique<BranchNode>(context_.get_executor(), child.index, std::move(ends),
                                                  [this](const TreeFrame& frame) { send(frame); });
        if (paused_) child.node->pause();
      }
      return advance();
    }
    if (halted_) {
      child.connection->kill();
      lose_those_below(child);
      return advance();
    }
    BranchLine::Events events;
    events.lost = [this, place] { over(children_[place]); };
    events.frame = [this](const TreeFrame& frame) { send(frame); };
    child.line = std::make_unique<BranchLine>(
        context_.get_executor(), child.plan, std::move(child.connection), std::move(ends), std::move(events));
    if (paused_) child.line->pause();
    advance();
  }

  void ended(std::size_t place, const StartEnd& end, bool had_greeting) {
    Child& child = children_[place];
    child.greet_by.reset();
    tell_left_out(child, true);
    if (child.line) return child.line->client_ended(end);
    child.under_way = false;
    // It may be in a callback of its own.
    asio::post(context_, [kept = std::shared_ptr<NodeConnection>(std::move(child.connection))] {});
    if (had_greeting) {
      send_end(child, end);
      over(child);
      return advance();
    }
    const StartFailure failure = explain_start(end, {});
    if (failure.server_busy && queue_->refused(place, Clock::now())) {
      send(Kind::retrying, child.index, 0, failure.cause);
      finish_if_over();
      return advance();
    }
    queue_->failed(place);
    fail(child, end);
    advance();
  }

  void send_end(const Child& child, StartEnd end) {
    // As JSON it may become six times as long.
    end.errors.resize(std::min(end.errors.size(), kErrorBytes));
    end.junk.resize(std::min(end.junk.size(), kJunkBytes));
    send(Kind::ended, child.index, 0, to_json(end));
  }

  /// It could not be started, and so what it was to start cannot be, either.
  void fail(Child& child, const StartEnd& end) {
    send_end(child, end);
    lose_those_below(child);
    over(child);
  }

  void lose_those_below(const Child& child) {
    StartEnd end;
    end.lost_through = child.plan.nodes.front().name;
    for (const BranchPlan::Node& node : child.plan.nodes)
      if (node.index != child.index) send(Kind::ended, node.index, 0, to_json(end));
  }

  // --- what they say on stderr

  /// It is read whether or not the launcher takes what we send.
  void said(Child& child, const std::string& line) {
    if (paused_) return child.lines.leave_out();
    tell_left_out(child, false);
    if (child.lines.admit(Clock::now())) send(Kind::said, child.index, 0, line);
  }

  void tell_left_out(Child& child, bool at_the_end) {
    const std::size_t count = child.lines.take_left_out(Clock::now(), at_the_end);
    if (count == 0) return;
    send(Kind::said, child.index, 0,
         std::to_string(count) + " more lines of it were left out on the way here");
  }

  // --- the end

  void over(Child& child) {
    child.over = true;
    finish_if_over();
  }

  /// A launcher that went with its host never says that it is gone: nobody but us would end us.
  void finish_if_over() {
    asio::post(context_, [this] {
      const bool all =
          up_ && plan_ && std::all_of(children_.begin(), children_.end(), [this](const Child& child) {
            return child.over || (halted_ && !child.under_way);
          });
      if (!all) return;
      if (up_->pending() == 0) return finish(0);
      if (!std::exchange(all_over_, true)) wait_for_last_words();
    });
  }

  void wait_for_last_words() {
    last_words_.expires_after(kLastWordsLateAfter);
    last_words_.async_wait([this, before = up_->pending()](const Error& error) {
      if (error || !up_) return;
      if (up_->pending() >= before) return finish(0);
      wait_for_last_words();
    });
  }

  /// Whoever was started sees the end of its link.
  void finish(int code) {
    code_ = code;
    up_.reset();
    children_.clear();
    context_.stop();
  }

  const BranchOptions& options_;
  StartedProcess local_;
  asio::io_context context_{1};
  asio::signal_set signals_;
  asio::steady_timer timer_;
  asio::steady_timer last_words_;
  std::optional<FrameStream> up_;
  std::optional<BranchPlan> plan_;
  std::optional<StartQueue> queue_;
  /// First this host itself.
  std::vector<Child> children_;
  bool paused_ = false;
  /// No further starts.
  bool halted_ = false;
  bool all_over_ = false;
  int code_ = 0;
};

}  // namespace

int run_branch(const BranchOptions& options) {
  ::prctl(PR_SET_NAME, "muster:branch");
  agent::ignore_write_signals();
  rendezvous::raise_descriptor_limit();
  rendezvous::guard_process(rendezvous::ProcessFiles::closed);
  UniqueFd in = take_away(STDIN_FILENO, O_RDONLY);
  UniqueFd out = take_away(STDOUT_FILENO, O_WRONLY);
  StartedProcess local = fork_own_node(options.version, options.signals);
  agent::write_bytes(out.get(), agent::link_greeting(options.version), Clock::now() + kWriteTimeout);
  return Branch(options, std::move(in), std::move(out), std::move(local)).run();
}

}  // namespace muster::launcher
