// SPDX-License-Identifier: Apache-2.0
// Counts what a step of a network asks of a GPU, without one: launches, and bytes that have to be read and
// written.
//
// usage: gpu_count MODEL BATCH f32|bf16|f16
// Prints a line for each kind of call: its name, calls a step, bytes a step, operations a step, apart by
// tabs.
#include "muster/error.hpp"
#include "tests/gpu/random_start.hpp"
#include "tests/gpu/timed_ops.hpp"
#include "worker_sdk/nn/learner/learner.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace muster::nn::gpu {
namespace {

/// A device that computes nothing: its memory is zeros, of which no page is ever touched.
class IdleOps final : public Ops {
 public:
  ~IdleOps() override {
    for (const auto& [place, bytes] : pieces_) munmap(place, bytes);
  }

  void* allocate(std::size_t bytes, const char*) override {
    const std::size_t size = bytes + 1;
    void* const place = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
      throw Error(ErrorCode::out_of_memory, "no addresses for " + std::to_string(bytes) + " bytes");
    pieces_.emplace_back(place, size);
    allocated_ += bytes;
    return place;
  }

  void clear(void*, std::size_t) override {}

  void to_device(void*, const void*, std::size_t) override {}

  void from_device(void* to, const void*, std::size_t bytes) override { std::memset(to, 0, bytes); }

  void convolve(const ConvolutionCall&) override {}

  void multiply(const MultiplyCall&) override {}

  void launch(KernelNumber, const void*, const Grid&) override {}

  void on_side(const std::function<void(void*)>& work) override { work(nullptr); }

  void join_side() override {}

  std::unique_ptr<Graph> capture(const std::function<void()>&) override {
    throw Error(ErrorCode::unsupported, "what is counted is not recorded");
  }

  void synchronize() override {}

  void mark(std::size_t) override {}

  std::chrono::nanoseconds between(std::size_t, std::size_t) override { return {}; }

  bool records() const override { return false; }

  void* stream() override { return nullptr; }

  std::size_t allocated() const override { return allocated_; }

 private:
  std::vector<std::pair<void*, std::size_t>> pieces_;
  std::size_t allocated_ = 0;
};

class NoMarks final : public Marks {
 public:
  std::size_t put(void*) override { return 0; }

  double seconds(std::size_t, std::size_t) override { return 0; }

  void clear() override {}
};

Precision precision_of(const std::string& word) {
  if (word == "f32") return Precision::f32;
  if (word == "bf16") return Precision::bf16;
  if (word == "f16") return Precision::f16;
  throw Error(ErrorCode::invalid_argument, "the precision '" + word + "'; give f32, bf16 or f16");
}

void count(const std::string& model, std::size_t batch, Precision precision) {
  train::LearnerTask task;
  task.batch_size = batch;
  task.loader.augmentation = {4, true, 9};
  task.options.model = model;
  task.options.precision = precision;
  task.options.optimizer.momentum = 0.9;
  task.options.optimizer.weight_decay = 5e-4;
  const data::ImageData data = {random_images(batch), random_images(1), ""};
  IdleOps device;
  NoMarks marks;
  TimedOps ops(device, marks);
  train::Learner learner(task, data, nullptr, &ops);
  learner.begin_epoch(some_batches(1, batch), 0);
  (void)ops.take();
  (void)learner.step({1, 0.01F, batch, {}});
  for (const CallTime& call : ops.take())
    std::printf("%s\t%zu\t%.0f\t%.0f\n", call.name.c_str(), call.calls, call.bytes, call.operations);
}

}  // namespace
}  // namespace muster::nn::gpu

int main(int argc, char** argv) {
  try {
    if (argc != 4)
      throw muster::Error(muster::ErrorCode::invalid_argument, "usage: gpu_count MODEL BATCH f32|bf16|f16");
    muster::nn::gpu::count(argv[1], std::strtoull(argv[2], nullptr, 10),
                           muster::nn::gpu::precision_of(argv[3]));
    return 0;
  } catch (const muster::Error& error) {
    std::fprintf(stderr, "gpu_count: %s\n", error.what());
    return 2;
  }
}
