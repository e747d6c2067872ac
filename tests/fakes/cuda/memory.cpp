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

CUresult take(void*& memory, std::size_t bytes, int device) {
  memory = nullptr;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (fake::trouble(device) != CUDA_SUCCESS) return fake::trouble(device);
  fake::Piece piece;
  piece.device = device;
  piece.bytes = (bytes + kPage - 1) / kPage * kPage;
  {
    const std::lock_guard lock(heap().mutex);
    if (device != fake::kHost && heap().taken[device] + piece.bytes > bytes_of_a_device())
      return CUDA_ERROR_OUT_OF_MEMORY;
    if (!make_piece(piece)) {
      if (piece.fd >= 0) close(piece.fd);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    heap().pieces[piece.place] = piece;
    heap().taken[device] += piece.bytes;
  }
  std::memset(piece.view, 0xff, std::min(piece.bytes, kFilled));
  memory = piece.place;
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

/// Which sides of a copy are memory of a device.
enum class Way { to_device, to_host, on_device };

bool sides_are_right(const void* to, const void* from, std::size_t bytes, Way way) {
  return fake::is_device_memory(to, bytes) == (way != Way::to_host) &&
         fake::is_device_memory(from, bytes) == (way != Way::to_device);
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

bool is_capturing(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  (void)cuStreamIsCapturing(stream, &status);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/// Pageable memory is read before the call returns, and written before it does: as the real one goes, through
/// a buffer of its own. Pinned memory is read and written when the stream comes to it.
CUresult copy(void* to, const void* from, std::size_t bytes, Way way, CUstream stream) {
  CUstream_st* own = nullptr;
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  if (!sides_are_right(to, from, bytes, way)) return CUDA_ERROR_INVALID_VALUE;
  const int device = own->device;
  if (fake::trouble(device) != CUDA_SUCCESS) return fake::trouble(device);
  if (bytes == 0) return CUDA_SUCCESS;
  const bool captured = is_capturing(stream);
  if (is_pageable(from) && !captured) {
    const auto* const start = static_cast<const std::byte*>(from);
    auto bytes_now = std::make_shared<std::vector<std::byte>>(start, start + bytes);
    fake::enqueue(stream, [to, bytes_now] {
      return [to, bytes_now] { std::memcpy(fake::view(to), bytes_now->data(), bytes_now->size()); };
    });
    return CUDA_SUCCESS;
  }
  fake::enqueue(stream, [to, from, bytes] {
    return [to, from, bytes] { std::memcpy(fake::view(to), fake::view(from), bytes); };
  });
  if (is_pageable(to) && !captured) own->queue->drain();
  return fake::trouble(device);
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

FAKE_EXPORT CUresult cuMemAlloc(CUdeviceptr* memory, std::size_t bytes) {
  int device = -1;
  if (const CUresult found = fake::require_context(device); found != CUDA_SUCCESS) return found;
  if (fake::breaks_capture("cuMemAlloc")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  void* taken = nullptr;
  const CUresult result = take(taken, bytes, device);
  *memory = fake::number_of(taken);
  return result;
}

FAKE_EXPORT CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  int device = -1;
  if (const CUresult found = fake::require_context(device); found != CUDA_SUCCESS) return found;
  constexpr std::size_t kBytes = std::size_t{16} << 30;
  *free = kBytes / 2;
  *total = kBytes;
  return CUDA_SUCCESS;
}

/// Waits for everything on the device, as the real one does.
FAKE_EXPORT CUresult cuMemFree(CUdeviceptr number) {
  int current = -1;
  if (const CUresult found = fake::require_context(current); found != CUDA_SUCCESS) return found;
  if (number == 0) return CUDA_SUCCESS;
  if (fake::breaks_capture("cuMemFree")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  void* const memory = fake::address_of(number);
  const int device = fake::device_of(memory);
  if (device < 0) return CUDA_ERROR_INVALID_VALUE;
  fake::drain_device(device);
  return give_back(memory, false) ? fake::trouble(device) : CUDA_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* memory, std::size_t bytes, CUstream stream) {
  CUstream_st* own = nullptr;
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  if (is_capturing(stream)) return CUDA_ERROR_NOT_SUPPORTED;
  void* taken = nullptr;
  const CUresult result = take(taken, bytes, own->device);
  *memory = fake::number_of(taken);
  return result;
}

FAKE_EXPORT CUresult cuMemFreeAsync(CUdeviceptr number, CUstream stream) {
  CUstream_st* own = nullptr;
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  fake::enqueue(stream, [number] { return [number] { (void)give_back(fake::address_of(number), false); }; });
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuMemAllocHost(void** memory, std::size_t bytes) {
  int device = -1;
  if (const CUresult found = fake::require_context(device); found != CUDA_SUCCESS) return found;
  if (fake::breaks_capture("cuMemAllocHost")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return take(*memory, bytes, fake::kHost);
}

FAKE_EXPORT CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return cuMemAllocHost(memory, bytes);
}

FAKE_EXPORT CUresult cuMemFreeHost(void* memory) {
  if (const CUresult started = fake::require_driver(); started != CUDA_SUCCESS) return started;
  if (fake::breaks_capture("cuMemFreeHost")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return memory == nullptr || give_back(memory, true) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return copy(fake::address_of(to), from, bytes, Way::to_device, stream);
}

FAKE_EXPORT CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(to, fake::address_of(from), bytes, Way::to_host, stream);
}

FAKE_EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(fake::address_of(to), fake::address_of(from), bytes, Way::on_device, stream);
}

FAKE_EXPORT CUresult cuMemsetD8Async(CUdeviceptr number, unsigned char value, std::size_t bytes,
                                     CUstream stream) {
  CUstream_st* own = nullptr;
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  const void* const memory = fake::address_of(number);
  if (!fake::is_device_memory(memory, bytes)) return CUDA_ERROR_INVALID_VALUE;
  fake::enqueue(stream, [memory, value, bytes] {
    return [memory, value, bytes] { fill(fake::view(memory), value, bytes); };
  });
  return fake::trouble(own->device);
}

/// Addresses mean the same in all contexts, so that none has to be current. Of memory that is not of CUDA the
/// answers are zeros.
FAKE_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                            CUdeviceptr number) {
  if (const CUresult started = fake::require_driver(); started != CUDA_SUCCESS) return started;
  const int device = piece_at(fake::address_of(number)).device;
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: {
        const unsigned type = device == -1            ? 0U
                              : device == fake::kHost ? unsigned{CU_MEMORYTYPE_HOST}
                                                      : unsigned{CU_MEMORYTYPE_DEVICE};
        std::memcpy(data[i], &type, sizeof(type));
        break;
      }
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        // One byte: programs may give a bool.
        *static_cast<bool*>(data[i]) = false;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
