// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/byte_stream.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <limits.h>

namespace muster::rendezvous {
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

  /// A pipe's; a socket takes as much at once.
  std::size_t atomic_write() const override { return PIPE_BUF; }

 private:
  asio::posix::stream_descriptor in_;
  /// Not open where one descriptor serves both ways.
  asio::posix::stream_descriptor out_;
};

}  // namespace

std::unique_ptr<ByteStream> make_descriptor_stream(const asio::any_io_executor& executor, int in, int out) {
  return std::make_unique<DescriptorStream>(executor, in, out);
}

}  // namespace muster::rendezvous
