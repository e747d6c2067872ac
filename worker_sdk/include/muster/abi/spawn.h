/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: starting the ranks of a job from one program, on this host. */
#ifndef MUSTER_ABI_SPAWN_H
#define MUSTER_ABI_SPAWN_H

#include "muster/abi/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The function that rank `rank` of `world_size` runs, in a process of its own; muster_init(NULL, ...) joins
 * the others.
 * Returns 0; or 1, and muster_spawn() tells the reason (muster_spawn_reason(), else the thread's last
 * failure); or another exit code of the process. */
typedef int32_t (*muster_spawn_fn)(int32_t rank, int32_t world_size, void* user);

typedef struct muster_spawn_options {
  uint32_t size; /* sizeof(muster_spawn_options) */
  uint32_t reserved;
  int64_t deadline_ms; /* time for all ranks to end. 0: no limit; the ranks' own calls have deadlines */
  int64_t grace_ms;    /* time after a failure between SIGTERM and SIGKILL for the others. Default: 5000 */
} muster_spawn_options;

/* The first failure: of a rank, or the deadline. */
typedef struct muster_spawn_failure {
  uint32_t size;     /* sizeof(muster_spawn_failure), set by the caller */
  int32_t rank;      /* the rank; -1: none, the deadline passed or nothing was started */
  int32_t exit_code; /* exit code of the rank's process, or 128 + signal */
  int32_t signal;    /* signal that ended the process, or 0 */
} muster_spawn_failure;

/* Forks `count` processes, runs `fn` in each, and waits for them. The first rank that fails ends the others,
 * and its rank, cause and reason are in muster_error_text() and in *failure (may be NULL): MUSTER_E_PEER, or
 * MUSTER_E_DEADLINE. MUSTER_E_STATE when this process has other threads: call it before any library starts
 * one, before any device is used, and not while a world is open. No rank outlives the call, or this process.
 * `options` may be NULL. */
MUSTER_API muster_rc muster_spawn(muster_spawn_fn fn, void* user, int32_t count,
                                  const muster_spawn_options* options, muster_spawn_failure* failure);

/* Sets, in a rank, the reason of its failure, before `fn` returns 1. The text is copied. */
MUSTER_API muster_rc muster_spawn_reason(const char* text);

#ifdef __cplusplus
}
#endif

#endif
