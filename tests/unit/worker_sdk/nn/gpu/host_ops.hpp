// SPDX-License-Identifier: Apache-2.0
// A "device" on the host: kernels by loops over their bodies, convolutions and products as their
// definition says. What is not allocated from it, or is read beyond its end, is found by the address
// sanitizer: every piece is a vector of its own.
#pragma once

#include "tests/unit/worker_sdk/nn/gpu/host_arithmetic.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"

#include <chrono>
#include <cstring>
#include <list>
#include <utility>
#include <vector>

namespace muster::nn::gpu {

class HostOps : public Ops {
 public:
  void* allocate(std::size_t bytes, const char*) override {
    pieces_.emplace_back(bytes / sizeof(std::uint64_t) + 1);
    allocated_ += bytes;
    return pieces_.back().data();
  }

  void clear(void* memory, std::size_t bytes) override {
    put([=] { std::memset(memory, 0, bytes); });
  }

  void to_device(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }

  void from_device(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }

  void convolve(const ConvolutionCall& call) override {
    put([=] { convolve_by_definition(call); });
  }

  void multiply(const MultiplyCall& call) override {
    put([=] { multiply_by_definition(call); });
  }

  void launch(KernelNumber number, const void* kernel, const Grid&) override {
    switch (number) {
#define MUSTER_HOST_RUN(Kernel, name) \
  case KernelNumber::name:            \
    return put([copy = *static_cast<const Kernel*>(kernel)] { run_on_host(copy); });
      MUSTER_GPU_KERNELS(MUSTER_HOST_RUN)
#undef MUSTER_HOST_RUN
      case KernelNumber::count:
        break;
    }
  }

  void on_side(const std::function<void(void*)>& work) override {
    ++sides_;
    work(nullptr);
  }

  void join_side() override {
    ++joins_;
  }

  std::unique_ptr<Graph> capture(const std::function<void()>& work) override {
    recording_ = true;
    recorded_.clear();
    work();
    recording_ = false;
    ++captures_;
    return std::make_unique<Recorded>(std::move(recorded_));
  }

  void synchronize() override {}

  void mark(std::size_t number) override {
    if (number >= marks_.size()) marks_.resize(number + 1);
    put([this, number] { marks_[number] = std::chrono::steady_clock::now(); });
  }

  std::chrono::nanoseconds between(std::size_t from, std::size_t to) override {
    return marks_.at(to) - marks_.at(from);
  }

  void* stream() override {
    return nullptr;
  }

  int captures() const {
    return captures_;
  }

  int sides() const {
    return sides_;
  }

  std::size_t allocated() const override {
    return allocated_;
  }

  /// For work on the "side stream" that is not a call of ours, such as an all-reduce.
  template <typename Work>
  void put(Work work) {
    enqueue(std::move(work));
  }

 protected:
  virtual void enqueue(std::function<void()> work) {
    if (recording_)
      recorded_.push_back(std::move(work));
    else
      work();
  }

 private:
  class Recorded final : public Graph {
   public:
    explicit Recorded(std::vector<std::function<void()>> calls) : calls_(std::move(calls)) {}

    void launch() override {
      for (const auto& call : calls_) call();
    }

   private:
    std::vector<std::function<void()>> calls_;
  };

  std::list<std::vector<std::uint64_t>> pieces_;
  std::vector<std::function<void()>> recorded_;
  std::vector<std::chrono::steady_clock::time_point> marks_;
  bool recording_ = false;
  std::size_t allocated_ = 0;
  int captures_ = 0;
  int sides_ = 0;
  int joins_ = 0;
};

}  // namespace muster::nn::gpu
