/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: groups of ranks, and memory for their calls. */
#ifndef MUSTER_ABI_GROUP_H
#define MUSTER_ABI_GROUP_H

#include "muster/abi/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Facts about a group. The strings are valid until the group is freed. */
typedef struct muster_group_info {
  uint32_t size;        /* sizeof(muster_group_info), set by the caller */
  int32_t rank;         /* rank of this process in the group */
  int32_t group_size;   /* number of ranks */
  int32_t reserved;     /* 0 */
  const char* name;     /* name in messages: "world", "world/1.0", ... */
  const char* backend;  /* name of the backend: "shm", ... */
  const int32_t* ranks; /* rank in the world of each rank of the group */
} muster_group_info;

/* The group of all ranks. It belongs to the world: the same handle each time, and muster_group_free() refuses
 * it. */
MUSTER_API muster_rc muster_group_world(muster_world* world, muster_group** group);

/* Makes one group of all ranks that give the same color, ordered by key and then by rank in `parent`. All
 * ranks of `parent` call it. A negative color: this rank is in none, and *group becomes NULL. Deadlines and
 * backend are the parent's. The parent may be freed before the child. */
MUSTER_API muster_rc muster_group_split(muster_group* parent, int32_t color, int32_t key,
                                        muster_group** group);

/* Makes a group of `count` ranks of `parent`, in that order, each once. All ranks of `parent` call it, with
 * the same list; on those that are not in it *group becomes NULL. */
MUSTER_API muster_rc muster_group_new(muster_group* parent, const int32_t* ranks, uint32_t count,
                                      muster_group** group);

/* Fills info->size bytes of *info. Any thread. */
MUSTER_API muster_rc muster_group_get_info(muster_group* group, muster_group_info* info);

/* What the calls of this rank in a group have moved so far. The payload follows from the calls alone: of a
 * buffer of n bytes over p ranks 2 n (p - 1) / p bytes in all_reduce, n (p - 1) / p in broadcast and reduce,
 * and what goes from this rank to other ranks in all others, which for n bytes of all ranks together is
 * n (p - 1) / p in all_gather and reduce_scatter. What was sent to move it depends on backend and
 * MUSTER_ALGORITHM; it is 0 over shared memory, and over NCCL, which does not tell. */
typedef struct muster_traffic {
  uint32_t size;             /* sizeof(muster_traffic), set by the caller */
  uint32_t reserved;         /* 0 */
  uint64_t payload_bytes;    /* payload, which follows from the calls */
  uint64_t wire_bytes;       /* bytes of data sent over connections of the backend */
  uint64_t wire_messages;    /* messages with data only */
  uint64_t control_bytes;    /* bytes of fingerprints sent */
  uint64_t control_messages; /* messages with fingerprints, and small data beside them */
} muster_traffic;

/* Fills traffic->size bytes of *traffic. Any thread. */
MUSTER_API muster_rc muster_group_get_traffic(muster_group* group, muster_traffic* traffic);

/* Makes the present and every later call of every rank of the group fail with MUSTER_E_ABORTED and `reason`
 * (NULL: "no reason given"). Any thread, at any time. Waits for no other rank; over gloo, mpi and nccl until
 * the store has taken the reason, at most 2 seconds. */
MUSTER_API muster_rc muster_group_abort(muster_group* group, const char* reason);

/* Frees a group that was split off, with its works, reducers and memory. Calls that were started and not
 * waited for are aborted. Not collective. NULL is fine. */
MUSTER_API muster_rc muster_group_free(muster_group* group);

/* `bytes` bytes of memory of the host in which collectives of this group need fewest copies, zeroed, aligned
 * to 64 bytes or more, whatever the group's backend is. All ranks of the group call it, in the same order and
 * with the same size; at most 2^43. Lives as long as the group and is freed with it. MUSTER_E_UNSUPPORTED
 * where the group exchanges memory of GPUs alone: over nccl between hosts without the plug-in gloo. */
MUSTER_API muster_rc muster_alloc(muster_group* group, uint64_t bytes, void** memory);

/* Does the same as muster_alloc() in memory of the GPU, which the program on the host cannot touch.
 * MUSTER_E_UNSUPPORTED unless the group's backend is "nccl" (muster_group_get_info() tells it). */
MUSTER_API muster_rc muster_alloc_device(muster_group* group, uint64_t bytes, void** memory);

#ifdef __cplusplus
}
#endif

#endif
