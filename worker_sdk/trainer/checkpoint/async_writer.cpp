// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/checkpoint/async_writer.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/invariant.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace muster::checkpoint {
namespace {

std::size_t bytes_of(const TensorView& tensor) {
  return elements_of(tensor.shape).value_or(0) * size_of(tensor.type);
}

}  // namespace

/// Shared with the thread, which may outlive the writer where a disk does not answer.
class AsyncWriter::Impl {
 public:
  explicit Impl(std::shared_ptr<CheckpointStore> folder) : store(std::move(folder)) {}

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

  void write() {
    std::string written;
    std::exception_ptr failure;
    try {
      written = store->write(snapshot);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard held(mutex);
    path = std::move(written);
    error = std::move(failure);  // so that this thread has no part in it when the other throws it
    busy = false;
    finished.notify_all();
  }

  /// Under the mutex.
  std::string take() {
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
    return std::exchange(path, {});
  }

  const std::shared_ptr<CheckpointStore> store;
  TrainingState snapshot;
  std::vector<std::byte> buffer;  ///< kept from write to write: its pages are in memory
  std::mutex mutex;
  std::condition_variable finished;
  bool busy = false;
  std::string path;
  std::exception_ptr error;
};

AsyncWriter::AsyncWriter(std::shared_ptr<CheckpointStore> store, std::chrono::milliseconds deadline)
    : deadline_(deadline), impl_(std::make_shared<Impl>(std::move(store))) {}

AsyncWriter::~AsyncWriter() {
  std::unique_lock held(impl_->mutex);
  impl_->finished.wait_for(held, deadline_, [this] { return !impl_->busy; });
}

std::string AsyncWriter::hold(const TrainingState& state) {
  held_ = false;
  std::string before = wait_for_write();
  impl_->copy(state);
  held_ = true;
  return before;
}

void AsyncWriter::start_held() {
  if (!std::exchange(held_, false)) return;
  MUSTER_ASSERT(!impl_->busy, "one checkpoint is written at a time");
  impl_->busy = true;
  try {
    quiet_thread([impl = impl_] { impl->write(); }).detach();
  } catch (...) {
    impl_->busy = false;
    throw;
  }
}

std::string AsyncWriter::start(const TrainingState& state) {
  std::string before = hold(state);
  start_held();
  return before;
}

std::string AsyncWriter::poll() {
  const std::lock_guard held(impl_->mutex);
  return impl_->busy ? std::string() : impl_->take();
}

std::string AsyncWriter::wait() {
  start_held();
  return wait_for_write();
}

std::string AsyncWriter::wait_for_write() {
  std::unique_lock held(impl_->mutex);
  if (!impl_->finished.wait_for(held, deadline_, [this] { return !impl_->busy; }))
    throw Error(ErrorCode::deadline,
                "the checkpoint of step " + std::to_string(impl_->snapshot.scalars.integer("step")) + " in " +
                    impl_->store->folder() + " was not written within " + std::to_string(deadline_.count()) +
                    " ms; check that disk, or write less often");
  return impl_->take();
}

}  // namespace muster::checkpoint
