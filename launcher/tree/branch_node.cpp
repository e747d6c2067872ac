// SPDX-License-Identifier: Apache-2.0
#include "launcher/tree/branch_node.hpp"

#include "agent/byte_transport.hpp"
#include "rendezvous/tls/secret.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace muster::launcher {

namespace asio = boost::asio;
using Kind = TreeFrame::Kind;

struct BranchNode::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, std::uint32_t node, LinkEnds ends, Send to_launcher)
      : index(node), in(executor), send(std::move(to_launcher)) {
    // One descriptor for both ways (a socket) becomes two.
    const int fd = ends.out ? ends.out.release() : ::fcntl(ends.in.get(), F_DUPFD_CLOEXEC, 3);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "dup");
    out = agent::make_descriptor_transport(executor, fd, fd);
    in.assign(ends.in.release());
  }

  void start(std::string first_bytes) {
    asio::post(in.get_executor(), [self = shared_from_this(), bytes = std::move(first_bytes)] {
      if (self->closed) return;
      if (!bytes.empty()) self->pass(bytes);
      self->read();
    });
  }

  void read() {
    if (closed || paused || reading || credit == 0) return;
    reading = true;
    in.async_read_some(asio::buffer(buffer.data(), std::min(buffer.size(), credit)),
                       [self = shared_from_this()](const boost::system::error_code& error, std::size_t size) {
                         self->reading = false;
                         if (self->closed) return;
                         if (error) return self->ended();
                         self->pass(std::string(self->buffer.data(), size));
                         self->read();
                       });
  }

  void pass(std::string bytes) {
    credit -= std::min(credit, bytes.size());
    const auto callback = send;
    callback({Kind::bytes, index, 0, std::move(bytes)});
  }

  void ended() {
    const auto callback = send;
    close();
    callback({Kind::closed, index, 0, {}});
  }

  void write(std::string bytes) {
    const std::size_t size = bytes.size();
    unwritten += size;
    if (unwritten > kTreeWindowBytes)
      throw std::runtime_error("more came for node " + std::to_string(index) + " than may be under way");
    out->write(std::move(bytes), [weak = weak_from_this(), size] {
      const auto self = weak.lock();
      if (!self || self->closed) return;
      self->unwritten -= size;
      self->send({Kind::credit, self->index, size, {}});
    });
  }

  void close() {
    if (std::exchange(closed, true)) return;
    send = nullptr;
    boost::system::error_code ignored;
    in.close(ignored);
    out->close();
    // It may be in a callback of its own.
    asio::post(in.get_executor(), [kept = std::shared_ptr<agent::ByteTransport>(std::move(out))] {});
  }

  std::uint32_t index;
  asio::posix::stream_descriptor in;
  /// Only written to.
  std::unique_ptr<agent::ByteTransport> out;
  Send send;
  std::array<char, kTreePieceBytes> buffer{};
  std::size_t credit = kTreeWindowBytes;
  std::size_t unwritten = 0;
  bool paused = false;
  bool reading = false;
  bool closed = false;
};

BranchNode::BranchNode(const asio::any_io_executor& executor, std::uint32_t node, LinkEnds ends, Send send) {
  std::string first_bytes = std::move(ends.first_bytes);
  state_ = std::make_shared<State>(executor, node, std::move(ends), std::move(send));
  state_->start(std::move(first_bytes));
}

BranchNode::~BranchNode() {
  state_->close();
}

void BranchNode::take(TreeFrame frame) {
  if (state_->closed) return rendezvous::cleanse(frame.body.data(), frame.body.size());
  if (frame.kind == Kind::bytes) return state_->write(std::move(frame.body));
  if (frame.kind != Kind::credit) return;
  const std::size_t more = std::min<std::uint64_t>(frame.number, kTreeWindowBytes);
  state_->credit = std::min(state_->credit + more, kTreeWindowBytes);
  state_->read();
}

void BranchNode::pause() {
  state_->paused = true;
}

void BranchNode::resume() {
  if (!std::exchange(state_->paused, false)) return;
  state_->read();
}

}  // namespace muster::launcher
