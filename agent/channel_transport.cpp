// SPDX-License-Identifier: Apache-2.0
#include "agent/byte_transport.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <deque>
#include <utility>

namespace muster::agent {
namespace {

namespace asio = boost::asio;

struct ChannelState : std::enable_shared_from_this<ChannelState> {
  ChannelState(asio::any_io_executor state_executor, std::shared_ptr<rendezvous::Channel> its_channel)
      : executor(std::move(state_executor)), channel(std::move(its_channel)) {}

  void push() {
    while (!closed && !queue.empty() && channel->writable() > 0) {
      auto& [bytes, written] = queue.front();
      const std::size_t size = std::min(channel->writable(), bytes.size() - begin);
      channel->send(std::string_view(bytes).substr(begin, size));
      begin += size;
      if (begin < bytes.size()) continue;
      if (written) asio::post(executor, std::move(written));
      queue.pop_front();
      begin = 0;
    }
  }

  void end(const std::string& reason) {
    if (closed) return;
    const auto callback = std::move(events.closed);
    close(reason);
    if (callback) callback(reason);
  }

  void close(const std::string& reason) {
    if (std::exchange(closed, true)) return;
    events = {};
    for (auto& [bytes, written] : queue)
      if (written) asio::post(executor, std::move(written));
    queue.clear();
    channel->close(reason);
    // It may be in one of its own callbacks.
    asio::post(executor, [kept = std::move(channel)] {});
  }

  asio::any_io_executor executor;
  std::shared_ptr<rendezvous::Channel> channel;
  ByteTransport::Events events;
  std::deque<std::pair<std::string, std::function<void()>>> queue;
  /// Bytes of the queue's first entry that have been sent.
  std::size_t begin = 0;
  bool closed = false;
};

class ChannelTransport final : public ByteTransport {
 public:
  explicit ChannelTransport(std::shared_ptr<ChannelState> state) : state_(std::move(state)) {}

  ~ChannelTransport() override { close(); }

  void start(Events events) override {
    state_->events = std::move(events);
    const std::weak_ptr<ChannelState> weak = state_;
    rendezvous::Channel::Handlers handlers;
    handlers.data = [weak](std::string_view bytes) {
      const auto state = weak.lock();
      if (!state || state->closed) return;
      // Consumed first: the link may close the channel when it has read this.
      state->channel->consumed(bytes.size());
      if (state->events.bytes) state->events.bytes(bytes);
    };
    handlers.writable = [weak] {
      if (const auto state = weak.lock()) state->push();
    };
    handlers.closed = [weak](const std::string& reason) {
      if (const auto state = weak.lock()) state->end(reason);
    };
    state_->channel->handle(std::move(handlers));
  }

  void write(std::string bytes, std::function<void()> written) override {
    if (state_->closed) {
      if (written) asio::post(state_->executor, std::move(written));
      return;
    }
    state_->queue.emplace_back(std::move(bytes), std::move(written));
    state_->push();
  }

  void close() override { state_->close("the link ended here"); }

 private:
  std::shared_ptr<ChannelState> state_;
};

}  // namespace

std::unique_ptr<ByteTransport> make_channel_transport(const asio::any_io_executor& executor,
                                                      std::shared_ptr<rendezvous::Channel> channel) {
  return std::make_unique<ChannelTransport>(std::make_shared<ChannelState>(executor, std::move(channel)));
}

}  // namespace muster::agent
