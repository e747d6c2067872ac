// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/gpu/cuda/cuda_ops.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/gpu/cuda/image.hpp"
#include "worker_sdk/nn/gpu/cuda/library.hpp"

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
  CudaGraph(const Library& api, cudaGraph_t graph, cudaStream_t stream) : api_(api), stream_(stream) {
    // Without the flag all kernels of a graph have the priority of the stream that it is launched onto.
    const cudaError_t result =
        api_.cudaGraphInstantiate(&exec_, graph, cudaGraphInstantiateFlagUseNodePriority);
    (void)api_.cudaGraphDestroy(graph);
    if (result != cudaSuccess) (void)api_.cudaGetLastError();
    check(api_, result, "making a graph of a step");
  }

  ~CudaGraph() override { (void)api_.cudaGraphExecDestroy(exec_); }

  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch() override { check(api_, api_.cudaGraphLaunch(exec_, stream_), "launching a step"); }

 private:
  const Library& api_;
  const cudaStream_t stream_;
  cudaGraphExec_t exec_ = nullptr;
};

const Library& on_device(int device) {
  const Library& api = library();
  require_device(api, device);
  check(api, api.cudaSetDevice(device), "choosing device " + std::to_string(device));
  return api;
}

}  // namespace

Streams::Streams(const Library& api, int device) : api_(api) {
  const std::string on = " on device " + std::to_string(device);
  int least = 0;
  int greatest = 0;
  try {
    check(api, api.cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities" + on);
    check(api, api.cudaStreamCreateWithPriority(&main, cudaStreamNonBlocking, least), "making a stream" + on);
    check(api, api.cudaStreamCreateWithPriority(&side, cudaStreamNonBlocking, greatest),
          "making a stream" + on);
    check(api, api.cudaEventCreateWithFlags(&forked, cudaEventDisableTiming), "making an event" + on);
    check(api, api.cudaEventCreateWithFlags(&joined, cudaEventDisableTiming), "making an event" + on);
  } catch (...) {
    free_all();
    throw;
  }
}

Streams::~Streams() {
  free_all();
}

void Streams::free_all() {
  if (joined != nullptr) (void)api_.cudaEventDestroy(joined);
  if (forked != nullptr) (void)api_.cudaEventDestroy(forked);
  if (side != nullptr) (void)api_.cudaStreamDestroy(side);
  if (main != nullptr) (void)api_.cudaStreamDestroy(main);
}

CudaOps::CudaOps(int device, bool autotune)
    : api_(on_device(device)), device_(device), streams_(api_, device), stream_(streams_.main) {
  try {
    load_kernels();
    void* workspace = allocate(kWorkspaceBytes, "workspace");
    plans_ = std::make_unique<Plans>(api_, streams_.main, workspace, kWorkspaceBytes, autotune);
    convolutions_ = std::make_unique<Convolutions>(*plans_);
    multiplications_ = std::make_unique<Multiplications>(*plans_);
  } catch (...) {
    for (void* piece : memory_) (void)api_.cudaFree(piece);
    if (kernels_ != nullptr) (void)api_.cudaLibraryUnload(kernels_);
    throw;
  }
}

CudaOps::~CudaOps() {
  (void)api_.cudaStreamSynchronize(streams_.side);
  (void)api_.cudaStreamSynchronize(streams_.main);
  for (const cudaEvent_t mark : marks_)
    if (mark != nullptr) (void)api_.cudaEventDestroy(mark);
  multiplications_.reset();
  convolutions_.reset();
  plans_.reset();
  for (void* piece : memory_) (void)api_.cudaFree(piece);
  (void)api_.cudaLibraryUnload(kernels_);
}

void CudaOps::load_kernels() {
  check(api_, api_.cudaLibraryLoadData(&kernels_, kernel_image(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "loading our kernels (they are built for compute capability 7.5, 8.0, 9.0 and, through PTX, later)");
  for (std::size_t i = 0; i < entries_.size(); ++i)
    check(api_, api_.cudaLibraryGetKernel(&entries_[i], kernels_, kNames[i]),
          std::string("looking for the kernel ") + kNames[i]);
}

void* CudaOps::allocate(std::size_t bytes, const char* what) {
  void* memory = nullptr;
  check(api_, api_.cudaMalloc(&memory, bytes),
        "taking " + std::to_string(bytes) + " bytes for " + what + " (a smaller batch takes less)");
  memory_.push_back(memory);
  allocated_ += bytes;
  clear(memory, bytes);
  return memory;
}

std::size_t CudaOps::free_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  return api_.cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

void CudaOps::clear(void* memory, std::size_t bytes) {
  check(api_, api_.cudaMemsetAsync(memory, 0, bytes, stream_), "clearing memory");
}

void CudaOps::to_device(void* to, const void* from, std::size_t bytes) {
  check(api_, api_.cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "copying to the GPU");
  synchronize();
}

void CudaOps::from_device(void* to, const void* from, std::size_t bytes) {
  check(api_, api_.cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "copying from the GPU");
  synchronize();
}

void CudaOps::convolve(const ConvolutionCall& call) {
  convolutions_->run(call);
}

/// cuDNN's engines for products are made for tensor cores: matrices that are not aligned may have no plan,
/// and one engine rounds 32-bit floats to TF32 without a note that says so (cuDNN 9.19 on an H100). Those for
/// convolutions have others, whose notes are true.
void CudaOps::multiply(const MultiplyCall& call) {
  if ((call.bf16 || call.tf32) && multiplications_->try_run(call)) return;
  const std::optional<ConvolutionCall> convolution = as_convolution(call);
  if (convolution && convolutions_->try_run(*convolution)) return;
  if (call.bf16 || call.tf32 || convolution) note_fallback(call);
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
        api_.cudaLaunchKernel(entries_.at(place), dim3(static_cast<unsigned>(grid.blocks)),
                              dim3(static_cast<unsigned>(grid.threads)), arguments, 0, stream_),
        std::string("launching ") + kNames[place]);
}

void CudaOps::on_side(const std::function<void(void*)>& work) {
  check(api_, api_.cudaEventRecord(streams_.forked, streams_.main), "recording an event");
  check(api_, api_.cudaStreamWaitEvent(streams_.side, streams_.forked, 0), "ordering streams");
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
  check(api_, api_.cudaEventRecord(streams_.joined, streams_.side), "recording an event");
  check(api_, api_.cudaStreamWaitEvent(streams_.main, streams_.joined, 0), "ordering streams");
}

std::unique_ptr<Graph> CudaOps::capture(const std::function<void()>& work) {
  check(api_, api_.cudaStreamBeginCapture(streams_.main, cudaStreamCaptureModeThreadLocal),
        "beginning to record a step");
  cudaGraph_t graph = nullptr;
  recording_ = true;
  try {
    work();
    recording_ = false;
  } catch (...) {
    recording_ = false;
    (void)api_.cudaStreamEndCapture(streams_.main, &graph);
    if (graph != nullptr) (void)api_.cudaGraphDestroy(graph);
    (void)api_.cudaGetLastError();
    throw;
  }
  const cudaError_t result = api_.cudaStreamEndCapture(streams_.main, &graph);
  if (result != cudaSuccess) (void)api_.cudaGetLastError();
  check(api_, result, "recording a step");
  return std::make_unique<CudaGraph>(api_, graph, streams_.main);
}

void CudaOps::mark(std::size_t number) {
  if (number >= marks_.size()) marks_.resize(number + 1);
  cudaEvent_t& event = marks_[number];
  if (event == nullptr)
    check(api_, api_.cudaEventCreateWithFlags(&event, cudaEventDefault), "making an event");
  // Without the flag the event would be a dependency within the graph, which no launch records.
  check(api_, api_.cudaEventRecordWithFlags(event, stream_, recording_ ? cudaEventRecordExternal : 0U),
        "recording an event");
}

std::chrono::nanoseconds CudaOps::between(std::size_t from, std::size_t to) {
  float milliseconds = 0;
  check(api_, api_.cudaEventElapsedTime(&milliseconds, marks_.at(from), marks_.at(to)),
        "asking for the time between two events");
  return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6));
}

void CudaOps::synchronize() {
  check(api_, api_.cudaStreamSynchronize(stream_), "waiting for the GPU");
}

void CudaOps::require_working() {
  const cudaError_t state = api_.cudaStreamQuery(streams_.main);
  if (state != cudaErrorNotReady) check(api_, state, "device " + std::to_string(device_));
}

}  // namespace muster::nn::gpu
