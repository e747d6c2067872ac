// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/message/plugin_table.hpp"

#include "rendezvous/base/text.hpp"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

namespace muster::message {
namespace {

/// A rank that goes waits so long for the others to go.
constexpr auto kLeaveTime = std::chrono::seconds(1);

/// While it lives, a write to a connection that the other side has closed does not end the process: Gloo
/// writes without MSG_NOSIGNAL, and what the program does about SIGPIPE is not ours to change. Threads that
/// are started meanwhile never get it.
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
    // One that came meanwhile is ours: an earlier one would have been delivered.
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

struct PluginGroup {
  PluginGroup(std::unique_ptr<Transport> transport, GroupInfo info)
      : messages(std::move(transport), std::move(info)) {}

  MessageGroup messages;
  std::vector<Operation> batch;  ///< kept for its memory
  std::atomic<bool> failed{false};
  int size = 1;
};

Operation converted(const muster_plugin_operation& plain, int size) {
  Operation operation;
  operation.call.sequence = plain.sequence;
  operation.call.count = plain.count;
  operation.call.signature = plain.signature;
  operation.call.root = plain.root;
  operation.call.tag = plain.tag;
  operation.call.collective = static_cast<Collective>(plain.collective);
  operation.call.type = static_cast<DataType>(plain.type);
  operation.call.op = static_cast<ReduceOp>(plain.op);
  operation.in = plain.in;
  operation.out = plain.out;
  if (plain.counts != nullptr) operation.counts = {plain.counts, static_cast<std::size_t>(size)};
  return operation;
}

std::string name_of(const muster_plugin_group_options& options, int rank) {
  const std::string host = options.hosts[rank];
  const int shown = options.shown_ranks == nullptr ? rank : options.shown_ranks[rank];
  return "rank " + std::to_string(shown) + (host.empty() ? "" : " (host " + host + ")");
}

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

}  // namespace

void Host::set(const std::string& key, const std::string& value) const {
  muster_plugin_error error{};
  if (host_.store_set(host_.context, key.c_str(), value.data(), value.size(), &error) != 0)
    throw Error(static_cast<ErrorCode>(error.code), error.text);
}

std::string Host::get(const std::string& key, std::chrono::milliseconds limit) const {
  muster_plugin_error error{};
  void* value = nullptr;
  std::size_t bytes = 0;
  if (host_.store_get(host_.context, key.c_str(), limit.count(), &value, &bytes, &error) != 0)
    throw Error(static_cast<ErrorCode>(error.code), error.text);
  std::string text(static_cast<const char*>(value), bytes);
  host_.release(value);
  return text;
}

void Host::check() const {
  muster_plugin_error error{};
  if (host_.aborted(host_.context, &error) != 0) throw Error(static_cast<ErrorCode>(error.code), error.text);
}

void say_here(const muster_plugin_group_options& options, const Host& host) {
  host.set(key_here(options.rank), "1");
}

std::string list_absent(const muster_plugin_group_options& options, const Host& host) {
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

void set_error(muster_plugin_error* error, ErrorCode code, const std::string& text) {
  error->code = static_cast<int32_t>(code);
  const std::size_t length = std::min(text.size(), sizeof(error->text) - 1);
  std::memcpy(error->text, text.data(), length);
  error->text[length] = '\0';
}

int32_t create_group(Connect connect, const muster_plugin_group_options* options,
                     const muster_plugin_host* host, void** group, muster_plugin_error* error) {
  const PipeSignalBlock block;
  return guarded(error, [&] {
    auto made = std::make_unique<PluginGroup>(connect(*options, Host(*host)), info_of(*options));
    made->size = options->size;
    *group = made.release();
  });
}

int32_t run_group(void* group, const muster_plugin_operation* batch, size_t count,
                  muster_plugin_error* error) {
  const PipeSignalBlock block;
  auto& self = *static_cast<PluginGroup*>(group);
  const int32_t code = guarded(error, [&] {
    self.batch.clear();
    for (std::size_t i = 0; i < count; ++i) self.batch.push_back(converted(batch[i], self.size));
    self.messages.run(self.batch);
  });
  if (code != 0) self.failed = true;
  return code;
}

void describe_wait(void* group, char* text, size_t capacity) {
  const std::string missing = static_cast<PluginGroup*>(group)->messages.missing();
  const std::size_t length = std::min(missing.size(), capacity - 1);
  std::memcpy(text, missing.data(), length);
  text[length] = '\0';
}

void abort_group(void* group, int32_t code, const char* text) {
  auto& self = *static_cast<PluginGroup*>(group);
  self.failed = true;
  self.messages.transport().interrupt(static_cast<ErrorCode>(code), text);
}

void destroy_group(void* group) {
  const PipeSignalBlock block;
  std::unique_ptr<PluginGroup> self(static_cast<PluginGroup*>(group));
  if (!self->failed) return self->messages.leave(kLeaveTime);
  if (!self->messages.give_up()) static_cast<void>(self.release());  // left on purpose
}

}  // namespace muster::message
