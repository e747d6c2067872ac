// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/plugin/failure_channel.hpp"

#include "rendezvous/base/quiet_thread.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

namespace muster::plugin {
namespace {

using Clock = std::chrono::steady_clock;

/// The interval in which listeners are called to look around.
constexpr auto kLookInterval = std::chrono::milliseconds(500);
/// The time after which the store counts as lost, because the end of a world waits for the last message.
constexpr auto kStoreTimeout = std::chrono::seconds(5);
/// The most bytes of a text from the store: a page is more than anybody reads.
constexpr std::size_t kMaxTextBytes = 4000;

/// A message in the store: "<code>\n<group>\n<text>".
std::string encoded(ErrorCode code, const std::string& group, const std::string& text) {
  return std::to_string(static_cast<int>(code)) + "\n" + group + "\n" + text.substr(0, kMaxTextBytes);
}

std::optional<std::string> group_of(const std::string& event) {
  const auto first = event.find('\n');
  const auto second = first == std::string::npos ? first : event.find('\n', first + 1);
  if (second == std::string::npos) return {};
  return event.substr(first + 1, second - first - 1);
}

}  // namespace

FailureChannel::FailureChannel(StoreClient& store, std::string prefix)
    : store_(store.clone()), prefix_(std::move(prefix)) {
  if (!wake_up_) throw Error(ErrorCode::io, std::string("cannot make an eventfd: ") + std::strerror(errno));
  store_->set_timeout(kStoreTimeout);
  thread_ = quiet_thread([this] { watch(); });
}

FailureChannel::~FailureChannel() {
  {
    const std::lock_guard lock(outbox_mutex_);
    stop_ = true;
  }
  wake_up_.signal();
  thread_.join();
}

void FailureChannel::join(const std::string& group, FailureListener& listener) {
  std::optional<Failure> told;
  {
    const std::lock_guard lock(mutex_);
    listeners_[group] = &listener;
    const auto known = failures_.find(group);
    if (known != failures_.end()) told = known->second;
  }
  // The listener is called without the lock, because it may wait for a message that this channel has to
  // deliver.
  if (told) listener.group_failed(told->code, told->text);
}

bool FailureChannel::is_delivering() const noexcept {
  return thread_.get_id() == std::this_thread::get_id();
}

void FailureChannel::leave(const std::string& group) {
  const std::lock_guard lock(mutex_);
  listeners_.erase(group);
}

void FailureChannel::tell(const std::string& group, ErrorCode code, const std::string& text) noexcept {
  {
    const std::lock_guard lock(outbox_mutex_);
    outbox_.push_back({group, {code, text}});
  }
  wake_up_.signal();
}

/// Runs the channel's thread. A lost store is not reported here, because the calls that need it report it.
void FailureChannel::watch() noexcept {
  try {
    for (std::int64_t next = 1;;) {
      send_out(next);
      {
        const std::lock_guard lock(outbox_mutex_);
        if (stop_ && outbox_.empty()) return;
      }
      const std::string key = prefix_ + "event/" + std::to_string(next);
      if (store_->wait_or_wake({key}, wake_up_.fd(), kLookInterval)) {
        receive(store_->get(key));
        ++next;
      }
      look_around();
    }
  } catch (const std::exception&) {
  }
  try {
    go_on_alone();
  } catch (const std::exception&) {
  }
}

/// Delivers this rank's own messages to its own listeners after the store was lost, although other ranks may
/// have told an earlier failure.
void FailureChannel::go_on_alone() {
  for (;;) {
    wake_up_.clear();
    for (;;) {
      Message message;
      {
        const std::lock_guard lock(outbox_mutex_);
        if (outbox_.empty() && stop_) return;
        if (outbox_.empty()) break;
        message = std::move(outbox_.front());
        outbox_.pop_front();
      }
      deliver(message.group, message.failure);
    }
    look_around();
    pollfd woken{wake_up_.fd(), POLLIN, 0};
    poll(&woken, 1, static_cast<int>(kLookInterval.count()));
  }
}

/// Sends the waiting messages to the store. `next` is the first event that has not been received.
void FailureChannel::send_out(std::int64_t next) {
  wake_up_.clear();
  for (;;) {
    Message message;
    {
      const std::lock_guard lock(outbox_mutex_);
      if (outbox_.empty()) return;
      message = outbox_.front();
    }
    send(message, next);
    // The message is removed only now, so that it is delivered locally if the store did not take it.
    const std::lock_guard lock(outbox_mutex_);
    outbox_.pop_front();
  }
}

/// Sends a message: it takes the first free event number from `number` on and fills it in one request. With
/// two requests, a rank that died in between would leave a gap at which all others wait.
void FailureChannel::send(const Message& message, std::int64_t number) {
  const std::string event = encoded(message.failure.code, message.group, message.failure.text);
  for (;; ++number) {
    const std::string key = prefix_ + "event/" + std::to_string(number);
    const std::string there = store_->compare_set(key, "", event);
    if (there == event) {
      // Some servers do not wake the ranks that wait for a key made by compare_set, but set does.
      store_->set(key, event);
      return;
    }
    // The first failure of a group counts, so a later one is not sent.
    if (group_of(there) == message.group) return;
  }
}

void FailureChannel::receive(const std::string& event) {
  const auto group = group_of(event);
  if (!group) return;
  const auto first = event.find('\n');
  int code = 0;
  std::from_chars(event.data(), event.data() + first, code);
  deliver(*group, {static_cast<ErrorCode>(code), event.substr(first + 1 + group->size() + 1)});
}

void FailureChannel::deliver(const std::string& group, const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (!failures_.emplace(group, failure).second) return;
  const auto listener = listeners_.find(group);
  if (listener != listeners_.end()) listener->second->group_failed(failure.code, failure.text);
}

void FailureChannel::look_around() {
  const std::lock_guard lock(mutex_);
  for (const auto& [group, listener] : listeners_) listener->look(Clock::now());
}

}  // namespace muster::plugin
