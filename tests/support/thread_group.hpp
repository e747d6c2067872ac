// SPDX-License-Identifier: Apache-2.0
// A process group whose ranks are threads of one test: the plainest code that keeps the contract, and a
// record of the calls. Tests of what *uses* a group run on it; the real groups have tests of their own.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/comm/reduce.hpp"

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
      meet_to_reduce(call, operation.out);
      ++record_.all_reduces;
    } else {
      throw Error(ErrorCode::unsupported, "not in this test's group");
    }
  }

  struct alignas(64) CacheLine {
    unsigned char bytes[64] = {};
  };

  /// By the arithmetic of the product, in the order of the ranks.
  void meet_to_reduce(const Call& call, void* data) {
    world_->meet(rank_, data, [&call](const std::vector<void*>& buffers) {
      std::vector<std::byte*> places;
      for (void* buffer : buffers) places.push_back(static_cast<std::byte*>(buffer));
      const std::vector<const std::byte*> sources(places.begin(), places.end());
      reduce(sources, places, call.count, call.type, call.op);
    });
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
