// SPDX-License-Identifier: Apache-2.0
// The C++ side of a plug-in: the SDK's functions with C++ types and errors (Host), the groups that the
// plug-in makes (Group), and the table that it exports (table_of).
#pragma once

#include "worker_sdk/comm/backend.hpp"
#include "worker_sdk/comm/plugin/border.hpp"
#include "worker_sdk/comm/plugin/table.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace muster::plugin {

/// The SDK's functions for a plug-in: a view of the table, which says which thread may call which function.
/// All but fail_group() and log() throw Error.
class Host {
 public:
  explicit Host(const muster_plugin_host& table) : table_(&table) {}

  void set(const std::string& key, const std::string& value) const {
    call_or_throw(table_->store_set, table_->context, key.c_str(), value.data(), value.size());
  }

  std::string get(const std::string& key, std::chrono::milliseconds limit) const {
    void* value = nullptr;
    std::size_t bytes = 0;
    call_or_throw(table_->store_get, table_->context, key.c_str(), limit.count(), &value, &bytes);
    return take(value, bytes);
  }

  void post(const std::string& key, const std::string& value) const {
    call_or_throw(table_->post, table_->context, key.c_str(), value.data(), value.size());
  }

  std::optional<std::string> peek(const std::string& key) const {
    void* value = nullptr;
    std::size_t bytes = 0;
    call_or_throw(table_->peek, table_->context, key.c_str(), &value, &bytes);
    if (value == nullptr) return std::nullopt;
    return take(value, bytes);
  }

  /// The reason why the group was aborted, by whichever rank; empty if it was not.
  std::optional<Error> aborted() const { return try_call(table_->aborted, table_->context); }

  void fail_group(const Error& error) const {
    table_->fail_group(table_->context, static_cast<std::int32_t>(error.code()), error.what());
  }

  void log(const std::string& text) const { table_->log(table_->context, text.c_str()); }

 private:
  std::string take(void* value, std::size_t bytes) const {
    std::string text(static_cast<const char*>(value), bytes);
    table_->release(value);
    return text;
  }

  const muster_plugin_host* table_;
};

/// One group of a plug-in. Its functions are those of Backend, with the rules that the table gives for them.
class Group {
 public:
  Group() = default;
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  virtual void run(std::span<const Operation> batch) = 0;
  virtual void abort(ErrorCode code, const std::string& text) noexcept = 0;

  /// The ranks that run() waits for. Any thread.
  virtual std::string missing() const { return ""; }

  /// The bytes that this rank has sent. Any thread.
  virtual Wire wire() const { return {}; }

  /// The completion of the newest batch; only for device backends, and never null there.
  virtual std::unique_ptr<Completion> last_run() { return nullptr; }

  /// Memory of the device; only for device backends, like the functions that follow. May throw.
  virtual void* allocate(const Call&) { return nullptr; }

  /// Whether the program can touch the memory. Any thread; may throw.
  virtual bool is_host(const void*) const { return true; }

  virtual void note(const Call&) noexcept {}

  /// Calls `work` as Backend::launch() does. May throw, and lets exceptions of `work` out.
  virtual void launch(const std::function<void()>& work) { work(); }
};

/// The parts that differ from plug-in to plug-in.
struct Maker {
  const char* name;
  bool is_device;
  Words words;
  /// Gives the identity of the device; throws Error that says why this process cannot use the plug-in.
  std::string (*probe)(int local_rank);
  std::unique_ptr<Group> (*create)(const muster_plugin_group_options& options, const Host& host);
};

template <const Maker& maker>
constexpr muster_plugin table_of() {
  muster_plugin table{};
  table.version = kTableVersion;
  table.name = maker.name;
  table.is_device = maker.is_device ? 1 : 0;
  table.probe = [](std::int32_t local_rank, char* device, muster_plugin_error* error) {
    return guarded(error, maker.words, [&] { copy_text(maker.probe(local_rank), device, kDeviceBytes); });
  };
  table.create = [](const muster_plugin_group_options* options, const muster_plugin_host* host, void** group,
                    muster_plugin_error* error) {
    return guarded(error, maker.words, [&] { *group = maker.create(*options, Host(*host)).release(); });
  };
  table.run = [](void* group, const Operation* batch, std::size_t count, muster_plugin_error* error) {
    return guarded(error, maker.words, [&] { static_cast<Group*>(group)->run(std::span(batch, count)); });
  };
  table.mark = [](void* group, void** token, muster_plugin_error* error) {
    return guarded(error, maker.words, [&] { *token = static_cast<Group*>(group)->last_run().release(); });
  };
  table.test = [](void* token, std::int32_t* done, muster_plugin_error* error) {
    return guarded(error, maker.words, [&] { *done = static_cast<Completion*>(token)->test() ? 1 : 0; });
  };
  table.release_token = [](void* token) { delete static_cast<Completion*>(token); };
  table.allocate = [](void* group, const Call* call, void** memory, muster_plugin_error* error) {
    return guarded(error, maker.words, [&] { *memory = static_cast<Group*>(group)->allocate(*call); });
  };
  table.classify = [](void* group, const void* memory, std::int32_t* is_host, muster_plugin_error* error) {
    return guarded(error, maker.words,
                   [&] { *is_host = static_cast<const Group*>(group)->is_host(memory) ? 1 : 0; });
  };
  table.note = [](void* group, const Call* call) { static_cast<Group*>(group)->note(*call); };
  table.launch = [](void* group, void (*work)(void*), void* context, muster_plugin_error* error) {
    return guarded(error, maker.words,
                   [&] { static_cast<Group*>(group)->launch([work, context] { work(context); }); });
  };
  table.describe_wait = [](void* group, char* text, std::size_t capacity) noexcept {
    copy_text(static_cast<Group*>(group)->missing(), text, capacity);
  };
  table.wire = [](void* group, Wire* wire) noexcept { *wire = static_cast<Group*>(group)->wire(); };
  table.abort = [](void* group, std::int32_t code, const char* text) noexcept {
    static_cast<Group*>(group)->abort(static_cast<ErrorCode>(code), text);
  };
  table.destroy = [](void* group) { delete static_cast<Group*>(group); };
  return table;
}

}  // namespace muster::plugin

extern "C" [[gnu::visibility("default")]] const muster_plugin* muster_plugin_entry();
