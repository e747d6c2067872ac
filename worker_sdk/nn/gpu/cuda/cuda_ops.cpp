// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/gpu/cuda/cuda_ops.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/gpu/cuda/image.hpp"
#include "worker_sdk/nn/gpu/cuda/library.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace muster::nn::gpu {
namespace {

/// Of convolutions and products, which run one after the other.
constexpr std::size_t kWorkspaceBytes = std::size_t{256} << 20;

constexpr const char* kNames[] = {
#define MUSTER_GPU_NAME(Kernel, name) "muster_" #name,
    MUSTER_GPU_KERNELS(MUSTER_GPU_NAME)
#undef MUSTER_GPU_NAME
};

class CudaGraph final : public Graph {
 public:
  CudaGraph(const Library& api, CUgraph graph, CUstream stream) : api_(api), stream_(stream) {
    // Without the flag all kernels of a graph have the priority of the stream that it is launched onto.
    const CUresult result =
        api_.cuGraphInstantiateWithFlags(&exec_, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
    (void)api_.cuGraphDestroy(graph);
    check(api_, result, "making a graph of a step");
  }

  ~CudaGraph() override { (void)api_.cuGraphExecDestroy(exec_); }

  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch() override { check(api_, api_.cuGraphLaunch(exec_, stream_), "launching a step"); }

 private:
  const Library& api_;
  const CUstream stream_;
  CUgraphExec exec_ = nullptr;
};

const Library& on_device(int device) {
  const Library& api = library();
  require_device(api, device);
  check(api, api.cuCtxSetCurrent(plugin::primary_context(api, device)),
        "choosing device " + std::to_string(device));
  return api;
}

}  // namespace

Streams::Streams(const Library& api, int device) : api_(api) {
  const std::string on = " on device " + std::to_string(device);
  int least = 0;
  int greatest = 0;
  try {
    check(api, api.cuCtxGetStreamPriorityRange(&least, &greatest), "asking for priorities" + on);
    check(api, api.cuStreamCreateWithPriority(&main, CU_STREAM_NON_BLOCKING, least), "making a stream" + on);
    check(api, api.cuStreamCreateWithPriority(&side, CU_STREAM_NON_BLOCKING, greatest),
          "making a stream" + on);
    check(api, api.cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING), "making an event" + on);
    check(api, api.cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING), "making an event" + on);
  } catch (...) {
    free_all();
    throw;
  }
}

Streams::~Streams() {
  free_all();
}

void Streams::free_all() {
  for (CUevent* const event : {&joined, &forked})
    if (*event != nullptr) (void)api_.cuEventDestroy(std::exchange(*event, nullptr));
  for (CUstream* const stream : {&side, &main})
    if (*stream != nullptr) (void)api_.cuStreamDestroy(std::exchange(*stream, nullptr));
}

CudaOps::CudaOps(int device, bool autotune)
    : api_(on_device(device)),
      device_(device),
      context_(plugin::primary_context(api_, device)),
      streams_(api_, device),
      stream_(streams_.main) {
  try {
    load_kernels();
    void* workspace = allocate(kWorkspaceBytes, "workspace");
    plans_ = std::make_unique<Plans>(api_, streams_.main, workspace, kWorkspaceBytes, autotune);
    convolutions_ = std::make_unique<Convolutions>(*plans_);
    multiplications_ = std::make_unique<Multiplications>(*plans_);
  } catch (...) {
    for (void* piece : memory_) (void)api_.cuMemFree(plugin::number_of(piece));
    if (kernels_ != nullptr) (void)api_.cuModuleUnload(kernels_);
    throw;
  }
}

CudaOps::~CudaOps() {
  // Whichever thread ends it, as a collector of garbage may on one of its own.
  const bool pushed = api_.cuCtxPushCurrent(context_) == CUDA_SUCCESS;
  (void)api_.cuStreamSynchronize(streams_.side);
  (void)api_.cuStreamSynchronize(streams_.main);
  for (const CUevent mark : marks_)
    if (mark != nullptr) (void)api_.cuEventDestroy(mark);
  multiplications_.reset();
  convolutions_.reset();
  plans_.reset();
  for (void* piece : memory_) (void)api_.cuMemFree(plugin::number_of(piece));
  (void)api_.cuModuleUnload(kernels_);
  streams_.free_all();
  CUcontext former = nullptr;
  if (pushed) (void)api_.cuCtxPopCurrent(&former);
}

void CudaOps::load_kernels() {
  const KernelImage& image = choose_image(kernel_images(), capability_of(api_, device_));
  check(api_, api_.cuModuleLoadData(&kernels_, image.data), "loading our kernels for " + image.target());
  for (std::size_t i = 0; i < entries_.size(); ++i)
    check(api_, api_.cuModuleGetFunction(&entries_[i], kernels_, kNames[i]),
          std::string("looking for the kernel ") + kNames[i]);
}

void* CudaOps::allocate(std::size_t bytes, const char* what) {
  CUdeviceptr taken = 0;
  check(api_, api_.cuMemAlloc(&taken, std::max<std::size_t>(bytes, 1)),
        "taking " + std::to_string(bytes) + " bytes for " + what + " (a smaller batch takes less)");
  void* const memory = plugin::address_of(taken);
  memory_.push_back(memory);
  allocated_ += bytes;
  clear(memory, bytes);
  return memory;
}

std::size_t CudaOps::free_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  return api_.cuMemGetInfo(&free, &total) == CUDA_SUCCESS ? free : 0;
}

void CudaOps::clear(void* memory, std::size_t bytes) {
  check(api_, api_.cuMemsetD8Async(plugin::number_of(memory), 0, bytes, stream_), "clearing memory");
}

void CudaOps::to_device(void* to, const void* from, std::size_t bytes) {
  check(api_, api_.cuMemcpyHtoDAsync(plugin::number_of(to), from, bytes, stream_), "copying to the GPU");
  synchronize();
}

void CudaOps::from_device(void* to, const void* from, std::size_t bytes) {
  check(api_, api_.cuMemcpyDtoHAsync(to, plugin::number_of(from), bytes, stream_), "copying from the GPU");
  synchronize();
}

void CudaOps::convolve(const ConvolutionCall& call) {
  convolutions_->run(call);
}

/// cuDNN's engines for products are made for tensor cores: matrices that are not aligned may have no plan,
/// and one engine rounds 32-bit floats to TF32 without a note that says so (cuDNN 9.19 on an H100). Those for
/// convolutions have others, whose notes are true.
void CudaOps::multiply(const MultiplyCall& call) {
  const bool on_tensor_cores = call.element != Element::f32 || call.tf32;
  if (on_tensor_cores && multiplications_->try_run(call)) return;
  const std::optional<ConvolutionCall> convolution = as_convolution(call);
  if (convolution && convolutions_->try_run(*convolution)) return;
  if (on_tensor_cores || convolution) note_fallback(call);
  multiply_by_kernel(*this, call);
}

/// Says it once: the ones that follow are no news.
void CudaOps::note_fallback(const MultiplyCall& call) {
  if (std::exchange(has_fallen_back_, true)) return;
  note_ = "cuDNN " + std::to_string(api_.cudnnGetVersion()) + " has no plan for products such as " +
          text_of(call) + ": Muster's own kernels compute them, which takes longer";
}

void CudaOps::launch(KernelNumber number, const void* kernel, const Grid& grid) {
  const auto place = static_cast<std::size_t>(number);
  void* arguments[] = {const_cast<void*>(kernel)};
  check(api_,
        api_.cuLaunchKernel(entries_.at(place), static_cast<unsigned>(grid.blocks), 1, 1,
                            static_cast<unsigned>(grid.threads), 1, 1, 0, stream_, arguments, nullptr),
        std::string("launching ") + kNames[place]);
}

void CudaOps::on_side(const std::function<void(void*)>& work) {
  check(api_, api_.cuEventRecord(streams_.forked, streams_.main), "recording an event");
  check(api_, api_.cuStreamWaitEvent(streams_.side, streams_.forked, 0), "ordering streams");
  stream_ = streams_.side;
  try {
    work(streams_.side);
  } catch (...) {
    stream_ = streams_.main;
    throw;
  }
  stream_ = streams_.main;
}

void CudaOps::join_side() {
  check(api_, api_.cuEventRecord(streams_.joined, streams_.side), "recording an event");
  check(api_, api_.cuStreamWaitEvent(streams_.main, streams_.joined, 0), "ordering streams");
}

std::unique_ptr<Graph> CudaOps::capture(const std::function<void()>& work) {
  check(api_, api_.cuStreamBeginCapture(streams_.main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "beginning to record a step");
  CUgraph graph = nullptr;
  recording_ = true;
  try {
    work();
    recording_ = false;
  } catch (...) {
    recording_ = false;
    (void)api_.cuStreamEndCapture(streams_.main, &graph);
    if (graph != nullptr) (void)api_.cuGraphDestroy(graph);
    throw;
  }
  const CUresult result = api_.cuStreamEndCapture(streams_.main, &graph);
  check(api_, result, "recording a step");
  return std::make_unique<CudaGraph>(api_, graph, streams_.main);
}

void CudaOps::mark(std::size_t number) {
  if (number >= marks_.size()) marks_.resize(number + 1);
  CUevent& event = marks_[number];
  if (event == nullptr) check(api_, api_.cuEventCreate(&event, CU_EVENT_DEFAULT), "making an event");
  // Without the flag the event would be a dependency within the graph, which no launch records.
  check(api_,
        api_.cuEventRecordWithFlags(event, stream_,
                                    recording_ ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT),
        "recording an event");
}

std::chrono::nanoseconds CudaOps::between(std::size_t from, std::size_t to) {
  float milliseconds = 0;
  check(api_, api_.cuEventElapsedTime(&milliseconds, marks_.at(from), marks_.at(to)),
        "asking for the time between two events");
  return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6));
}

void CudaOps::synchronize() {
  check(api_, api_.cuStreamSynchronize(stream_), "waiting for the GPU");
}

void CudaOps::require_working() {
  const CUresult state = api_.cuStreamQuery(streams_.main);
  if (state != CUDA_ERROR_NOT_READY) check(api_, state, "device " + std::to_string(device_));
}

}  // namespace muster::nn::gpu
