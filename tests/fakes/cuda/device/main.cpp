// SPDX-License-Identifier: Apache-2.0
// fake_device: what a GPU is to the fake of CUDA. It has the memory of its device at the addresses where the
// program has it, and nothing else, so a kernel that touches anything else ends this process; the program
// then gets CUDA_ERROR_ILLEGAL_ADDRESS, as from a GPU. It ends with the program's end of the socket.
#include "tests/fakes/cuda/device/kernels.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <set>

namespace {

using namespace fake;  // NOLINT(google-build-using-namespace) a program of one file

char doing[160] = "nothing";
std::set<std::uint64_t> mapped;

void on_fault(int) {
  (void)!write(2, "fake_device: no memory of this device was touched by ", 53);
  (void)!write(2, static_cast<const char*>(doing), std::strlen(doing));
  (void)!write(2, "\n", 1);
  _exit(1);
}

/// The request and the file that came with it, or -1. False at the end of the socket.
bool receive(Request& request, int& fd) {
  iovec bytes = {&request, sizeof(request)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(kSocket, &message, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof(request))) return false;
  fd = -1;
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&message)) std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return true;
}

/// A piece that was made while the process started may be shown twice.
Outcome map(const Request& request, int fd) {
  if (!mapped.insert(request.place).second) {
    close(fd);
    return Outcome::done;
  }
  void* const wish = reinterpret_cast<void*>(request.place);
  void* const place =
      mmap(wish, request.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
  close(fd);
  return place == wish ? Outcome::done : Outcome::no_place;
}

Outcome launch(const Request& request) {
  const Kernel* const kernel = kernel_at(request.kernel);
  if (kernel == nullptr || request.threads > kernel->threads) return Outcome::bad_launch;
  std::snprintf(doing, sizeof(doing), "%s", kernel->name);
  kernel->run(request.argument, static_cast<int>(request.blocks), static_cast<int>(request.threads));
  return Outcome::done;
}

Answer serve(const Request& request, int fd) {
  Answer answer;
  switch (request.order) {
    case Order::map:
      answer.outcome = map(request, fd);
      break;
    case Order::unmap:
      mapped.erase(request.place);
      munmap(reinterpret_cast<void*>(request.place), request.bytes);
      break;
    case Order::find_kernel: {
      const Kernel* const kernel = find_kernel(static_cast<const char*>(request.name), answer.kernel);
      answer.outcome = kernel == nullptr ? Outcome::unknown_kernel : Outcome::done;
      answer.bytes = kernel == nullptr ? 0 : kernel->bytes;
      break;
    }
    case Order::launch:
      answer.outcome = launch(request);
      break;
    case Order::convolve:
      std::snprintf(doing, sizeof(doing), "a convolution");
      convolve(request.convolution);
      break;
    case Order::multiply:
      std::snprintf(doing, sizeof(doing), "a product");
      multiply(request.product);
      break;
  }
  return answer;
}

}  // namespace

int main() {
  for (const int number : {SIGSEGV, SIGBUS}) (void)std::signal(number, on_fault);
  Request request;
  int fd = -1;
  while (receive(request, fd)) {
    const Answer answer = serve(request, fd);
    if (send(kSocket, &answer, sizeof(answer), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(answer))) break;
  }
  return 0;
}
