// SPDX-License-Identifier: Apache-2.0
// The control messages of a group: one ordered stream from each rank to each other rank. They carry the
// fingerprints of the calls, and small data with them.
#pragma once

#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/message/transport.hpp"
#include "worker_sdk/comm/traffic.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::message {

/// Data up to this size (bytes, for one peer) travels with the fingerprint. Two ranks measured best with 4 to
/// 16 KiB: a second message costs some 20 us, a larger first one its copies.
constexpr std::size_t kInlineBytes = 8192;

struct Control {
  enum class Kind : std::uint32_t {
    collective,  ///< the sender is in this collective
    offer,       ///< of a send: the data follows here, or after `accept`
    accept,      ///< the receive for an offer is ready
    leave,       ///< there is nothing after it
  };

  Kind kind = Kind::collective;
  std::uint32_t payload = 0;  ///< bytes that follow
  std::uint64_t number = 0;   ///< of an offer, counted for each pair of ranks and direction
  Call call;
};

/// Who the ranks are and how long they wait.
struct GroupInfo {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{0};
  std::string name;
  /// For messages: "rank 3 (host b)".
  std::vector<std::string> peers;
};

/// Counts what a rank sends: one thread writes, any reads.
class WireCount {
 public:
  void add_data(std::size_t bytes) {
    add(messages_, 1);
    add(bytes_, bytes);
  }

  void add_control(std::size_t head, std::size_t payload) {
    add(control_messages_, 1);
    add(control_bytes_, head);
    add(bytes_, payload);
  }

  Wire read() const { return {messages_, bytes_, control_messages_, control_bytes_}; }

 private:
  using Count = std::atomic<std::uint64_t>;

  static void add(Count& count, std::uint64_t more) { count.fetch_add(more, std::memory_order_relaxed); }

  Count messages_{0};
  Count bytes_{0};
  Count control_messages_{0};
  Count control_bytes_{0};
};

/// One thread at a time, except missing().
class ControlStreams {
 public:
  /// All must outlive it.
  ControlStreams(Transport& transport, const GroupInfo& info, WireCount& wire);

  /// Starts to send; `payload` is copied.
  void send(int peer, Control control, std::span<const std::byte> payload);
  /// Waits until all that was sent is out of the way.
  void flush(Clock::time_point deadline);

  /// The next message of `peer`; false at the deadline. It stays where it is until release().
  bool wait_for(int peer, Clock::time_point deadline);
  const Control& current(int peer) const;
  std::span<const std::byte> payload(int peer) const;
  void release(int peer);
  /// Gives up all transfers; their memory stays.
  void give_up();

 private:
  /// Receives that are started ahead of need, for each peer: a sender that finds one waits for nothing.
  static constexpr std::size_t kAhead = 4;
  static constexpr std::size_t kSlotBytes = sizeof(Control) + kInlineBytes;

  struct Slot {
    std::unique_ptr<std::byte[]> memory;
    std::unique_ptr<Transfer> transfer;
  };

  struct Stream {
    std::array<Slot, kAhead> slots;
    std::size_t next = 0;
    bool has_current = false;
    Control current;
  };

  struct Outgoing {
    int peer = 0;
    std::vector<std::byte> memory;
    std::unique_ptr<Transfer> transfer;
  };

  void start(int peer, Slot& slot);

  Transport& transport_;
  const GroupInfo& info_;
  WireCount& wire_;
  std::vector<Stream> streams_;
  std::vector<Outgoing> outgoing_;
  std::vector<std::vector<std::byte>> spare_;
};

}  // namespace muster::message
