// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/quiet_thread.hpp"
#include "worker_sdk/store/stream.hpp"

#include <netdb.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace muster {
namespace {

/// The answer of getaddrinfo(). `error` is empty on success.
struct Answer {
  std::vector<SocketAddress> addresses;
  std::string error;
  bool name_needed = false;
};

Answer look_up(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  const int system_error = errno;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, [](addrinfo* head) {
    if (head != nullptr) freeaddrinfo(head);
  });
  Answer answer;
  if (code != 0) {
    answer.name_needed = code == EAI_NONAME;
    answer.error = code == EAI_SYSTEM ? std::generic_category().message(system_error) : gai_strerror(code);
    return answer;
  }
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    answer.addresses.push_back(address);
  }
  if (answer.addresses.empty()) answer.error = "no address";
  return answer;
}

/// The state of a look-up. The look-up thread shares it, because that thread may outlive the call that
/// started it.
struct Pending {
  std::mutex mutex;
  std::condition_variable done_signal;
  bool done = false;
  Answer answer;
};

Answer look_up_name(const std::string& host, int port, std::chrono::steady_clock::time_point deadline) {
  const auto pending = std::make_shared<Pending>();
  quiet_thread([pending, host, port] {
    Answer answer = look_up(host, port, AI_ADDRCONFIG);
    const std::lock_guard lock(pending->mutex);
    pending->answer = std::move(answer);
    pending->done = true;
    pending->done_signal.notify_all();
  }).detach();
  std::unique_lock lock(pending->mutex);
  if (!pending->done_signal.wait_until(lock, deadline, [&] { return pending->done; })) {
    Answer late;
    late.error = "the name service gave no answer in time";
    return late;
  }
  return std::move(pending->answer);
}

}  // namespace

std::vector<SocketAddress> resolve(const std::string& host, int port,
                                   std::chrono::steady_clock::time_point deadline) {
  Answer answer = look_up(host, port, AI_NUMERICHOST);
  if (answer.name_needed) answer = look_up_name(host, port, deadline);
  if (!answer.error.empty()) throw std::runtime_error("cannot resolve '" + host + "': " + answer.error);
  return std::move(answer.addresses);
}

}  // namespace muster
