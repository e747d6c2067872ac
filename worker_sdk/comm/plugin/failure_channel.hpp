// SPDX-License-Identifier: Apache-2.0
// How the ranks of a world tell one another over the store that a group has failed: for backends whose ranks
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

/// A group's place in the channel. Its methods are called by the channel's thread, which they must not delay.
class FailureListener {
 public:
  virtual ~FailureListener() = default;
  /// The first failure of the group in the order of the store, the same on every rank. Called once.
  virtual void group_failed(ErrorCode code, const std::string& text) noexcept = 0;

  /// Now and then, at least once a second.
  virtual void look(std::chrono::steady_clock::time_point) noexcept {}
};

/// One of each rank in a world; all ranks of the world make theirs alike. It has a thread and a connection to
/// the store of its own; all methods may be called by any thread. When the store goes, what this rank tells
/// is delivered on this rank alone.
class FailureChannel {
 public:
  /// `prefix` of the channel's keys: of this world alone.
  FailureChannel(StoreClient& store, std::string prefix);
  ~FailureChannel();
  FailureChannel(const FailureChannel&) = delete;
  FailureChannel& operator=(const FailureChannel&) = delete;

  /// `group` is unique in the world and the same on all its ranks. A failure told before is delivered at
  /// once.
  void join(const std::string& group, FailureListener& listener);
  /// Afterwards the listener is not called any more, nor is it being called.
  void leave(const std::string& group);
  /// Tells all ranks. Returns at once.
  void tell(const std::string& group, ErrorCode code, const std::string& text) noexcept;
  /// Whether the caller is the channel's thread, in a call of a listener: what it waits for never comes.
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
  std::mutex mutex_;  ///< of what follows; held while a listener is called, which may tell() others
  std::map<std::string, FailureListener*> listeners_;
  std::map<std::string, Failure> failures_;
  std::mutex outbox_mutex_;  ///< of what follows
  std::deque<Message> outbox_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace muster::plugin
