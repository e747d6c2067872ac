// SPDX-License-Identifier: Apache-2.0
// What the files of the fake driver share.
#pragma once

#include "tests/fakes/cuda/fake_cuda.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace fake {

/// Keeps every other queue of a device waiting before some of its tasks, if FAKE_CUDA_SEED is set.
class Delay {
 public:
  Delay(int number, std::uint64_t turn);
  void operator()();

 private:
  bool delays_ = false;
  std::uint64_t random_ = 0;
};

/// Works off tasks one after another on a thread of its own, until it is closed and empty.
class Queue {
 public:
  static std::shared_ptr<Queue> make(int number);

  explicit Queue(int number) : delay_(number, 0) {}

  void push(Work work);
  /// Waits until there is nothing to do.
  void drain();
  bool is_idle();
  void close();

 private:
  void serve();

  Delay delay_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> works_;
  bool working_ = false;
  bool closed_ = false;
};

/// A point in a queue that others wait for.
class Mark {
 public:
  void reach();
  void wait();
  bool is_reached();
  std::chrono::steady_clock::time_point time();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  std::chrono::steady_clock::time_point time_;
};

/// A task of a graph, behind others; `lane` is the number of the stream that it was captured from, whose
/// priority it keeps.
struct Node {
  Task task;
  std::vector<std::size_t> after;
  int lane = 0;
  int priority = 0;
  const void* tag = nullptr;
};

/// A capture that goes on, of the stream where it began and of those that joined it.
struct Capture {
  std::vector<Node> nodes;
  CUstream_st* origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  bool valid = true;
  bool ended = false;
};

/// The nodes behind which the next one comes.
using Front = std::vector<std::size_t>;

/// Guards what streams, events and captures know of each other.
std::mutex& captures_mutex();

}  // namespace fake

/// CUDA's own names for what is behind its handles.
struct CUstream_st {
  int device = 0;
  int number = 0;  ///< of the device's streams
  int priority = 0;
  bool waits_for_default = false;
  std::shared_ptr<fake::Queue> queue;
  std::shared_ptr<fake::Capture> capture;
  fake::Front front;
};

struct CUevent_st {
  int device = 0;
  bool has_time = false;
  std::shared_ptr<fake::Mark> mark;        ///< null: never recorded
  std::shared_ptr<fake::Capture> capture;  ///< where it was recorded, if in one
  fake::Front front;
};

namespace fake {

/// The priorities of streams: lower numbers go first.
constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

/// What FAKE_CUDA_DEVICES, FAKE_CUDA_DRIVER and FAKE_CUDA_CAPABILITY say.
int device_count();
int driver_version();
int device_capability();

/// An error before cuInit().
CUresult require_driver();
/// An error before cuInit(), and where the calling thread has no current context, whose device it gives.
CUresult require_context(int& device);

/// The stream of a handle, the current device's own for the null stream; null with an error if there is no
/// such stream (any more), or no current context.
CUresult find(CUstream stream, CUstream_st*& own);
/// Every stream that takes part in a capture is free again. The captures' mutex is held.
void leave_capture(const std::shared_ptr<Capture>& capture);
/// Waits until all streams of a device have nothing to do.
void drain_device(int device);
/// From now on the device answers everything with an error.
void lose_device(int device, CUresult error);

/// What a driver that knows CUDA up to `driver` says of a module for a device of this compute capability.
/// `image` has at least the header of an ELF file, or a whole text. Pure.
FAKE_EXPORT CUresult judge_image(std::string_view image, int capability, int driver);
/// As much of what cuModuleLoadData() is given as judge_image() looks at.
std::string_view part_to_judge(const void* image);

/// When what fails does so: in the call, or when its device comes to it.
enum class Moment { call, execution };
/// The error of FAKE_CUDA_FAULT, where this is the place and the time that it names.
CUresult fault_at(const std::string& place, int device, Moment moment);

/// Memory of a device, or of the host where `device` is kHost, as its process must map it.
struct Piece {
  std::byte* place = nullptr;
  std::byte* view = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  int fd = -1;
};

constexpr int kHost = -2;

/// Tell the processes of devices that run.
CUresult show_to_devices(const Piece& piece);
void hide_from_devices(const Piece& piece);
/// Everything that the process of a device must map.
std::vector<Piece> pieces_of(int device);

}  // namespace fake
