// SPDX-License-Identifier: Apache-2.0
// What the files of the fake runtime share.
#pragma once

#include "tests/fakes/cuda/fake_cuda.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

/// CUDA's own names for what is behind its handles.
struct CUgraph_st {
  std::vector<fake::Task> tasks;
  bool valid = true;
};

struct CUgraphExec_st {
  std::vector<fake::Task> tasks;
};

struct CUevent_st {
  std::atomic<std::uint64_t> recorded{0};
  std::shared_ptr<std::atomic<std::uint64_t>> completed = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::atomic<bool> captured{false};
};

struct CUstream_st {
  CUstream_st();
  ~CUstream_st();

  void push(fake::Work work);
  void drain();

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<fake::Work> queue;
  bool working = false;
  bool stop = false;
  CUgraph_st* graph = nullptr;  ///< being captured
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread thread;
};

namespace fake {

/// Remembers an error for cudaGetLastError().
cudaError_t say(cudaError_t error);

/// For calls that must not be made while a graph is captured: an error, and the captures are spoilt.
bool breaks_capture(const char* function);

}  // namespace fake
