// SPDX-License-Identifier: Apache-2.0
// Device memory: mappings of this process, unmapped when freed, so that late use is found.
#include "tests/fakes/cuda/internal.hpp"

#include <sys/mman.h>

#include <cstring>
#include <map>

namespace {

constexpr std::size_t kPage = 4096;

/// What was handed out, by address.
struct Heap {
  std::mutex mutex;
  std::map<const std::byte*, std::size_t> pieces;
};

Heap& heap() {
  static Heap* const all = new Heap;  // outlives the threads of streams
  return *all;
}

cudaError_t take(void** memory, std::size_t bytes) {
  const std::size_t whole = (bytes + kPage - 1) / kPage * kPage + kPage;
  void* const place = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return cudaErrorMemoryAllocation;
  const std::lock_guard lock(heap().mutex);
  heap().pieces[static_cast<std::byte*>(place)] = whole;
  *memory = place;
  return cudaSuccess;
}

bool give_back(void* memory) {
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(heap().mutex);
    const auto piece = heap().pieces.find(static_cast<std::byte*>(memory));
    if (piece == heap().pieces.end()) return false;
    bytes = piece->second;
    heap().pieces.erase(piece);
  }
  munmap(memory, bytes);
  return true;
}

bool sides_are_right(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return kind == cudaMemcpyDefault || (fake::is_device_memory(to, bytes) == to_device &&
                                       fake::is_device_memory(from, bytes) == from_device);
}

}  // namespace

namespace fake {

bool is_device_memory(const void* memory, std::size_t bytes) {
  const auto* const place = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(heap().mutex);
  auto piece = heap().pieces.upper_bound(place);
  if (piece == heap().pieces.begin()) return false;
  --piece;
  return place + bytes <= piece->first + piece->second;
}

}  // namespace fake

extern "C" {

FAKE_EXPORT cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (fake::breaks_capture("cudaMalloc")) return fake::say(cudaErrorStreamCaptureUnsupported);
  return fake::say(take(memory, bytes));
}

FAKE_EXPORT cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  return fake::say(give_back(memory) ? cudaSuccess : cudaErrorInvalidValue);
}

FAKE_EXPORT cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream) {
  if (stream != nullptr && stream->graph != nullptr) return fake::say(cudaErrorNotSupported);
  return fake::say(take(memory, bytes));
}

FAKE_EXPORT cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  fake::enqueue(stream, [memory] { return [memory] { (void)give_back(memory); }; });
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                                        cudaStream_t stream) {
  if (!sides_are_right(to, from, bytes, kind)) return fake::say(cudaErrorInvalidValue);
  if (kind == cudaMemcpyHostToDevice) {
    // From pageable memory: read before the call returns.
    const auto* const start = static_cast<const std::byte*>(from);
    auto copy = std::make_shared<std::vector<std::byte>>(start, start + bytes);
    fake::enqueue(stream, [to, copy] { return [to, copy] { std::memcpy(to, copy->data(), copy->size()); }; });
    return cudaSuccess;
  }
  fake::enqueue(stream, [to, from, bytes] { return [to, from, bytes] { std::memcpy(to, from, bytes); }; });
  if (kind == cudaMemcpyDeviceToHost && stream->graph == nullptr) stream->drain();
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (!sides_are_right(to, from, bytes, kind)) return fake::say(cudaErrorInvalidValue);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (!fake::is_device_memory(memory, bytes)) return fake::say(cudaErrorInvalidValue);
  fake::enqueue(stream, [memory, value, bytes] {
    return [memory, value, bytes] { std::memset(memory, value, bytes); };
  });
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  attributes->type = fake::is_device_memory(memory, 0) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

}  // extern "C"
