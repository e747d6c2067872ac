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
/// The name of the only exported function, of type muster_plugin_entry_fn.
inline constexpr const char* kTableEntry = "muster_plugin_entry";
/// The number of bytes for a device's identity, with the 0 at its end.
inline constexpr std::size_t kDeviceBytes = 64;
/// The key in the store at which create() of a plug-in that numbers its groups finds the number, in decimal;
/// every group of the world has another number.
inline constexpr const char* kNumberKey = "number";

}  // namespace muster::plugin

/// An error as a whole sentence, ended by 0. `code` is a number of muster::ErrorCode, which the function also
/// returns; 0 means no error.
struct muster_plugin_error {
  std::int32_t code;
  char text[4092];
};

/// The SDK's functions for a plug-in. They are called on the thread that is in the plug-in, or on one of the
/// plug-in's own threads if the function says so.
struct muster_plugin_host {
  void* context;
  /// Sets a key in the store, below a prefix of this group alone. Only inside create().
  std::int32_t (*store_set)(void* context, const char* key, const void* value, std::size_t bytes,
                            muster_plugin_error* error);
  /// Waits for the key and gives its value. *value is freed with release(). Only inside create().
  std::int32_t (*store_get)(void* context, const char* key, std::int64_t limit_ms, void** value,
                            std::size_t* bytes, muster_plugin_error* error);
  void (*release)(void* value);
  /// post() and peek() use the same store and prefix over a connection of their own, and wait for no other
  /// rank. peek() gives *value = null if the key is not set yet. For a watchdog: a few calls a second. Any
  /// thread.
  std::int32_t (*post)(void* context, const char* key, const void* value, std::size_t bytes,
                       muster_plugin_error* error);
  std::int32_t (*peek)(void* context, const char* key, void** value, std::size_t* bytes,
                       muster_plugin_error* error);
  /// Whether the group is aborted (by any rank): then the result is not 0 and `error` says why. Any thread,
  /// any time.
  std::int32_t (*aborted)(void* context, muster_plugin_error* error);
  /// Tells all ranks of the group that it failed, over the SDK's own channel (the store): their aborted() is
  /// not 0 any more, and their abort() is called. Returns at once. Any thread. It is not needed for an error
  /// that run() returns: the SDK tells that error itself, and all ranks then throw the error that was told
  /// first.
  void (*fail_group)(void* context, std::int32_t code, const char* text);
  /// Writes one line on stderr. Any thread.
  void (*log)(void* context, const char* text);
};

struct muster_plugin_group_options {
  std::int32_t rank;
  std::int32_t size;
  std::int32_t local_rank;  ///< local rank of this process on its host: the device to use, unless `device`
                            ///< names another
  std::int32_t device;      ///< device to use; -1: that of local_rank
  std::int64_t timeout_ms;  ///< longest time of a call
  std::int64_t join_timeout_ms;  ///< longest time of making the group
  std::int64_t report_after_ms;
  const char* group;  ///< the group's name, for messages
  /// The rank in the world, and the host's name, of each rank of the group.
  const std::int32_t* world_ranks;
  const std::int32_t* shown_ranks;  ///< numbers of the ranks in messages; null: their ranks here
  const char* const* hosts;
  const char* interface_name;  ///< network interface to use, or null
  const char* address;         ///< numeric address of this host on the way to the store; null when unknown
};

/// The functions of a plug-in; every plug-in has all of them.
struct muster_plugin {
  std::uint32_t version;
  const char* name;  ///< the plug-in's name: "gloo"
  std::int32_t is_device;
  /// Tells whether this process can use the plug-in at all (library present, device there, started by mpirun
  /// ...). `device`, of kDeviceBytes, gets the identity of the device that a rank with this local rank would
  /// use: two processes of a host name the same one only if they would share it. "" without devices.
  std::int32_t (*probe)(std::int32_t local_rank, char* device, muster_plugin_error* error);
  /// Makes a group; all ranks call it alike. `host` stays valid until destroy() has returned.
  std::int32_t (*create)(const muster_plugin_group_options* options, const muster_plugin_host* host,
                         void** group, muster_plugin_error* error);
  /// Runs a batch as Backend::run() does. Without a device it may also be a batch of one `allocate`, which
  /// only compares the call between the ranks, because plain memory is enough there.
  std::int32_t (*run)(void* group, const muster::Operation* batch, std::size_t count,
                      muster_plugin_error* error);
  /// mark() gives a token for the newest batch, and test() tells whether that batch is done (*done). Device
  /// backends only.
  std::int32_t (*mark)(void* group, void** token, muster_plugin_error* error);
  std::int32_t (*test)(void* token, std::int32_t* done, muster_plugin_error* error);
  void (*release_token)(void* token);
  /// Gives memory as Backend::allocate() does. Device backends only.
  std::int32_t (*allocate)(void* group, const muster::Call* call, void** memory, muster_plugin_error* error);
  /// Tells whether the program can touch `memory` (*is_host is not 0). Device backends only. Any thread.
  std::int32_t (*classify)(void* group, const void* memory, std::int32_t* is_host,
                           muster_plugin_error* error);
  /// Tells that another backend carries this call of the group. The ranks compare it as if it were run()
  /// here, in the order of all calls of the group. Device backends only.
  void (*note)(void* group, const muster::Call* call);
  /// Launches recorded calls as Backend::launch() does. Device backends only.
  std::int32_t (*launch)(void* group, void (*work)(void* context), void* context, muster_plugin_error* error);
  /// Names the ranks that a run() in progress waits for, such as "rank 3 (host b)", for the report after
  /// report_after_ms; "" when unknown. Any thread.
  void (*describe_wait)(void* group, char* text, std::size_t capacity);
  /// Gives the bytes that this rank has sent in the group so far. Any thread.
  void (*wire)(void* group, muster::Wire* wire);
  /// Makes the present run() and later ones end soon with this error; must not wait. It is called once, and
  /// not before create() has returned, because create() watches aborted(). Any thread.
  void (*abort)(void* group, std::int32_t code, const char* text);
  /// Frees everything, while no other call is running. It must not wait for other ranks longer than 2 s, or
  /// than 15 s if no rank has failed or ended: NCCL takes seconds to free a large communicator.
  void (*destroy)(void* group);
};

using muster_plugin_entry_fn = const muster_plugin* (*)();
