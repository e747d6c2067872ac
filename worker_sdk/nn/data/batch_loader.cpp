// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/data/batch_loader.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace muster::data {

BatchLoader::BatchLoader(const Images& images, const LoaderOptions& options)
    : images_(images),
      options_(options),
      slots_(static_cast<std::size_t>(std::max(1, options.prefetch)) + 1) {
  if (options.threads < 0 || options.threads > 256 || options.prefetch < 1 || options.prefetch > 1024)
    throw Error(ErrorCode::invalid_argument, "a loader with " + std::to_string(options.threads) +
                                                 " threads that prepares " +
                                                 std::to_string(options.prefetch) +
                                                 " batches; give 0 to 256 threads and 1 to 1024 batches");
  for (int i = 0; i < options.threads; ++i) threads_.push_back(quiet_thread([this] { prepare_batches(); }));
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BatchLoader::begin(std::vector<std::vector<std::uint32_t>> batches, int epoch) {
  std::unique_lock lock(mutex_);
  // No thread may still be writing to a slot of the pass before.
  claimed_ = batches_.size();
  wake_.wait(lock, [this] { return busy_ == 0; });
  batches_ = std::move(batches);
  epoch_ = epoch;
  claimed_ = taken_ = 0;
  error_ = nullptr;
  for (Slot& slot : slots_) slot.filled = false;
  lock.unlock();
  wake_.notify_all();
}

Batch BatchLoader::next() {
  std::unique_lock lock(mutex_);
  if (taken_ == batches_.size())
    throw Error(ErrorCode::invalid_argument, "the loader has no batch left in this pass; call begin()");
  // The slot of the batch before is free now: the caller is done with it.
  if (taken_ > 0) slots_[(taken_ - 1) % slots_.size()].filled = false;
  Slot& slot = slots_[taken_ % slots_.size()];
  const std::vector<std::uint32_t>& indices = batches_[taken_];
  ++taken_;
  if (threads_.empty()) {
    fill(indices, epoch_, slot);
  } else {
    wake_.notify_all();
    wake_.wait(lock, [&] { return slot.filled || error_ != nullptr; });
    if (error_ != nullptr) std::rethrow_exception(error_);
  }
  return {indices, slot.images.data(), slot.labels.data()};
}

void BatchLoader::fill(const std::vector<std::uint32_t>& indices, int epoch, Slot& slot) const {
  // Grows only: the first touch of fresh memory costs more than the images.
  if (slot.labels.size() < indices.size()) {
    slot.images.resize(indices.size() * kImageBytes);
    slot.labels.resize(indices.size());
  }
  gather(images_, indices, options_.normalization, options_.augmentation, epoch, slot.images.data(),
         slot.labels.data());
}

/// Batch i goes to slot i modulo their number: free as soon as batch i - slots + 1 has been asked for.
bool BatchLoader::may_claim() const {
  return claimed_ < batches_.size() && claimed_ + 1 < taken_ + slots_.size();
}

void BatchLoader::prepare_batches() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || may_claim(); });
    if (stop_) return;
    const std::size_t i = claimed_++;
    ++busy_;
    Slot& slot = slots_[i % slots_.size()];
    const int epoch = epoch_;
    lock.unlock();
    std::exception_ptr error;
    try {
      fill(batches_[i], epoch, slot);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --busy_;
    slot.filled = true;
    if (error != nullptr) error_ = error;
    wake_.notify_all();
  }
}

}  // namespace muster::data
