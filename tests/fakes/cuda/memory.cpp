// SPDX-License-Identifier: Apache-2.0
// Device memory: mapped twice. At the addresses that are handed out nobody can touch it, as a program cannot
// touch the memory of a GPU; the fakes use the other mapping (view()). Both go when it is freed, so that late
// use is found.
#include "tests/fakes/cuda/internal.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

namespace {

constexpr std::size_t kPage = 4096;

struct Piece {
  std::size_t bytes;
  std::byte* view;
};

/// What was handed out, by address.
struct Heap {
  std::mutex mutex;
  std::map<const std::byte*, Piece> pieces;

  /// The piece that holds all of [place, place + bytes), or the end.
  auto find(const std::byte* place, std::size_t bytes) {
    auto piece = pieces.upper_bound(place);
    if (piece == pieces.begin()) return pieces.end();
    --piece;
    return place + bytes <= piece->first + piece->second.bytes ? piece : pieces.end();
  }
};

Heap& heap() {
  static Heap* const all = new Heap;  // outlives the threads of streams
  return *all;
}

cudaError_t take(void** memory, std::size_t bytes) {
  const std::size_t whole = (bytes + kPage - 1) / kPage * kPage + kPage;
  const int fd = memfd_create("fake device memory", MFD_CLOEXEC);
  if (fd < 0) return cudaErrorMemoryAllocation;
  const bool is_open = std::getenv("FAKE_CUDA_OPEN_MEMORY") != nullptr;
  void* view = MAP_FAILED;
  void* place = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(whole)) == 0) {
    view = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    place = mmap(nullptr, whole, is_open ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, fd, 0);
  }
  close(fd);
  if (view == MAP_FAILED || place == MAP_FAILED) return cudaErrorMemoryAllocation;
  const std::lock_guard lock(heap().mutex);
  heap().pieces[static_cast<std::byte*>(place)] = {whole, static_cast<std::byte*>(view)};
  *memory = place;
  return cudaSuccess;
}

bool give_back(void* memory) {
  Piece piece{};
  {
    const std::lock_guard lock(heap().mutex);
    const auto found = heap().pieces.find(static_cast<std::byte*>(memory));
    if (found == heap().pieces.end()) return false;
    piece = found->second;
    heap().pieces.erase(found);
  }
  munmap(memory, piece.bytes);
  munmap(piece.view, piece.bytes);
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
  const std::lock_guard lock(heap().mutex);
  return heap().find(static_cast<const std::byte*>(memory), bytes) != heap().pieces.end();
}

std::byte* view(const void* memory) {
  auto* const place = static_cast<std::byte*>(const_cast<void*>(memory));
  const std::lock_guard lock(heap().mutex);
  const auto piece = heap().find(place, 0);
  return piece == heap().pieces.end() ? place : piece->second.view + (place - piece->first);
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
  if (bytes == 0) return cudaSuccess;
  if (kind == cudaMemcpyHostToDevice) {
    // From pageable memory: read before the call returns.
    const auto* const start = static_cast<const std::byte*>(from);
    auto copy = std::make_shared<std::vector<std::byte>>(start, start + bytes);
    fake::enqueue(stream, [to, copy] {
      return [to, copy] { std::memcpy(fake::view(to), copy->data(), copy->size()); };
    });
    return cudaSuccess;
  }
  fake::enqueue(stream, [to, from, bytes] {
    return [to, from, bytes] { std::memcpy(fake::view(to), fake::view(from), bytes); };
  });
  if (kind == cudaMemcpyDeviceToHost && stream->graph == nullptr) stream->drain();
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (!sides_are_right(to, from, bytes, kind)) return fake::say(cudaErrorInvalidValue);
  std::memcpy(fake::view(to), fake::view(from), bytes);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (!fake::is_device_memory(memory, bytes)) return fake::say(cudaErrorInvalidValue);
  fake::enqueue(stream, [memory, value, bytes] {
    return [memory, value, bytes] { std::memset(fake::view(memory), value, bytes); };
  });
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  attributes->type = fake::is_device_memory(memory, 0) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

}  // extern "C"
