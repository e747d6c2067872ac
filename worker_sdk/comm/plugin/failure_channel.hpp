// SPDX-License-Identifier: Apache-2.0
// Lets the ranks of a world tell one another over the store that a group has failed, for backends whose ranks
// share no memory.
#pragma once

#include "muster/error.hpp"
#include "rendezvous/base/wake_up.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace muster::plugin {

/// The receiver of a group's failure. The channel's thread calls it, and it must not delay that thread.
class FailureListener {
 public:
  virtual ~FailureListener() = default;
  /// Tells the first failure of the group in the order of the store, the same on every rank. Called once.
  virtual void group_failed(ErrorCode code, const std::string& text) noexcept = 0;

  /// Called from time to time, at least once a second.
  virtual void look(std::chrono::steady_clock::time_point) noexcept {}
};

/// The channel of one rank, one per world; all ranks of the world make theirs alike. It has a thread and a
/// connection to the store of its own; any thread may call any method. When the store is lost, this rank's
/// own messages are delivered on this rank alone.
class FailureChannel {
 public:
  /// `prefix` of the channel's keys belongs to this world alone.
  FailureChannel(StoreClient& store, std::string prefix);
  ~FailureChannel();
  FailureChannel(const FailureChannel&) = delete;
  FailureChannel& operator=(const FailureChannel&) = delete;

  /// Begins to tell `listener` of the failure of `group`, whose name is unique in the world and the same on
  /// all its ranks. A failure that was told before is delivered at once.
  void join(const std::string& group, FailureListener& listener);
  /// Stops telling: afterwards the listener is not called any more, and no call of it is under way.
  void leave(const std::string& group);
  /// Tells all ranks that `group` has failed. Returns at once.
  void tell(const std::string& group, ErrorCode code, const std::string& text) noexcept;
  /// Whether the caller is the channel's thread, in a call of a listener: there it must not wait for the
  /// channel.
  bool is_delivering() const noexcept;

 private:
  struct Failure {
    ErrorCode code;
    std::string text;
  };

  struct Message {
    std::string group;
    Failure failure;
  };

  void watch() noexcept;
  void go_on_alone();
  void send_out(std::int64_t next);
  void send(const Message& message, std::int64_t number);
  void receive(const std::string& event);
  void deliver(const std::string& group, const Failure& failure);
  void look_around();

  std::unique_ptr<StoreClient> store_;
  std::string prefix_;
  WakeUp wake_up_;
  std::mutex mutex_;  ///< protects what follows; held while a listener is called, which may tell() others
  std::map<std::string, FailureListener*> listeners_;
  std::map<std::string, Failure> failures_;
  std::mutex outbox_mutex_;  ///< protects the members that follow
  std::deque<Message> outbox_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace muster::plugin
