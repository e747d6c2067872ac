// SPDX-License-Identifier: Apache-2.0
// The first messages between launcher and a started node, before both begin to count them.
#pragma once

#include "agent/byte_transport.hpp"
#include "agent/core/link_message.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <string>

namespace muster::launcher {

/// One thread, the executor's. No callback follows destruction or hand_over(), which may be called inside
/// one.
class LinkOpening {
 public:
  struct Events {
    std::function<void(agent::LinkMessage)> message;
    /// The other end is gone. Either this or the next, at most once.
    std::function<void(const std::string& reason)> closed;
    /// The other end sent what no muster sends.
    std::function<void(const std::string& what)> broken;
  };

  /// `first_bytes` were read from the transport already, which has not been started.
  LinkOpening(const boost::asio::any_io_executor& executor, std::unique_ptr<agent::ByteTransport> transport,
              Events events, std::string first_bytes);
  ~LinkOpening();
  LinkOpening(const LinkOpening&) = delete;
  LinkOpening& operator=(const LinkOpening&) = delete;

  void send(const agent::LinkMessage& message);

  /// Everything that follows belongs to the link that gets this transport.
  std::unique_ptr<agent::ByteTransport> hand_over();

 private:
  struct State;
  class HandedOver;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
