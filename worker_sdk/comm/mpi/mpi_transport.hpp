// SPDX-License-Identifier: Apache-2.0
// Sends messages by MPI's non-blocking calls, so that every wait can end.
#pragma once

#include "worker_sdk/comm/message/transport.hpp"

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace muster::mpi {

class MpiTransport final : public message::Transport {
 public:
  /// Takes over `communicator`, that of the group.
  explicit MpiTransport(MPI_Comm communicator);
  ~MpiTransport() override;

  std::unique_ptr<message::Transfer> receive(int peer, message::Key key, void* data,
                                             std::size_t bytes) override;
  std::unique_ptr<message::Transfer> send(int peer, message::Key key, const void* data,
                                          std::size_t bytes) override;
  /// Always true, because MPI cannot take a started send back, and a receive that has met its message goes
  /// on.
  bool retire() noexcept override;
  void interrupt(ErrorCode code, const std::string& text) noexcept override;

 private:
  class Requests;

  void throw_if_interrupted();

  MPI_Comm communicator_;
  int number_bits_;  ///< number of bits of a key's number in a tag
  std::atomic<bool> interrupted_{false};
  std::mutex mutex_;
  std::optional<Error> interruption_;
};

}  // namespace muster::mpi
