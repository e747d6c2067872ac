// SPDX-License-Identifier: Apache-2.0
// Capturing, and graphs: tasks that are launched together and wait for each other as the streams did from
// which they were captured. The rules checked: what no thread, or not the one that captures, may do meanwhile
// (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html,
// cuThreadExchangeStreamCaptureMode), and that all work that was forked has been joined at the end.
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
  bool keeps_priorities = false;  ///< else all tasks have that of the stream of a launch
};

namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

struct Captures {
  std::mutex mutex;
  std::set<std::shared_ptr<fake::Capture>> open;
  std::map<const void*, int> graphs;  ///< how many there are, by the tags of their tasks; null for all
  std::set<int> launched;             ///< the priorities of the last launch
};

Captures& captures() {
  static Captures* const all = new Captures;
  return *all;
}

/// Whether `mode` of the calling thread lets this capture be broken by it.
bool forbids(const fake::Capture& capture) {
  const bool own = capture.thread == std::this_thread::get_id();
  switch (thread_mode) {
    case CU_STREAM_CAPTURE_MODE_GLOBAL:
      return capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
             (own && capture.mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    case CU_STREAM_CAPTURE_MODE_THREAD_LOCAL:
      return own && capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
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

/// Remembers with which priorities a launch onto `stream` runs.
void note_priorities(const CUgraphExec_st& exec, const CUstream_st& stream) {
  std::set<int> priorities;
  for (const fake::Node& node : exec.nodes)
    priorities.insert(exec.keeps_priorities ? node.priority : stream.priority);
  const std::lock_guard lock(captures().mutex);
  captures().launched = std::move(priorities);
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
    violate("capture (CUDA driver API, Stream Management, cuThreadExchangeStreamCaptureMode)",
            std::string(function) + " while a graph is captured");
  return breaks;
}

int live_graphs(const void* tag) {
  const std::lock_guard lock(captures().mutex);
  return captures().graphs[tag];
}

std::set<int> launched_priorities() {
  const std::lock_guard lock(captures().mutex);
  return captures().launched;
}

}  // namespace fake

extern "C" {

int fake_cuda_live_graphs() {
  return fake::live_graphs(nullptr);
}

FAKE_EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  CUstream_st* own = nullptr;
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  const std::lock_guard lock(captures().mutex);
  *status = own->capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
            : own->capture->valid   ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                    : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (const CUresult started = fake::require_driver(); started != CUDA_SUCCESS) return started;
  thread_mode = std::exchange(*mode, thread_mode);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  CUstream_st* own = nullptr;
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  if (own != stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // the null stream
  const std::lock_guard lock(captures().mutex);
  if (own->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  const CUresult fault = fake::fault_at("capture", own->device, fake::Moment::call);
  if (fault != CUDA_SUCCESS) return fault;
  own->capture = std::make_shared<fake::Capture>();
  own->capture->origin = own;
  own->capture->mode = mode;
  own->capture->thread = std::this_thread::get_id();
  own->front.clear();
  captures().open.insert(own->capture);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  *graph = nullptr;
  CUstream_st* own = nullptr;
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  std::unique_lock lock(captures().mutex);
  const auto capture = own->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != own) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  const bool joined = all_is_joined(*capture, own->front);
  capture->ended = true;
  captures().open.erase(capture);
  fake::leave_capture(capture);
  lock.unlock();
  // Events keep the capture in which they were recorded, which shall not keep what its tasks hold.
  std::vector<fake::Node> nodes = std::exchange(capture->nodes, {});
  if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  const CUresult fault = fake::fault_at("end of capture", own->device, fake::Moment::call);
  if (fault != CUDA_SUCCESS) return fault;
  *graph = new CUgraph_st{std::move(nodes)};
  count_graph((*graph)->nodes, 1);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  int device = -1;
  if (const CUresult found = fake::require_context(device); found != CUDA_SUCCESS) return found;
  constexpr unsigned long long kKeeps = CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if (flags != 0 && flags != kKeeps) return CUDA_ERROR_INVALID_VALUE;
  const CUresult fault = fake::fault_at("graph", device, fake::Moment::call);
  if (fault != CUDA_SUCCESS) return fault;
  *exec = new CUgraphExec_st{graph->nodes, {}, 0, flags == kKeeps};
  count_graph(graph->nodes, 1);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  CUstream_st* own = nullptr;
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  if (own->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  note_priorities(*exec, *own);
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
  return fake::trouble(own->device);
}

FAKE_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  count_graph(graph->nodes, -1);
  delete graph;
  return CUDA_SUCCESS;
}

/// A launch that goes on is completed all the same.
FAKE_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  count_graph(exec->nodes, -1);
  for (const auto& [lane, queue] : exec->queues) queue->close();
  delete exec;
  return CUDA_SUCCESS;
}

}  // extern "C"
