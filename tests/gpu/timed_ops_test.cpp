// SPDX-License-Identifier: Apache-2.0
// Timed calls compute what others compute; each is counted once, with its bytes. The device is the host.
#include "tests/gpu/timed_ops.hpp"

#include "muster/error.hpp"
#include "tests/gpu/kernel_bytes.hpp"
#include "tests/gpu/random_start.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace muster::nn::gpu {
namespace {

/// Every mark is a second after the one before.
class Seconds final : public Marks {
 public:
  std::size_t put(void*) override { return marks_++; }

  double seconds(std::size_t from, std::size_t to) override { return static_cast<double>(to - from); }

  void clear() override { marks_ = 0; }

 private:
  std::size_t marks_ = 0;
};

/// The gradient of the first parameter of an eager step.
std::vector<float> gradient_of_a_step(Ops& ops) {
  const data::ImageData data = {random_images(2), random_images(2), ""};
  train::LearnerTask task;
  task.options.precision = Precision::bf16;
  task.batch_size = 2;
  train::Learner learner(task, data, nullptr, &ops);
  learner.begin_epoch(some_batches(1, 2), 0);
  (void)learner.step({1, 0.01F, 2, {}});
  return learner.gradient(0);
}

const CallTime& find(const std::vector<CallTime>& times, const std::string& name) {
  const auto found =
      std::find_if(times.begin(), times.end(), [&](const CallTime& time) { return time.name == name; });
  if (found == times.end()) throw std::runtime_error("no call of " + name);
  return *found;
}

}  // namespace

TEST_CASE("timed calls give the bits of others, and every call is in the sums") {
  HostOps plain;
  HostOps device;
  Seconds marks;
  TimedOps timed(device, marks);
  CHECK(gradient_of_a_step(timed) == gradient_of_a_step(plain));
  const std::vector<CallTime> times = timed.take();
  for (const CallTime& time : times) {
    CAPTURE(time.name);
    CHECK(time.seconds == static_cast<double>(time.calls));
    CHECK(time.bytes >= 0);
  }
  CHECK(std::is_sorted(times.begin(), times.end(),
                       [](const CallTime& a, const CallTime& b) { return a.seconds > b.seconds; }));
  CHECK(find(times, "gather_bf16").calls == 1);
  // Two images of 3 bytes a pixel, widened to 8 channels of 2 bytes.
  CHECK(find(times, "gather_bf16").bytes == 2 * 32 * 32 * (3 + 16));
  CHECK(timed.take().empty());
}

TEST_CASE("an eager step has the kernels of all options, in both precisions") {
  for (const bool bf16 : {false, true}) {
    HostOps device;
    Seconds marks;
    TimedOps timed(device, marks);
    const EagerLosses losses =
        make_eager_step(timed, "small-cnn", 2, bf16 ? Precision::bf16 : Precision::f32);
    CHECK(losses.trained > 0);
    CHECK(losses.tested > 0);
    CHECK(device.captures() == 0);
    const std::vector<CallTime> times = timed.take();
    for (const char* name : {"add_gradients", "square_sums", "clip_factor", "move_average", "swap_arenas"}) {
      CAPTURE(name);
      CHECK(find(times, name).bytes >= 0);
    }
    CHECK(find(times, bf16 ? "adam_step" : "sgd_step").bytes > 0);
    CHECK(find(times, bf16 ? "max_pool_bf16" : "max_pool_f32").bytes > 0);
  }
}

TEST_CASE("the bytes of a kernel are those that it reads and writes") {
  const MapSize map = {100, 64};
  Bf16 place{};
  std::uint8_t signs = 0;
  ScaleAddRelu<Bf16> apply{map, &place, nullptr, nullptr, nullptr, nullptr, nullptr, &place, nullptr};
  CHECK(bytes_of(apply) == 2 * 12'800);
  apply.addend = &place;
  apply.signs = &signs;
  CHECK(bytes_of(apply) == 3 * 12'800 + 800);
  const ConvolutionCall call = {
      Direction::weight_gradient, {8, 16, 4, 3, 2, 1}, 10, Element::bf16, nullptr, nullptr, nullptr};
  CHECK(bytes_of(call) == 2.0 * (10 * 16 * 8 + 10 * 4 * 16 + 9 * 8 * 16));
  CHECK(operations_of(call) == 2.0 * 10 * 4 * 9 * 8 * 16);
}

TEST_CASE("what is timed cannot be recorded") {
  HostOps device;
  Seconds marks;
  TimedOps timed(device, marks);
  const std::string text = test::error_of([&] { (void)timed.capture([] {}); }, ErrorCode::invalid_argument);
  CHECK(text.find("cannot be recorded") != std::string::npos);
}

}  // namespace muster::nn::gpu
