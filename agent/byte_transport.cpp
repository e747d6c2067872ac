// SPDX-License-Identifier: Apache-2.0
#include "agent/byte_transport.hpp"

#include "rendezvous/tls/secret.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <deque>
#include <utility>

namespace muster::agent {
namespace {

namespace asio = boost::asio;

// Shared with the operations under way, so that a callback may destroy the transport.
struct DescriptorState : std::enable_shared_from_this<DescriptorState> {
  DescriptorState(const asio::any_io_executor& executor, int in_fd, int out_fd)
      : in(executor, in_fd), out(executor) {
    if (out_fd != in_fd) out.assign(out_fd);
  }

  void read() {
    in.async_read_some(asio::buffer(buffer),
                       [self = shared_from_this()](const auto& error, std::size_t size) {
                         if (self->closed) return;
                         if (error == asio::error::eof) return self->end("the connection ended");
                         if (error) return self->end("the connection broke: " + error.message());
                         self->events.bytes(std::string_view(self->buffer.data(), size));
                         if (!self->closed) self->read();
                       });
  }

  void write() {
    auto& stream = out.is_open() ? out : in;
    asio::async_write(stream, asio::buffer(queue.front().first),
                      [self = shared_from_this()](const auto& error, std::size_t) { self->wrote(error); });
  }

  void wrote(const boost::system::error_code& error) {
    const auto written = take_front();
    if (written) written();
    if (closed) return drop_queue();
    if (!error && !queue.empty()) return write();
    if (!error) return;
    broken = true;
    drop_queue();
    // On a socket, what the other side said before it went is still to be read, and ends with its end.
    if (out.is_open()) end("the connection broke: " + error.message());
  }

  /// Takes the message that was written out of the queue and overwrites its bytes, because they may hold a
  /// key.
  std::function<void()> take_front() {
    auto& [bytes, written] = queue.front();
    rendezvous::cleanse(bytes.data(), bytes.size());
    auto callback = std::move(written);
    queue.pop_front();
    return callback;
  }

  void drop_queue() {
    while (!queue.empty()) {
      const auto written = take_front();
      if (written) written();
    }
  }

  void close() {
    closed = true;
    events = {};
    boost::system::error_code ignored;
    in.close(ignored);
    out.close(ignored);
  }

  void end(const std::string& reason) {
    if (closed) return;
    const auto callback = std::move(events.closed);
    close();
    if (callback) callback(reason);
  }

  asio::posix::stream_descriptor in;
  /// Not open where one descriptor serves both ways.
  asio::posix::stream_descriptor out;
  ByteTransport::Events events;
  std::array<char, 16384> buffer{};
  std::deque<std::pair<std::string, std::function<void()>>> queue;
  bool broken = false;
  bool closed = false;
};

class DescriptorTransport final : public ByteTransport {
 public:
  DescriptorTransport(const asio::any_io_executor& executor, int in, int out)
      : executor_(executor), state_(std::make_shared<DescriptorState>(executor, in, out)) {}

  ~DescriptorTransport() override { close(); }

  void start(Events events) override {
    state_->events = std::move(events);
    state_->read();
  }

  void write(std::string bytes, std::function<void()> written) override {
    if (state_->closed || state_->broken) {
      if (written) asio::post(executor_, std::move(written));
      return;
    }
    state_->queue.emplace_back(std::move(bytes), std::move(written));
    if (state_->queue.size() == 1) state_->write();
  }

  void close() override {
    if (!state_->closed) state_->close();
  }

 private:
  asio::any_io_executor executor_;
  std::shared_ptr<DescriptorState> state_;
};

}  // namespace

std::unique_ptr<ByteTransport> make_descriptor_transport(const asio::any_io_executor& executor, int in,
                                                         int out) {
  return std::make_unique<DescriptorTransport>(executor, in, out);
}

}  // namespace muster::agent
