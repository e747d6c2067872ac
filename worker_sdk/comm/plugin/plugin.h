/* SPDX-License-Identifier: Apache-2.0 */
/* The table between the SDK and a backend in a shared object of its own (libmuster_gloo.so, ...). Plain C:
 * the SDK may be in libmuster.so or linked into the program, and neither side's C++ symbols are seen by the
 * other. No exception crosses. Both come from one build: `version` must be equal. Internal, not installed. */
#ifndef MUSTER_COMM_PLUGIN_H
#define MUSTER_COMM_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_PLUGIN_VERSION 6
/* Name of the one exported function, of type muster_plugin_entry_fn. */
#define MUSTER_PLUGIN_ENTRY "muster_plugin_entry"

/* Of the identity of a device, the 0 included. */
#define MUSTER_PLUGIN_DEVICE_BYTES 64

/* code: 0 or a number of muster::ErrorCode; text: a whole sentence, ended by 0. */
typedef struct muster_plugin_error {
  int32_t code;
  char text[4092];
} muster_plugin_error;

/* muster::Call and its buffers; the numbers are those of the C++ enumerations. */
typedef struct muster_plugin_operation {
  uint64_t sequence;
  uint64_t count;
  uint64_t signature;
  int32_t root;
  int32_t tag;
  uint8_t collective;
  uint8_t type;
  uint8_t op;
  uint8_t reserved[5];
  const void* in;
  void* out;
  const uint64_t* counts; /* all_gather_v: one a rank; else NULL */
  void* stream;           /* device backends */
} muster_plugin_operation;

/* What the SDK does for a plug-in. Calls come from the thread that is in the plug-in, or from one of the
 * plug-in's own threads where it says so. Return 0 or an ErrorCode with the text in `error`. */
typedef struct muster_plugin_host {
  void* context;
  /* The store, below a prefix of this group alone. Only inside create(). */
  int32_t (*store_set)(void* context, const char* key, const void* value, size_t bytes,
                       muster_plugin_error* error);
  /* Waits for the key. *value is freed with release(). */
  int32_t (*store_get)(void* context, const char* key, int64_t limit_ms, void** value, size_t* bytes,
                       muster_plugin_error* error);
  void (*release)(void* value);
  /* Any thread: the same store and prefix, over a connection of its own; neither waits for another rank.
   * peek() gives *value = NULL where nobody has set the key yet. For a watchdog: a few calls a second. */
  int32_t (*post)(void* context, const char* key, const void* value, size_t bytes,
                  muster_plugin_error* error);
  int32_t (*peek)(void* context, const char* key, void** value, size_t* bytes, muster_plugin_error* error);
  /* Any thread, any time: nonzero once the group is aborted (by any rank); `error` then says why. */
  int32_t (*aborted)(void* context, muster_plugin_error* error);
  /* Any thread: tells all ranks of the group that it failed, over the SDK's own channel (the store), so that
   * their aborted() turns nonzero and their abort() is called. Returns at once. Not needed for an error that
   * run() returns: the SDK tells that one itself, and all ranks then throw the error that was told first. */
  void (*fail_group)(void* context, int32_t code, const char* text);
  /* One line on stderr through the SDK's log. Any thread. level: 0 note, 1 warning. */
  void (*log)(void* context, int32_t level, const char* text);
} muster_plugin_host;

typedef struct muster_plugin_group_options {
  int32_t rank;
  int32_t size;
  int32_t local_rank;      /* of this process on its host: the device to use, unless `device` says another */
  int32_t device;          /* -1: by local_rank */
  int64_t timeout_ms;      /* of a call */
  int64_t join_timeout_ms; /* of making the group */
  int64_t report_after_ms;
  const char* group;  /* its name, for messages */
  const char* run_id; /* of the job */
  /* One entry a rank: its rank in the world, and its host's name. */
  const int32_t* world_ranks;
  const int32_t* shown_ranks; /* what messages call the ranks, one entry each; NULL: by their ranks here */
  const char* const* hosts;
  const char* interface_name; /* network interface to use, or NULL */
  const char* address;        /* of this host on the way to the store, numeric; NULL when unknown */
} muster_plugin_group_options;

typedef struct muster_plugin {
  uint32_t version; /* MUSTER_PLUGIN_VERSION */
  const char* name; /* "gloo" */
  int32_t is_device;
  /* Whether this process can use it at all (library present, device there, started by mpirun ...). `device`
   * gets the identity of the device that a rank with this local rank would use: two processes of a host name
   * the same one only where they would share it. "" without devices. */
  int32_t (*probe)(int32_t local_rank, char device[MUSTER_PLUGIN_DEVICE_BYTES], muster_plugin_error* error);
  /* All ranks call it alike. `host` stays valid until destroy() has returned. */
  int32_t (*create)(const muster_plugin_group_options* options, const muster_plugin_host* host, void** group,
                    muster_plugin_error* error);
  /* As Backend::run(). Where allocate() is NULL, also a batch of one `allocate`, which only compares the call
   * between the ranks. */
  int32_t (*run)(void* group, const muster_plugin_operation* batch, size_t count, muster_plugin_error* error);
  /* Device backends: a token of what was run last, then whether it is done (*done). */
  int32_t (*mark)(void* group, void** token, muster_plugin_error* error);
  int32_t (*test)(void* group, void* token, int32_t* done, muster_plugin_error* error);
  void (*release_token)(void* group, void* token);
  /* As Backend::allocate(), with its sequence; NULL: plain memory will do. */
  int32_t (*allocate)(void* group, uint64_t sequence, size_t bytes, void** memory,
                      muster_plugin_error* error);
  /* Any thread while run() is in progress: what it waits for, for the report after report_after_ms, such as
   * "rank 3 (host b)"; "" when unknown. NULL: always unknown. */
  void (*describe_wait)(void* group, char* text, size_t capacity);
  /* Any thread: the present run() and later ones end soon with this error; must not wait. Comes once, and not
   * before create() has returned: create() watches aborted(). NULL: run() watches aborted() itself. */
  void (*abort)(void* group, int32_t code, const char* text);
  /* No other call is running. Frees everything; must not wait for other ranks longer than 2 s. */
  void (*destroy)(void* group);
} muster_plugin;

typedef const muster_plugin* (*muster_plugin_entry_fn)(void);

#ifdef __cplusplus
}
#endif

#endif
