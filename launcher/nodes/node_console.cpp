// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/node_console.hpp"

#include "agent/core/link_message.hpp"
#include "agent/process/output/console.hpp"
#include "agent/process/output/console_writer.hpp"
#include "agent/process/output/terminal.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/wake_up.hpp"
#include "rendezvous/base/while_alive.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using agent::Console;
using Error = boost::system::error_code;

}  // namespace

struct NodeConsole::State : std::enable_shared_from_this<State> {
  struct Piece {
    bool is_error;
    std::string bytes;
  };

  struct Node {
    std::deque<Piece> pieces;
    /// The channels of stdout and stderr.
    std::array<std::shared_ptr<rendezvous::Channel>, 2> channels;
    std::map<Console*, Console::Source> sources;
  };

  State(const asio::any_io_executor& executor, std::size_t count, Streams streams)
      : wake_up(std::make_shared<WakeUp>()), wake_stream(executor), timer(executor), nodes(count) {
    const int copy = *wake_up ? ::fcntl(wake_up->fd(), F_DUPFD_CLOEXEC, 0) : -1;
    if (copy < 0) throw_errno("eventfd for the workers' output");
    wake_stream.assign(copy);
    // If our stdout and stderr are one, what a node prints on both keeps its order.
    const bool one = agent::same_file(streams.out, streams.err);
    out = make_console(executor, streams.out, one ? "stdout and stderr" : "stdout", streams);
    if (!one) err = make_console(executor, streams.err, "stderr", streams);
  }

  std::unique_ptr<Console> make_console(const asio::any_io_executor& executor, int fd, const char* name,
                                        const Streams& streams) {
    return std::make_unique<Console>(executor, std::make_unique<agent::ConsoleWriter>(fd, name, wake_up),
                                     agent::is_terminal(fd), streams.raw,
                                     streams.framed ? Console::Lines::whole : Console::Lines::shown);
  }

  void watch() {
    wake_stream.async_wait(asio::posix::stream_descriptor::wait_read,
                           [self = shared_from_this()](const Error& error) {
                             if (error || self->closed) return;
                             self->wake_up->clear();
                             self->pump();
                             self->watch();
                           });
  }

  Console& console_for(bool is_error) { return is_error && err ? *err : *out; }

  void take(std::size_t node, bool is_error, std::string_view bytes) {
    if (finishing) return;
    std::deque<Piece>& pieces = nodes[node].pieces;
    // Many small pieces must not take much more room than their bytes.
    if (!pieces.empty() && pieces.back().is_error == is_error &&
        pieces.back().bytes.size() + bytes.size() <= agent::kLinkPieceBytes) {
      pieces.back().bytes += bytes;
    } else {
      pieces.push_back({is_error, std::string(bytes)});
      ++waiting;
    }
    pump();
  }

  /// Shows one piece of each node in turn, until the consoles are full or no piece is left. The next call
  /// goes on where this one ends.
  void pump() {
    std::size_t idle = 0;
    while (waiting > 0 && idle < nodes.size()) {
      const std::size_t index = turn;
      turn = (turn + 1) % nodes.size();
      idle = pass_one(index) ? 0 : idle + 1;
    }
    if (finishing && waiting == 0) stop_writers();
  }

  bool pass_one(std::size_t index) {
    Node& node = nodes[index];
    if (node.pieces.empty()) return false;
    Console& console = console_for(node.pieces.front().is_error);
    if (console.full()) return false;
    const Piece piece = std::move(node.pieces.front());
    node.pieces.pop_front();
    --waiting;
    auto source = node.sources.find(&console);
    if (source == node.sources.end())
      source =
          node.sources.emplace(&console, console.add({}, [&node] { return !node.pieces.empty(); })).first;
    console.feed(source->second, piece.bytes);
    node.channels[piece.is_error ? 1 : 0]->consumed(piece.bytes.size());
    return true;
  }

  void stop_writers() {
    if (std::exchange(stopped, true)) return check_end();
    for (Node& node : nodes)
      for (const auto& [console, source] : node.sources) console->close(source);
    out->stop();
    if (err) err->stop();
    check_end();
  }

  void check_end() {
    const bool ended = out->ended() && (!err || err->ended());
    if (ended && done) end();
  }

  std::size_t unwritten() const {
    std::size_t bytes = out->unwritten() + (err ? err->unwritten() : 0);
    for (const Node& node : nodes)
      for (const Piece& piece : node.pieces) bytes += piece.bytes.size();
    return bytes;
  }

  /// Drops what is left if the time is up, and otherwise looks again a little later.
  void watch_progress() {
    if (!finishing || closed || (!pause && !limit)) return;
    constexpr std::chrono::milliseconds kLookEvery{100};
    const auto now = std::chrono::steady_clock::now();
    const std::size_t left = unwritten();
    if (left != seen_left || !seen_at) seen_at = now;
    seen_left = left;
    if ((pause && now >= *seen_at + *pause) || (give_up_at && now >= *give_up_at)) return drop();
    timer.expires_after(
        std::min(kLookEvery, std::min(pause.value_or(kLookEvery), limit.value_or(kLookEvery))));
    timer.async_wait([weak = weak_from_this()](const Error& error) {
      if (const auto self = weak.lock(); self && !error) self->watch_progress();
    });
  }

  void drop() {
    if (const std::size_t left = unwritten(); left > 0)
      dropped = "the last " + std::to_string(left) +
                " bytes that workers printed were dropped: nobody took them from our stdout or stderr";
    end();
  }

  void end() {
    timer.cancel();
    const auto callback = std::exchange(done, nullptr);
    close();
    if (callback) callback();
  }

  void close() {
    if (std::exchange(closed, true)) return;
    Error ignored;
    wake_stream.close(ignored);
    timer.cancel();
  }

  const std::shared_ptr<WakeUp> wake_up;
  asio::posix::stream_descriptor wake_stream;
  asio::steady_timer timer;
  std::vector<Node> nodes;
  std::unique_ptr<Console> out;
  /// The console of stderr; null where stdout and stderr are one and the same.
  std::unique_ptr<Console> err;
  std::function<void()> done;
  std::optional<std::chrono::milliseconds> pause;
  std::optional<std::chrono::milliseconds> limit;
  std::optional<std::chrono::steady_clock::time_point> give_up_at;
  std::size_t seen_left = 0;
  std::optional<std::chrono::steady_clock::time_point> seen_at;
  std::string dropped;
  std::size_t waiting = 0;
  std::size_t turn = 0;
  bool finishing = false;
  bool stopped = false;
  bool closed = false;
};

NodeConsole::NodeConsole(const asio::any_io_executor& executor, std::size_t nodes, Streams streams)
    : state_(std::make_shared<State>(executor, nodes, streams)) {
  state_->watch();
}

NodeConsole::~NodeConsole() {
  state_->close();
}

void NodeConsole::receive(std::size_t node, bool is_error, std::shared_ptr<rendezvous::Channel> channel) {
  std::shared_ptr<rendezvous::Channel>& place = state_->nodes[node].channels[is_error ? 1 : 0];
  if (place) throw std::invalid_argument("a second channel for what its workers print");
  rendezvous::Channel::Handlers handlers;
  handlers.data = while_alive(std::weak_ptr<State>(state_), &State::take, node, is_error);
  channel->handle(std::move(handlers));
  place = std::move(channel);
}

void NodeConsole::finish(std::function<void()> done) {
  state_->finishing = true;
  state_->done = std::move(done);
  if (state_->limit) give_up_after(*state_->limit);
  state_->watch_progress();
  state_->pump();
}

void NodeConsole::give_up_without_progress(std::chrono::milliseconds pause) {
  state_->pause = pause;
  state_->seen_at.reset();
  state_->watch_progress();
}

void NodeConsole::give_up_after(std::chrono::milliseconds at_most) {
  state_->limit = at_most;
  if (!state_->finishing) return;
  state_->give_up_at = std::chrono::steady_clock::now() + at_most;
  state_->watch_progress();
}

std::vector<std::string> NodeConsole::notes() const {
  std::vector<std::string> all = state_->out->notes();
  if (state_->err)
    for (std::string& note : state_->err->notes()) all.push_back(std::move(note));
  if (!state_->dropped.empty()) all.push_back(state_->dropped);
  return all;
}

}  // namespace muster::launcher
