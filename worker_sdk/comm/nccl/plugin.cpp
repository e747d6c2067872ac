// SPDX-License-Identifier: Apache-2.0
// The table of the plug-in (worker_sdk/comm/plugin/plugin.h). Nothing is thrown across it.
#include "worker_sdk/comm/plugin/plugin.h"

#include "muster/error.hpp"
#include "worker_sdk/comm/nccl/group.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <string>

namespace muster::nccl {
namespace {

std::int32_t report(muster_plugin_error* error, ErrorCode code, const std::string& text) {
  error->code = static_cast<std::int32_t>(code);
  const std::size_t bytes = std::min(text.size(), sizeof(error->text) - 1);
  std::memcpy(error->text, text.data(), bytes);
  error->text[bytes] = '\0';
  return error->code;
}

template <typename Body>
std::int32_t guarded(muster_plugin_error* error, Body body) noexcept {
  try {
    body();
    return 0;
  } catch (const Error& failure) {
    return report(error, failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return report(error, ErrorCode::out_of_memory, "no host memory for a call of the nccl backend");
  } catch (const std::exception& failure) {
    return report(error, ErrorCode::backend, std::string("the nccl backend failed: ") + failure.what());
  }
}

Group& group_of(void* group) {
  return *static_cast<Group*>(group);
}

using Token = std::shared_ptr<Batch>;

std::int32_t probe(std::int32_t local_rank, char device[MUSTER_PLUGIN_DEVICE_BYTES],
                   muster_plugin_error* error) {
  return guarded(error, [&] {
    const Library& api = library();
    const std::string id = bus_id_of(api, choose_device(api, local_rank, -1));
    const std::size_t bytes = std::min<std::size_t>(id.size(), MUSTER_PLUGIN_DEVICE_BYTES - 1);
    std::memcpy(device, id.data(), bytes);
    device[bytes] = '\0';
  });
}

std::int32_t create(const muster_plugin_group_options* options, const muster_plugin_host* host, void** group,
                    muster_plugin_error* error) {
  return guarded(error, [&] {
    const char* const interface = options->interface_name;
    // NCCL reads it when it first connects; what the user has set for NCCL itself stays.
    if (interface != nullptr && *interface != '\0')
      (void)setenv("NCCL_SOCKET_IFNAME", interface, 0);  // NOLINT(concurrency-mt-unsafe)
    const Library* api = nullptr;
    try {
      api = &library();
    } catch (const Error& failure) {
      cannot_join(Host(*host), options->rank, options->size, failure);
      throw;
    }
    *group = new Group(*api, *options, *host);
  });
}

std::int32_t run(void* group, const muster_plugin_operation* batch, std::size_t count,
                 muster_plugin_error* error) {
  return guarded(error, [&] { group_of(group).run(std::span(batch, count)); });
}

std::int32_t mark(void* group, void** token, muster_plugin_error* error) {
  return guarded(error, [&] { *token = new Token(group_of(group).newest()); });
}

std::int32_t test(void* group, void* token, std::int32_t* done, muster_plugin_error* error) {
  return guarded(error, [&] {
    const Token& batch = *static_cast<Token*>(token);
    *done = batch == nullptr || group_of(group).is_done(*batch) ? 1 : 0;
  });
}

void release_token(void*, void* token) {
  delete static_cast<Token*>(token);
}

std::int32_t allocate(void* group, std::uint64_t sequence, std::size_t bytes, void** memory,
                      muster_plugin_error* error) {
  return guarded(error, [&] { *memory = group_of(group).allocate(sequence, bytes); });
}

void abort_group(void* group, std::int32_t code, const char* text) {
  group_of(group).abort(static_cast<ErrorCode>(code), text);
}

void destroy(void* group) {
  delete static_cast<Group*>(group);
}

constexpr muster_plugin kPlugin = [] {
  muster_plugin plugin{};
  plugin.version = MUSTER_PLUGIN_VERSION;
  plugin.name = "nccl";
  plugin.is_device = 1;
  plugin.probe = probe;
  plugin.create = create;
  plugin.run = run;
  plugin.mark = mark;
  plugin.test = test;
  plugin.release_token = release_token;
  plugin.allocate = allocate;
  plugin.abort = abort_group;
  plugin.destroy = destroy;
  return plugin;
}();

}  // namespace
}  // namespace muster::nccl

extern "C" __attribute__((visibility("default"))) const muster_plugin* muster_plugin_entry(void);

const muster_plugin* muster_plugin_entry(void) {
  return &muster::nccl::kPlugin;
}
