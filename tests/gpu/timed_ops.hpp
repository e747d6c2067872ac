// SPDX-License-Identifier: Apache-2.0
// Ops of a device whose calls are timed one by one, with the bytes and the operations that each of them has.
#pragma once

#include "worker_sdk/nn/gpu/ops.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster::nn::gpu {

/// Points in time on a stream of a device.
class Marks {
 public:
  virtual ~Marks() = default;

  /// Puts the next mark onto `stream` (a cudaStream_t), and gives its number: 0, 1, ...
  virtual std::size_t put(void* stream) = 0;
  /// Seconds between two marks that the device has passed.
  virtual double seconds(std::size_t from, std::size_t to) = 0;
  /// Forgets all marks; numbers begin at 0 again.
  virtual void clear() = 0;
};

/// All calls of one name.
struct CallTime {
  std::string name;
  std::size_t calls = 0;
  double seconds = 0;
  double bytes = 0;       ///< bytes that have to be read and written; 0: next to none
  double operations = 0;  ///< of convolutions and products
};

/// Calls go to another object, between two marks each. All of them go onto the main stream, those for the
/// side stream too: on two streams the time of a call would hold a share of its neighbour's. Nothing is
/// recorded. One thread.
class TimedOps final : public Ops {
 public:
  /// Both outlive this object.
  TimedOps(Ops& device, Marks& marks) : device_(device), marks_(marks) {}

  /// Calls since the last take(), summed by name, the longest first. Waits for the device.
  std::vector<CallTime> take();

  void convolve(const ConvolutionCall& call) override;
  void multiply(const MultiplyCall& call) override;
  void launch(KernelNumber number, const void* kernel, const Grid& grid) override;

  void* allocate(std::size_t bytes, const char* what) override { return device_.allocate(bytes, what); }

  void clear(void* memory, std::size_t bytes) override { device_.clear(memory, bytes); }

  void to_device(void* to, const void* from, std::size_t bytes) override {
    device_.to_device(to, from, bytes);
  }

  void from_device(void* to, const void* from, std::size_t bytes) override {
    device_.from_device(to, from, bytes);
  }

  void on_side(const std::function<void(void*)>& work) override { work(device_.stream()); }

  void join_side() override {}

  /// Throws Error (invalid_argument).
  std::unique_ptr<Graph> capture(const std::function<void()>& work) override;

  void synchronize() override { device_.synchronize(); }

  void mark(std::size_t number) override { device_.mark(number); }

  std::chrono::nanoseconds between(std::size_t from, std::size_t to) override {
    return device_.between(from, to);
  }

  bool records() const override { return false; }

  void* stream() override { return device_.stream(); }

  std::size_t allocated() const override { return device_.allocated(); }

 private:
  struct Call {
    std::string name;
    double bytes;
    double operations;
    std::size_t from;
    std::size_t to;
  };

  void timed(std::string name, double bytes, double operations, const std::function<void()>& call);

  Ops& device_;
  Marks& marks_;
  std::vector<Call> calls_;
};

}  // namespace muster::nn::gpu
