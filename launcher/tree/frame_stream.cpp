// SPDX-License-Identifier: Apache-2.0
#include "launcher/tree/frame_stream.hpp"

#include "agent/byte_transport.hpp"
#include "rendezvous/protocol/frame.hpp"
#include "rendezvous/tls/secret.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include <array>
#include <exception>
#include <string_view>
#include <utility>

namespace muster::launcher {

namespace asio = boost::asio;

// Shared with the operations under way, so that a callback may destroy the stream.
struct FrameStream::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, UniqueFd in_fd, UniqueFd out_fd, Events stream_events)
      : in(executor, in_fd.release()), events(std::move(stream_events)) {
    const int fd = out_fd.release();
    out = agent::make_descriptor_transport(executor, fd, fd);
  }

  void start(std::string first_bytes) {
    asio::post(in.get_executor(), [self = shared_from_this(), bytes = std::move(first_bytes)] {
      self->take(bytes);
      self->read();
    });
  }

  void read() {
    if (closed || paused || reading) return;
    reading = true;
    in.async_read_some(asio::buffer(buffer),
                       [self = shared_from_this()](const boost::system::error_code& error, std::size_t size) {
                         self->reading = false;
                         if (self->closed) return;
                         if (error) return self->end({});
                         self->take(std::string_view(self->buffer.data(), size));
                         // There may have been a key in it.
                         rendezvous::cleanse(self->buffer.data(), size);
                         self->read();
                       });
  }

  void take(std::string_view bytes) {
    try {
      while (!bytes.empty() && !closed) {
        bytes.remove_prefix(decoder.feed(bytes));
        if (!decoder.ready()) continue;
        std::string payload = decoder.take();
        TreeFrame frame = decode_tree_frame(payload);
        rendezvous::cleanse(payload.data(), payload.size());
        const auto callback = events.frame;
        callback(std::move(frame));
      }
    } catch (const std::exception& error) {
      end(error.what());
    }
  }

  void send(const TreeFrame& frame) {
    if (closed) return;
    std::string bytes = encode(frame);
    const std::size_t size = bytes.size();
    pending += size;
    out->write(std::move(bytes), [weak = weak_from_this(), size] {
      const auto self = weak.lock();
      if (!self) return;
      self->pending -= size;
      if (self->closed) return;
      const auto callback = self->events.sent;
      if (callback) callback();
    });
  }

  void close() {
    closed = true;
    events = {};
    boost::system::error_code ignored;
    in.close(ignored);
    // It may be in a callback of its own.
    if (out) asio::post(in.get_executor(), [kept = std::shared_ptr<agent::ByteTransport>(std::move(out))] {});
  }

  void end(const std::string& nonsense) {
    if (closed) return;
    const auto callback = std::move(events.closed);
    close();
    if (callback) callback(nonsense);
  }

  asio::posix::stream_descriptor in;
  /// Only written to.
  std::unique_ptr<agent::ByteTransport> out;
  Events events;
  std::array<char, 16384> buffer{};
  rendezvous::FrameDecoder decoder{kTreeFrameHeaderBytes + kTreePlanBytes};
  std::size_t pending = 0;
  bool paused = false;
  bool reading = false;
  bool closed = false;
};

FrameStream::FrameStream(const asio::any_io_executor& executor, UniqueFd in, UniqueFd out,
                         std::string first_bytes, Events events)
    : state_(std::make_shared<State>(executor, std::move(in), std::move(out), std::move(events))) {
  state_->start(std::move(first_bytes));
}

FrameStream::~FrameStream() {
  if (!state_->closed) state_->close();
}

void FrameStream::send(const TreeFrame& frame) {
  state_->send(frame);
}

std::size_t FrameStream::pending() const {
  return state_->pending;
}

void FrameStream::pause() {
  state_->paused = true;
}

void FrameStream::resume() {
  if (!std::exchange(state_->paused, false)) return;
  state_->read();
}

}  // namespace muster::launcher
