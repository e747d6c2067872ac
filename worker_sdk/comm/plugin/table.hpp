// SPDX-License-Identifier: Apache-2.0
// The table between the SDK and a backend in a shared object of its own (libmuster_gloo.so, ...). Functions
// and data as in C: the SDK may be in libmuster.so or linked into the program, each object may carry a C++
// runtime of its own, and neither side's C++ symbols or exceptions are seen by the other. Both come from one
// build: `version` must be equal. How errors cross is in border.hpp; the plug-in's side is in
// plugin_side.hpp.
#pragma once

#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/traffic.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::plugin {

inline constexpr std::uint32_t kTableVersion = 10;
static_assert(sizeof(Call) == 40 && sizeof(Operation) == 72 && static_cast<int>(Collective::allocate) == 12 &&
                  static_cast<int>(DataType::f64) == 6 && static_cast<int>(ReduceOp::bxor) == 7 &&
                  static_cast<int>(Algorithm::tree) == 2,
              "a call crosses as it is: raise kTableVersion with its layout, or with its enums");
/// Name of the one exported function, of type muster_plugin_entry_fn.
inline constexpr const char* kTableEntry = "muster_plugin_entry";
/// Of the identity of a device, the 0 included.
inline constexpr std::size_t kDeviceBytes = 64;
/// Where create() of a plug-in that numbers its groups finds the number in the store, in decimal: every group
/// of the world has another one.
inline constexpr const char* kNumberKey = "number";

}  // namespace muster::plugin

/// A whole sentence, ended by 0. `code` is a number of muster::ErrorCode, which the function returns, too; 0
/// is no error.
struct muster_plugin_error {
  std::int32_t code;
  char text[4092];
};

/// What the SDK does for a plug-in. Calls come from the thread that is in the plug-in, or from one of the
/// plug-in's own threads where it says so.
struct muster_plugin_host {
  void* context;
  /// The store, below a prefix of this group alone. Only inside create().
  std::int32_t (*store_set)(void* context, const char* key, const void* value, std::size_t bytes,
                            muster_plugin_error* error);
  /// Waits for the key. *value is freed with release().
  std::int32_t (*store_get)(void* context, const char* key, std::int64_t limit_ms, void** value,
                            std::size_t* bytes, muster_plugin_error* error);
  void (*release)(void* value);
  /// Any thread: the same store and prefix, over a connection of its own; neither waits for another rank.
  /// peek() gives *value = null where nobody has set the key yet. For a watchdog: a few calls a second.
  std::int32_t (*post)(void* context, const char* key, const void* value, std::size_t bytes,
                       muster_plugin_error* error);
  std::int32_t (*peek)(void* context, const char* key, void** value, std::size_t* bytes,
                       muster_plugin_error* error);
  /// Any thread, any time: not 0 once the group is aborted (by any rank); `error` then says why.
  std::int32_t (*aborted)(void* context, muster_plugin_error* error);
  /// Any thread: tells all ranks of the group that it failed, over the SDK's own channel (the store), so that
  /// their aborted() is not 0 any more and their abort() is called. Returns at once. Not needed for an error
  /// that run() returns: the SDK tells that one itself, and all ranks then throw the error that was told
  /// first.
  void (*fail_group)(void* context, std::int32_t code, const char* text);
  /// One line on stderr. Any thread.
  void (*log)(void* context, const char* text);
};

struct muster_plugin_group_options {
  std::int32_t rank;
  std::int32_t size;
  std::int32_t local_rank;  ///< of this process on its host: the device to use, unless `device` says another
  std::int32_t device;      ///< -1: by local_rank
  std::int64_t timeout_ms;  ///< of a call
  std::int64_t join_timeout_ms;  ///< of making the group
  std::int64_t report_after_ms;
  const char* group;  ///< its name, for messages
  /// One entry a rank: its rank in the world, and its host's name.
  const std::int32_t* world_ranks;
  const std::int32_t* shown_ranks;  ///< what messages call the ranks; null: by their ranks here
  const char* const* hosts;
  const char* interface_name;  ///< network interface to use, or null
  const char* address;         ///< of this host on the way to the store, numeric; null when unknown
};

/// All of it is there in every plug-in.
struct muster_plugin {
  std::uint32_t version;
  const char* name;  ///< "gloo"
  std::int32_t is_device;
  /// Whether this process can use it at all (library present, device there, started by mpirun ...). `device`,
  /// of kDeviceBytes, gets the identity of the device that a rank with this local rank would use: two
  /// processes of a host name the same one only where they would share it. "" without devices.
  std::int32_t (*probe)(std::int32_t local_rank, char* device, muster_plugin_error* error);
  /// All ranks call it alike. `host` stays valid until destroy() has returned.
  std::int32_t (*create)(const muster_plugin_group_options* options, const muster_plugin_host* host,
                         void** group, muster_plugin_error* error);
  /// As Backend::run(). Without a device also a batch of one `allocate`, which only compares the call between
  /// the ranks: plain memory will do there.
  std::int32_t (*run)(void* group, const muster::Operation* batch, std::size_t count,
                      muster_plugin_error* error);
  /// Device backends: a token of what was run last, then whether it is done (*done).
  std::int32_t (*mark)(void* group, void** token, muster_plugin_error* error);
  std::int32_t (*test)(void* token, std::int32_t* done, muster_plugin_error* error);
  void (*release_token)(void* token);
  /// Device backends: as Backend::allocate().
  std::int32_t (*allocate)(void* group, const muster::Call* call, void** memory, muster_plugin_error* error);
  /// Device backends: *is_host is not 0 for memory that the program can touch. Any thread.
  std::int32_t (*classify)(void* group, const void* memory, std::int32_t* is_host,
                           muster_plugin_error* error);
  /// Device backends: another backend carries this call of the group, which is compared between the ranks as
  /// if it were run() here. In the order of all its calls.
  void (*note)(void* group, const muster::Call* call);
  /// Device backends: as Backend::launch().
  std::int32_t (*launch)(void* group, void (*work)(void* context), void* context, muster_plugin_error* error);
  /// Any thread while run() is in progress: what it waits for, for the report after report_after_ms, such as
  /// "rank 3 (host b)"; "" when unknown.
  void (*describe_wait)(void* group, char* text, std::size_t capacity);
  /// Any thread: what this rank has sent in the group so far.
  void (*wire)(void* group, muster::Wire* wire);
  /// Any thread: the present run() and later ones end soon with this error; must not wait. Comes once, and
  /// not before create() has returned: create() watches aborted().
  void (*abort)(void* group, std::int32_t code, const char* text);
  /// No other call is running. Frees everything; must not wait for other ranks longer than 2 s, or 15 s where
  /// none has failed or ended: NCCL takes seconds to free a large communicator.
  void (*destroy)(void* group);
};

using muster_plugin_entry_fn = const muster_plugin* (*)();
