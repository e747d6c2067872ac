// SPDX-License-Identifier: Apache-2.0
// One of several copies of a network in a process, with its thread.
#pragma once

#include "muster/error.hpp"
#include "rendezvous/base/quiet_thread.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/network.hpp"

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace muster::nn {

/// A network, its thread, and what it has beside the caller's: samples, and its own copies of the parameters
/// where it is not the first.
class Replica {
 public:
  Replica(std::unique_ptr<Network> network, std::string name, int threads)
      : network_(std::move(network)), name_(std::move(name)), thread_(quiet_thread([this, threads] {
          set_threads(threads);
          serve();
        })) {}

  ~Replica() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  Network& network() const { return *network_; }

  void start(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_ = std::move(work);
    }
    wake_.notify_all();
  }

  /// Waits for the work, which waits for nobody. What it threw, as an Error that names the replica; null: it
  /// did not throw.
  std::exception_ptr wait() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return !work_; });
    return std::exchange(error_, nullptr);
  }

  /// Makes places of its own for the parameters, their gradients and the running statistics.
  void own(const ModelSpec& spec) {
    std::size_t floats = 2 * spec.parameter_count();
    for (const ParameterSpec& buffer : spec.buffers) floats += buffer.elements();
    memory_.assign(floats, 0.0F);
    float* next = memory_.data();
    const auto take = [&next](const ParameterSpec& tensor) {
      return std::exchange(next, next + tensor.elements());
    };
    for (const ParameterSpec& parameter : spec.parameters) slots.push_back({take(parameter), nullptr});
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i].gradient = take(spec.parameters[i]);
    for (const ParameterSpec& buffer : spec.buffers) buffers.push_back(take(buffer));
  }

  /// Of what it owns.
  std::size_t bytes() const { return memory_.size() * sizeof(float); }

  std::vector<ParameterSlot> slots;
  std::vector<float*> buffers;
  std::vector<char> samples;
  std::vector<char> gradient;  ///< of the logits
  const float* logits = nullptr;

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return work_ || ended_; });
      if (!work_) break;
      const std::function<void()> work = work_;
      lock.unlock();
      std::exception_ptr error;
      try {
        work();
      } catch (...) {
        error = named(std::current_exception());
      }
      lock.lock();
      error_ = error;
      work_ = nullptr;
      wake_.notify_all();
    }
    // oneDNN keeps scratch memory for each thread and counts who uses it there.
    network_.reset();
  }

  std::exception_ptr named(const std::exception_ptr& error) const {
    try {
      std::rethrow_exception(error);
    } catch (const Error& known) {
      return std::make_exception_ptr(Error(known.code(), name_ + ": " + known.what()));
    } catch (const std::bad_alloc&) {
      return std::make_exception_ptr(
          Error(ErrorCode::out_of_memory, name_ + " got no more memory; give a smaller batch"));
    } catch (const std::exception& other) {
      return std::make_exception_ptr(Error(ErrorCode::backend, name_ + ": " + other.what()));
    }
  }

  std::unique_ptr<Network> network_;
  const std::string name_;
  std::vector<float> memory_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<void()> work_;  ///< empty: nothing is to be done
  std::exception_ptr error_;
  bool ended_ = false;
  std::thread thread_;  ///< last: it uses the rest
};

}  // namespace muster::nn
