// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/message/plugin_group.hpp"

#include "rendezvous/base/text.hpp"
#include "worker_sdk/comm/message/message_group.hpp"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <utility>

namespace muster::message {

std::string name_of(const muster_plugin_group_options& options, int rank) {
  const std::string host = options.hosts[rank];
  const int shown = options.shown_ranks == nullptr ? rank : options.shown_ranks[rank];
  return "rank " + std::to_string(shown) + (host.empty() ? "" : " (host " + host + ")");
}

namespace {

/// The time that a leaving rank waits for the others to leave.
constexpr auto kLeaveTime = std::chrono::seconds(1);

/// While this object lives, a write to a connection that the other side has closed does not end the process:
/// Gloo writes without MSG_NOSIGNAL, and the program's own handling of SIGPIPE must not be changed. Threads
/// that are started meanwhile never get the signal.
class PipeSignalBlock {
 public:
  PipeSignalBlock() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }

  ~PipeSignalBlock() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec no_time{};
    // A signal that is pending now was raised by our writes, because an earlier one would have been
    // delivered.
    while (sigtimedwait(&signal_, nullptr, &no_time) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  PipeSignalBlock(const PipeSignalBlock&) = delete;
  PipeSignalBlock& operator=(const PipeSignalBlock&) = delete;

 private:
  sigset_t signal_;
  sigset_t before_;
};

std::string key_here(int rank) {
  return "here/" + std::to_string(rank);
}

GroupInfo info_of(const muster_plugin_group_options& options) {
  GroupInfo info;
  info.rank = options.rank;
  info.size = options.size;
  info.timeout = std::chrono::milliseconds(options.timeout_ms);
  info.name = options.group;
  for (int rank = 0; rank < options.size; ++rank) info.peers.push_back(name_of(options, rank));
  return info;
}

class PluginGroup final : public plugin::Group {
 public:
  PluginGroup(std::unique_ptr<Transport> transport, GroupInfo info)
      : messages_(std::make_unique<MessageGroup>(std::move(transport), std::move(info))) {}

  ~PluginGroup() override {
    const PipeSignalBlock block;
    if (!failed_) {
      messages_->leave(kLeaveTime);
    } else if (!messages_->give_up()) {
      static_cast<void>(messages_.release());  // not freed, because its memory is still in use
    }
    messages_.reset();  // destroyed here, while the signal is blocked
  }

  void run(std::span<const Operation> batch) override {
    const PipeSignalBlock block;
    try {
      messages_->run(batch);
    } catch (...) {
      failed_ = true;
      throw;
    }
  }

  void abort(ErrorCode code, const std::string& text) noexcept override {
    failed_ = true;
    messages_->transport().interrupt(code, text);
  }

  std::string missing() const override { return messages_->missing(); }

  Wire wire() const override { return messages_->wire(); }

 private:
  std::unique_ptr<MessageGroup> messages_;
  std::atomic<bool> failed_{false};
};

}  // namespace

void say_here(const muster_plugin_group_options& options, const plugin::Host& host) {
  host.set(key_here(options.rank), "1");
}

std::string list_absent(const muster_plugin_group_options& options, const plugin::Host& host) {
  constexpr int kMostNames = 8;
  std::string names;
  int absent = 0;
  for (int rank = 0; rank < options.size; ++rank) {
    try {
      host.get(key_here(rank), std::chrono::milliseconds(0));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::deadline) throw;
      if (++absent <= kMostNames) names += (names.empty() ? "" : ", ") + name_of(options, rank);
    }
  }
  return names + and_more(static_cast<std::size_t>(std::max(absent - kMostNames, 0)));
}

Error too_late(const muster_plugin_group_options& options, const std::string& absent) {
  return Error(ErrorCode::deadline,
               name_of(options, options.rank) + " waited " + std::to_string(options.join_timeout_ms) +
                   " ms to join the group '" + options.group + "' (" + std::to_string(options.size) +
                   " ranks) for " + (absent.empty() ? "a rank that came only now" : absent) +
                   "; see what these ranks do, and whether they still run");
}

std::unique_ptr<plugin::Group> make_group(Connect connect, const muster_plugin_group_options& options,
                                          const plugin::Host& host) {
  const PipeSignalBlock block;
  return std::make_unique<PluginGroup>(connect(options, host), info_of(options));
}

}  // namespace muster::message
