// SPDX-License-Identifier: Apache-2.0
// Sends messages over Gloo's TCP connections. Only the unbound buffers are used, one of Gloo's two interfaces
// for messages, because both on one context stall.
#pragma once

#include "worker_sdk/comm/message/transport.hpp"

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace muster::gloo_backend {

class GlooTransport final : public message::Transport {
 public:
  /// `context` must be connected to all ranks.
  explicit GlooTransport(std::shared_ptr<gloo::Context> context);
  ~GlooTransport() override;

  std::unique_ptr<message::Transfer> receive(int peer, message::Key key, void* data,
                                             std::size_t bytes) override;
  std::unique_ptr<message::Transfer> send(int peer, message::Key key, const void* data,
                                          std::size_t bytes) override;
  void interrupt(ErrorCode code, const std::string& text) noexcept override;

 private:
  class Buffer;

  bool wait(Buffer& buffer, message::Clock::time_point deadline);
  void watch();
  std::optional<std::string> loss_of(int peer);

  std::shared_ptr<gloo::Context> context_;
  /// The watch's own receives, one for each peer that was waited for long; no peer sends to them.
  std::map<int, std::unique_ptr<gloo::transport::UnboundBuffer>> probes_;
  std::mutex mutex_;  ///< protects the members that follow
  std::condition_variable stopped_;
  bool stop_ = false;
  std::optional<Error> interruption_;
  std::optional<message::PeerLost> lost_;  ///< the loss that the watch has seen
  Buffer* waiting_ = nullptr;
  std::uint64_t waits_ = 0;
  std::thread watch_;  ///< the last member, because the thread uses all of the above
};

}  // namespace muster::gloo_backend
