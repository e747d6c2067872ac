// SPDX-License-Identifier: Apache-2.0
// Capturing, and graphs: tasks that are launched together and wait for each other as the streams did from
// which they were captured. The rules checked: what no thread, or not the one that captures, may do meanwhile
// (https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html,
// cudaThreadExchangeStreamCaptureMode), and that all work that was forked has been joined at the end.
#include "tests/fakes/cuda/internal.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

struct CUgraph_st {
  std::vector<fake::Node> nodes;
};

struct CUgraphExec_st {
  std::vector<fake::Node> nodes;
  std::map<int, std::shared_ptr<fake::Queue>> queues;  ///< of the lanes beside the stream of a launch
  std::uint64_t launches = 0;
};

namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

struct Captures {
  std::mutex mutex;
  std::set<std::shared_ptr<fake::Capture>> open;
  std::map<const void*, int> graphs;  ///< how many there are, by the tags of their tasks; null for all
};

Captures& captures() {
  static Captures* const all = new Captures;
  return *all;
}

/// Whether `mode` of the calling thread lets this capture be broken by it.
bool forbids(const fake::Capture& capture) {
  const bool own = capture.thread == std::this_thread::get_id();
  switch (thread_mode) {
    case cudaStreamCaptureModeGlobal:
      return capture.mode == cudaStreamCaptureModeGlobal ||
             (own && capture.mode == cudaStreamCaptureModeThreadLocal);
    case cudaStreamCaptureModeThreadLocal:
      return own && capture.mode != cudaStreamCaptureModeRelaxed;
    default:
      return false;
  }
}

bool all_is_joined(const fake::Capture& capture, const fake::Front& front) {
  std::vector<bool> reached(capture.nodes.size());
  fake::Front open = front;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    open.insert(open.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
  }
  return std::all_of(reached.begin(), reached.end(), [](bool each) { return each; });
}

/// Counts a graph that is made (1) or destroyed (-1).
void count_graph(const std::vector<fake::Node>& nodes, int change) {
  std::set<const void*> tags = {nullptr};
  for (const fake::Node& node : nodes) tags.insert(node.tag);
  const std::lock_guard lock(captures().mutex);
  for (const void* tag : tags) captures().graphs[tag] += change;
}

/// One launch of a graph. Its lanes are worked off side by side, and only what `after` says orders them.
class Launch {
 public:
  Launch(const std::vector<fake::Node>& nodes, std::uint64_t number) : number_(number) {
    for (const fake::Node& node : nodes) {
      after_.push_back(node.after);
      works_.push_back(node.task());
      done_.push_back(std::make_unique<fake::Mark>());
      lanes_[node.lane].push_back(done_.size() - 1);
    }
  }

  const std::map<int, fake::Front>& lanes() const { return lanes_; }

  void begin() { begun_.reach(); }

  void run(int lane) {
    begun_.wait();
    const auto own = lanes_.find(lane);
    if (own == lanes_.end()) return;
    fake::Delay delay(lane, number_);
    for (const std::size_t node : own->second) {
      for (const std::size_t earlier : after_[node]) done_[earlier]->wait();
      delay();
      works_[node]();
      done_[node]->reach();
    }
  }

  void wait() {
    for (const auto& mark : done_) mark->wait();
  }

 private:
  std::uint64_t number_;
  std::vector<fake::Front> after_;
  std::vector<fake::Work> works_;
  std::vector<std::unique_ptr<fake::Mark>> done_;
  std::map<int, fake::Front> lanes_;
  fake::Mark begun_;
};

}  // namespace

namespace fake {

std::mutex& captures_mutex() {
  return captures().mutex;
}

bool breaks_capture(const char* function) {
  const std::lock_guard lock(captures().mutex);
  bool breaks = false;
  for (const auto& capture : captures().open) {
    if (!forbids(*capture)) continue;
    capture->valid = false;
    breaks = true;
  }
  if (breaks)
    violate("capture (CUDA runtime API, Stream Management, cudaThreadExchangeStreamCaptureMode)",
            std::string(function) + " while a graph is captured");
  return breaks;
}

int live_graphs(const void* tag) {
  const std::lock_guard lock(captures().mutex);
  return captures().graphs[tag];
}

}  // namespace fake

extern "C" {

int fake_cuda_live_graphs() {
  return fake::live_graphs(nullptr);
}

FAKE_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  CUstream_st* const own = fake::find(stream);
  if (own == nullptr) return fake::say(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(captures().mutex);
  *status = own->capture == nullptr ? cudaStreamCaptureStatusNone
            : own->capture->valid   ? cudaStreamCaptureStatusActive
                                    : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  thread_mode = std::exchange(*mode, thread_mode);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  CUstream_st* const own = fake::find(stream);
  if (own == nullptr) return fake::say(cudaErrorInvalidResourceHandle);
  if (own != stream) return fake::say(cudaErrorStreamCaptureUnsupported);  // the null stream
  const std::lock_guard lock(captures().mutex);
  if (own->capture != nullptr) return fake::say(cudaErrorIllegalState);
  const cudaError_t fault = fake::fault_at("capture", own->device, fake::Moment::call);
  if (fault != cudaSuccess) return fake::say(fault);
  own->capture = std::make_shared<fake::Capture>();
  own->capture->origin = own;
  own->capture->mode = mode;
  own->capture->thread = std::this_thread::get_id();
  own->front.clear();
  captures().open.insert(own->capture);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  CUstream_st* const own = fake::find(stream);
  if (own == nullptr) return fake::say(cudaErrorInvalidResourceHandle);
  std::unique_lock lock(captures().mutex);
  const auto capture = own->capture;
  if (capture == nullptr) return fake::say(cudaErrorIllegalState);
  if (capture->origin != own) return fake::say(cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return fake::say(cudaErrorStreamCaptureWrongThread);
  const bool joined = all_is_joined(*capture, own->front);
  capture->ended = true;
  captures().open.erase(capture);
  fake::leave_capture(capture);
  lock.unlock();
  // Events keep the capture in which they were recorded, which shall not keep what its tasks hold.
  std::vector<fake::Node> nodes = std::exchange(capture->nodes, {});
  if (!capture->valid) return fake::say(cudaErrorStreamCaptureInvalidated);
  if (!joined) return fake::say(cudaErrorStreamCaptureUnjoined);
  const cudaError_t fault = fake::fault_at("end of capture", own->device, fake::Moment::call);
  if (fault != cudaSuccess) return fake::say(fault);
  *graph = new CUgraph_st{std::move(nodes)};
  count_graph((*graph)->nodes, 1);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  const cudaError_t fault = fake::fault_at("graph", fake::current_device(), fake::Moment::call);
  if (fault != cudaSuccess) return fake::say(fault);
  *exec = new CUgraphExec_st{graph->nodes, {}, 0};
  count_graph(graph->nodes, 1);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  CUstream_st* const own = fake::find(stream);
  if (own == nullptr) return fake::say(cudaErrorInvalidResourceHandle);
  if (own->capture != nullptr) return fake::say(cudaErrorStreamCaptureUnsupported);
  const auto launch = std::make_shared<Launch>(exec->nodes, ++exec->launches);
  const int first = exec->nodes.empty() ? 0 : exec->nodes.front().lane;
  for (const auto& [lane, nodes] : launch->lanes()) {
    if (lane == first) continue;
    auto& queue = exec->queues[lane];
    if (queue == nullptr) queue = fake::Queue::make(lane);
    queue->push([launch, lane = lane] { launch->run(lane); });
  }
  fake::enqueue(stream, [launch, first] {
    return [launch, first] {
      launch->begin();
      launch->run(first);
      launch->wait();
    };
  });
  return fake::say(fake::trouble(own->device));
}

FAKE_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  count_graph(graph->nodes, -1);
  delete graph;
  return cudaSuccess;
}

/// A launch that goes on is completed all the same.
FAKE_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  if (exec == nullptr) return fake::say(cudaErrorInvalidValue);
  count_graph(exec->nodes, -1);
  for (const auto& [lane, queue] : exec->queues) queue->close();
  delete exec;
  return cudaSuccess;
}

}  // extern "C"
