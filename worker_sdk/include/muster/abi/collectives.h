/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: exchanging buffers.
 *
 * All ranks of a group make the same calls in the same order. Each call carries a fingerprint (call, type,
 * operation, count, root, place in the order); where ranks differ, every rank gets MUSTER_E_MISMATCH with
 * both calls in the text before any buffer is written (nccl finds it beside the data: there the contents of
 * the outputs are undefined). A call whose peers do not come fails with MUSTER_E_DEADLINE or MUSTER_E_PEER
 * and says who is missing. A failure other than the next two leaves the group dead: every later call fails
 * with the same text, and the group can only be freed. MUSTER_E_ARG (unknown type, operation not defined for
 * the type, null buffer with a positive count, count that overflows, root or rank outside the group) changes
 * nothing, nor does MUSTER_E_STATE of a batch (a call with a work in an open one, a second one, none to end).
 *
 * Counts are elements, not bytes. A count of 0 is a call like any other, and its buffers may be NULL. A
 * buffer that the rank neither gives nor gets (the output of a reduce on a rank that is not the root) may be
 * NULL. Input and output are equal (in place), or do not overlap, except that a rank's own part may lie in
 * its place: `in` of all_gather and gather at out + rank * count, `out` of reduce_scatter and scatter at in +
 * rank * count. Buffers need no alignment.
 *
 * `stream`: for a device backend (nccl) the CUDA stream (cudaStream_t) that the call is put on; NULL waits
 * for its end. Other backends, which move memory of the host, refuse one. Over nccl the buffers of a call are
 * of one kind, on every rank the same: memory of the GPU, or without a stream of the host.
 *
 * `work`: NULL makes the call wait until it is complete on this rank. Otherwise the call is started, *work
 * becomes a handle to wait for, and the buffers belong to the call until it is complete. Started calls of a
 * group run in the order in which they were started. Thread rule of all: as the group, see muster.h. */
#ifndef MUSTER_ABI_COLLECTIVES_H
#define MUSTER_ABI_COLLECTIVES_H

#include "muster/abi/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Waits for all ranks: the call is complete when every rank has made it. */
MUSTER_API muster_rc muster_barrier(muster_group* group, void* stream, muster_work** work);

/* Copies buffer[count] from rank `root` to all others. */
MUSTER_API muster_rc muster_broadcast(muster_group* group, void* buffer, uint64_t count, muster_dtype dtype,
                                      int32_t root, void* stream, muster_work** work);

/* Combines in[count] of every rank, element by element, into out[count] of every rank: bit for bit the same
 * on all ranks. */
MUSTER_API muster_rc muster_all_reduce(muster_group* group, const void* in, void* out, uint64_t count,
                                       muster_dtype dtype, muster_op op, void* stream, muster_work** work);

/* Combines in[count] of every rank, element by element, into out[count] of rank `root` alone. */
MUSTER_API muster_rc muster_reduce(muster_group* group, const void* in, void* out, uint64_t count,
                                   muster_dtype dtype, muster_op op, int32_t root, void* stream,
                                   muster_work** work);

/* Copies in[count] of every rank, in rank order, into out[size * count] of every rank. */
MUSTER_API muster_rc muster_all_gather(muster_group* group, const void* in, void* out, uint64_t count,
                                       muster_dtype dtype, void* stream, muster_work** work);

/* Gathers with counts[size], one for each rank and equal on all ranks: copies in[counts[rank]] of every rank,
 * one after another without gaps, into out[sum of counts] of every rank. `counts` is copied. */
MUSTER_API muster_rc muster_all_gather_v(muster_group* group, const void* in, void* out,
                                         const uint64_t* counts, muster_dtype dtype, void* stream,
                                         muster_work** work);

/* Copies in[count] of every rank, in rank order, into out[size * count] of rank `root`. */
MUSTER_API muster_rc muster_gather(muster_group* group, const void* in, void* out, uint64_t count,
                                   muster_dtype dtype, int32_t root, void* stream, muster_work** work);

/* Copies from in[size * count] of rank `root` the part of each rank into its out[count]. */
MUSTER_API muster_rc muster_scatter(muster_group* group, const void* in, void* out, uint64_t count,
                                    muster_dtype dtype, int32_t root, void* stream, muster_work** work);

/* Combines in[size * count] of every rank, element by element, and gives the part of each rank into its
 * out[count]. */
MUSTER_API muster_rc muster_reduce_scatter(muster_group* group, const void* in, void* out, uint64_t count,
                                           muster_dtype dtype, muster_op op, void* stream,
                                           muster_work** work);

/* Sends part i of in[size * count] to rank i; part i of out[size * count] comes from rank i. */
MUSTER_API muster_rc muster_all_to_all(muster_group* group, const void* in, void* out, uint64_t count,
                                       muster_dtype dtype, void* stream, muster_work** work);

/* Sends in[count] to rank `peer`, which receives it with the same count, type and tag. Sends from one rank to
 * another with one tag arrive in their order. May wait until the peer receives: two ranks that send to each
 * other do so in a batch. */
MUSTER_API muster_rc muster_send(muster_group* group, const void* in, uint64_t count, muster_dtype dtype,
                                 int32_t peer, int32_t tag, void* stream, muster_work** work);

/* Receives out[count] from rank `peer`. */
MUSTER_API muster_rc muster_recv(muster_group* group, void* out, uint64_t count, muster_dtype dtype,
                                 int32_t peer, int32_t tag, void* stream, muster_work** work);

/* Collects the calls of this group up to muster_batch_end(), which runs them as one: collectives in their
 * order, sends and receives all at once, so that they cannot wait for one another (halo exchange, rings).
 * Within a batch each call's `work` must be NULL and returns at once. MUSTER_E_STATE in an open batch;
 * batches do not nest. */
MUSTER_API muster_rc muster_batch_begin(muster_group* group);

/* Runs the collected calls and waits for them, or starts them (`work` not NULL). The batch is closed whatever
 * this returns. */
MUSTER_API muster_rc muster_batch_end(muster_group* group, muster_work** work);

/* Forgets the collected calls, and closes the batch. */
MUSTER_API muster_rc muster_batch_cancel(muster_group* group);

/* Waits until the started call is complete on this rank; returns the code that the call would have returned.
 * MUSTER_E_DEADLINE after deadline_ms (0: as long as the call itself may take): the call goes on and can be
 * waited for again. One thread at a time. */
MUSTER_API muster_rc muster_wait(muster_work* work, int64_t deadline_ms);

/* Tells whether the started call is complete: *done becomes 1 or 0. Never waits. Returns the code that the
 * call would have returned once it has failed. */
MUSTER_API muster_rc muster_test(muster_work* work, int32_t* done);

/* Frees the handle. A call that is not complete goes on, and its buffers belong to it until the group is
 * freed. NULL is fine. */
MUSTER_API muster_rc muster_work_free(muster_work* work);

#ifdef __cplusplus
}
#endif

#endif
