// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/measure.hpp"

#include "tests/gpu/random_start.hpp"
#include "worker_sdk/trainer/nn/gpu/cuda/cuda_ops.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

namespace muster::nn::gpu {
namespace {

constexpr std::size_t kImages = 50'000;

/// Events of the CUDA runtime, which are kept and used again.
class EventMarks final : public Marks {
 public:
  EventMarks() : api_(library()) {}

  ~EventMarks() override {
    for (const cudaEvent_t event : events_) (void)api_.cudaEventDestroy(event);
  }

  EventMarks(const EventMarks&) = delete;
  EventMarks& operator=(const EventMarks&) = delete;

  std::size_t put(void* stream) override {
    if (used_ == events_.size()) {
      cudaEvent_t event = nullptr;
      check(api_, api_.cudaEventCreateWithFlags(&event, cudaEventDefault), "making an event");
      events_.push_back(event);
    }
    check(api_, api_.cudaEventRecord(events_[used_], static_cast<cudaStream_t>(stream)),
          "recording an event");
    return used_++;
  }

  double seconds(std::size_t from, std::size_t to) override {
    float milliseconds = 0;
    check(api_, api_.cudaEventElapsedTime(&milliseconds, events_.at(from), events_.at(to)),
          "asking for the time between two events");
    return static_cast<double>(milliseconds) * 1e-3;
  }

  void clear() override { used_ = 0; }

 private:
  const Library& api_;
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;
};

/// Steps over the images again and again.
void make_steps(Session& session, std::size_t batch, std::size_t count) {
  const std::size_t in_an_epoch = kImages / batch;
  for (std::size_t i = 0; i < count; ++i) session.step(i % in_an_epoch * batch, batch, 0.01F);
}

}  // namespace

double images_per_second(const SessionOptions& options, bool autotune) {
  CudaOps ops(0, autotune);
  Session session(options, ops, random_images(kImages), random_images(10), {});
  start(session, 1);
  begin_epoch(session, kImages);
  const auto batch = static_cast<std::size_t>(options.batch);
  const auto seconds_of = [&](std::size_t steps) {
    const auto begin = std::chrono::steady_clock::now();
    make_steps(session, batch, steps);
    ops.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  constexpr std::size_t kFew = 20;
  (void)seconds_of(kFew);  // plans are chosen, and the step is recorded
  const double wanted = static_cast<double>(kFew) / seconds_of(kFew);
  const auto steps = static_cast<std::size_t>(std::clamp(wanted, 10.0, 20'000.0));
  std::array<double, 5> rates{};
  for (double& rate : rates) rate = static_cast<double>(steps * batch) / seconds_of(steps);
  std::nth_element(rates.begin(), rates.begin() + 2, rates.end());
  return rates[2];
}

std::vector<CallTime> call_times(SessionOptions options, std::size_t steps) {
  options.graphs = false;
  CudaOps ops(0, false);
  EventMarks marks;
  TimedOps timed(ops, marks);
  Session session(options, timed, random_images(kImages), random_images(10), {});
  start(session, 1);
  begin_epoch(session, kImages);
  const auto batch = static_cast<std::size_t>(options.batch);
  make_steps(session, batch, 3);  // plans are chosen, and kernels are loaded
  (void)timed.take();
  make_steps(session, batch, steps);
  std::vector<CallTime> times = timed.take();
  for (CallTime& time : times) {
    time.calls /= steps;
    time.seconds /= static_cast<double>(steps);
    time.bytes /= static_cast<double>(steps);
    time.operations /= static_cast<double>(steps);
  }
  return times;
}

}  // namespace muster::nn::gpu
