/* SPDX-License-Identifier: Apache-2.0 */
/* Muster's SDK in C99: everything that a worker calls. C++20 has muster/muster.hpp over it.
 *
 *   muster_world* world = NULL;
 *   muster_group* group = NULL;
 *   float sum = 1;
 *   if (muster_init(NULL, &world) != MUSTER_OK) ...muster_error_text(NULL)...
 *   muster_group_world(world, &group);
 *   muster_all_reduce(group, &sum, &sum, 1, MUSTER_F32, MUSTER_SUM, NULL, NULL);
 *   muster_finalize(world, 0);
 *
 * Rules that hold everywhere:
 *
 * Results. Every call that can fail returns muster_rc: MUSTER_OK or a negative MUSTER_E_*. What happened,
 * where, and what to do is one sentence in muster_error_text(). Results come by out parameters, the last of
 * the call (except the work of a collective); after a failure they are unchanged, those of handles NULL. No
 * call exits, throws, installs a signal handler, writes to stdout, or changes the environment, the locale or
 * the working directory; muster_spawn() forks and nothing else does. Reports of calls that wait too long go
 * to stderr (report_ms).
 *
 * Handles. muster_world owns everything made from it: muster_finalize() frees its groups, works, reducers and
 * stores. A handle that is NULL, of another kind, freed, or made before a fork() in the parent is refused
 * with MUSTER_E_ARG. Freed handles are told by their addresses, which are used again after 1000 or more other
 * handles were freed: do not count on it for longer. Several worlds may live in one process.
 *
 * Structures. The first member of each structure of options or results is `size`: set it to sizeof the
 * structure before the call, the rest to zero ({.size = sizeof options}). Zero is the default of every
 * member. New members are added at the end only, so that a program compiled with an older header works with a
 * newer library and the other way round.
 *
 * Time. Deadlines are int64_t milliseconds from the call: 0 is the default named at the call, negative is
 * refused. Nothing waits for ever: a collective has the deadline of its group (timeout_ms).
 *
 * Threads. A world: one thread at a time, but muster_abort() from any thread at any time. A group: any
 * thread, and calls in the same order on every rank, so one thread at a time in practice;
 * muster_group_abort() from any thread at any time. Different groups, stores and reducers are independent of
 * each other. A handle is freed when no other thread uses it. muster_error_text() is of the calling thread.
 *
 * Strings are UTF-8, ended by 0, and copied. Buffers belong to the caller. */
#ifndef MUSTER_MUSTER_H
#define MUSTER_MUSTER_H

#include "muster/abi/collectives.h"
#include "muster/abi/group.h"
#include "muster/abi/reducer.h"
#include "muster/abi/spawn.h"
#include "muster/abi/store.h"
#include "muster/abi/types.h"
#include "muster/abi/world.h"

#endif
