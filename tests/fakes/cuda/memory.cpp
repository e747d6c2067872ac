// SPDX-License-Identifier: Apache-2.0
// Memory of devices, mapped twice (fake_cuda.hpp), and pinned memory of the host. Both mappings go when it is
// freed, so that late use is found. Fresh memory holds no zeros, as on a GPU.
#include "tests/fakes/cuda/internal.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

namespace {

constexpr std::size_t kPage = 4096;
/// Where the memory of devices begins: far from everything that the system places by itself, so that the
/// process of a device finds the same addresses free.
constexpr std::uintptr_t kFirstPlace = std::uintptr_t{1} << 45;
/// Of fresh memory, as much is filled with what is no number.
constexpr std::size_t kFilled = std::size_t{1} << 20;

/// What was handed out, by address.
struct Heap {
  std::mutex mutex;
  std::map<const std::byte*, fake::Piece> pieces;
  std::map<int, std::size_t> taken;  ///< bytes, by device
  std::uintptr_t next = kFirstPlace;

  /// The piece that holds all of [place, place + bytes), or the end.
  auto find(const std::byte* place, std::size_t bytes) {
    auto piece = pieces.upper_bound(place);
    if (piece == pieces.begin()) return pieces.end();
    --piece;
    return place + bytes <= piece->first + piece->second.bytes ? piece : pieces.end();
  }
};

Heap& heap() {
  static Heap* const all = new Heap;  // outlives the threads of queues
  return *all;
}

std::size_t bytes_of_a_device() {
  const char* const text = std::getenv("FAKE_CUDA_MEMORY");
  return text == nullptr ? std::size_t{16} << 30 : static_cast<std::size_t>(std::atoll(text));
}

void* map_piece(const fake::Piece& piece, void* wish, bool is_open) {
  return mmap(wish, piece.bytes, is_open ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, piece.fd, 0);
}

/// Makes a piece of `device` (or kHost); the heap's mutex is held.
bool make_piece(fake::Piece& piece) {
  piece.fd = memfd_create("fake device memory", MFD_CLOEXEC);
  if (piece.fd < 0 || ftruncate(piece.fd, static_cast<off_t>(piece.bytes)) != 0) return false;
  void* const view = map_piece(piece, nullptr, true);
  if (view == MAP_FAILED) return false;
  const bool is_open = piece.device == fake::kHost;
  void* const place = map_piece(piece, reinterpret_cast<void*>(heap().next), is_open);
  if (place == MAP_FAILED) {
    munmap(view, piece.bytes);
    return false;
  }
  piece.view = static_cast<std::byte*>(view);
  piece.place = static_cast<std::byte*>(place);
  heap().next += piece.bytes + kPage;
  return true;
}

cudaError_t take(void** memory, std::size_t bytes, int device) {
  *memory = nullptr;
  if (fake::trouble(device) != cudaSuccess) return fake::trouble(device);
  fake::Piece piece;
  piece.device = device;
  piece.bytes = (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  {
    const std::lock_guard lock(heap().mutex);
    if (device != fake::kHost && heap().taken[device] + piece.bytes > bytes_of_a_device())
      return cudaErrorMemoryAllocation;
    if (!make_piece(piece)) {
      if (piece.fd >= 0) close(piece.fd);
      return cudaErrorMemoryAllocation;
    }
    heap().pieces[piece.place] = piece;
    heap().taken[device] += piece.bytes;
  }
  std::memset(piece.view, 0xff, std::min(piece.bytes, kFilled));
  *memory = piece.place;
  return fake::show_to_devices(piece);
}

/// Frees what is of the host, or of a device.
bool give_back(void* memory, bool of_host) {
  fake::Piece piece;
  {
    const std::lock_guard lock(heap().mutex);
    const auto found = heap().pieces.find(static_cast<std::byte*>(memory));
    if (found == heap().pieces.end() || (found->second.device == fake::kHost) != of_host) return false;
    piece = found->second;
    heap().pieces.erase(found);
    heap().taken[piece.device] -= piece.bytes;
  }
  fake::hide_from_devices(piece);
  munmap(memory, piece.bytes);
  munmap(piece.view, piece.bytes);
  close(piece.fd);
  return true;
}

/// The piece of an address; its device is -1 if there is none.
fake::Piece piece_at(const void* memory) {
  const std::lock_guard lock(heap().mutex);
  const auto found = heap().find(static_cast<const std::byte*>(memory), 0);
  fake::Piece none;
  none.device = -1;
  return found == heap().pieces.end() ? none : found->second;
}

bool is_pageable(const void* memory) {
  return piece_at(memory).device == -1;
}

bool sides_are_right(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return kind == cudaMemcpyDefault || (fake::is_device_memory(to, bytes) == to_device &&
                                       fake::is_device_memory(from, bytes) == from_device);
}

/// Whole pages become zeros by being given back: a workspace that nobody uses takes no memory.
void fill(std::byte* view, int value, std::size_t bytes) {
  const auto begin = (reinterpret_cast<std::uintptr_t>(view) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<std::uintptr_t>(view) + bytes) / kPage * kPage;
  if (value != 0 || end <= begin || end - begin < kFilled) {
    std::memset(view, value, bytes);
    return;
  }
  std::memset(view, 0, begin - reinterpret_cast<std::uintptr_t>(view));
  if (madvise(reinterpret_cast<void*>(begin), end - begin, MADV_REMOVE) != 0)
    std::memset(reinterpret_cast<void*>(begin), 0, end - begin);
  std::memset(reinterpret_cast<void*>(end), 0, reinterpret_cast<std::uintptr_t>(view) + bytes - end);
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  (void)cudaStreamIsCapturing(stream, &status);
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

namespace fake {

bool is_device_memory(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(heap().mutex);
  const auto found = heap().find(static_cast<const std::byte*>(memory), bytes);
  return found != heap().pieces.end() && found->second.device != kHost;
}

int device_of(const void* memory) {
  const Piece piece = piece_at(memory);
  return piece.device == kHost ? -1 : piece.device;
}

std::byte* view(const void* memory) {
  auto* const place = static_cast<std::byte*>(const_cast<void*>(memory));
  const Piece piece = piece_at(memory);
  return piece.device < 0 ? place : piece.view + (place - piece.place);
}

std::vector<Piece> pieces_of(int device) {
  std::vector<Piece> pieces;
  const std::lock_guard lock(heap().mutex);
  for (const auto& [place, piece] : heap().pieces)
    if (piece.device == device || piece.device == kHost) pieces.push_back(piece);
  return pieces;
}

}  // namespace fake

extern "C" {

void* fake_cuda_host_view(const void* device_pointer) {
  return fake::view(device_pointer);
}

FAKE_EXPORT cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (fake::breaks_capture("cudaMalloc")) return fake::say(cudaErrorStreamCaptureUnsupported);
  return fake::say(take(memory, bytes, fake::current_device()));
}

FAKE_EXPORT cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  (void)fake::current_device();
  constexpr std::size_t kBytes = std::size_t{16} << 30;
  *free = kBytes / 2;
  *total = kBytes;
  return cudaSuccess;
}

/// Waits for everything on the device, as the real one does.
FAKE_EXPORT cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  (void)fake::current_device();
  if (fake::breaks_capture("cudaFree")) return fake::say(cudaErrorStreamCaptureUnsupported);
  const int device = fake::device_of(memory);
  if (device < 0) return fake::say(cudaErrorInvalidValue);
  fake::drain_device(device);
  return fake::say(give_back(memory, false) ? fake::trouble(device) : cudaErrorInvalidValue);
}

FAKE_EXPORT cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream) {
  if (is_capturing(stream)) return fake::say(cudaErrorNotSupported);
  const int device = fake::device_of(stream);
  if (device < 0) return fake::say(cudaErrorInvalidResourceHandle);
  return fake::say(take(memory, bytes, device));
}

FAKE_EXPORT cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  if (fake::device_of(stream) < 0) return fake::say(cudaErrorInvalidResourceHandle);
  fake::enqueue(stream, [memory] { return [memory] { (void)give_back(memory, false); }; });
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  if (fake::breaks_capture("cudaMallocHost")) return fake::say(cudaErrorStreamCaptureUnsupported);
  return fake::say(take(memory, bytes, fake::kHost));
}

FAKE_EXPORT cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return cudaMallocHost(memory, bytes);
}

FAKE_EXPORT cudaError_t cudaFreeHost(void* memory) {
  if (fake::breaks_capture("cudaFreeHost")) return fake::say(cudaErrorStreamCaptureUnsupported);
  return fake::say(memory == nullptr || give_back(memory, true) ? cudaSuccess : cudaErrorInvalidValue);
}

/// Pageable memory is read before the call returns, and written before it does: as the real one goes, through
/// a buffer of its own. Pinned memory is read and written when the stream comes to it.
FAKE_EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                                        cudaStream_t stream) {
  const int device = fake::device_of(stream);
  if (device < 0) return fake::say(cudaErrorInvalidResourceHandle);
  if (!sides_are_right(to, from, bytes, kind)) return fake::say(cudaErrorInvalidValue);
  if (fake::trouble(device) != cudaSuccess) return fake::say(fake::trouble(device));
  if (bytes == 0) return cudaSuccess;
  const bool captured = is_capturing(stream);
  if (is_pageable(from) && !captured) {
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
  if (is_pageable(to) && !captured) fake::find(stream)->queue->drain();
  return fake::say(fake::trouble(device));
}

FAKE_EXPORT cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (fake::breaks_capture("cudaMemcpy")) return fake::say(cudaErrorStreamCaptureUnsupported);
  const cudaError_t result = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return result == cudaSuccess ? cudaStreamSynchronize(nullptr) : result;
}

FAKE_EXPORT cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  const int device = fake::device_of(stream);
  if (device < 0) return fake::say(cudaErrorInvalidResourceHandle);
  if (!fake::is_device_memory(memory, bytes)) return fake::say(cudaErrorInvalidValue);
  fake::enqueue(stream, [memory, value, bytes] {
    return [memory, value, bytes] { fill(fake::view(memory), value, bytes); };
  });
  return fake::say(fake::trouble(device));
}

FAKE_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  (void)fake::current_device();
  const int device = piece_at(memory).device;
  attributes->type = device == -1            ? cudaMemoryTypeUnregistered
                     : device == fake::kHost ? cudaMemoryTypeHost
                                             : cudaMemoryTypeDevice;
  attributes->device = std::max(device, 0);
  return cudaSuccess;
}

}  // extern "C"
