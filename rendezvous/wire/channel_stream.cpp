// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/byte_stream.hpp"
#include "rendezvous/wire/channel.hpp"
#include "rendezvous/wire/event.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

class ChannelStream final : public ByteStream {
 public:
  ChannelStream(const asio::any_io_executor& executor, std::shared_ptr<Channel> channel)
      : state_(std::make_shared<State>(executor, std::move(channel))) {
    const std::weak_ptr<State> weak = state_;
    Channel::Handlers handlers;
    handlers.data = [weak](std::string_view bytes) {
      const auto state = weak.lock();
      if (!state) return;
      state->arrived += bytes;
      state->readable.set();
    };
    handlers.writable = [weak] {
      if (const auto state = weak.lock()) state->writable.set();
    };
    handlers.closed = [weak](const std::string&) {
      if (const auto state = weak.lock()) state->end();
    };
    state_->channel->handle(std::move(handlers));
  }

  ~ChannelStream() override { close(); }

  asio::awaitable<std::size_t> read_some(asio::mutable_buffer buffer) override {
    while (state_->arrived.empty()) {
      if (state_->ended) throw boost::system::system_error(asio::error::eof);
      state_->readable.reset();
      co_await state_->readable.wait();
    }
    const std::size_t count = asio::buffer_copy(buffer, asio::buffer(state_->arrived));
    state_->arrived.erase(0, count);
    if (!state_->ended) state_->channel->consumed(count);
    co_return count;
  }

  asio::awaitable<void> write_all(asio::const_buffer buffer) override {
    while (buffer.size() > 0) {
      if (state_->ended) throw boost::system::system_error(asio::error::broken_pipe);
      const std::size_t count = std::min(state_->channel->writable(), buffer.size());
      if (count == 0) {
        state_->writable.reset();
        co_await state_->writable.wait();
        continue;
      }
      state_->channel->send(std::string_view(static_cast<const char*>(buffer.data()), count));
      buffer += count;
    }
  }

  void close() override {
    if (!state_->ended) state_->channel->close("the stream over it was closed");
    state_->end();
  }

 private:
  struct State {
    State(const asio::any_io_executor& of, std::shared_ptr<Channel> its_channel)
        : executor(of), channel(std::move(its_channel)), readable(of), writable(of) {}

    /// What has arrived before can still be read.
    void end() {
      if (std::exchange(ended, true)) return;
      readable.set();
      writable.set();
      // It may be in one of its own callbacks.
      asio::post(executor, [kept = std::move(channel)] {});
    }

    asio::any_io_executor executor;
    std::shared_ptr<Channel> channel;
    Event readable;
    Event writable;
    /// At most the channel's window.
    std::string arrived;
    bool ended = false;
  };

  std::shared_ptr<State> state_;
};

}  // namespace

std::unique_ptr<ByteStream> make_channel_stream(const asio::any_io_executor& executor,
                                                std::shared_ptr<Channel> channel) {
  return std::make_unique<ChannelStream>(executor, std::move(channel));
}

}  // namespace muster::rendezvous
