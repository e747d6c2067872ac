// SPDX-License-Identifier: Apache-2.0
// Messages between the ranks of a group, as Gloo or MPI carries them.
#pragma once

#include "muster/error.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace muster::message {

using Clock = std::chrono::steady_clock;

/// The kind and number of a message, which goes to the receive with the same ones.
struct Key {
  enum class Kind : std::uint8_t { control, data, direct };

  Kind kind = Kind::control;
  /// The number, of which only the lower 13 bits count with some transports.
  std::uint64_t number = 0;
};

/// The error for a rank that is gone; the text is the transport's.
struct PeerLost : std::runtime_error {
  PeerLost(int rank, const std::string& text) : std::runtime_error(text), peer(rank) {}

  int peer;
};

/// A send or a receive in progress. If it is destroyed before its end it is given up: then its memory is not
/// touched any more (but see Transport::retire()), and the transport is of no further use.
class Transfer {
 public:
  Transfer() = default;
  virtual ~Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Whether the transfer is complete at `deadline`. After false the transport is of no further use, but
  /// other transfers can still be asked whether they are complete. Throws PeerLost, or Error once the
  /// transport was interrupted or its library failed.
  virtual bool wait(Clock::time_point deadline) = 0;
};

/// The connections of one rank. One thread at a time, except interrupt().
class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Starts to receive a message of at most `bytes` bytes. Messages of one peer and key arrive in the order
  /// in which they are sent, at the receives in the order in which these are started.
  virtual std::unique_ptr<Transfer> receive(int peer, Key key, void* data, std::size_t bytes) = 0;
  virtual std::unique_ptr<Transfer> send(int peer, Key key, const void* data, std::size_t bytes) = 0;

  /// Tells that the group has failed and makes no more calls. True when the library may still touch the
  /// memory of transfers that were given up: then that memory must stay as long as the process does.
  virtual bool retire() noexcept { return false; }

  /// Makes the present and later waits end soon with this error. Any thread.
  virtual void interrupt(ErrorCode code, const std::string& text) noexcept = 0;
};

}  // namespace muster::message
