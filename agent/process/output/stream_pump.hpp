// SPDX-License-Identifier: Apache-2.0
// Reads one stream of a worker and hands each chunk to whoever is interested.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace muster::agent {

/// Reads while its owner has room. Used from one thread; the owner keeps the pump by shared_ptr and calls
/// abandon() before it goes.
class StreamPump : public std::enable_shared_from_this<StreamPump> {
 public:
  struct Owner {
    /// Called with each chunk that was read.
    std::function<void(std::string_view)> deliver;
    /// Whether the owner has no room; then nothing is read until resume().
    std::function<bool()> blocked;
    /// Called once, when nothing more will come.
    std::function<void()> closed;
  };

  /// Takes non-blocking `fd`. `buffer` is shared by the pumps of one thread and sets the size of a chunk.
  StreamPump(const boost::asio::any_io_executor& executor, UniqueFd fd,
             std::shared_ptr<std::vector<char>> buffer, Owner owner);

  void start();
  /// Reads on, because the owner may have room again.
  void resume();
  /// Reads what a worker that is gone has left, before this call returns (at most what a pipe can hold, and
  /// as far as there is room). 1 s later a stream that is still held open by somebody is read until it is
  /// empty for the moment, with the same bound, and closed.
  void expect_end();
  /// Closes now, reading nothing more; `closed` is called.
  void give_up();
  /// Does the same as give_up(), but calls nothing.
  void abandon();

  bool is_closed() const { return closed_; }

  bool is_paused() const { return paused_; }

  int fd() { return stream_.native_handle(); }

 private:
  void wait();
  void read_some(std::size_t least = 0);
  void finish();

  boost::asio::posix::stream_descriptor stream_;
  boost::asio::steady_timer patience_;
  std::shared_ptr<std::vector<char>> buffer_;
  Owner owner_;
  bool waiting_ = false;
  bool paused_ = false;
  bool closed_ = false;
  bool worker_is_gone_ = false;
  /// Whether the second of expect_end() is over; then last_bytes_ may still be read.
  bool last_call_ = false;
  std::size_t last_bytes_ = 0;
};

}  // namespace muster::agent
