/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that a caller can do wrong, in a world of one: a named error, and the handle is as before or
 * clearly dead. */
#include "check.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static muster_world* world;
static muster_group* group;

static void options_are_checked(void) {
  muster_world* none = (muster_world*)&none;
  muster_options options = {0};
  CHECK_FAILS(muster_init(&options, &none), MUSTER_E_ARG, "muster_options.size is 0");
  CHECK(none == NULL);
  options.size = sizeof options;
  CHECK_FAILS(muster_init(&options, NULL), MUSTER_E_ARG, "is NULL");
  options.rank = 2;
  options.world_size = 2;
  CHECK_FAILS(muster_init(&options, &none), MUSTER_E_ARG, "rank 2 and world_size 2");
  options.world_size = -1;
  CHECK_FAILS(muster_init(&options, &none), MUSTER_E_ARG, "world_size -1");
  options.rank = 0;
  options.world_size = 0;
  options.flags = 64;
  CHECK_FAILS(muster_init(&options, &none), MUSTER_E_ARG, "flags is 64");
  options.flags = 0;
  options.timeout_ms = -5;
  CHECK_FAILS(muster_init(&options, &none), MUSTER_E_ARG, "-5 ms is negative");
  options.timeout_ms = 0;
  options.flags = MUSTER_USE_DEVICE;
  options.device = -1;
  CHECK_FAILS(muster_init(&options, &none), MUSTER_E_ARG, "device is -1");
  options.device = 0;
  options.flags = 0;
  options.backend = "carrier-pigeon";
  CHECK(muster_init(&options, &none) != MUSTER_OK);
  CHECK(strstr(muster_error_text(NULL), "carrier-pigeon") != NULL);
  options.backend = NULL;
  options.init_url = "smoke://signals";
  CHECK_FAILS(muster_init(&options, &none), MUSTER_E_ARG, "smoke://signals");
  CHECK(none == NULL);
}

/* A program with a newer header than the library: what it does not use may be longer. */
static void structures_may_grow(void) {
  struct {
    muster_options known;
    int64_t newer;
  } longer;

  struct {
    uint32_t size;
    int32_t rank;
    int32_t world_size;
  } shorter = {sizeof shorter, -7, -7};

  muster_world* other = NULL;
  memset(&longer, 0, sizeof longer);
  longer.known.size = sizeof longer;
  CHECK_OK(muster_init(&longer.known, &other));
  CHECK_OK(muster_info(other, (muster_world_info*)&shorter));
  CHECK(shorter.rank == 0 && shorter.world_size == 1 && shorter.size == sizeof shorter);
  CHECK_OK(muster_finalize(other, 0));
  longer.newer = 1;
  CHECK_FAILS(muster_init(&longer.known, &other), MUSTER_E_UNSUPPORTED, "install a newer one");
}

static void handles_are_checked(void) {
  muster_world* other = NULL;
  muster_group* its_group = NULL;
  muster_group* child = NULL;
  muster_work* work = NULL;
  muster_world_info info = {.size = sizeof info};
  muster_group_info group_info = {.size = sizeof group_info};
  int32_t value = 1, done = 0;
  CHECK_FAILS(muster_barrier(NULL, NULL, NULL), MUSTER_E_ARG, "the group is NULL");
  CHECK_FAILS(muster_info(NULL, &info), MUSTER_E_ARG, "the world is NULL");
  CHECK_FAILS(muster_finalize(NULL, 0), MUSTER_E_ARG, "the world is NULL");
  CHECK_FAILS(muster_wait(NULL, 0), MUSTER_E_ARG, "the work is NULL");
  CHECK_FAILS(muster_barrier((muster_group*)world, NULL, NULL), MUSTER_E_ARG, "the group is a world");
  CHECK_OK(muster_group_free(NULL));
  CHECK_OK(muster_work_free(NULL));
  CHECK_OK(muster_store_free(NULL));
  CHECK_OK(muster_reducer_free(NULL));
  CHECK_OK(muster_leave(NULL));
  CHECK_FAILS(muster_group_free(group), MUSTER_E_ARG, "belongs to its world");
  CHECK_FAILS(muster_group_get_info(group, NULL), MUSTER_E_ARG, "is NULL");
  group_info.size = 2;
  CHECK_FAILS(muster_group_get_info(group, &group_info), MUSTER_E_ARG, "muster_group_info.size is 2");
  CHECK_FAILS(muster_group_get_traffic(group, NULL), MUSTER_E_ARG, "is NULL");

  CHECK_OK(muster_init(NULL, &other));
  CHECK_OK(muster_group_world(other, &its_group));
  CHECK_OK(muster_group_split(its_group, 0, 0, &child));
  CHECK_OK(muster_all_reduce(child, &value, &value, 1, MUSTER_I32, MUSTER_SUM, NULL, &work));
  CHECK_OK(muster_wait(work, 0));
  CHECK_OK(muster_group_free(child));
  CHECK_FAILS(muster_test(work, &done), MUSTER_E_ARG, "the work was freed");
  CHECK_FAILS(muster_group_free(child), MUSTER_E_ARG, "the group was freed");
  CHECK_OK(muster_finalize(other, 0));
  CHECK_FAILS(muster_barrier(its_group, NULL, NULL), MUSTER_E_ARG, "the group was freed");
  CHECK_FAILS(muster_info(other, &info), MUSTER_E_ARG, "the world was freed");
  CHECK_FAILS(muster_finalize(other, 0), MUSTER_E_ARG, "the world was freed");
  CHECK(strstr(muster_error_text(other), "was freed") != NULL);
}

static void calls_are_checked(void) {
  float in[4] = {1, 2, 3, 4}, out[4] = {0};
  const uint64_t counts[1] = {UINT64_MAX};
  muster_group* child = (muster_group*)&child;
  const int32_t ranks[2] = {0, 0};
  void* memory = NULL;
  CHECK_FAILS(muster_all_reduce(group, in, out, 4, 99, MUSTER_SUM, NULL, NULL), MUSTER_E_ARG,
              "99 is no element type");
  CHECK_FAILS(muster_all_reduce(group, in, out, 4, -1, MUSTER_SUM, NULL, NULL), MUSTER_E_ARG,
              "-1 is no element type");
  CHECK_FAILS(muster_all_reduce(group, in, out, 4, MUSTER_F32, 77, NULL, NULL), MUSTER_E_ARG,
              "77 is no operation");
  CHECK_FAILS(muster_all_reduce(group, in, out, 4, 256 + MUSTER_F32, MUSTER_SUM, NULL, NULL), MUSTER_E_ARG,
              "261");
  CHECK_FAILS(muster_all_reduce(group, NULL, out, 4, MUSTER_F32, MUSTER_SUM, NULL, NULL), MUSTER_E_ARG,
              "input buffer is null");
  CHECK_FAILS(muster_all_gather_v(group, in, out, counts, MUSTER_F32, NULL, NULL), MUSTER_E_ARG, "too large");
  CHECK_FAILS(muster_all_gather_v(group, in, out, NULL, MUSTER_F32, NULL, NULL), MUSTER_E_ARG,
              "counts is NULL");
  CHECK_FAILS(muster_broadcast(group, in, 4, MUSTER_F32, 1, NULL, NULL), MUSTER_E_ARG, "root 1");
  CHECK_FAILS(muster_reduce(group, in, out, 4, MUSTER_F32, MUSTER_SUM, -1, NULL, NULL), MUSTER_E_ARG,
              "root -1");
  CHECK_FAILS(muster_recv(group, out, 4, MUSTER_F32, 5, 0, NULL, NULL), MUSTER_E_ARG, "rank 5");
  CHECK_FAILS(muster_group_new(group, ranks, 2, &child), MUSTER_E_ARG, "rank 0 twice");
  CHECK(child == NULL);
  CHECK_FAILS(muster_group_new(group, NULL, 1, &child), MUSTER_E_ARG, "list of ranks is NULL");
  CHECK_FAILS(muster_group_new(group, ranks, 0, &child), MUSTER_E_ARG, "no ranks");
  CHECK_FAILS(muster_group_split(group, 0, 0, NULL), MUSTER_E_ARG, "is NULL");
  CHECK_FAILS(muster_alloc(group, UINT64_MAX, &memory), MUSTER_E_ARG, "too many");
  CHECK_FAILS(muster_alloc_device(group, 8, &memory), MUSTER_E_UNSUPPORTED, "no memory of a device");
  CHECK(memory == NULL);
  /* The group is as before. */
  CHECK_OK(muster_all_reduce(group, in, out, 4, MUSTER_F32, MUSTER_AVG, NULL, NULL));
  CHECK(out[0] == 1 && out[3] == 4);
  CHECK_OK(muster_all_reduce(group, NULL, NULL, 0, MUSTER_F32, MUSTER_SUM, NULL, NULL));
}

static void batches_are_checked(void) {
  int32_t value = 3, out = 0;
  muster_work* work = NULL;
  muster_group* child = NULL;
  CHECK_FAILS(muster_batch_end(group, NULL), MUSTER_E_STATE, "no batch is open");
  CHECK_FAILS(muster_batch_cancel(group), MUSTER_E_STATE, "no batch is open");
  CHECK_OK(muster_batch_begin(group));
  CHECK_FAILS(muster_batch_begin(group), MUSTER_E_STATE, "do not nest");
  CHECK_FAILS(muster_all_reduce(group, &value, &out, 1, MUSTER_I32, MUSTER_SUM, NULL, &work), MUSTER_E_STATE,
              "no work of its own");
  CHECK(work == NULL);
  CHECK_FAILS(muster_broadcast(group, &value, 1, MUSTER_I32, 9, NULL, NULL), MUSTER_E_ARG, "root 9");
  CHECK_FAILS(muster_group_split(group, 0, 0, &child), MUSTER_E_STATE, "a batch is open");
  CHECK_OK(muster_all_reduce(group, &value, &out, 1, MUSTER_I32, MUSTER_SUM, NULL, NULL));
  CHECK(out == 0);
  CHECK_OK(muster_batch_end(group, NULL));
  CHECK(out == 3);
  CHECK_OK(muster_batch_begin(group));
  CHECK_OK(muster_all_reduce(group, &value, &out, 1, MUSTER_I32, MUSTER_SUM, NULL, NULL));
  CHECK_OK(muster_batch_cancel(group));
  CHECK_OK(muster_batch_begin(group));
  CHECK_OK(muster_batch_end(group, &work));
  CHECK_OK(muster_wait(work, 0));
  CHECK_FAILS(muster_wait(work, -1), MUSTER_E_ARG, "negative");
  CHECK_OK(muster_work_free(work));
}

static void reducers_are_checked(void) {
  const int64_t shape[2] = {3, 2}, bad[1] = {-3};
  const muster_param parameters[2] = {{"weight", shape, 2, 0}, {"bias", shape, 1, 0}};
  const muster_param unnamed[1] = {{NULL, shape, 2, 0}}, shapeless[1] = {{"w", NULL, 1, 0}},
                     negative[1] = {{"w", bad, 1, 0}};
  muster_reducer* reducer = NULL;
  muster_reducer_options options = {0};
  uint64_t elements = 0, offset = 99;
  float *gradient = NULL, *arena = NULL;
  int64_t samples = 0;
  CHECK_FAILS(muster_reducer_create(group, parameters, 0, NULL, &reducer), MUSTER_E_ARG, "at least one");
  CHECK_FAILS(muster_reducer_create(group, NULL, 2, NULL, &reducer), MUSTER_E_ARG,
              "list of parameters is NULL");
  CHECK_FAILS(muster_reducer_create(group, unnamed, 1, NULL, &reducer), MUSTER_E_ARG,
              "name of a parameter is NULL");
  CHECK_FAILS(muster_reducer_create(group, shapeless, 1, NULL, &reducer), MUSTER_E_ARG,
              "shape of a parameter");
  CHECK_FAILS(muster_reducer_create(group, negative, 1, NULL, &reducer), MUSTER_E_ARG, "w [-3]");
  CHECK_FAILS(muster_reducer_create(group, parameters, 2, &options, &reducer), MUSTER_E_ARG, "size is 0");
  CHECK_FAILS(muster_reducer_create(group, parameters, 2, NULL, NULL), MUSTER_E_ARG, "is NULL");
  CHECK_OK(muster_reducer_create(group, parameters, 2, NULL, &reducer));
  CHECK_OK(muster_reducer_arena(reducer, &elements, &arena));
  CHECK(elements >= 9 && arena != NULL);
  CHECK_FAILS(muster_reducer_gradient(reducer, 2, &offset, &gradient), MUSTER_E_ARG,
              "parameter 2 is outside 0..1");
  CHECK_FAILS(muster_reducer_gradient_ready(reducer, 0), MUSTER_E_ARG, "outside a step");
  CHECK_FAILS(muster_reducer_finish_step(reducer, &samples), MUSTER_E_ARG, "without begin_step");
  CHECK_FAILS(muster_reducer_begin_step(reducer, -1), MUSTER_E_ARG, "-1 samples");
  CHECK_OK(muster_reducer_begin_step(reducer, 5));
  CHECK_FAILS(muster_reducer_begin_step(reducer, 5), MUSTER_E_ARG, "before finish_step");
  CHECK_OK(muster_reducer_gradient(reducer, 0, &offset, &gradient));
  CHECK(gradient == arena + offset);
  gradient[5] = 2.5F;
  CHECK_OK(muster_reducer_gradient_ready(reducer, 0));
  CHECK_FAILS(muster_reducer_gradient_ready(reducer, 0), MUSTER_E_ARG, "second time");
  CHECK_FAILS(muster_reducer_finish_step(reducer, &samples), MUSTER_E_ARG, "parameter bias has no gradient");
  CHECK_OK(muster_reducer_mark_unused(reducer, 1));
  CHECK_OK(muster_reducer_finish_step(reducer, &samples));
  CHECK(samples == 5 && gradient[5] == 2.5F);
  CHECK_OK(muster_reducer_broadcast(reducer, arena));
  CHECK_FAILS(muster_reducer_broadcast(reducer, NULL), MUSTER_E_ARG, "values is NULL");
  CHECK_OK(muster_reducer_free(reducer));
  CHECK_FAILS(muster_reducer_free(reducer), MUSTER_E_ARG, "the reducer was freed");
}

static void stores_are_checked(void) {
  muster_store* store = NULL;
  void* value = NULL;
  CHECK_OK(muster_store_world(world, &store));
  CHECK_OK(muster_store_set(store, "key", "value", 5));
  CHECK_OK(muster_store_get(store, "key", 0, &value, NULL));
  CHECK(strcmp(value, "value") == 0);
  muster_free(value);
  CHECK_FAILS(muster_store_get(store, "other", 20, &value, NULL), MUSTER_E_DEADLINE, "other");
  CHECK_FAILS(muster_store_world(world, NULL), MUSTER_E_ARG, "is NULL");
  CHECK_FAILS(muster_store_set(NULL, "key", "", 0), MUSTER_E_ARG, "the store is NULL");
  CHECK_FAILS(muster_store_connect(NULL, 1, 0, &store), MUSTER_E_ARG, "host is NULL");
  CHECK_FAILS(muster_store_connect("127.0.0.1", 70000, 0, &store), MUSTER_E_ARG, "70000");
  CHECK_FAILS(muster_store_connect("127.0.0.1", 1, 50, &store), MUSTER_E_STORE, "127.0.0.1:1");
  CHECK(store == NULL);
  CHECK_OK(muster_barrier_named(world, "alone", 0));
  CHECK_OK(muster_set_step(world, UINT64_MAX));
  CHECK_FAILS(muster_set_step(NULL, 1), MUSTER_E_ARG, "the world is NULL");
  CHECK(muster_should_stop(world) == 0);
  CHECK_FAILS(muster_should_stop(NULL), MUSTER_E_ARG, "the world is NULL");
  CHECK_FAILS(muster_barrier_named(world, NULL, 0), MUSTER_E_ARG, "name of the barrier is NULL");
  CHECK_FAILS(muster_barrier_named(world, "x", -1), MUSTER_E_ARG, "negative");
}

/* A fault at the end of a world is told like any other. */
static void an_injected_end_fails(void) {
  muster_world* other = NULL;
  setenv("MUSTER_FAULT", "error@0:finalize", 1);
  CHECK_OK(muster_init(NULL, &other));
  unsetenv("MUSTER_FAULT");
  CHECK_FAILS(muster_finalize(other, 0), MUSTER_E_BACKEND, "injected on rank 0");
  CHECK_FAILS(muster_finalize(other, 0), MUSTER_E_ARG, "the world was freed");
}

static void errors_can_be_read(void) {
  char json[512], small[8];
  size_t length;
  CHECK(muster_barrier((muster_group*)world, NULL, NULL) == MUSTER_E_ARG);
  CHECK(strcmp(muster_error_text(world), "the group is a world; give the handle that was made for it") == 0);
  length = muster_error_json(NULL, json, sizeof json);
  CHECK(length == strlen(json));
  CHECK(strcmp(json,
               "{\"code\":-1,\"name\":\"invalid argument\",\"call\":\"muster_barrier\",\"text\":\"the group "
               "is a world; give "
               "the handle that was made for it\"}") == 0);
  CHECK(muster_error_json(NULL, small, sizeof small) == length);
  CHECK(strcmp(small, "{\"code\"") == 0);
  CHECK(muster_error_json(NULL, NULL, 0) == length);
  CHECK(strcmp(muster_error_name(MUSTER_E_MISMATCH), "mismatch") == 0);
  CHECK(strcmp(muster_error_name(12345), "unknown error") == 0);
  CHECK(strcmp(muster_version(), "0.1.0") == 0);
  CHECK(muster_dtype_size(MUSTER_BF16) == 2 && muster_dtype_size(MUSTER_F64) == 8 &&
        muster_dtype_size(7) == 0 && muster_dtype_size(-1) == 0);
}

/* A forked child has no part in the world, and says so. */
static void a_forked_child_is_refused(void) {
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    const int refused = muster_barrier(group, NULL, NULL) == MUSTER_E_ARG &&
                        strstr(muster_error_text(NULL), "this process was forked") != NULL &&
                        muster_finalize(world, 0) == MUSTER_E_ARG;
    _exit(refused ? 0 : 1);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_OK(muster_barrier(group, NULL, NULL));
}

static void abort_kills_the_group(void) {
  muster_world* other = NULL;
  muster_group *its_group = NULL, *child = NULL;
  CHECK_OK(muster_init(NULL, &other));
  CHECK_OK(muster_group_world(other, &its_group));
  CHECK_OK(muster_group_split(its_group, 0, 0, &child));
  CHECK_OK(muster_abort(other, "the disk is full"));
  CHECK_FAILS(muster_barrier(its_group, NULL, NULL), MUSTER_E_ABORTED, "the disk is full");
  CHECK_FAILS(muster_barrier(child, NULL, NULL), MUSTER_E_ABORTED, "the disk is full");
  CHECK(strstr(muster_error_text(child), "the disk is full") != NULL);
  CHECK_OK(muster_barrier(group, NULL, NULL)); /* another world */
  CHECK_OK(muster_finalize(other, 0));
}

int main(void) {
  muster_world_info info = {.size = sizeof info};
  options_are_checked();
  structures_may_grow();
  CHECK_OK(muster_init(NULL, &world));
  CHECK_OK(muster_info(world, &info));
  CHECK(info.rank == 0 && info.world_size == 1 && info.launcher == MUSTER_LAUNCHER_NONE &&
        strcmp(info.run_id, "none") == 0);
  CHECK_OK(muster_group_world(world, &group));
  handles_are_checked();
  calls_are_checked();
  batches_are_checked();
  reducers_are_checked();
  stores_are_checked();
  an_injected_end_fails();
  errors_can_be_read();
  a_forked_child_is_refused();
  abort_kills_the_group();
  CHECK_FAILS(muster_finalize(world, -1), MUSTER_E_ARG, "negative");
  CHECK_OK(muster_finalize(world, 0));
  return failed_checks;
}
