// SPDX-License-Identifier: Apache-2.0
// A process group whose ranks are threads of one test: the plainest code that keeps the contract, and a
// record of the calls. Tests of what *uses* a group run on it; the real groups have tests of their own.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/comm/process_group.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace muster::test {

/// What the ranks of one world share.
class ThreadWorld {
 public:
  explicit ThreadWorld(int ranks) : buffers_(static_cast<std::size_t>(ranks)) {}

  int size() const { return static_cast<int>(buffers_.size()); }

  /// Waits until all ranks are here with their buffer; the last one runs `work` on all buffers.
  void meet(int rank, void* buffer, const std::function<void(const std::vector<void*>&)>& work) {
    std::unique_lock lock(mutex_);
    require_alive();
    buffers_[static_cast<std::size_t>(rank)] = buffer;
    const std::size_t round = round_;
    if (++arrived_ == buffers_.size()) {
      work(buffers_);
      arrived_ = 0;
      ++round_;
      wake_.notify_all();
      return;
    }
    if (!wake_.wait_for(lock, std::chrono::seconds(30), [&] { return round_ != round || !reason_.empty(); }))
      throw Error(ErrorCode::deadline, "a rank did not arrive within 30 s");
    if (round_ == round) require_alive();
  }

  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = reason;
    wake_.notify_all();
  }

 private:
  void require_alive() const {
    if (!reason_.empty()) throw Error(ErrorCode::aborted, reason_);
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<void*> buffers_;
  std::size_t arrived_ = 0;
  std::size_t round_ = 0;
  std::string reason_;
};

/// What a rank called. Filled by its thread; `all_reduces` may be read by others.
struct CallRecord {
  /// Element counts of the all_reduce calls, in order.
  std::vector<std::size_t> reduced;
  /// How many of them are complete.
  std::atomic<int> all_reduces{0};
};

class ThreadBackend final : public Backend {
 public:
  ThreadBackend(std::shared_ptr<ThreadWorld> world, int rank, CallRecord& record)
      : world_(std::move(world)), rank_(rank), record_(record) {}

  std::string_view name() const override { return "threads"; }

  void run(std::span<const Operation> batch) override {
    for (const Operation& operation : batch) run(operation);
  }

  void* allocate(const Call& call) override {
    memory_.emplace_back(call.count / sizeof(CacheLine) + 1);
    return memory_.back().data();
  }

  void abort(ErrorCode, const std::string& text) noexcept override { world_->abort(text); }

 private:
  void run(const Operation& operation) {
    const Call& call = operation.call;
    if (call.collective == Collective::barrier) {
      world_->meet(rank_, nullptr, [](const std::vector<void*>&) {});
    } else if (call.collective == Collective::broadcast) {
      world_->meet(rank_, operation.out, [&call](const std::vector<void*>& buffers) {
        const void* source = buffers[static_cast<std::size_t>(call.root)];
        for (void* target : buffers)
          if (target != source) std::memcpy(target, source, call.count * size_of(call.type));
      });
    } else if (call.collective == Collective::all_reduce) {
      record_.reduced.push_back(call.count);
      meet_to_reduce(operation.out, call.count, call.type, call.op);
      ++record_.all_reduces;
    } else {
      throw Error(ErrorCode::unsupported, "not in this test's group");
    }
  }

  struct alignas(64) CacheLine {
    unsigned char bytes[64] = {};
  };

  void meet_to_reduce(void* data, std::size_t count, DataType type, ReduceOp op) {
    world_->meet(rank_, data, [=](const std::vector<void*>& buffers) {
      switch (type) {
        case DataType::f32:
          return reduce<float>(buffers, count, op);
        case DataType::f64:
          return reduce<double>(buffers, count, op);
        case DataType::i32:
          return reduce<std::int32_t>(buffers, count, op);
        case DataType::i64:
          return reduce<std::int64_t>(buffers, count, op);
        case DataType::u8:
          return reduce<std::uint8_t>(buffers, count, op);
        default:
          throw Error(ErrorCode::unsupported, "not in this test's group");
      }
    });
  }

  template <typename T>
  static void reduce(const std::vector<void*>& buffers, std::size_t count, ReduceOp op) {
    for (std::size_t i = 0; i < count; ++i) {
      T result = static_cast<T*>(buffers[0])[i];
      for (std::size_t r = 1; r < buffers.size(); ++r) {
        const T next = static_cast<T*>(buffers[r])[i];
        switch (op) {
          case ReduceOp::sum:
            result = static_cast<T>(result + next);
            break;
          case ReduceOp::product:
            result = static_cast<T>(result * next);
            break;
          case ReduceOp::min:
            result = next < result ? next : result;
            break;
          case ReduceOp::max:
            result = result < next ? next : result;
            break;
          default:
            break;
        }
      }
      for (void* buffer : buffers) static_cast<T*>(buffer)[i] = result;
    }
  }

  std::shared_ptr<ThreadWorld> world_;
  const int rank_;
  CallRecord& record_;
  std::vector<std::vector<CacheLine>> memory_;
};

struct ThreadGroup : CallRecord, ProcessGroup {
  ThreadGroup(const std::shared_ptr<ThreadWorld>& world, int rank)
      : ProcessGroup(std::make_unique<ThreadBackend>(world, rank, *this),
                     GroupPlan{rank, world->size(), {}, {}}) {}
};

/// Runs `body` once per rank, each in a thread; returns what each rank threw ("" for nothing). A rank that
/// throws aborts the world, as a process that ends would.
inline std::vector<std::string> run_ranks(int ranks, const std::function<void(ThreadGroup&)>& body) {
  const auto world = std::make_shared<ThreadWorld>(ranks);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ThreadGroup group(world, rank);
      try {
        body(group);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
        world->abort(std::string("rank ") + std::to_string(rank) + " ended");
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace muster::test
