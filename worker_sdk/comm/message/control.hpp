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

/// The size in bytes, for one peer, up to which data travels with the fingerprint. Two ranks measured best
/// with 4 to 16 KiB: a second message costs some 20 us, a larger first one its copies.
constexpr std::size_t kInlineBytes = 8192;

struct Control {
  enum class Kind : std::uint32_t {
    collective,  ///< the sender is in this collective
    offer,       ///< the sender offers a message; the data follows here, or after `accept`
    accept,      ///< the receive for an offer is ready
    leave,       ///< the sender makes no further call
  };

  Kind kind = Kind::collective;
  std::uint32_t payload = 0;  ///< bytes of data that follow
  std::uint64_t number = 0;   ///< number of an offer, counted for each pair of ranks and direction
  Call call;
};

/// The ranks of a group and the time that they wait.
struct GroupInfo {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{0};
  std::string name;
  /// The names of the ranks for messages: "rank 3 (host b)".
  std::vector<std::string> peers;
};

/// Counts the bytes that a rank sends: one thread writes, any thread reads.
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

/// The control streams of one rank to all others. One thread at a time, except missing().
class ControlStreams {
 public:
  /// All arguments must outlive this object.
  ControlStreams(Transport& transport, const GroupInfo& info, WireCount& wire);

  /// Starts to send a message; `payload` is copied.
  void send(int peer, Control control, std::span<const std::byte> payload);
  /// Waits until everything that was sent has left this rank.
  void flush(Clock::time_point deadline);

  /// Waits for the next message of `peer`; false at the deadline. The message stays in its place until
  /// release().
  bool wait_for(int peer, Clock::time_point deadline);
  const Control& current(int peer) const;
  std::span<const std::byte> payload(int peer) const;
  void release(int peer);
  /// Gives up all transfers; their memory is kept.
  void give_up();

 private:
  /// The number of receives that are started ahead for each peer, so that a sender need not wait.
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
