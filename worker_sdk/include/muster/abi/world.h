/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: joining and leaving a job. */
#ifndef MUSTER_ABI_WORLD_H
#define MUSTER_ABI_WORLD_H

#include "muster/abi/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of muster_options.flags. */
enum {
  MUSTER_USE_DEVICE = 1 /* muster_options.device is given; otherwise it is the local rank */
};

/* The options for joining. If all but `size` are zero, the environment decides. */
typedef struct muster_options {
  uint32_t size;  /* sizeof(muster_options) */
  uint32_t flags; /* MUSTER_USE_DEVICE or 0 */
  /* The way in which the ranks meet. NULL, "" or "env://": by the environment. "tcp://host:port": rank 0
   * serves the store there. "file:///path": through that file; on several hosts it is of a file system that
   * they share, and MUSTER_STORE_ALLOW lists their addresses. */
  const char* init_url;
  /* The backend, which moves the data: "auto", "shm", "gloo", "hierarchical", "mpi", "nccl". NULL:
   * MUSTER_BACKEND where it is set, else "auto". */
  const char* backend;
  /* This rank, in [0, world_size), and the number of ranks. world_size 0: the environment tells both. */
  int32_t rank;
  int32_t world_size;
  int32_t device; /* GPU for nccl; see flags */
  int32_t reserved;
  int64_t join_deadline_ms; /* time for all ranks to come together, then for them to agree on the
                               backend, and to make the group. Default: 300000 (5 minutes) */
  int64_t timeout_ms; /* longest time that one call waits for the other ranks. Default: 600000 (10 minutes) */
  int64_t report_ms; /* a call that waits longer is reported on stderr, once, with the ranks that are missing.
                        Default: 15000. Negative: never */
} muster_options;

/* The launcher that told this process its rank: muster_world_info.launcher. */
enum {
  MUSTER_LAUNCHER_NONE = 0, /* no launcher: a world of one */
  MUSTER_LAUNCHER_MUSTER = 1,
  MUSTER_LAUNCHER_TORCHRUN = 2,
  MUSTER_LAUNCHER_MPIRUN = 3,
  MUSTER_LAUNCHER_SLURM = 4,
  MUSTER_LAUNCHER_EXPLICIT = 5 /* muster_options.rank and world_size tell the rank */
};

/* The place of this process in the job. The strings are valid until muster_finalize(). */
typedef struct muster_world_info {
  uint32_t size;      /* sizeof(muster_world_info), set by the caller */
  int32_t rank;       /* rank in [0, world_size) */
  int32_t world_size; /* number of ranks */
  int32_t local_rank; /* rank among the ranks of this host */
  int32_t local_size;
  int32_t node_rank; /* number of this host among the hosts */
  int32_t nodes;
  int32_t restart_count; /* restarts of the job so far */
  int32_t launcher;      /* MUSTER_LAUNCHER_* */
  int32_t reserved;
  const char* run_id;  /* id of the job; "none" where none was given */
  const char* host;    /* host of this process */
  const char* store;   /* address of the store, "host:port", or "" where there is none */
  const char* backend; /* backend of the group of all ranks: "shm", ... */
} muster_world_info;

/* Joins the job: finds rank, size and store, connects, and makes the group of all ranks. All ranks call it;
 * it returns when all have come, or after join_deadline_ms. `options` may be NULL. Without any sign of a
 * launcher it is a world of one, so the same program runs bare. MUSTER_E_ARG names the option or variable
 * that is missing or wrong, MUSTER_E_DEADLINE the ranks that did not come, MUSTER_E_UNSUPPORTED a backend
 * that is not installed. Any thread. */
MUSTER_API muster_rc muster_init(const muster_options* options, muster_world** world);

/* Fills info->size bytes of *info. Any thread. */
MUSTER_API muster_rc muster_info(muster_world* world, muster_world_info* info);

/* Leaves in order (wait for your works first: calls that are not complete are aborted): waits until every
 * rank has called it, at most deadline_ms (default: 30000), and frees the world and everything made from it,
 * also when it fails: MUSTER_E_DEADLINE names the ranks that did not come, MUSTER_E_PEER or MUSTER_E_ABORTED
 * one that will not, as muster_barrier_named(). After a failed call of the world's group, or an abort, it
 * does not wait for them. Where this rank serves the store (tcp://, file://, mpirun, srun) it then keeps it
 * until the others have left, for 2 seconds at most and within deadline_ms, but for a tenth of a second in
 * any case. NULL is refused, a world that is already finalized too. */
MUSTER_API muster_rc muster_finalize(muster_world* world, int64_t deadline_ms);

/* Leaves without a barrier (over Gloo, MPI and NCCL each group waits 1 to 2 s at most for the others to go),
 * and frees the same. The calls in which other ranks wait for
 * this one fail. Where this rank serves the store it keeps it for a tenth of a second at most, in which the
 * others can learn of it, and then the store ends, too. NULL is fine. */
MUSTER_API muster_rc muster_leave(muster_world* world);

/* Makes the present and every later call of every rank, on the group of all ranks and on all groups made from
 * it here, fail with MUSTER_E_ABORTED and `reason` (NULL: "no reason given"). The world is still to be
 * finalized. Any thread, at any time. Waits for no other rank; over gloo, mpi and nccl until the store has
 * taken the reason, at most 2 seconds for each group. */
MUSTER_API muster_rc muster_abort(muster_world* world, const char* reason);

/* Tells where the program is: `step`, a number of yours, as that of the training step, stands in the reports
 * of failures and of ranks that others wait for. 0 until it is told. A rank whose steps take longer than
 * those of the others, the calls left out, is named by 'muster run': tell a step when it is done, once. Costs
 * less than a microsecond; any thread. */
MUSTER_API muster_rc muster_set_step(muster_world* world, uint64_t step);

/* Whether the launcher has told this node's workers to end, with a time of grace: 1 from then on, as before
 * a preemption, after Ctrl-C, at the end of `muster run --timeout`, after the failure of another rank, or
 * before a restart; else 0. It is found where MUSTER_STOP_FILE says, within 0.1 seconds, and always 0 where
 * no launcher of ours sets that. A local answer: another rank may get it some steps sooner or later, so the
 * ranks agree, as by an all_reduce of it (MUSTER_MAX), before they save together. A negative number is an
 * error: MUSTER_E_ARG if `world` is none. Costs less than a microsecond but for one system call in 0.1
 * seconds; any thread. */
MUSTER_API int muster_should_stop(muster_world* world);

/* Returns when every rank has called it with this name, as often as this one. Over the store, whatever the
 * backend, so it also works while a collective is stuck. MUSTER_E_DEADLINE after deadline_ms (default:
 * timeout_ms) names the ranks that are missing. MUSTER_E_PEER when one of them has left the world or its
 * process on this host has ended, MUSTER_E_ABORTED when it left after muster_abort(): found within about a
 * second, but not where the store is torchrun's or one given by MUSTER_STORE. The world can be used on. One
 * thread at a time, as the world's store. */
MUSTER_API muster_rc muster_barrier_named(muster_world* world, const char* name, int64_t deadline_ms);

#ifdef __cplusplus
}
#endif

#endif
