/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: gradients of a data-parallel model, summed over the ranks while backward is still
 * running.
 *
 * The reducer owns the gradients, 32-bit floats in flat buckets. A step is begin_step, backward, finish_step:
 * backward writes each gradient where muster_reducer_gradient() says and then reports it ready, in any order.
 * Buckets hold the parameters in reverse order, because backward meets the last layer first, and are reduced
 * strictly in that order, one at a time: by a thread of the reducer, or by the thread that is in finish_step.
 * The gradient of a step is the *sum* over samples and ranks; who applies it divides by the number of samples
 * that finish_step returns. So batches may differ between ranks, and a rank may have none.
 *
 * Accumulation: begin_micro_batch, backward, finish_micro_batch, any number of times before begin_step, adds
 * gradients and samples of this rank without any call on the group. Ranks may differ in how many they have.
 *
 * One thread. Between begin_step and finish_step the group belongs to the reducer: no other call on it. */
#ifndef MUSTER_ABI_REDUCER_H
#define MUSTER_ABI_REDUCER_H

#include "muster/abi/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One trainable tensor. An element of an array, so it never grows. */
typedef struct muster_param {
  const char* name;     /* name, unique in its model: "conv1.weight" */
  const int64_t* shape; /* extents[dimensions], slowest first, each positive */
  uint32_t dimensions;  /* 0: a single number */
  uint32_t reserved;    /* 0 */
} muster_param;

/* A range of the arena that is reduced in one go, as a hook sees it. */
typedef struct muster_bucket {
  uint32_t size;                    /* sizeof(muster_bucket) in the library */
  uint32_t index;                   /* 0 .. buckets - 1, in the order in which they are reduced */
  uint32_t buckets;                 /* number of the reducer's buckets */
  uint32_t parameters;              /* number of parameters in this bucket */
  uint64_t offset;                  /* place of its first float in the arena */
  uint64_t elements;                /* number of floats; the gaps between parameters are zero */
  float* gradients;                 /* this rank's sums; the hook leaves the sums of all ranks here */
  int64_t samples;                  /* samples of all ranks in this step, above 0 */
  const uint32_t* parameter;        /* [parameters]: their numbers */
  const uint64_t* parameter_offset; /* [parameters]: first float of each in this bucket */
} muster_bucket;

/* Sums a bucket over the ranks, with any calls on `group`, the same on all ranks. Called once per step and
 * bucket, in their order, on the reducer's thread or on the one that is in finish_step, so the caller of
 * finish_step holds no lock that the hook takes; not in a world of one, nor in a step without samples.
 * Anything but MUSTER_OK ends the step on all ranks, with the code and the text of the thread's last failure.
 * No call on the reducer itself. */
typedef muster_rc (*muster_bucket_hook)(muster_group* group, const muster_bucket* bucket, void* user);

/* Applies the optimizer to the floats [begin, end) of the arena; the gradient is gradients[i] * scale: 1 /
 * samples of all ranks, times the factor of clipping. Not called in a step without samples. Anything but
 * MUSTER_OK ends the step on all ranks. */
typedef muster_rc (*muster_bucket_step)(uint64_t begin, uint64_t end, float scale, void* user);

/* The form in which gradients travel. */
typedef int32_t muster_compression;

enum {
  MUSTER_COMPRESS_NONE = 0,
  MUSTER_COMPRESS_BF16 = 1,     /* 16 bits, added up in 32; at most 2^-7 off */
  MUSTER_COMPRESS_F16 = 2,      /* as BF16, but scaled so that sums do not overflow; at most 2^-10 off */
  MUSTER_COMPRESS_POWER_SGD = 3 /* matrices of low rank, with error feedback: muster_reducer_state() */
};

typedef struct muster_reducer_options {
  uint32_t size; /* sizeof(muster_reducer_options) */
  uint32_t reserved;
  uint64_t bucket_bytes;       /* a bucket is closed at this many bytes. Default: 26214400 (25 MiB) */
  uint64_t first_bucket_bytes; /* the same for the bucket that is reduced first. Default: 1048576 (1 MiB) */
  uint64_t last_bucket_bytes;  /* the bucket reduced last, which no computation hides, has as few parameters
                                  as reach this many. Default: 1048576 (1 MiB) */
  muster_compression compression; /* Default: none */
  int32_t power_sgd_rank;         /* columns of the factors, 1 to 64. Default: 2 */
  int64_t power_sgd_start;        /* steps before compression begins; -1: none. Default: 10 */
  muster_bucket_hook hook;        /* sums buckets in the place of `compression`; NULL: none */
  void* hook_user;
  muster_bucket_step step; /* called for each bucket, in order, as soon as it is reduced, on the thread that
                              the hook would be called on, in a world of one on that of gradient_ready or
                              mark_unused: gradient_ready(i) then also says that backward reads the value
                              of parameter i no more. NULL: you step after finish_step */
  void* step_user;
  double max_norm; /* L2 norm to which the mean gradient is scaled down. It is known when all buckets are
                      reduced: `step` is then called for all of them by finish_step, on its thread. Default:
                      0, no clipping */
  int32_t deterministic_micro_batches; /* micro-batches of a step of all ranks, summed by one fixed binary
                                          tree: the same bits on 1, 2, 4, 8 ranks. A power of two; each rank
                                          computes its share, in order. Default: 0, not wanted */
  int32_t reserved2;
} muster_reducer_options;

/* Makes a reducer for `count` parameters. All ranks of the group call it with the same parameters and options
 * (NULL: defaults); where they differ, MUSTER_E_MISMATCH names the first parameter that does, with both
 * shapes. It belongs to the group. */
MUSTER_API muster_rc muster_reducer_create(muster_group* group, const muster_param* parameters,
                                           uint32_t count, const muster_reducer_options* options,
                                           muster_reducer** reducer);

/* Gives the arena of all gradients: *elements is its number of floats, *gradients its beginning. Each
 * parameter starts a cache line in it, the gaps are zero. An arena of values or optimizer state with the same
 * offsets can be worked on in one pass beside it. Either pointer may be NULL. Valid until the reducer is
 * freed. */
MUSTER_API muster_rc muster_reducer_arena(muster_reducer* reducer, uint64_t* elements, float** gradients);

/* Gives the place of parameter i in the arena: *offset in floats, *gradient as a pointer. Either of
 * the two may be NULL. */
MUSTER_API muster_rc muster_reducer_gradient(muster_reducer* reducer, uint32_t i, uint64_t* offset,
                                             float** gradient);

/* Copies rank 0's values[elements of the arena] to all ranks: the same start everywhere. Collective, between
 * steps. */
MUSTER_API muster_rc muster_reducer_broadcast(muster_reducer* reducer, float* values);

/* Begins a micro-batch of `samples` samples of this rank, whose gradients are added to those of the step. */
MUSTER_API muster_rc muster_reducer_begin_micro_batch(muster_reducer* reducer, int64_t samples);
MUSTER_API muster_rc muster_reducer_finish_micro_batch(muster_reducer* reducer);

/* Begins a step of `samples` samples of this rank: 0 or more, below 2^24 over all ranks. MUSTER_E_ARG inside
 * a step. */
MUSTER_API muster_rc muster_reducer_begin_step(muster_reducer* reducer, int64_t samples);

/* Tells that the gradient of parameter i holds this rank's sum. MUSTER_E_ARG if that was told before in this
 * step. Never waits. */
MUSTER_API muster_rc muster_reducer_gradient_ready(muster_reducer* reducer, uint32_t i);

/* Tells that this rank adds nothing to parameter i in this step: its gradient is set to zero and is ready. */
MUSTER_API muster_rc muster_reducer_mark_unused(muster_reducer* reducer, uint32_t i);

/* Waits until every bucket is reduced, at most the group's timeout_ms for each; *samples (may be
 * NULL) is the number of samples of all ranks. MUSTER_E_ARG names the first parameter that was never ready;
 * it can be made ready and finish_step called again. */
MUSTER_API muster_rc muster_reducer_finish_step(muster_reducer* reducer, int64_t* samples);

/* Sets figure i, 0 to 7, of this rank (a loss, a count), which is summed over the ranks with the step, as
 * 32-bit float. Call it before the first gradient is ready. */
MUSTER_API muster_rc muster_reducer_set_tally(muster_reducer* reducer, uint32_t i, float value);

typedef struct muster_step_info {
  uint32_t size; /* sizeof(muster_step_info) */
  uint32_t buckets;
  float tally[8];           /* sums over the ranks */
  double gradient_norm;     /* L2, of the mean gradient, before clipping; NaN without max_norm */
  double clip_scale;        /* factor by which the gradient was scaled; 1: not scaled */
  int64_t communication_ns; /* sums of all buckets, also those behind backward, and waits for late ranks */
  int64_t optimizer_ns;     /* steps of the optimizer for all buckets */
  int64_t exposed_ns;       /* time of finish_step */
} muster_step_info;

/* Fills *info with the figures of the last step that was finished. */
MUSTER_API muster_rc muster_reducer_get_step_info(muster_reducer* reducer, muster_step_info* info);

/* Gives tensor `i` of those that compression remembers from step to step, for a checkpoint: *values may be
 * read and, when a checkpoint is loaded, written between steps. *differs_by_rank: 1 where every rank has
 * values of its own. MUSTER_E_ARG beyond the last one; the first is 0. */
MUSTER_API muster_rc muster_reducer_state(muster_reducer* reducer, uint32_t i, const char** name,
                                          float** values, uint64_t* count, int32_t* differs_by_rank);

/* Compares an arena of values over the ranks, bit for bit; *hash (may be NULL) is the hash of all values.
 * MUSTER_E_MISMATCH names `step`, the parameter and the rank that differs from most others. Collective,
 * between steps. */
MUSTER_API muster_rc muster_reducer_check_values(muster_reducer* reducer, const float* values, int64_t step,
                                                 uint64_t* hash);

/* Frees the reducer. In the middle of a step this aborts the group, so that the other ranks do not wait. NULL
 * is fine. */
MUSTER_API muster_rc muster_reducer_free(muster_reducer* reducer);

#ifdef __cplusplus
}
#endif

#endif
