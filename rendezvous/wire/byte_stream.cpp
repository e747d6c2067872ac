// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/byte_stream.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/base/while_alive.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/wire/channel.hpp"
#include "rendezvous/wire/event.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <limits.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
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
    handlers.data = while_alive(weak, [](State& state, std::string_view bytes) {
      state.arrived += bytes;
      state.readable.set();
    });
    handlers.writable = while_alive(weak, [](State& state) { state.writable.set(); });
    handlers.closed = while_alive(weak, [](State& state, const std::string&) { state.end(); });
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

    /// Ends the stream; bytes that have arrived can still be read.
    void end() {
      if (std::exchange(ended, true)) return;
      readable.set();
      writable.set();
      // The channel may be inside one of its own callbacks, so it is released later.
      asio::post(executor, [kept = std::move(channel)] {});
    }

    asio::any_io_executor executor;
    std::shared_ptr<Channel> channel;
    Event readable;
    Event writable;
    /// The bytes that have arrived and are not read yet, at most the channel's window.
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

namespace {

namespace asio = boost::asio;

class DescriptorStream final : public ByteStream {
 public:
  DescriptorStream(const asio::any_io_executor& executor, int in, int out)
      : in_(executor, in), out_(executor) {
    if (out != in) out_.assign(out);
  }

  asio::awaitable<std::size_t> read_some(asio::mutable_buffer buffer) override {
    return in_.async_read_some(buffer, asio::use_awaitable);
  }

  asio::awaitable<void> write_all(asio::const_buffer buffer) override {
    auto& to = out_.is_open() ? out_ : in_;
    co_await asio::async_write(to, buffer, asio::use_awaitable);
  }

  void close() override {
    boost::system::error_code ignored;  // a descriptor that cannot be closed is gone already
    in_.close(ignored);
    out_.close(ignored);
  }

  /// The limit of a pipe; a socket takes as much at once.
  std::size_t atomic_write() const override { return PIPE_BUF; }

 private:
  asio::posix::stream_descriptor in_;
  /// The descriptor to write to; not open where one descriptor serves both directions.
  asio::posix::stream_descriptor out_;
};

}  // namespace

std::unique_ptr<ByteStream> make_descriptor_stream(const asio::any_io_executor& executor, int in, int out) {
  return std::make_unique<DescriptorStream>(executor, in, out);
}

namespace {

namespace asio = boost::asio;

class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(asio::generic::stream_protocol::socket socket) : socket_(std::move(socket)) {}

  asio::awaitable<std::size_t> read_some(asio::mutable_buffer buffer) override {
    return socket_.async_read_some(buffer, asio::use_awaitable);
  }

  asio::awaitable<void> write_all(asio::const_buffer buffer) override {
    co_await asio::async_write(socket_, buffer, asio::use_awaitable);
  }

  void close() override {
    boost::system::error_code ignored;  // a socket that cannot be closed is gone already
    socket_.close(ignored);
  }

 private:
  asio::generic::stream_protocol::socket socket_;
};

}  // namespace

std::unique_ptr<ByteStream> adopt_socket(const asio::any_io_executor& executor, int connected_fd) {
  UniqueFd fd(connected_fd);
  int family = 0;
  socklen_t size = sizeof family;
  if (::getsockopt(connected_fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) {
    const std::string cause = std::strerror(errno);
    throw CoordinatorError(Errc::environment, "descriptor " + std::to_string(connected_fd) +
                                                  " is no control connection: " + cause);
  }
  asio::generic::stream_protocol::socket socket(executor);
  socket.assign(asio::generic::stream_protocol(family, 0), connected_fd);
  (void)fd.release();
  return std::make_unique<SocketStream>(std::move(socket));
}

}  // namespace muster::rendezvous
