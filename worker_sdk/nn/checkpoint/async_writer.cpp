// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/async_writer.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/invariant.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace muster::checkpoint {
namespace {

std::size_t bytes_of(const TensorView& tensor) {
  return slice_of(tensor).count * size_of(tensor.type);
}

}  // namespace

/// Shared with the thread, which may outlive the writer where a disk does not answer.
class AsyncWriter::Impl {
 public:
  void copy(const TrainingState& from) {
    std::size_t bytes = 0;
    for (const auto* tensors : {&from.tensors, &from.state})
      for (const TensorView& tensor : *tensors) bytes += bytes_of(tensor);
    if (buffer.size() < bytes) buffer = std::vector<std::byte>(bytes);
    snapshot = from;
    std::byte* to = buffer.data();
    for (auto* tensors : {&snapshot.tensors, &snapshot.state})
      for (TensorView& tensor : *tensors) {
        const std::size_t size = bytes_of(tensor);
        if (size > 0) std::memcpy(to, tensor.data, size);
        tensor.data = to;
        to += size;
      }
  }

  void run(const Work& work) {
    std::string made;
    std::exception_ptr failure;
    try {
      made = work(snapshot);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard held(mutex);
    result = std::move(made);
    error = std::move(failure);  // so that this thread has no part in it when the other throws it
    busy = false;
    finished.notify_all();
  }

  /// Under the mutex.
  std::string take() {
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
    return std::exchange(result, {});
  }

  TrainingState snapshot;
  std::vector<std::byte> buffer;  ///< kept from write to write: its pages are in memory
  std::mutex mutex;
  std::condition_variable finished;
  bool busy = false;
  std::string result;
  std::exception_ptr error;
};

AsyncWriter::AsyncWriter(std::string folder, std::chrono::milliseconds deadline)
    : folder_(std::move(folder)), deadline_(deadline), impl_(std::make_shared<Impl>()) {}

AsyncWriter::~AsyncWriter() {
  std::unique_lock held(impl_->mutex);
  impl_->finished.wait_for(held, deadline_, [this] { return !impl_->busy; });
}

void AsyncWriter::copy(const TrainingState& state) {
  impl_->copy(state);
}

void AsyncWriter::start(Work work) {
  MUSTER_ASSERT(!impl_->busy, "one checkpoint is written at a time");
  impl_->busy = true;
  try {
    quiet_thread([impl = impl_, work = std::move(work)] { impl->run(work); }).detach();
  } catch (...) {
    impl_->busy = false;
    throw;
  }
}

std::optional<std::string> AsyncWriter::poll() {
  const std::lock_guard held(impl_->mutex);
  if (impl_->busy) return std::nullopt;
  return impl_->take();
}

std::size_t AsyncWriter::copy_bytes() const {
  return impl_->buffer.size();
}

bool AsyncWriter::is_busy() const {
  const std::lock_guard held(impl_->mutex);
  return impl_->busy;
}

std::string AsyncWriter::wait() {
  std::unique_lock held(impl_->mutex);
  if (!impl_->finished.wait_for(held, deadline_, [this] { return !impl_->busy; }))
    throw Error(ErrorCode::deadline,
                "the checkpoint of step " + std::to_string(impl_->snapshot.scalars.integer("step")) + " in " +
                    folder_ + " was not written within " + std::to_string(deadline_.count()) +
                    " ms; check that disk, or write less often");
  return impl_->take();
}

}  // namespace muster::checkpoint
