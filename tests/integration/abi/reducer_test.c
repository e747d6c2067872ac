/* SPDX-License-Identifier: Apache-2.0 */
/* The reducer's calls between several ranks beyond a plain step: micro-batches, hooks, steps, compression,
 * clipping, the comparison of values. What they compute is tests/unit/worker_sdk/parallel's. */
#include "ranks.h"

static const int64_t kTwo[2] = {40, 2}, kOne[1] = {3};
static const muster_param kModel[2] = {{"weight", kTwo, 2, 0}, {"bias", kOne, 1, 0}};

/* What the callbacks of a rank saw. */
typedef struct seen {
  int buckets;
  int steps;
  uint64_t stepped;
  float scale;
  int fail;
} seen;

/* Sums as the default does, but doubled. */
static muster_rc doubled(muster_group* group, const muster_bucket* bucket, void* user) {
  seen* what = user;
  muster_rc code = MUSTER_OK;
  CHECK(bucket->size == sizeof *bucket && bucket->buckets == 2 && bucket->parameters == 1);
  CHECK(bucket->index == (uint32_t)(what->buckets % 2) && bucket->parameter[0] == 1 - bucket->index);
  CHECK(bucket->parameter_offset[0] == 0 && bucket->samples > 0);
  ++what->buckets;
  if (what->fail) return MUSTER_E_IO;
  code = muster_all_reduce(group, bucket->gradients, bucket->gradients, bucket->elements, MUSTER_F32,
                           MUSTER_SUM, NULL, NULL);
  for (uint64_t i = 0; i < bucket->elements; ++i) bucket->gradients[i] *= 2;
  return code;
}

static muster_rc stepped(uint64_t begin, uint64_t end, float scale, void* user) {
  seen* what = user;
  CHECK(begin == what->stepped || begin == 0);
  what->stepped = end;
  what->scale = scale;
  ++what->steps;
  return MUSTER_OK;
}

/* One step of one sample a rank, after a micro-batch of two. */
static muster_rc accumulated_step(muster_reducer* reducer, float value, int64_t* samples) {
  float *weight = NULL, *bias = NULL;
  CHECK_OK(muster_reducer_gradient(reducer, 0, NULL, &weight));
  CHECK_OK(muster_reducer_gradient(reducer, 1, NULL, &bias));
  for (int part = 0; part < 2; ++part) {
    if (part == 0)
      CHECK_OK(muster_reducer_begin_micro_batch(reducer, 2));
    else
      CHECK_OK(muster_reducer_begin_step(reducer, 1));
    bias[2] = value;
    for (int i = 0; i < 80; ++i) weight[i] = value;
    CHECK_OK(muster_reducer_gradient_ready(reducer, 1));
    CHECK_OK(muster_reducer_gradient_ready(reducer, 0));
    if (part == 0) CHECK_OK(muster_reducer_finish_micro_batch(reducer));
  }
  return muster_reducer_finish_step(reducer, samples);
}

static void hooks_and_steps(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  seen what = {0};
  muster_reducer_options options = {.size = sizeof options,
                                    .first_bucket_bytes = 4,
                                    .bucket_bytes = 4,
                                    .hook = doubled,
                                    .hook_user = &what,
                                    .step = stepped,
                                    .step_user = &what};
  muster_step_info info = {.size = sizeof info};
  muster_reducer* reducer = NULL;
  float *weight = NULL, *arena = NULL;
  uint64_t elements = 0, hash = 0;
  int64_t samples = 0;
  (void)world;
  CHECK_OK(muster_reducer_create(group, kModel, 2, &options, &reducer));
  CHECK_FAILS(muster_reducer_get_step_info(reducer, &info), MUSTER_E_STATE, "no step");
  CHECK_OK(muster_reducer_set_tally(reducer, 3, (float)rank));
  CHECK_OK(accumulated_step(reducer, 1, &samples));
  CHECK_OK(muster_reducer_gradient(reducer, 0, NULL, &weight));
  CHECK(samples == 3 * size && weight[79] == (float)(4 * size));
  CHECK(what.buckets == 2 && what.steps == 2 && what.scale == 1 / (float)(3 * size));
  CHECK_OK(muster_reducer_get_step_info(reducer, &info));
  CHECK(info.buckets == 2 && info.tally[3] == (float)(size * (size - 1) / 2) && info.clip_scale == 1);
  CHECK(info.communication_ns > 0 && info.exposed_ns > 0 && info.optimizer_ns >= 0);
  CHECK_OK(muster_reducer_arena(reducer, &elements, &arena));
  CHECK(what.stepped == elements);
  CHECK_OK(muster_reducer_check_values(reducer, arena, 7, &hash));
  CHECK(hash != 0);
  if (rank == 1) arena[16 + 5] += 1;
  CHECK_FAILS(muster_reducer_check_values(reducer, arena, 7, NULL), MUSTER_E_MISMATCH,
              "step 7: parameter weight of rank 1 differs");
}

static void a_hook_that_fails(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  seen what = {.fail = rank == 1};
  muster_reducer_options options = {.size = sizeof options,
                                    .first_bucket_bytes = 4,
                                    .bucket_bytes = 4,
                                    .hook = doubled,
                                    .hook_user = &what};
  muster_reducer* reducer = NULL;
  (void)world;
  (void)size;
  CHECK_OK(muster_reducer_create(group, kModel, 2, &options, &reducer));
  if (rank == 1)
    CHECK_FAILS(accumulated_step(reducer, 1, NULL), MUSTER_E_IO, "the hook of a bucket returned -10");
  else
    CHECK_FAILS(accumulated_step(reducer, 1, NULL), MUSTER_E_ABORTED, "rank 1 failed while a bucket");
}

static void compression_and_clipping(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  const muster_compression kinds[3] = {MUSTER_COMPRESS_BF16, MUSTER_COMPRESS_F16, MUSTER_COMPRESS_POWER_SGD};
  (void)world;
  for (int i = 0; i < 3; ++i) {
    seen what = {0};
    muster_reducer_options options = {.size = sizeof options,
                                      .compression = kinds[i],
                                      .power_sgd_rank = 1,
                                      .power_sgd_start = -1,
                                      .max_norm = 1,
                                      .step = stepped,
                                      .step_user = &what};
    muster_step_info info = {.size = sizeof info};
    muster_reducer* reducer = NULL;
    const char* name = NULL;
    float *weight = NULL, *state = NULL;
    uint64_t count = 0;
    int64_t samples = 0;
    int32_t differs = 0;
    double wanted = 0;
    CHECK_OK(muster_reducer_create(group, kModel, 2, &options, &reducer));
    CHECK_OK(accumulated_step(reducer, (float)(rank + 1), &samples));
    CHECK_OK(muster_reducer_gradient(reducer, 0, NULL, &weight));
    wanted = size * (size + 1);
    CHECK(weight[7] > 0.99 * wanted && weight[7] < 1.01 * wanted);
    CHECK_OK(muster_reducer_get_step_info(reducer, &info));
    wanted *= 9 / (3.0 * size); /* 81 values that are nearly the same */
    CHECK(info.gradient_norm > 0.99 * wanted && info.gradient_norm < 1.01 * wanted);
    CHECK(what.scale > 0 && (double)what.scale < 1.02 / (wanted * 3.0 * size));
    if (kinds[i] == MUSTER_COMPRESS_POWER_SGD) {
      CHECK_OK(muster_reducer_state(reducer, 1, &name, &state, &count, &differs));
      CHECK(strcmp(name, "powersgd.error") == 0 && state != NULL && count == 96 && differs == 1);
    }
    CHECK_FAILS(muster_reducer_state(reducer, 3, &name, &state, &count, &differs), MUSTER_E_ARG, "remembers");
    CHECK_OK(muster_reducer_free(reducer));
  }
}

/* A deterministic world is asked for by the micro-batches of a step. */
static void a_fixed_tree(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  muster_reducer_options options = {.size = sizeof options, .deterministic_micro_batches = 4};
  muster_reducer* reducer = NULL;
  int64_t samples = 0;
  (void)world;
  (void)rank;
  CHECK_OK(muster_reducer_create(group, kModel, 2, &options, &reducer));
  CHECK_FAILS(muster_reducer_begin_step(reducer, 1), MUSTER_E_ARG, "has 2 micro-batches on each rank");
  CHECK_OK(accumulated_step(reducer, 1, &samples));
  CHECK(samples == 3 * size);
}

static void bad_options(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  muster_reducer_options options = {.size = sizeof options, .compression = 9};
  muster_reducer* reducer = NULL;
  (void)world;
  (void)rank;
  (void)size;
  CHECK_FAILS(muster_reducer_create(group, kModel, 2, &options, &reducer), MUSTER_E_ARG, "compression 9");
  options.compression = MUSTER_COMPRESS_POWER_SGD;
  options.power_sgd_rank = -1;
  CHECK_FAILS(muster_reducer_create(group, kModel, 2, &options, &reducer), MUSTER_E_ARG, "rank -1");
  options.hook = doubled;
  CHECK_FAILS(muster_reducer_create(group, kModel, 2, &options, &reducer), MUSTER_E_ARG, "leave out one");
  options = (muster_reducer_options){.size = sizeof options, .max_norm = -1};
  CHECK_FAILS(muster_reducer_create(group, kModel, 2, &options, &reducer), MUSTER_E_ARG, "max_norm");
  options = (muster_reducer_options){.size = sizeof options, .deterministic_micro_batches = 3};
  CHECK_FAILS(muster_reducer_create(group, kModel, 2, &options, &reducer), MUSTER_E_ARG, "powers of two");
}

int main(void) {
  run_ranks(3, hooks_and_steps);
  run_ranks(2, a_hook_that_fails);
  run_ranks(2, compression_and_clipping);
  run_ranks(2, a_fixed_tree);
  run_ranks(1, bad_options);
  return failed_checks;
}
