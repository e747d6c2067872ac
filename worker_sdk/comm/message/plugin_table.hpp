// SPDX-License-Identifier: Apache-2.0
// A plug-in whose work is done by a MessageGroup: everything but the connections.
#pragma once

#include "worker_sdk/comm/message/message_group.hpp"
#include "worker_sdk/comm/message/transport.hpp"
#include "worker_sdk/comm/plugin/plugin.h"

#include <chrono>
#include <memory>
#include <new>
#include <string>

namespace muster::message {

/// The SDK's side, with errors as exceptions. Only while create() runs, except aborted().
class Host {
 public:
  explicit Host(const muster_plugin_host& host) : host_(host) {}

  void set(const std::string& key, const std::string& value) const;
  std::string get(const std::string& key, std::chrono::milliseconds limit) const;
  /// Throws what the group was aborted with, if it was.
  void check() const;

 private:
  const muster_plugin_host& host_;
};

/// Says at the store that this rank has come to the group.
void say_here(const muster_plugin_group_options& options, const Host& host);
/// "rank 1 (host a), rank 3 (host b)": those that have not said so; "" when all have.
std::string list_absent(const muster_plugin_group_options& options, const Host& host);
/// The error of a rank whose time for joining is over, where list_absent() names some.
Error too_late(const muster_plugin_group_options& options, const std::string& absent);

/// Makes the connections of a group.
using Connect = std::unique_ptr<Transport> (*)(const muster_plugin_group_options& options, const Host& host);
/// Throws Error that says why this process cannot use the plug-in.
using Probe = void (*)();

void set_error(muster_plugin_error* error, ErrorCode code, const std::string& text);

/// Runs `body`; what it throws goes to `error`.
template <typename Body>
int32_t guarded(muster_plugin_error* error, const Body& body) noexcept {
  try {
    body();
    return 0;
  } catch (const Error& failure) {
    set_error(error, failure.code(), failure.what());
    return static_cast<int32_t>(failure.code());
  } catch (const std::bad_alloc&) {
    set_error(error, ErrorCode::out_of_memory, "no memory for a call's data; use smaller buffers");
    return static_cast<int32_t>(ErrorCode::out_of_memory);
  } catch (const std::exception& failure) {
    set_error(error, ErrorCode::backend, failure.what());
    return static_cast<int32_t>(ErrorCode::backend);
  }
}

int32_t create_group(Connect connect, const muster_plugin_group_options* options,
                     const muster_plugin_host* host, void** group, muster_plugin_error* error);
int32_t run_group(void* group, const muster_plugin_operation* batch, size_t count,
                  muster_plugin_error* error);
void describe_wait(void* group, char* text, size_t capacity);
void abort_group(void* group, int32_t code, const char* text);
void destroy_group(void* group);

/// The table of a plug-in.
template <Connect connect, Probe probe>
constexpr muster_plugin table_of(const char* name) {
  muster_plugin table{};
  table.version = MUSTER_PLUGIN_VERSION;
  table.name = name;
  table.probe = [](int32_t, char* device, muster_plugin_error* error) {
    device[0] = '\0';
    return guarded(error, probe);
  };
  table.create = [](const muster_plugin_group_options* options, const muster_plugin_host* host, void** group,
                    muster_plugin_error* error) {
    return create_group(connect, options, host, group, error);
  };
  table.run = run_group;
  table.describe_wait = describe_wait;
  table.abort = abort_group;
  table.destroy = destroy_group;
  return table;
}

}  // namespace muster::message
