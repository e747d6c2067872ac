// SPDX-License-Identifier: Apache-2.0
#include "launcher/tree/branch_line.hpp"

#include "launcher/tree/core/tree_json.hpp"
#include "launcher/tree/frame_stream.hpp"
#include "rendezvous/log/log.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <map>
#include <optional>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using Kind = TreeFrame::Kind;

/// Between the end of the client and that of its streams, which others may hold open, or the other way round.
constexpr std::chrono::seconds kOtherEndLateAfter{1};
/// What ssh says of a session that it has lost.
constexpr int kSessionLost = 255;

}  // namespace

struct BranchLine::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& line_executor, const BranchPlan& plan,
        std::unique_ptr<NodeConnection> line_client, Events line_events)
      : executor(line_executor),
        root(plan.nodes.front().index),
        name(plan.nodes.front().name),
        client(std::move(line_client)),
        late(line_executor),
        events(std::move(line_events)) {
    for (const BranchPlan::Node& node : plan.nodes) ended.emplace(node.index, false);
  }

  void start(const BranchPlan& plan, LinkEnds ends) {
    FrameStream::Events stream_events;
    const std::weak_ptr<State> weak = weak_from_this();
    stream_events.frame = [weak](TreeFrame frame) {
      if (const auto self = weak.lock()) self->take(std::move(frame));
    };
    stream_events.closed = [weak](const std::string& nonsense) {
      const auto self = weak.lock();
      if (self && nonsense.empty()) self->stream_closed();
      if (self && !nonsense.empty()) self->break_off(nonsense);
    };
    stream_events.sent = [weak] {
      const auto self = weak.lock();
      const auto callback = self ? self->events.sent : nullptr;
      if (callback) callback();
    };
    stream.emplace(executor, std::move(ends.in), std::move(ends.out), std::move(ends.first_bytes),
                   std::move(stream_events));
    stream->send({Kind::plan, static_cast<std::uint32_t>(plan.nodes.front().index), 0, to_json(plan)});
  }

  void take(TreeFrame frame) {
    if (over || stream_gone) return;
    heard = true;
    const auto found = ended.find(frame.node);
    if (found != ended.end() && found->second) return;
    if (found == ended.end() || frame.kind < Kind::starting)
      return break_off("a frame of kind " + std::to_string(static_cast<int>(frame.kind)) + " for node " +
                       std::to_string(frame.node));
    if (frame.kind == Kind::ended) found->second = true;
    pass(std::move(frame));
  }

  void pass(TreeFrame frame) {
    const auto callback = events.frame;  // it may destroy us
    if (callback) callback(std::move(frame));
  }

  void break_off(const std::string& what) {
    log_warning(name + ": it sent what no muster sends (" + what + "); its login was ended");
    broken = what;
    stream_closed();
  }

  /// Without streams the client is of no use.
  void stream_closed() {
    stream_gone = true;
    stream.reset();
    if (client) client->kill();
    other_end();
  }

  void client_ended(const StartEnd& how) {
    client_gone = true;
    client_end = how;
    asio::post(executor, [kept = std::shared_ptr<NodeConnection>(std::move(client))] {});
    other_end();
  }

  void other_end() {
    if (stream_gone && client_gone)
      return asio::post(executor, [self = shared_from_this()] { self->lose(); });
    late.expires_after(kOtherEndLateAfter);
    late.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (error || !self) return;
      // What it had said before it ended is still to be read.
      const bool more = !self->stream_gone && (self->paused || std::exchange(self->heard, false));
      return more ? self->other_end() : self->lose();
    });
  }

  void lose() {
    if (std::exchange(over, true)) return;
    const auto keep = shared_from_this();
    late.cancel();
    for (auto& [index, has_ended] : ended) {
      if (std::exchange(has_ended, true)) continue;
      const bool is_root = index == root;
      StartEnd end = is_root ? client_end : StartEnd{};
      // Agents there go on by themselves, whatever became of what led to them.
      if (end.signal == 0) end.exit_code = kSessionLost;
      if (!is_root) end.lost_through = name;
      if (is_root) end.broken = broken;
      const auto number = static_cast<std::uint32_t>(index);
      pass({Kind::closed, number, 0, {}});
      pass({Kind::ended, number, 0, to_json(end)});
    }
    const auto callback = std::move(events.lost);
    if (callback) callback();
  }

  asio::any_io_executor executor;
  /// Of the host there.
  std::size_t root;
  std::string name;
  std::unique_ptr<NodeConnection> client;
  asio::steady_timer late;
  Events events;
  /// For each node.
  std::map<std::size_t, bool> ended;
  StartEnd client_end;
  /// What it sent that no muster sends.
  std::string broken;
  std::optional<FrameStream> stream;
  bool paused = false;
  /// Something came of late.
  bool heard = false;
  bool stream_gone = false;
  bool client_gone = false;
  bool over = false;
};

BranchLine::BranchLine(const asio::any_io_executor& executor, const BranchPlan& plan,
                       std::unique_ptr<NodeConnection> client, LinkEnds ends, Events events)
    : state_(std::make_shared<State>(executor, plan, std::move(client), std::move(events))) {
  state_->start(plan, std::move(ends));
}

BranchLine::~BranchLine() {
  state_->over = true;
  state_->events = {};
  state_->late.cancel();
  state_->stream.reset();
  state_->client.reset();
}

void BranchLine::client_ended(const StartEnd& end) {
  state_->client_ended(end);
}

void BranchLine::send(const TreeFrame& frame) {
  if (!state_->stream_gone) state_->stream->send(frame);
}

bool BranchLine::has(std::size_t node) const {
  return state_->ended.contains(node);
}

std::size_t BranchLine::pending() const {
  return state_->stream ? state_->stream->pending() : 0;
}

void BranchLine::pause() {
  state_->paused = true;
  if (!state_->stream_gone) state_->stream->pause();
}

void BranchLine::resume() {
  state_->paused = false;
  if (!state_->stream_gone) state_->stream->resume();
}

}  // namespace muster::launcher
