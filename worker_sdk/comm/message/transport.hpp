// SPDX-License-Identifier: Apache-2.0
// Messages between the ranks of a group, as Gloo or MPI carry them.
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

/// What a message is for. A message goes to the receive of the same kind and number.
struct Key {
  enum class Kind : std::uint8_t { control, data, direct };

  Kind kind = Kind::control;
  /// Only its lower 13 bits count with some transports.
  std::uint64_t number = 0;
};

/// The other rank is gone; the text is the transport's.
struct PeerLost : std::runtime_error {
  PeerLost(int rank, const std::string& text) : std::runtime_error(text), peer(rank) {}

  int peer;
};

/// A send or a receive in progress. Destroyed before its end it is given up: then its memory is not touched
/// any more (but see Transport::retire()), and the transport is of no further use.
class Transfer {
 public:
  Transfer() = default;
  virtual ~Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Whether it is complete at `deadline`. After false the transport is of no further use, but whether other
  /// transfers are complete can still be asked. Throws PeerLost, or Error once the transport was interrupted
  /// or its library failed.
  virtual bool wait(Clock::time_point deadline) = 0;
};

/// The connections of one rank. One thread at a time, except interrupt().
class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Starts to receive a message of at most `bytes` bytes. Messages of one peer and key come in the order in
  /// which they are sent, to the receives in the order in which they are started.
  virtual std::unique_ptr<Transfer> receive(int peer, Key key, void* data, std::size_t bytes) = 0;
  virtual std::unique_ptr<Transfer> send(int peer, Key key, const void* data, std::size_t bytes) = 0;

  /// The group has failed and makes no more calls. True when the library may touch the memory of transfers
  /// that were given up even now: then it must stay as long as the process does.
  virtual bool retire() noexcept { return false; }

  /// Any thread: the present and later waits end soon with this error.
  virtual void interrupt(ErrorCode code, const std::string& text) noexcept = 0;
};

}  // namespace muster::message
