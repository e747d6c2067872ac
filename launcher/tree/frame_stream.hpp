// SPDX-License-Identifier: Apache-2.0
// Tree frames over the two ends of a login.
#pragma once

#include "launcher/tree/core/tree_frame.hpp"
#include "rendezvous/support/unique_fd.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <string>

namespace muster::launcher {

/// One thread, the executor's. No callback runs inside a call of this class but resume(), nor after
/// destruction.
class FrameStream {
 public:
  struct Events {
    std::function<void(TreeFrame)> frame;
    /// The other end is gone (empty), or sent what no muster sends, which this names. At most once.
    std::function<void(const std::string& nonsense)> closed;
    /// pending() has shrunk.
    std::function<void()> sent;
  };

  /// `first_bytes` were read already.
  FrameStream(const boost::asio::any_io_executor& executor, UniqueFd in, UniqueFd out,
              std::string first_bytes, Events events);
  ~FrameStream();
  FrameStream(const FrameStream&) = delete;
  FrameStream& operator=(const FrameStream&) = delete;

  void send(const TreeFrame& frame);
  /// Bytes that have not left this process.
  std::size_t pending() const;
  /// Reads no further, but for frames that have come already.
  void pause();
  void resume();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
