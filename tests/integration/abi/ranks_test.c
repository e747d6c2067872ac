/* SPDX-License-Identifier: Apache-2.0 */
/* The C calls between several ranks: known answers of each, started calls, batches, groups, reducer, and the
 * failures that only several ranks can have. What backends owe in every size and type is tests/contract's. */
#include "ranks.h"

#include <time.h>

enum { COUNT = 5 };

/* Rank r's element i. */
static int32_t value(int32_t rank, int i) {
  return 100 * rank + i;
}

static void fill(int32_t* buffer, int count, int32_t rank) {
  for (int i = 0; i < count; ++i) buffer[i] = value(rank, i);
}

static void rooted_calls(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  int32_t mine[COUNT], all[COUNT * MAX_RANKS] = {0}, part[COUNT] = {0};
  const int32_t root = size - 1;
  (void)world;
  fill(mine, COUNT, rank);
  CHECK_OK(muster_broadcast(group, mine, COUNT, MUSTER_I32, root, NULL, NULL));
  for (int i = 0; i < COUNT; ++i) CHECK(mine[i] == value(root, i));
  fill(mine, COUNT, rank);
  CHECK_OK(muster_reduce(group, mine, rank == root ? part : NULL, COUNT, MUSTER_I32, MUSTER_MAX, root, NULL,
                         NULL));
  for (int i = 0; i < COUNT; ++i) CHECK(part[i] == (rank == root ? value(size - 1, i) : 0));
  CHECK_OK(muster_gather(group, mine, rank == root ? all : NULL, COUNT, MUSTER_I32, root, NULL, NULL));
  for (int r = 0; rank == root && r < size; ++r)
    for (int i = 0; i < COUNT; ++i) CHECK(all[r * COUNT + i] == value(r, i));
  CHECK_OK(muster_scatter(group, rank == root ? all : NULL, part, COUNT, MUSTER_I32, root, NULL, NULL));
  for (int i = 0; i < COUNT; ++i) CHECK(part[i] == value(rank, i));
}

static void calls_of_all(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  int32_t mine[COUNT * MAX_RANKS], all[COUNT * MAX_RANKS] = {0};
  uint64_t counts[MAX_RANKS];
  uint64_t before = 0;
  (void)world;
  fill(mine, COUNT, rank);
  CHECK_OK(muster_all_reduce(group, mine, all, COUNT, MUSTER_I32, MUSTER_SUM, NULL, NULL));
  for (int i = 0; i < COUNT; ++i) CHECK(all[i] == 100 * size * (size - 1) / 2 + size * i);
  CHECK_OK(muster_all_gather(group, mine, all, COUNT, MUSTER_I32, NULL, NULL));
  for (int r = 0; r < size; ++r)
    for (int i = 0; i < COUNT; ++i) CHECK(all[r * COUNT + i] == value(r, i));
  for (int r = 0; r < size; ++r) counts[r] = (uint64_t)r;
  CHECK_OK(muster_all_gather_v(group, mine, all, counts, MUSTER_I32, NULL, NULL));
  for (int r = 0; r < size; ++r)
    for (int i = 0; i < r; ++i) CHECK(all[before++] == value(r, i));
  fill(mine, COUNT * size, rank);
  CHECK_OK(muster_reduce_scatter(group, mine, all, COUNT, MUSTER_I32, MUSTER_SUM, NULL, NULL));
  for (int i = 0; i < COUNT; ++i) CHECK(all[i] == 100 * size * (size - 1) / 2 + size * (rank * COUNT + i));
  CHECK_OK(muster_all_to_all(group, mine, all, COUNT, MUSTER_I32, NULL, NULL));
  for (int r = 0; r < size; ++r)
    for (int i = 0; i < COUNT; ++i) CHECK(all[r * COUNT + i] == value(r, rank * COUNT + i));
  CHECK_OK(muster_barrier(group, NULL, NULL));
}

static void started_calls_and_batches(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  enum { CALLS = 20 };

  int64_t sums[CALLS];
  muster_work* works[CALLS];
  muster_work* batch = NULL;
  double mine[2], left[2] = {0}, right[2] = {0};
  int32_t done = 0;
  const int32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
  (void)world;
  for (int i = 0; i < CALLS; ++i) {
    sums[i] = rank + i;
    CHECK_OK(muster_all_reduce(group, &sums[i], &sums[i], 1, MUSTER_I64, MUSTER_SUM, NULL, &works[i]));
    CHECK(works[i] != NULL);
  }
  CHECK_OK(muster_wait(works[CALLS - 1], 20000));
  for (int i = 0; i < CALLS; ++i) {
    CHECK_OK(muster_test(works[i], &done));
    CHECK(done == 1 && sums[i] == size * (size - 1) / 2 + size * i);
    CHECK_OK(muster_work_free(works[i]));
  }
  mine[0] = rank;
  mine[1] = 0.5;
  CHECK_OK(muster_batch_begin(group));
  CHECK_OK(muster_send(group, mine, 2, MUSTER_F64, next, 7, NULL, NULL));
  CHECK_OK(muster_recv(group, left, 2, MUSTER_F64, before, 7, NULL, NULL));
  CHECK_OK(muster_send(group, mine, 2, MUSTER_F64, before, 8, NULL, NULL));
  CHECK_OK(muster_recv(group, right, 2, MUSTER_F64, next, 8, NULL, NULL));
  CHECK(left[1] == 0 && right[1] == 0);
  CHECK_OK(muster_batch_end(group, &batch));
  CHECK_OK(muster_wait(batch, 0));
  CHECK_OK(muster_work_free(batch));
  CHECK(left[0] == before && right[0] == next && left[1] == 0.5);
}

static void groups(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  muster_group *half = NULL, *pair = NULL;
  muster_group_info info = {.size = sizeof info};
  muster_traffic traffic = {.size = sizeof traffic};
  const int32_t two[2] = {size - 1, 0};
  int32_t sum = rank;
  void* memory = NULL;
  (void)world;
  CHECK_OK(muster_group_split(group, rank % 2, -rank, &half));
  CHECK_OK(muster_group_get_info(half, &info));
  CHECK(info.group_size == size / 2 && info.ranks[0] == size - 2 + rank % 2 && info.ranks[info.rank] == rank);
  CHECK(strcmp(info.backend, "shm") == 0 && strncmp(info.name, "world/", 6) == 0);
  CHECK_OK(muster_all_reduce(half, &sum, &sum, 1, MUSTER_I32, MUSTER_SUM, NULL, NULL));
  CHECK(sum == (rank % 2 == 0 ? 2 : 4));
  /* 2 n (p - 1) / p of the 4 bytes of two ranks. */
  CHECK_OK(muster_group_get_traffic(half, &traffic));
  CHECK(traffic.payload_bytes == 4 && traffic.wire_bytes == 0 && traffic.wire_messages == 0);
  CHECK_OK(muster_alloc(half, 4096, &memory));
  CHECK(memory != NULL && (uintptr_t)memory % 64 == 0 && ((char*)memory)[4095] == 0);
  CHECK_OK(muster_group_free(half));
  CHECK_OK(muster_group_new(group, two, 2, &pair));
  CHECK((pair != NULL) == (rank == 0 || rank == size - 1));
  if (pair == NULL) return;
  CHECK_OK(muster_group_get_info(pair, &info));
  CHECK(info.rank == (rank == 0 ? 1 : 0) && info.ranks[0] == size - 1);
  sum = 5;
  CHECK_OK(muster_all_reduce(pair, &sum, &sum, 1, MUSTER_I32, MUSTER_PRODUCT, NULL, NULL));
  CHECK(sum == 25);
}

static void gradients(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  const int64_t matrix[2] = {3, 2}, vector[1] = {2};
  const muster_param parameters[2] = {{"weight", matrix, 2, 0}, {"bias", vector, 1, 0}};
  const muster_param others[1] = {{"kernel", rank == 0 ? matrix : vector, rank == 0 ? 2U : 1U, 0}};
  muster_reducer* reducer = NULL;
  float *weight = NULL, *bias = NULL;
  int64_t samples = 0;
  (void)world;
  CHECK_OK(muster_reducer_create(group, parameters, 2, NULL, &reducer));
  CHECK_OK(muster_reducer_gradient(reducer, 0, NULL, &weight));
  CHECK_OK(muster_reducer_gradient(reducer, 1, NULL, &bias));
  for (int step = 1; step <= 3; ++step) {
    CHECK_OK(muster_reducer_begin_step(reducer, rank));
    bias[0] = (float)(rank * step);
    CHECK_OK(muster_reducer_gradient_ready(reducer, 1));
    weight[5] = 1;
    if (rank == 0)
      CHECK_OK(muster_reducer_mark_unused(reducer, 0));
    else
      CHECK_OK(muster_reducer_gradient_ready(reducer, 0));
    CHECK_OK(muster_reducer_finish_step(reducer, &samples));
    CHECK(samples == size * (size - 1) / 2);
    CHECK(bias[0] == (float)(samples * step) && weight[5] == (float)(size - 1));
  }
  CHECK_OK(muster_reducer_free(reducer));
  CHECK_FAILS(muster_reducer_create(group, others, 1, NULL, &reducer), MUSTER_E_MISMATCH, "kernel [3, 2]");
  CHECK(reducer == NULL);
}

static void the_store(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  muster_store *store = NULL, *second = NULL;
  const char* keys[2] = {"a", "b"};
  const void* values[2] = {"1", "two"};
  const uint64_t lengths[2] = {1, 3};
  void *got[2] = {NULL, NULL}, *one = NULL;
  char* names = NULL;
  uint64_t bytes[2] = {0, 0}, count = 0;
  int64_t sum = 0;
  int32_t yes = 0;
  CHECK_OK(muster_store_world(world, &store));
  if (rank == 0) CHECK_OK(muster_store_multi_set(store, keys, values, lengths, 2));
  CHECK_OK(muster_store_multi_get(store, keys, 2, 20000, got, bytes));
  CHECK(strcmp(got[0], "1") == 0 && strcmp(got[1], "two") == 0 && bytes[1] == 3);
  muster_free(got[0]);
  muster_free(got[1]);
  CHECK_OK(muster_store_add(store, "sum", rank, &sum));
  CHECK_OK(muster_barrier_named(world, "added", 20000));
  CHECK_OK(muster_store_add(store, "sum", 0, &sum));
  CHECK(sum == size * (size - 1) / 2);
  CHECK_OK(muster_store_wait(store, keys, 2, 20000));
  CHECK_OK(muster_store_check(store, keys, 2, &yes));
  CHECK(yes == 1);
  CHECK_OK(muster_store_queue_push(store, "jobs", &rank, sizeof rank));
  CHECK_OK(muster_store_queue_pop(store, "jobs", 20000, &one, &count));
  CHECK(count == sizeof rank && *(int32_t*)one >= 0 && *(int32_t*)one < size);
  muster_free(one);
  CHECK_OK(muster_barrier(group, NULL, NULL));
  CHECK_OK(muster_store_queue_length(store, "jobs", &count));
  CHECK(count == 0);
  if (rank == 0) {
    CHECK_OK(muster_store_clone(store, &second));
    CHECK_OK(muster_store_append(second, "b", "!", 1));
    CHECK_OK(muster_store_get(second, "b", 20000, &one, NULL));
    CHECK(strcmp(one, "two!") == 0);
    muster_free(one);
    CHECK_OK(muster_store_compare_set(second, "b", "two!", 4, "2", 1, &one, &count));
    CHECK(strcmp(one, "2") == 0 && count == 1);
    muster_free(one);
    CHECK_OK(muster_store_delete(second, "a", &yes));
    CHECK(yes == 1);
    CHECK_OK(muster_store_list(second, "b", &names, &count));
    CHECK(count == 1 && strcmp(names, "b") == 0);
    muster_free(names);
    CHECK_FAILS(muster_store_get(second, "never", 50, &one, NULL), MUSTER_E_DEADLINE, "never");
    CHECK_FAILS(muster_store_get(second, NULL, 50, &one, NULL), MUSTER_E_ARG, "the key is NULL");
    CHECK_FAILS(muster_store_get(second, "b", -1, &one, NULL), MUSTER_E_ARG, "negative");
    CHECK_FAILS(muster_store_set(second, "k", NULL, 3), MUSTER_E_ARG, "the value is NULL");
    CHECK_FAILS(muster_store_wait(second, keys, 0, 50), MUSTER_E_ARG, "list of keys is empty");
    CHECK_FAILS(muster_store_free(store), MUSTER_E_ARG, "belongs to it");
    CHECK_OK(muster_store_free(second));
    CHECK_FAILS(muster_store_set(second, "k", "v", 1), MUSTER_E_ARG, "was freed");
  }
  if (rank != size - 1) {
    CHECK_FAILS(muster_barrier_named(world, "some", 100), MUSTER_E_DEADLINE, "some");
  }
}

/* The textbook case: one rank reduces another number of elements. */
static void a_mismatch_names_both_calls(muster_world* world, muster_group* group, int32_t rank,
                                        int32_t size) {
  float buffer[20] = {0};
  (void)world;
  (void)size;
  CHECK_FAILS(
      muster_all_reduce(group, buffer, buffer, rank == 0 ? 10 : 20, MUSTER_F32, MUSTER_SUM, NULL, NULL),
      MUSTER_E_MISMATCH, "10 x f32");
  CHECK(strstr(muster_error_text(group), "20 x f32") != NULL);
  CHECK(muster_barrier(group, NULL, NULL) == MUSTER_E_MISMATCH);
}

static void abort_reaches_every_rank(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  int32_t one = 1;
  (void)size;
  CHECK_OK(muster_barrier(group, NULL, NULL)); /* all have joined */
  if (rank == 1)
    CHECK_OK(muster_abort(world, "shard 17 is unreadable"));
  else
    CHECK_FAILS(muster_all_reduce(group, &one, &one, 1, MUSTER_I32, MUSTER_SUM, NULL, NULL), MUSTER_E_ABORTED,
                "shard 17 is unreadable");
}

enum { MANY_GROUPS = 400 };

typedef struct aborting_thread {
  muster_world* world;
  volatile int stop;
} aborting_thread;

static void* abort_again_and_again(void* argument) {
  aborting_thread* self = argument;
  do CHECK_OK(muster_abort(self->world, "enough"));
  while (!__atomic_load_n(&self->stop, __ATOMIC_ACQUIRE));
  return NULL;
}

/* muster_abort() may come at any time: also while another thread frees groups. */
static void abort_while_groups_are_freed(muster_world* world, muster_group* group, int32_t rank,
                                         int32_t size) {
  muster_group* made[MANY_GROUPS];
  aborting_thread other = {.world = world};
  pthread_t thread;
  (void)rank;
  (void)size;
  for (int i = 0; i < MANY_GROUPS; ++i) CHECK_OK(muster_group_split(group, 0, 0, &made[i]));
  CHECK(pthread_create(&thread, NULL, abort_again_and_again, &other) == 0);
  for (int i = 0; i < MANY_GROUPS; ++i) CHECK_OK(muster_group_free(made[i]));
  __atomic_store_n(&other.stop, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
}

static char second_url[64];

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Both ranks join a world whose store rank 0 serves, and whose calls wait for a tenth of a second. */
static muster_world* join_second(muster_group* outer, int32_t rank, int32_t size, muster_group** group) {
  muster_options options = {.size = sizeof options,
                            .init_url = second_url,
                            .backend = "shm",
                            .rank = rank,
                            .world_size = size,
                            .timeout_ms = 100};
  muster_world* world = NULL;
  CHECK_OK(muster_init(&options, &world));
  CHECK_OK(muster_group_world(world, group));
  CHECK_OK(muster_barrier_named(world, "all are there", 20000));
  /* Rank 0 may leave at once, and must not take the store away from under that barrier. */
  CHECK_OK(muster_barrier(outer, NULL, NULL));
  return world;
}

/* Whether it is so on any rank. */
static int32_t on_any(muster_group* group, int32_t is_so) {
  CHECK_OK(muster_all_reduce(group, &is_so, &is_so, 1, MUSTER_I32, MUSTER_MAX, NULL, NULL));
  return is_so;
}

/* Who serves the store waits neither for a rank that stays, when it leaves, nor beyond its deadline: it would
   be 2 s, and a busy machine may hold up one of some tries. */
static void leaving_keeps_its_time(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  const int tries = 3;
  (void)world;
  for (int finalizes = 0; finalizes < 2; ++finalizes) {
    int32_t late = 1;
    for (int attempt = 0; attempt < tries && late; ++attempt) {
      muster_group* its_group = NULL;
      muster_world* second = join_second(group, rank, size, &its_group);
      const double begin = now();
      if (rank == 0 && finalizes) {
        CHECK_FAILS(muster_finalize(second, 50), MUSTER_E_DEADLINE, "rank 1");
      } else if (rank == 0) {
        CHECK_OK(muster_leave(second));
      }
      late = on_any(group, rank == 0 && now() - begin >= 1.8);
      if (rank == 1) CHECK_OK(muster_leave(second));
      CHECK_OK(muster_barrier(group, NULL, NULL));
    }
    CHECK(!late);
  }
}

/* The end of a world whose group is dead waits for nobody, whichever way the rank learns of it. */
static void finalize_of_the_dead(muster_world* world, muster_group* group, int32_t rank, int32_t size) {
  muster_group* its_group = NULL;
  muster_world* second = join_second(group, rank, size, &its_group);
  muster_work* work = NULL;
  int32_t one = 1;
  double begin = now();
  (void)world;
  /* A started call that fails at its own deadline. */
  if (rank == 0) {
    CHECK_OK(muster_all_reduce(its_group, &one, &one, 1, MUSTER_I32, MUSTER_SUM, NULL, &work));
    CHECK(muster_wait(work, 0) == MUSTER_E_DEADLINE);
    CHECK_OK(muster_finalize(second, 60000));
    CHECK(now() - begin < 30);
  }
  CHECK_OK(muster_barrier(group, NULL, NULL));
  if (rank == 1) CHECK_OK(muster_leave(second));
  CHECK_OK(muster_barrier(group, NULL, NULL));
  /* Another rank's abort. */
  second = join_second(group, rank, size, &its_group);
  begin = now();
  if (rank == 1) {
    CHECK_OK(muster_abort(second, "shard 17 is unreadable"));
    CHECK_OK(muster_finalize(second, 60000));
  } else {
    CHECK_FAILS(muster_finalize(second, 60000), MUSTER_E_ABORTED, "shard 17 is unreadable");
  }
  CHECK(now() - begin < 30);
  CHECK_OK(muster_barrier(group, NULL, NULL));
}

int main(void) {
  char folder[] = "/tmp/muster-abi-XXXXXX";
  run_ranks(3, rooted_calls);
  run_ranks(4, calls_of_all);
  run_ranks(3, started_calls_and_batches);
  run_ranks(4, groups);
  run_ranks(3, gradients);
  run_ranks(3, the_store);
  run_ranks(3, a_mismatch_names_both_calls);
  run_ranks(3, abort_reaches_every_rank);
  run_ranks(1, abort_while_groups_are_freed);
  CHECK(mkdtemp(folder) != NULL);
  snprintf(second_url, sizeof second_url, "file://%s/meet", folder);
  run_ranks(2, leaving_keeps_its_time);
  run_ranks(2, finalize_of_the_dead);
  rmdir(folder);
  return failed_checks;
}
