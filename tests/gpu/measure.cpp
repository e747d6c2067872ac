// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/measure.hpp"

#include "tests/gpu/random_start.hpp"
#include "tests/unit/worker_sdk/nn/gpu/row_block.hpp"
#include "worker_sdk/nn/gpu/cuda/cuda_ops.hpp"
#include "worker_sdk/nn/learner/learner.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

namespace muster::nn::gpu {
namespace {

constexpr std::size_t kImages = 50'000;

/// Events of CUDA's driver, which are kept and used again.
class EventMarks final : public Marks {
 public:
  EventMarks() : api_(library()) {}

  ~EventMarks() override {
    for (const CUevent event : events_) (void)api_.cuEventDestroy(event);
  }

  EventMarks(const EventMarks&) = delete;
  EventMarks& operator=(const EventMarks&) = delete;

  std::size_t put(void* stream) override {
    if (used_ == events_.size()) {
      CUevent event = nullptr;
      check(api_, api_.cuEventCreate(&event, CU_EVENT_DEFAULT), "making an event");
      events_.push_back(event);
    }
    check(api_, api_.cuEventRecord(events_[used_], static_cast<CUstream>(stream)), "recording an event");
    return used_++;
  }

  double seconds(std::size_t from, std::size_t to) override {
    float milliseconds = 0;
    check(api_, api_.cuEventElapsedTime(&milliseconds, events_.at(from), events_.at(to)),
          "asking for the time between two events");
    return static_cast<double>(milliseconds) * 1e-3;
  }

  void clear() override { used_ = 0; }

 private:
  const Library& api_;
  std::vector<CUevent> events_;
  std::size_t used_ = 0;
};

/// A learner of random images, which it goes over again and again.
class Training {
 public:
  Training(const train::LearnerTask& task, Ops& ops)
      : batches_(some_batches(kImages / task.batch_size, task.batch_size)),
        data_({random_images(kImages), random_images(10), ""}),
        learner_(task, data_, nullptr, &ops) {}

  void make_steps(std::size_t count) {
    for (; count > 0; --count, ++next_) {
      if (next_ % batches_.size() == 0) learner_.begin_epoch(batches_, 0);
      (void)learner_.step({1, 0.01F, batches_[0].size(), {}});
    }
  }

 private:
  const train::BatchPlan batches_;
  const data::ImageData data_;
  train::Learner learner_;
  std::size_t next_ = 0;
};

/// What was timed in `steps` of them, for one.
std::vector<CallTime> for_one(std::vector<CallTime> times, std::size_t steps) {
  for (CallTime& time : times) {
    time.calls /= steps;
    time.seconds /= static_cast<double>(steps);
    time.bytes /= static_cast<double>(steps);
    time.operations /= static_cast<double>(steps);
  }
  return times;
}

}  // namespace

double images_per_second(const train::LearnerTask& task, bool autotune) {
  CudaOps ops(0, autotune);
  Training training(task, ops);
  const auto seconds_of = [&](std::size_t steps) {
    const auto begin = std::chrono::steady_clock::now();
    training.make_steps(steps);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  constexpr std::size_t kFew = 20;
  (void)seconds_of(kFew);  // plans are chosen, and the step is recorded
  const double wanted = static_cast<double>(kFew) / seconds_of(kFew);
  const auto steps = static_cast<std::size_t>(std::clamp(wanted, 10.0, 20'000.0));
  std::array<double, 5> rates{};
  for (double& rate : rates) rate = static_cast<double>(steps * task.batch_size) / seconds_of(steps);
  std::nth_element(rates.begin(), rates.begin() + 2, rates.end());
  return rates[2];
}

std::vector<CallTime> call_times(const train::LearnerTask& task, std::size_t steps) {
  CudaOps ops(0, false);
  EventMarks marks;
  TimedOps timed(ops, marks);
  Training training(task, timed);
  training.make_steps(3);  // plans are chosen, and kernels are loaded
  (void)timed.take();
  training.make_steps(steps);
  return for_one(timed.take(), steps);
}

std::vector<CallTime> row_call_times(std::int64_t batch, std::size_t steps) {
  CudaOps ops(0, false);
  EventMarks marks;
  TimedOps timed(ops, marks);
  test::RowBlock<Bf16> block(timed, {batch, 64, 192, 4}, Precision::bf16);
  block.run();
  (void)timed.take();
  for (std::size_t i = 0; i < steps; ++i) block.run();
  return for_one(timed.take(), steps);
}

}  // namespace muster::nn::gpu
