/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks from one program: they meet, and the first failure comes back with rank, cause and reason. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static int32_t all_reduce_ranks(int32_t rank, int32_t world_size, void* user) {
  muster_world* world = NULL;
  muster_group* group = NULL;
  int64_t sum = rank + *(const int64_t*)user;
  if (muster_init(NULL, &world) || muster_group_world(world, &group)) return 1;
  if (muster_all_reduce(group, &sum, &sum, 1, MUSTER_I64, MUSTER_SUM, NULL, NULL)) return 1;
  if (sum != world_size * (world_size - 1) / 2 + world_size * 1000) return 2;
  return muster_finalize(world, 0) == MUSTER_OK ? 0 : 1;
}

static int32_t one_fails(int32_t rank, int32_t world_size, void* user) {
  muster_world* world = NULL;
  muster_group* group = NULL;
  const char* how = user;
  (void)world_size;
  if (muster_init(NULL, &world) || muster_group_world(world, &group)) return 3;
  if (rank != 1) {
    pause();
    return 0;
  }
  if (strcmp(how, "code") == 0) return 42;
  if (strcmp(how, "signal") == 0) kill(getpid(), SIGKILL);
  if (strcmp(how, "reason") == 0) {
    muster_spawn_reason("shard 17 is unreadable");
    return 1;
  }
  return muster_broadcast(group, NULL, 1, MUSTER_F32, 77, NULL, NULL) == MUSTER_E_ARG ? 1 : 0;
}

/* Rank 1 fails and leaves in order, so the others may fail and end before it does. */
static int32_t one_leaves(int32_t rank, int32_t world_size, void* user) {
  muster_world* world = NULL;
  muster_group* group = NULL;
  (void)world_size;
  (void)user;
  if (muster_init(NULL, &world) || muster_group_world(world, &group)) return 1;
  if (muster_barrier(group, NULL, NULL)) return 1;
  if (rank != 1) return muster_barrier(group, NULL, NULL) == MUSTER_OK ? 0 : 1;
  muster_spawn_reason("disk full");
  muster_leave(world);
  usleep(20000);
  return 1;
}

static int32_t fails_silently(int32_t rank, int32_t world_size, void* user) {
  (void)rank;
  (void)world_size;
  (void)user;
  return 1;
}

static int32_t sleeps(int32_t rank, int32_t world_size, void* user) {
  (void)rank;
  (void)world_size;
  (void)user;
  pause();
  return 0;
}

static void* wait_for_lock(void* mutex) {
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
  return NULL;
}

int main(void) {
  int64_t base = 1000;
  muster_spawn_failure failure = {.size = sizeof failure};
  muster_spawn_options options = {.size = sizeof options, .deadline_ms = 300, .grace_ms = 1000};
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread;
  CHECK_FAILS(muster_spawn(NULL, NULL, 2, NULL, NULL), MUSTER_E_ARG, "function for the ranks is NULL");
  CHECK_FAILS(muster_spawn(all_reduce_ranks, &base, 0, NULL, NULL), MUSTER_E_ARG, "0");
  CHECK_FAILS(muster_spawn_reason(NULL), MUSTER_E_ARG, "reason is NULL");
  CHECK_OK(muster_spawn(all_reduce_ranks, &base, 3, NULL, &failure));
  CHECK(failure.rank == -1);
  CHECK_FAILS(muster_spawn(one_fails, "code", 3, NULL, &failure), MUSTER_E_PEER, "rank 1");
  CHECK(failure.rank == 1 && failure.exit_code == 42 && failure.signal == 0);
  CHECK_FAILS(muster_spawn(one_fails, "signal", 3, NULL, &failure), MUSTER_E_PEER, "SIGKILL");
  CHECK(failure.rank == 1 && failure.exit_code == 128 + SIGKILL && failure.signal == SIGKILL);
  CHECK_FAILS(muster_spawn(one_fails, "reason", 2, NULL, NULL), MUSTER_E_PEER, "shard 17 is unreadable");
  CHECK_FAILS(muster_spawn(one_fails, "error", 2, NULL, NULL), MUSTER_E_PEER, "root 77");
  CHECK_FAILS(muster_spawn(one_leaves, NULL, 3, NULL, &failure), MUSTER_E_PEER,
              "rank 1 of 3 failed: disk full");
  CHECK(failure.rank == 1);
  /* This thread's last failure is the one above; it is no reason of a rank. */
  CHECK_FAILS(muster_spawn(fails_silently, NULL, 1, NULL, NULL), MUSTER_E_PEER, "ended with exit code 1");
  CHECK_FAILS(muster_spawn(sleeps, NULL, 2, &options, &failure), MUSTER_E_DEADLINE, "300");
  CHECK(failure.rank == -1);
  pthread_mutex_lock(&mutex);
  CHECK(pthread_create(&thread, NULL, wait_for_lock, &mutex) == 0);
  CHECK_FAILS(muster_spawn(all_reduce_ranks, &base, 2, NULL, NULL), MUSTER_E_STATE, "thread");
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, NULL);
  return failed_checks;
}
