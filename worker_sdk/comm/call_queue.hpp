// SPDX-License-Identifier: Apache-2.0
// Runs calls that were started and not waited for, one after another on a thread of their own.
#pragma once

#include "worker_sdk/comm/process_group.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace muster {

/// Runs the started calls of one group on a thread. Any thread may call it.
class CallQueue {
 public:
  explicit CallQueue(ProcessGroup& group);
  /// Waits for the call that is running; the calls behind it fail. The group must have been aborted before.
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  std::shared_ptr<Work> push(std::vector<Operation> batch);
  /// Returns when every call pushed so far is complete or has failed.
  void drain();
  bool is_idle();

 private:
  struct Item;

  void work_off();

  ProcessGroup& group_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Item>> items_;  ///< the first one is running
  /// Whether a call has left the queue and its Work does not say so yet.
  bool finishing_ = false;
  bool stop_ = false;
  std::thread thread_;
};

/// Makes a work for calls on a device, which asks the backend whether they are done.
std::shared_ptr<Work> make_device_work(std::unique_ptr<Completion> completion, std::string what);

/// Makes a work for calls that were complete when start() returned.
std::shared_ptr<Work> make_finished_work();

}  // namespace muster
