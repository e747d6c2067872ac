// SPDX-License-Identifier: Apache-2.0
// The program's end of the processes of devices.
#include "tests/fakes/cuda/device/protocol.hpp"
#include "tests/fakes/cuda/internal.hpp"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace fake {
namespace {

constexpr std::size_t kMostDevices = 16;

struct Device {
  std::mutex mutex;
  int socket = -1;
  pid_t pid = -1;
  std::atomic<CUresult> error{CUDA_SUCCESS};
};

Device& device_at(int device) {
  static auto* const all = new std::array<Device, kMostDevices>;
  return all->at(static_cast<std::size_t>(device));
}

/// It lies beside this library.
std::string program() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&start_device), &info) == 0) return "";
  return std::filesystem::path(info.dli_fname).parent_path() / "fake_device";
}

/// The process ends when the last copy of our end of the socket is closed: when this program ends, however it
/// does. (A parent-death signal would come when the thread ends that starts it.)
bool spawn(Device& device) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  const std::string path = program();
  char* arguments[] = {const_cast<char*>(path.c_str()), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kSocket);
  const int failure = posix_spawn(&device.pid, path.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failure == 0) {
    device.socket = ends[0];
    return true;
  }
  close(ends[0]);
  std::fprintf(stderr, "the fake of CUDA cannot start %s: %s\n", path.c_str(), std::strerror(failure));
  return false;
}

bool send_request(int socket, const Request& request, int fd) {
  iovec bytes = {const_cast<Request*>(&request), sizeof(request)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(request));
}

/// The device's mutex is held. A process that ends has touched memory that is not its own.
CUresult exchange(Device& device, const Request& request, int fd, Answer& answer) {
  if (device.error != CUDA_SUCCESS) return device.error;
  if (!send_request(device.socket, request, fd) ||
      recv(device.socket, &answer, sizeof(answer), 0) != static_cast<ssize_t>(sizeof(answer))) {
    device.error = CUDA_ERROR_ILLEGAL_ADDRESS;
    return device.error;
  }
  switch (answer.outcome) {
    case Outcome::done:
      return CUDA_SUCCESS;
    case Outcome::unknown_kernel:
      return CUDA_ERROR_NOT_FOUND;
    case Outcome::bad_launch:
      return CUDA_ERROR_INVALID_VALUE;
    case Outcome::no_place:
      break;
  }
  std::fputs("the fake of a device cannot map memory where the program has it\n", stderr);
  device.error = CUDA_ERROR_UNKNOWN;
  return device.error;
}

CUresult show(Device& device, const Piece& piece) {
  Request request(Order::map);
  request.place = reinterpret_cast<std::uintptr_t>(piece.place);
  request.bytes = piece.bytes;
  Answer answer;
  return exchange(device, request, piece.fd, answer);
}

template <typename Body>
void each_running(int device, const Body& body) {
  for (std::size_t i = 0; i < kMostDevices; ++i) {
    if (device != kHost && device != static_cast<int>(i)) continue;
    Device& each = device_at(static_cast<int>(i));
    const std::lock_guard lock(each.mutex);
    if (each.socket >= 0) body(each);
  }
}

}  // namespace

CUresult trouble(int device) {
  return device < 0 ? CUDA_SUCCESS : device_at(device).error.load();
}

void lose_device(int device, CUresult error) {
  device_at(device).error = error;
}

CUresult fault_at(const std::string& place, int device, Moment moment) {
  static std::mutex mutex;
  static std::string counted;  // the fault whose places `calls` counts
  static int calls = 0;
  const char* const text = std::getenv("FAKE_CUDA_FAULT");
  if (text == nullptr) return CUDA_SUCCESS;
  int error = 0;
  char name[64];
  int number = 0;
  int on_device = 0;
  if (std::sscanf(text, "%d@%63[^#]#%d:%d", &error, name, &number, &on_device) != 4) std::abort();
  const bool at_call = error == CUDA_ERROR_OUT_OF_MEMORY;
  if (place != name || device != on_device || at_call != (moment == Moment::call)) return CUDA_SUCCESS;
  const std::lock_guard lock(mutex);
  if (counted != text) calls = 0;
  counted = text;
  return ++calls == number ? static_cast<CUresult>(error) : CUDA_SUCCESS;
}

CUresult start_device(int number) {
  Device& device = device_at(number);
  const std::lock_guard lock(device.mutex);
  if (device.socket >= 0 || device.error != CUDA_SUCCESS) return device.error;
  if (!spawn(device)) return device.error = CUDA_ERROR_UNKNOWN;
  for (const Piece& piece : pieces_of(number))
    if (show(device, piece) != CUDA_SUCCESS) break;
  return device.error;
}

int process_of(int number) {
  Device& device = device_at(number);
  const std::lock_guard lock(device.mutex);
  return device.pid;
}

CUresult show_to_devices(const Piece& piece) {
  CUresult result = CUDA_SUCCESS;
  each_running(piece.device, [&](Device& device) { result = show(device, piece); });
  return result;
}

void hide_from_devices(const Piece& piece) {
  Request request(Order::unmap);
  request.place = reinterpret_cast<std::uintptr_t>(piece.place);
  request.bytes = piece.bytes;
  each_running(piece.device, [&](Device& device) {
    Answer answer;
    (void)exchange(device, request, -1, answer);
  });
}

CUresult ask_device(int number, const Request& request) {
  Answer answer;
  return ask_device(number, request, answer);
}

CUresult ask_device(int number, const Request& request, Answer& answer) {
  Device& device = device_at(number);
  const std::lock_guard lock(device.mutex);
  if (device.socket < 0) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = exchange(device, request, -1, answer);
  // What was refused on a queue cannot be told to the call that put it there.
  if (result != CUDA_SUCCESS && request.order != Order::find_kernel) device.error = result;
  return result;
}

}  // namespace fake
