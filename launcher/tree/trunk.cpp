// SPDX-License-Identifier: Apache-2.0
#include "launcher/tree/trunk.hpp"

#include "launcher/tree/branch_line.hpp"
#include "launcher/tree/core/tree_json.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/tls/secret.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using agent::ByteTransport;
using Kind = TreeFrame::Kind;

/// Between our order to end what leads to a node and the word that it has.
constexpr std::chrono::seconds kEndLateAfter{2};
/// Of what becomes part of a line for people.
constexpr std::size_t kCauseBytes = 300;
/// Credit is given back in pieces.
constexpr std::size_t kCreditPiece = kTreeWindowBytes / 4;

}  // namespace

struct Trunk::State : std::enable_shared_from_this<State> {
  struct Node {
    explicit Node(const asio::any_io_executor& executor) : late(executor) {}

    ByteTransport::Events link;

    /// To be sent, and what is to be called then.
    struct Piece {
      std::string bytes;
      std::function<void()> written;
      std::size_t sent = 0;
    };

    std::deque<Piece> queue;
    std::size_t credit = kTreeWindowBytes;
    /// Taken, and not given back.
    std::size_t taken = 0;
    asio::steady_timer late;
    bool greeted = false;
    bool timed_out = false;
    bool link_open = false;
    bool ended = false;
  };

  State(asio::any_io_executor trunk_executor, Events trunk_events)
      : executor(std::move(trunk_executor)), events(std::move(trunk_events)) {}

  void start(const BranchPlan& plan, std::unique_ptr<NodeConnection> client, LinkEnds ends) {
    root = plan.nodes.front().index;
    root_name = plan.nodes.front().name;
    for (const BranchPlan::Node& node : plan.nodes) nodes.try_emplace(node.index, executor);
    BranchLine::Events line_events;
    const std::weak_ptr<State> weak = weak_from_this();
    line_events.frame = [weak](TreeFrame frame) {
      if (const auto self = weak.lock()) self->take(std::move(frame));
    };
    line.emplace(executor, plan, std::move(client), std::move(ends), std::move(line_events));
  }

  void take(TreeFrame frame) {
    const std::size_t index = frame.node;
    Node& node = nodes.at(index);
    if (node.ended) return;
    switch (frame.kind) {
      case Kind::starting:
        return call(events.starting, index);
      case Kind::retrying:
        return call(events.retrying, index, frame.body.substr(0, kCauseBytes));
      case Kind::pushed: {
        std::uint64_t total = 0;
        std::from_chars(frame.body.data(), frame.body.data() + frame.body.size(), total);
        return call(events.pushed, index, frame.number, total);
      }
      case Kind::greeted:
        return greeted(index, node, frame.body.substr(0, kCauseBytes));
      case Kind::said:
        return call(events.said, index, frame.body);
      case Kind::bytes:
        return received(index, node, frame.body);
      case Kind::credit:
        node.credit =
            std::min(node.credit + std::min<std::uint64_t>(frame.number, kTreeWindowBytes), kTreeWindowBytes);
        return pump(index, node);
      case Kind::closed:
        return close_link(index, "the connection ended");
      case Kind::ended:
        return end(index, frame);
      default:
        return;
    }
  }

  template <typename Callback, typename... Arguments>
  static void call(const Callback& callback, const Arguments&... arguments) {
    const auto kept = callback;  // it may destroy us
    if (kept) kept(arguments...);
  }

  void greeted(std::size_t index, Node& node, const std::string& version);

  void received(std::size_t index, Node& node, const std::string& bytes) {
    node.taken += bytes.size();
    if (node.taken > kTreeWindowBytes) {
      kill(index);
      return close_link(index, "more came than its host was told to send");
    }
    if (node.link_open && node.link.bytes) {
      const auto callback = node.link.bytes;
      callback(bytes);
    }
    if (node.taken < kCreditPiece) return;
    send({Kind::credit, static_cast<std::uint32_t>(index), std::exchange(node.taken, 0), {}});
  }

  void close_link(std::size_t index, const std::string& reason) {
    Node& node = nodes.at(index);
    drop_queue(node);
    if (!std::exchange(node.link_open, false)) return;
    const auto callback = std::move(node.link.closed);
    node.link = {};
    if (callback) callback(reason);
  }

  void end(std::size_t index, const TreeFrame& frame) {
    StartEnd end;
    try {
      end = start_end_from_json(frame.body);
    } catch (const std::exception& error) {
      end.exit_code = 255;
      end.broken = error.what();
    }
    end_as(index, end);
  }

  void end_as(std::size_t index, StartEnd end) {
    Node& node = nodes.at(index);
    if (std::exchange(node.ended, true)) return;
    // Whatever is said there: a link was handed out here, or was not.
    const bool had_greeting = node.greeted;
    end.timed_out = end.timed_out || (node.timed_out && !had_greeting);
    node.late.cancel();
    close_link(index, "the connection ended");
    call(events.ended, index, end, had_greeting);
  }

  /// As much as may be sent.
  void pump(std::size_t index, Node& node) {
    while (node.credit > 0 && !node.queue.empty()) {
      Node::Piece& piece = node.queue.front();
      TreeFrame frame{Kind::bytes, static_cast<std::uint32_t>(index), 0,
                      piece.bytes.substr(piece.sent, std::min(kTreePieceBytes, node.credit))};
      const std::size_t size = frame.body.size();
      send(frame);
      node.credit -= size;
      piece.sent += size;
      rendezvous::cleanse(frame.body.data(), size);
      if (piece.sent == piece.bytes.size()) drop_first(node);
    }
  }

  /// There may be a key in it.
  void drop_first(Node& node) {
    Node::Piece& piece = node.queue.front();
    rendezvous::cleanse(piece.bytes.data(), piece.bytes.size());
    if (piece.written) asio::post(executor, std::move(piece.written));
    node.queue.pop_front();
  }

  void drop_queue(Node& node) {
    while (!node.queue.empty()) drop_first(node);
  }

  void send(const TreeFrame& frame) {
    if (line) line->send(frame);
  }

  /// Whether or not the host there still answers, its end is told.
  void kill(std::size_t index) {
    Node& node = nodes.at(index);
    if (node.ended) return;
    send({Kind::kill, static_cast<std::uint32_t>(index), 0, {}});
    node.late.expires_after(kEndLateAfter);
    node.late.async_wait([weak = weak_from_this(), index](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (error || !self) return;
      StartEnd end;
      end.signal = 9;
      // Nobody there ends what is late, and so nobody there would start it.
      if (self->nodes.at(index).timed_out && index != self->root) end.lost_through = self->root_name;
      self->end_as(index, end);
    });
  }

  /// Nobody wants to hear of it any more.
  void abandon(std::size_t index) {
    Node& node = nodes.at(index);
    if (std::exchange(node.ended, true)) return;
    node.late.cancel();
    send({Kind::kill, static_cast<std::uint32_t>(index), 0, {}});
  }

  asio::any_io_executor executor;
  Events events;
  std::map<std::size_t, Node> nodes;
  std::optional<BranchLine> line;
  /// The node whose host starts the others.
  std::size_t root = 0;
  std::string root_name;
  bool halted = false;
};

/// One node's link.
class Trunk::Transport final : public ByteTransport {
 public:
  Transport(std::weak_ptr<State> state, asio::any_io_executor executor, std::size_t node)
      : state_(std::move(state)), executor_(std::move(executor)), node_(node) {}

  ~Transport() override { close(); }

  void start(Events events) override {
    const auto state = state_.lock();
    if (!state) return;
    State::Node& node = state->nodes.at(node_);
    node.link = std::move(events);
    if (node.link_open) return;
    asio::post(executor_, [callback = std::exchange(node.link.closed, nullptr)] {
      if (callback) callback("the connection ended");
    });
  }

  void write(std::string bytes, std::function<void()> written) override {
    const auto state = state_.lock();
    State::Node* node = state ? &state->nodes.at(node_) : nullptr;
    if (node == nullptr || !node->link_open || bytes.empty()) {
      rendezvous::cleanse(bytes.data(), bytes.size());
      if (written) asio::post(executor_, std::move(written));
      return;
    }
    node->queue.push_back({std::move(bytes), std::move(written)});
    state->pump(node_, *node);
  }

  void close() override {
    const auto state = std::exchange(state_, {}).lock();
    if (!state) return;
    State::Node& node = state->nodes.at(node_);
    node.link = {};
    state->drop_queue(node);
    if (std::exchange(node.link_open, false))
      state->send({Kind::close, static_cast<std::uint32_t>(node_), 0, {}});
  }

 private:
  std::weak_ptr<State> state_;
  asio::any_io_executor executor_;
  std::size_t node_;
};

class Trunk::Connection final : public StartConnection {
 public:
  Connection(std::weak_ptr<State> state, std::size_t node) : state_(std::move(state)), node_(node) {}

  ~Connection() override {
    if (const auto state = state_.lock()) state->abandon(node_);
  }

  void give_up() override {
    const auto state = state_.lock();
    if (!state) return;
    state->nodes.at(node_).timed_out = true;
    state->kill(node_);
  }

  void kill() override {
    if (const auto state = state_.lock()) state->kill(node_);
  }

 private:
  std::weak_ptr<State> state_;
  std::size_t node_;
};

void Trunk::State::greeted(std::size_t index, Node& node, const std::string& version) {
  if (std::exchange(node.greeted, true)) return;
  node.link_open = true;
  const auto callback = events.greeted;
  if (callback) callback(index, version, std::make_unique<Transport>(weak_from_this(), executor, index));
}

Trunk::Trunk(const asio::any_io_executor& executor, const BranchPlan& plan,
             std::unique_ptr<NodeConnection> client, LinkEnds ends, Events events)
    : state_(std::make_shared<State>(executor, std::move(events))) {
  state_->start(plan, std::move(client), std::move(ends));
}

Trunk::~Trunk() {
  state_->events = {};
  for (auto& [index, node] : state_->nodes) {
    node.link = {};
    node.late.cancel();
    state_->drop_queue(node);
  }
  state_->line.reset();
}

void Trunk::client_ended(const StartEnd& end) {
  if (state_->line) state_->line->client_ended(end);
}

void Trunk::halt() {
  if (!std::exchange(state_->halted, true)) state_->send({Kind::halt, 0, 0, {}});
}

std::unique_ptr<StartConnection> Trunk::connection(std::size_t node) {
  return std::make_unique<Connection>(state_, node);
}

}  // namespace muster::launcher
